// A thread rank is a thread of the test's process, with memory of its own as far as the code under test is concerned.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/team/ranks.h"

namespace echotrain::testing {

class ThreadRanks final : public numerics::Ranks {
 public:
  /// The place where ranks meet.
  struct Room {
    explicit Room(int ranks) : brought(static_cast<std::size_t>(ranks)) {}
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<void*> brought;
    std::size_t here = 0;
    unsigned round = 0;
    std::string failure;
  };
  ThreadRanks(Room& room, int rank) : room_(room), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(room_.brought.size()); }
  int local_rank() const override { return rank_; }
  void broadcast(std::span<std::byte> bytes, int from) override {
    bring(bytes.data());
    if (rank_ != from) std::memcpy(bytes.data(), room_.brought[static_cast<std::size_t>(from)], bytes.size());
    meet();
  }
  void sum(std::span<float> values) override {
    bring(values.data());
    std::vector<float> total(values.size(), 0.0f);
    for (void* part : room_.brought)
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += static_cast<const float*>(part)[i];
    meet();
    std::copy(total.begin(), total.end(), values.begin());
  }
  void fail(const std::string& why) {
    const std::scoped_lock lock(room_.mutex);
    if (room_.failure.empty()) room_.failure = why;
    room_.changed.notify_all();
  }

 private:
  /// Meets, and then what each one brings can be read until the next meeting.
  void bring(void* what) {
    {
      const std::scoped_lock lock(room_.mutex);
      room_.brought[static_cast<std::size_t>(rank_)] = what;
    }
    meet();
  }
  void meet() {
    std::unique_lock lock(room_.mutex);
    const unsigned round = room_.round;
    if (++room_.here == room_.brought.size()) {
      room_.here = 0;
      ++room_.round;
      room_.changed.notify_all();
    }
    room_.changed.wait(lock, [&] { return room_.round != round || !room_.failure.empty(); });
    if (room_.round == round) throw numerics::ResourceError(room_.failure);
  }
  Room& room_;
  const int rank_;
};

/// Calls work(ranks) for `size` ranks at once. Each one's error, empty where there was none.
inline std::vector<std::string> errors_of_ranks(int size, const std::function<void(ThreadRanks&)>& work) {
  ThreadRanks::Room room(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(room, rank);
      try {
        work(ranks);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        ranks.fail(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace echotrain::testing
