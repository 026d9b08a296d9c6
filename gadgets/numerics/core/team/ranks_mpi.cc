#include "gadgets/numerics/core/team/ranks_mpi.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace echotrain::numerics {
namespace {

constexpr int kFailed = 1;                           // tag of a message whose sender has failed; its text says why
constexpr std::size_t kMostBytes = 1 << 30;          // MPI counts by int
constexpr std::size_t kMostFloats = kMostBytes / 4;  // floats of one exchange

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw ResourceError(fmt::format("MPI: {} failed: {}", what, text.data()));
}

/// Ends this process, and so all ranks, unless the ranks have found each other in time: MPI waits for ever if a
/// firewall stands between machines.
class StartLimit {
 public:
  ~StartLimit() {
    {
      const std::scoped_lock lock(mutex_);
      started_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch() {
    constexpr std::chrono::seconds kLimit(120);
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLimit, [this] { return started_; })) return;
    std::fputs(
        "MPI: the ranks have not found each other in 120 s. Can their machines reach each other by TCP, on any port?\n",
        stderr);
    std::_Exit(1);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::thread thread_{[this] { watch(); }};
};

std::string machine() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "naming this machine");
  return name.data();
}

}  // namespace

struct MpiRanks::Impl {
  MPI_Comm work = MPI_COMM_NULL;  // for the ranks' common work
  MPI_Comm news = MPI_COMM_NULL;  // for messages about failures
  int rank = 0, size = 1, local_rank = 0;
  std::string where;
  std::vector<float> parts;
  std::string last_words;  // a member, as the message may still be under way when fail() returns
  std::string bad_news;    // from another rank that has failed
  bool gone = false;       // requests were abandoned, so MPI is not used any more

  /// Receives the message of a rank that has failed.
  void listen() {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kFailed, news, &there, &status), "listening");
    if (there == 0) return;
    int length = 0;
    check(MPI_Get_count(&status, MPI_CHAR, &length), "listening");
    bad_news.resize(static_cast<std::size_t>(length));
    check(MPI_Recv(bad_news.data(), length, MPI_CHAR, status.MPI_SOURCE, kFailed, news, MPI_STATUS_IGNORE),
          "listening");
  }

  /// Waits without taking a core from computing threads, and notices when another rank has failed. It still waits for
  /// data that can come without that rank: an error in the scan is then found here, too, and rank 0 reports it as a
  /// single process does.
  void wait(MPI_Request request, const char* what) {
    constexpr int kAtOnce = 2000, kListenEvery = 100, kPatience = 3000;
    constexpr std::chrono::microseconds kNap(100);
    for (int turn = 0, turns_since_news = 0;; turn = std::min(turn + 1, kAtOnce)) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
      if (done != 0) return;
      const bool at_once = turn < kAtOnce && bad_news.empty();
      if (bad_news.empty() && (turn % kListenEvery == kListenEvery - 1 || !at_once)) listen();
      if (!bad_news.empty() && ++turns_since_news > kPatience) {
        gone = true;
        throw ResourceError(bad_news);
      }
      if (at_once)
        sched_yield();
      else
        std::this_thread::sleep_for(kNap);
    }
  }

  void require_use() const {
    if (gone) throw ResourceError("another rank of this scan has failed");
  }

  /// Each rank adds up its share of the values, and all get the shares.
  void sum(float* values, std::size_t n) {
    const auto begin = [&](int of) { return static_cast<int>(n * static_cast<std::size_t>(of) / ranks()); };
    std::vector<int> first, count;
    for (int of = 0; of < size; ++of) {
      first.push_back(begin(of));
      count.push_back(begin(of + 1) - begin(of));
    }
    const int mine = count[static_cast<std::size_t>(rank)];
    std::vector<int> part_first, part_count(ranks(), mine);
    for (int of = 0; of < size; ++of) part_first.push_back(of * mine);
    parts.resize(ranks() * static_cast<std::size_t>(mine));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoallv(values, count.data(), first.data(), MPI_FLOAT, parts.data(), part_count.data(),
                         part_first.data(), MPI_FLOAT, work, &request),
          "adding up");
    wait(request, "adding up");
    float* total = values + first[static_cast<std::size_t>(rank)];
    std::fill(total, total + mine, 0.0f);
    for (int of = 0; of < size; ++of) {
      const float* part = parts.data() + static_cast<std::ptrdiff_t>(of) * mine;
      for (int i = 0; i < mine; ++i) total[i] += part[i];
    }
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, count.data(), first.data(), MPI_FLOAT, work,
                          &request),
          "adding up");
    wait(request, "adding up");
  }
  std::size_t ranks() const { return static_cast<std::size_t>(size); }
};

