#include <utility>

#include "gadgets/numerics/core/cuda/callbacks.cuh"

namespace echotrain::numerics::cuda {
namespace {

thread_local bool in_stream_callback = false;

void call(std::function<void()>& function) {
  const bool outer = std::exchange(in_stream_callback, true);
  function();
  function = nullptr;  // may release arrays
  in_stream_callback = outer;
}

/// Kernels of a stream run in order with each other and its copies. The fence makes their writes to host memory visible
/// to the host before the number.
__global__ void raise_kernel(volatile std::uint64_t* flag, std::uint64_t to) {
  __threadfence_system();
  *flag = to;
}

}  // namespace

void CompletionFlag::add(cudaStream_t work, std::function<void()> done) {
  std::uint64_t number = 0;  // never used again: work that failed may raise it later
  {
    const std::lock_guard lock(mutex_);
    number = ++last_;
    waiting_.emplace_back(number, std::move(done));
    ++count_;
  }
  // The lock is not held here: while the device's queue is full, a launch waits for the device, and the polling thread
  // must not.
  raise_kernel<<<1, 1, 0, work>>>(raised_, number);
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  std::function<void()> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty() && waiting_.back().first == number) {
      dropped = std::move(waiting_.back().second);
      waiting_.pop_back();
      --count_;
    }
  }
  check(status, "scheduling a callback");
}

bool CompletionFlag::poll() noexcept {
  if (count_ == 0) return false;
  const std::lock_guard calling(calls_);
  while (raised_ != nullptr) {
    std::function<void()> done;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty() || waiting_.front().first > *raised_) break;
      done = std::move(waiting_.front().second);
      waiting_.pop_front();
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    call(done);
    --count_;  // only afterwards: a poller that finds the count at zero may rely on all functions having been called
  }
  return count_ > 0;
}

void CompletionFlag::close() noexcept {
  const std::lock_guard calling(calls_);
  raised_ = nullptr;
  std::deque<std::pair<std::uint64_t, std::function<void()>>> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(waiting_);
  }
  count_ -= dropped.size();
}

Callbacks::Callbacks(std::shared_ptr<CompletionPoller> polled, std::uint64_t* raised) : polled_(std::move(polled)) {
  if (!polled_) return;
  flag_ = std::make_shared<CompletionFlag>(raised);
  polled_->add(flag_);
}

Callbacks::~Callbacks() {
  cudaStreamSynchronize(stream_.get());
  if (!flag_) return;
  flag_->close();
  polled_->remove(flag_.get());
}

void Callbacks::add(cudaStream_t work, std::function<void()> done) {
  if (flag_) return flag_->add(work, std::move(done));
  check(cudaEventRecord(reached_.get(), work), "recording an event");
  check(cudaStreamWaitEvent(stream_.get(), reached_.get()), "waiting for an event");
  auto* callback = new std::function<void()>(std::move(done));
  const cudaError_t status = cudaLaunchHostFunc(
      stream_.get(),
      [](void* data) {
        auto* function = static_cast<std::function<void()>*>(data);
        call(*function);
        delete function;
      },
      callback);
  if (status != cudaSuccess) {
    delete callback;
    check(status, "scheduling a callback");
  }
}

void Callbacks::wait() {
  if (flag_)
    flag_->poll();
  else
    check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
}

bool Callbacks::in_one() { return in_stream_callback; }

}  // namespace echotrain::numerics::cuda
