// A worker whose budget has been spent when it starts.
#include "server/scan/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "server/session/environment.h"
#include "tests/server/comes_true.h"
#include "tests/server/wire.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kBound = 64 * kMiB;

/// Starts workers for scans of sessions with `reserved` bytes, in a server of kBound.
class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() {
    options_.backend = config::BackendChoice::cpu;
    options_.memory_mib = kBound / kMiB;
    options_.queue_mib = 8;
    numerics::ResourceOptions resources = test_resource_options();
    resources.memory_budget = kBound;
    environment_.emplace(make_environment(options_, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(),
                                          std::make_shared<numerics::Resources>(resources)));
  }
  ~WorkerTest() override { environment_->end_texts(); }

  std::shared_ptr<SessionStatus> session(std::uint64_t reserved) {
    const auto status = std::make_shared<SessionStatus>(++sessions_, "peer", environment_->memory);
    EXPECT_TRUE(status->account->reserve(reserved));
    return status;
  }

  /// Runs a scan of one small frame to its end, and returns how it failed.
  std::optional<protocol::Error> run(const std::shared_ptr<SessionStatus>& status) {
    ScanRequest request;
    request.plan = *environment_->catalogue.by_name("cartesian_2d");
    request.header = *read_scan_header(wire::xml(), environment_->limits);
    const auto outbox = std::make_shared<Outbox>(
        8 * kMiB, [] {}, status->queues);
    Worker worker(std::move(request), {}, options_, environment_->limits, environment_->resources, status->queues,
                  outbox, SessionLog(status->id), environment_->metrics->scan(Metrics::kInline, status),
                  environment_->readiness, nullptr, [] {});
    worker.confirm();
    worker.finish(End::complete);
    EXPECT_TRUE(comes_true([&] { return worker.done(); }));
    return worker.failure();
  }

  config::ServerOptions options_;
  std::optional<Environment> environment_;
  std::uint64_t sessions_ = 0;
};

/// The first allocation on its thread is refused: by then the session has taken more than it had reserved.
TEST_F(WorkerTest, ThatStartsBeyondItsBudgetEndsWithBudget) {
  if (!numerics::HeapAccount::counts()) GTEST_SKIP() << "a sanitizer's allocator does not tell";
  const auto status = session(4 * kMiB);
  status->account->add(3 * kBound);
  const auto failure = run(status);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, "budget") << failure->message;
  EXPECT_THAT(failure->message, ::testing::HasSubstr("memory_mib"));
  status->account->give(3 * kBound);
  EXPECT_FALSE(run(session(4 * kMiB))) << "the next one finds nothing spent";
}

/// What others have spent is no reason to end a scan that keeps to its reservation.
TEST_F(WorkerTest, ThatKeepsToItsReservationRunsWhereOthersAreBeyondTheirs) {
  const auto status = session(16 * kMiB), other = session(4 * kMiB);
  other->account->add(3 * kBound);
  const auto failure = run(status);
  EXPECT_FALSE(failure) << failure->message;
  other->account->give(3 * kBound);
}

}  // namespace
}  // namespace echotrain::server
