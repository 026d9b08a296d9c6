// The thread that has all sockets, with the option `latency`: what it looks at, and when it may sleep.
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "gadgets/numerics/core/cuda/completion_poller.h"
#include "gadgets/numerics/core/thread_pool.h"
#include "server/session/environment.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

struct Asked final : numerics::CompletionPoller::Source {
  explicit Asked(std::function<bool()> to_do) : asked(std::move(to_do)) {}
  bool poll() noexcept override { return asked(); }
  std::function<bool()> asked;
};

/// A server's environment without a server. Its loop ends after ten seconds, whatever happens.
class RunContext : public testing::Test {
 protected:
  void SetUp() override {
    if (numerics::usable_cores() < 2) GTEST_SKIP() << "threads that spin need two cores";
    config::ServerOptions options;
    options.latency = true;
    options.admin.enabled = false;
    environment_.emplace(make_environment(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(),
                                          test_resources()));
    limit_.expires_after(10s);
    limit_.async_wait([this](const auto& cancelled) {
      if (cancelled) return;
      timed_out_ = true;
      context_.stop();
    });
  }
  void ask(std::function<bool()> to_do) {
    environment_->resources->get<numerics::CompletionPoller>().add(std::make_shared<Asked>(std::move(to_do)));
  }

  asio::io_context context_;
  asio::steady_timer limit_{context_};
  std::optional<Environment> environment_;
  bool timed_out_ = false;
};

/// The last work may come, and its scan's thread may begin to sleep, between two looks of this thread.
TEST_F(RunContext, LooksForWorkThatCameJustBeforeItsScanSlept) {
  auto scan = std::make_unique<BusyPolling::Wait>(*environment_->busy_polling);
  bool called = false;
  ask([&, looks = 0]() mutable {
    ++looks;
    if (looks == 1) {
      scan->rest(true);  // with work left: its source says so from now on
      return false;
    }
    called = called || looks > 3;
    if (called) context_.stop();
    return !called;
  });
  run_context(context_, *environment_);
  EXPECT_TRUE(called);
  EXPECT_FALSE(timed_out_) << "it slept, and nobody looked";
}

/// A sender that is as fast as its handler always has something to read.
TEST_F(RunContext, LooksForImagesThoughSocketsAlwaysHaveMore) {
  const BusyPolling::Wait scan(*environment_->busy_polling);
  int handled = 0, at_first_look = -1;
  const std::function<void()> again = [&] {
    ++handled;
    if (!context_.stopped()) asio::post(context_, again);
  };
  ask([&] {
    if (handled > 0 && at_first_look < 0) {
      at_first_look = handled;
      context_.stop();
    }
    return true;
  });
  asio::post(context_, again);
  run_context(context_, *environment_);
  EXPECT_EQ(at_first_look, 1);
  EXPECT_FALSE(timed_out_);
}

TEST_F(RunContext, SleepsWhenNobodyWaits) {
  int looks = 0;
  ask([&] {
    ++looks;
    return false;
  });
  limit_.expires_after(50ms);
  limit_.async_wait([](const auto&) {});  // the only work
  run_context(context_, *environment_);
  EXPECT_LE(looks, 4) << "once for each thing that happened";
}

}  // namespace
}  // namespace echotrain::server
