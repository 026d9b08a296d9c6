#include "server/base/offload.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "server/base/priority.h"

namespace echotrain::server {

namespace {
// Texts are read behind what scans compute, by steps of nice(2): one text less a second is nothing to its client.
constexpr int kYields = 2;

asio::awaitable<void> call(std::function<void()> work) {
  work();
  co_return;
}
}  // namespace

asio::awaitable<void> run_offloaded(asio::thread_pool& pool, std::function<void()> work) {
  co_await asio::co_spawn(pool.get_executor(), call(std::move(work)), asio::use_awaitable);
}

asio::awaitable<void> run_offloaded(asio::any_io_executor executor, std::function<void()> work) {
  co_await asio::co_spawn(executor, call(std::move(work)), asio::use_awaitable);
}

FairQueue::FairQueue(int threads) : most_of_one_(static_cast<std::size_t>(std::max(1, threads / 2))) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

FairQueue::~FairQueue() { end(); }

void FairQueue::end() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Line& line : lines_)
    for (const std::shared_ptr<Job>& job : line.jobs) job->state_ = Job::State::cancelled;
  lines_.clear();  // jobs that nobody waits for hold strands of sessions
}

std::shared_ptr<FairQueue::Job> FairQueue::add(std::string address, std::function<void()> work,
                                               std::function<void()> wake, Clock::time_point now) {
  std::shared_ptr<Job> job(new Job(*this, std::move(address), std::move(work), std::move(wake)));
  {
    const std::scoped_lock lock(mutex_);
    forget(now);
    auto line = line_of(job->address_);
    if (line == lines_.end()) line = lines_.insert(line, Line{job->address_, {}, 0, now - kRested});
    line->jobs.push_back(job);
  }
  changed_.notify_one();
  return job;
}

// The lock is held, as for next().
std::list<FairQueue::Line>::iterator FairQueue::line_of(const std::string& address) {
  return std::find_if(lines_.begin(), lines_.end(), [&](const Line& each) { return each.address == address; });
}

// Forgets addresses that have rested, and the one whose turn is longest ago where too many are known.
void FairQueue::forget(Clock::time_point now) {
  lines_.remove_if([&](const Line& each) { return each.idle() && each.turn <= now - kRested; });
  if (lines_.size() < kMostKnown) return;
  const auto idle = std::find_if(lines_.begin(), lines_.end(), [](const Line& each) { return each.idle(); });
  if (idle != lines_.end()) lines_.erase(idle);
}

std::shared_ptr<FairQueue::Job> FairQueue::next() {
  auto first = lines_.end();
  for (auto line = lines_.begin(); line != lines_.end(); ++line)
    if (!line->jobs.empty() && line->running < most_of_one_ && (first == lines_.end() || line->turn < first->turn))
      first = line;
  if (first == lines_.end()) return nullptr;
  std::shared_ptr<Job> job = std::move(first->jobs.front());
  first->jobs.pop_front();
  ++first->running;
  first->turn = Clock::now();
  lines_.splice(lines_.end(), lines_, first);
  return job;
}

void FairQueue::serve() {
  lower_priority(kYields);
  std::unique_lock lock(mutex_);
  for (;;) {
    std::shared_ptr<Job> job;
    changed_.wait(lock, [&] { return ending_ || (job = next()) != nullptr; });
    if (job == nullptr) return;
    job->state_ = Job::State::begun;
    lock.unlock();
    try {
      job->work_();
    } catch (...) {
      job->thrown_ = std::current_exception();
    }
    const std::function<void()> wake = job->wake_;  // the job's client may be gone once it is done
    lock.lock();
    job->state_ = Job::State::done;
    --line_of(job->address_)->running;
    lock.unlock();
    changed_.notify_one();  // one more of this address may begin
    wake();
    lock.lock();
  }
}

bool FairQueue::Job::done() const {
  const std::scoped_lock lock(queue_.mutex_);
  return state_ == State::done;
}

bool FairQueue::Job::cancel() {
  const std::scoped_lock lock(queue_.mutex_);
  if (state_ == State::cancelled) return true;
  if (state_ != State::in_line) return false;
  state_ = State::cancelled;
  const auto line = queue_.line_of(address_);
  std::erase_if(line->jobs, [this](const std::shared_ptr<Job>& each) { return each.get() == this; });
  return true;
}

void FairQueue::Job::rethrow() const {
  if (thrown_) std::rethrow_exception(thrown_);
}

}  // namespace echotrain::server
