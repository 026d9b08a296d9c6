// CompletionPoller polls devices for the end of their work, instead of being woken by it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace echotrain::numerics {

/// Knows the functions that were given to Context::on_complete() and wait for a GPU, where the context was made after
/// will_poll(). Found through Resources::get(). Thread-safe.
class CompletionPoller {
 public:
  /// From now on, some thread calls poll() again and again while functions wait. Without such a thread,
  /// Context::synchronize() calls them.
  void will_poll() { polled_ = true; }
  bool polled() const { return polled_; }

  /// The waiting functions of one context.
  class Source {
   public:
    virtual ~Source() = default;
    /// Calls those of Context::on_complete()'s functions whose work is done. Returns true if others still wait.
    virtual bool poll() noexcept = 0;
  };

  void add(std::shared_ptr<Source> source);
  void remove(const Source* source) noexcept;
  /// Calls, on this thread, the functions whose work is done. Returns true if others still wait.
  bool poll() noexcept;

 private:
  using Sources = std::vector<std::shared_ptr<Source>>;
  std::atomic<bool> polled_ = false;
  std::mutex mutex_;
  std::shared_ptr<const Sources> sources_ = std::make_shared<Sources>();  // replaced, never changed
};

}  // namespace echotrain::numerics
