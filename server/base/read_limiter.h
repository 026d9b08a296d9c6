// The read limiter shares the time of the threads that move bytes among sessions (fair share).
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace echotrain::server {

/// Sessions whose messages come faster than they are handled take turns, first come first served: at most `most` of
/// them at once, so that the threads that move bytes have time for other sessions. Thread-safe. Permits keep it alive.
class ReadLimiter : public std::enable_shared_from_this<ReadLimiter> {
 public:
  explicit ReadLimiter(int most) : most_(most) {}

  /// A permit to handle messages: it waits in line, and is then granted until it is destroyed.
  class Permit {
   public:
    ~Permit();
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    bool granted() const;

   private:
    friend class ReadLimiter;
    Permit(std::shared_ptr<ReadLimiter> limiter, std::function<void()> wake)
        : limiter_(std::move(limiter)), wake_(std::move(wake)) {}
    const std::shared_ptr<ReadLimiter> limiter_;
    const std::function<void()> wake_;
    bool granted_ = false;  // guarded by the limiter
  };
  /// Asks for a permit. `wake` is called, on any thread, when one that had to wait is granted.
  std::unique_ptr<Permit> acquire(std::function<void()> wake);

 private:
  void end(Permit& permit);

  const int most_;
  mutable std::mutex mutex_;
  int granted_ = 0;
  std::list<Permit*> line_;
};

/// A limiter for each address, as long as somebody there has a permit or waits for one. Thread-safe.
class AddressLimiters {
 public:
  explicit AddressLimiters(int most_of_one) : most_of_one_(most_of_one) {}
  std::unique_ptr<ReadLimiter::Permit> acquire(const std::string& address, std::function<void()> wake);

 private:
  const int most_of_one_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<ReadLimiter>> limiters_;
};

}  // namespace echotrain::server
