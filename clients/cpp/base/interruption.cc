#include "clients/cpp/base/interruption.h"

#include <atomic>
#include <chrono>

namespace echotrain::client {
namespace {

std::atomic<int> came{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) { came = signal; }

void take(int signal, struct sigaction& before) {
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction ours {};
  ours.sa_handler = note;
  ours.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(signal, &ours, nullptr);
}

}  // namespace

Interruption::Interruption() {
  came = 0;
  take(SIGINT, interrupt_);
  take(SIGTERM, terminate_);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
  came = 0;
}

int Interruption::signal() { return came; }

InterruptionStop::InterruptionStop()
    : thread_([this] {
        constexpr std::chrono::milliseconds kLook(50);
        std::unique_lock lock(mutex_);
        while (!changed_.wait_for(lock, kLook, [this] { return ended_; })) {
          if (Interruption::signal() == 0) continue;
          stop_.request_stop();
          return;
        }
      }) {}

InterruptionStop::~InterruptionStop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

}  // namespace echotrain::client
