#include "gadgets/numerics/core/team/team.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "gadgets/numerics/core/heap_account.h"

namespace echotrain::numerics {
namespace {

/// The lock of all teams: connections of different teams must not be used at the same time on the same devices.
std::timed_mutex& one_team_at_a_time() {
  static std::timed_mutex mutex;
  return mutex;
}

}  // namespace

struct Team::Impl {
  Impl(Context& context, std::vector<int> devices, std::uint64_t budget)
      : first(context), other_devices(std::move(devices)), memory_budget(budget) {}
  Impl(Context& context, Ranks& all) : first(context), memory_budget(0) {
    auto end = connect_ranks(all, context);
    ranks = end.get();
    ends.push_back(std::move(end));
  }
  ~Impl() {
    {
      const std::scoped_lock lock(mutex);
      leave = true;
    }
    changed.notify_all();
    for (Other& other : others)
      if (other.thread.joinable()) other.thread.join();
  }

  /// A member with a thread of its own.
  struct Other {
    std::unique_ptr<Context> context;
    std::thread thread;
  };

  Context& first;
  const std::vector<int> other_devices;
  const std::uint64_t memory_budget;
  std::vector<std::unique_ptr<Communicator>> ends;  // one per member of this process; empty before the first run
  RankCommunicator* ranks = nullptr;                // the end of this process, if there are several processes
  std::vector<Other> others;

  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void(Member&)>* work = nullptr;
  std::uint64_t round = 0;
  int busy = 0;
  bool leave = false;
  std::exception_ptr error;  // the first error, if any

  void connect() {
    std::vector<int> devices{first.device()};
    devices.insert(devices.end(), other_devices.begin(), other_devices.end());
    std::vector<std::unique_ptr<Context>> contexts;
    for (const int device : other_devices)
      contexts.push_back(std::make_unique<Context>(first.backend(), first.shared_resources(),
                                                   ContextOptions{.device = first.cuda() ? device : 0,
                                                                  .memory_budget = memory_budget,
                                                                  .stop_token = first.stop_token(),
                                                                  .account = first.account()}));
    ends =
        first.cuda() ? connect_devices(devices, first.resources()) : connect_threads(static_cast<int>(devices.size()));
    for (auto& context : contexts) {
      others.push_back({std::move(context), {}});
      const int rank = static_cast<int>(others.size());
      others.back().thread =
          std::thread([this, own = others.back().context.get(), rank, heap = HeapAccount::of_thread()] {
            const HeapScope allocates(heap);
            live(*own, rank);
          });
    }
  }

  void fail(Communicator& end) noexcept {
    {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
    }
    end.abort();
  }

  /// `own` is the member's place among those of this process.
  void do_work(Context& context, int own, const std::function<void(Member&)>& what) noexcept {
    Communicator& end = *ends[static_cast<std::size_t>(own)];
    try {
      Member member{context, end};
      what(member);
      if (own > 0) context.synchronize();
    } catch (...) {
      fail(end);
    }
  }

  void live(Context& context, int rank) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return leave || round != seen; });
      if (leave) return;
      seen = round;
      const auto* what = work;
      lock.unlock();
      do_work(context, rank, *what);
      lock.lock();
      if (--busy == 0) changed.notify_all();
    }
  }
};

Team::Team(Context& first, const std::vector<int>& others, std::uint64_t memory_budget)
    : impl_(std::make_unique<Impl>(first, others, memory_budget)) {}
Team::Team(Context& first, Ranks& ranks) : impl_(std::make_unique<Impl>(first, ranks)) {}
Team::~Team() = default;

int Team::size() const {
  return in_one_process() ? 1 + static_cast<int>(impl_->other_devices.size()) : impl_->ranks->size();
}

bool Team::in_one_process() const { return impl_->ranks == nullptr; }

void Team::share(Context& context, DeviceView<cfloat> values, int from) {
  if (in_one_process() || values.size() == 0) return;
  impl_->ranks->broadcast(context, DeviceView<float>(reinterpret_cast<float*>(values.data()), {2 * values.size()}),
                          from);
}

void Team::share(std::vector<std::byte>& bytes, int from) {
  if (!in_one_process()) impl_->ranks->broadcast(bytes, from);
}

void Team::run(Sums sums, const std::function<void(Member&)>& work) {
  Impl& impl = *impl_;
  std::unique_lock turn(one_team_at_a_time(), std::defer_lock);
  if (impl.first.cuda() && (sums == Sums::some || impl.ends.empty()))
    while (!turn.try_lock_for(std::chrono::milliseconds(20))) impl.first.check_stop();
  if (impl.ends.empty()) impl.connect();
  if (turn && sums == Sums::none) turn.unlock();
  impl.first.synchronize();
  {
    const std::scoped_lock lock(impl.mutex);
    if (impl.error) throw ResourceError("the devices of this scan no longer work together: one has failed before");
    impl.work = &work;
    impl.busy = static_cast<int>(impl.others.size());
    ++impl.round;
  }
  impl.changed.notify_all();
  impl.do_work(impl.first, 0, work);
  std::unique_lock lock(impl.mutex);
  impl.changed.wait(lock, [&] { return impl.busy == 0; });
  if (impl.error) std::rethrow_exception(impl.error);
  lock.unlock();
  if (impl.first.cuda()) impl.first.synchronize();  // sums may still run on its stream
}

}  // namespace echotrain::numerics