MpiRanks::MpiRanks(int& argc, char**& argv) : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  const StartLimit limit;
  int level = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level), "starting");
  if (level < MPI_THREAD_FUNNELED) throw ResourceError("this MPI does not support programs with threads");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &impl.work), "connecting");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &impl.news), "connecting");
  MPI_Comm_set_errhandler(impl.work, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(impl.news, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(impl.work, &impl.rank), "connecting");
  check(MPI_Comm_size(impl.work, &impl.size), "connecting");
  MPI_Comm here = MPI_COMM_NULL;
  check(MPI_Comm_split_type(impl.work, MPI_COMM_TYPE_SHARED, impl.rank, MPI_INFO_NULL, &here), "connecting");
  check(MPI_Comm_rank(here, &impl.local_rank), "connecting");
  check(MPI_Comm_free(&here), "connecting");
  impl.where = machine();
  float one = 1;
  sum({&one, 1});  // all reach all
}

MpiRanks::~MpiRanks() {
  MPI_Comm_free(&impl_->work);
  MPI_Comm_free(&impl_->news);
  MPI_Finalize();
}

int MpiRanks::rank() const { return impl_->rank; }
int MpiRanks::size() const { return impl_->size; }
int MpiRanks::local_rank() const { return impl_->local_rank; }
std::string MpiRanks::name() const { return fmt::format("rank {} of {} on {}", rank(), size(), impl_->where); }

void MpiRanks::broadcast(std::span<std::byte> bytes, int from) {
  Impl& impl = *impl_;
  impl.require_use();
  for (std::size_t at = 0; at < bytes.size(); at += kMostBytes) {
    const std::size_t n = std::min(kMostBytes, bytes.size() - at);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(bytes.data() + at, static_cast<int>(n), MPI_BYTE, from, impl.work, &request), "handing on");
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): it waits by testing, which the checker does not know
    impl.wait(request, "handing on");
  }
}

void MpiRanks::sum(std::span<float> values) {
  Impl& impl = *impl_;
  impl.require_use();
  for (std::size_t at = 0; at < values.size(); at += kMostFloats)
    impl.sum(values.data() + at, std::min(kMostFloats, values.size() - at));
}

void MpiRanks::fail(const std::string& why) noexcept {
  Impl& impl = *impl_;
  if (impl.gone) return;  // the others hear it from the rank that this one heard it from
  try {
    const std::string& text = impl.last_words = fmt::format("{} has failed: {}", name(), why);
    std::vector<MPI_Request> sends(impl.ranks(), MPI_REQUEST_NULL);
    for (int to = 0; to < impl.size; ++to)
      if (to != impl.rank)
        check(MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, kFailed, impl.news,
                        &sends[static_cast<std::size_t>(to)]),
              "telling the others");
    // Short messages go at once; a rank that does not receive its message within this time never will.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (int done = 0; done == 0 && std::chrono::steady_clock::now() < end;) {
      check(MPI_Testall(static_cast<int>(sends.size()), sends.data(), &done, MPI_STATUSES_IGNORE),
            "telling the others");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const std::exception&) {  // the others notice when this rank ends
  }
}

void MpiRanks::end_all(int status) noexcept {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace echotrain::numerics
