// The profile of a scan's thread: the time that it spends in each gadget.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace echotrain {

/// The times of a pipeline's thread from one departure of images to the next: usually a frame's time. Work on a GPU is
/// enqueued by this thread and runs later: these times hold the enqueuing only.
struct FrameTimes {
  std::uint64_t number = 0;  ///< counts from 1
  std::uint64_t images = 0;  ///< number of images that left at its end, with one push
  std::vector<double> ms;    ///< by GadgetClock::names()
  double whole_ms = 0;       ///< sum of all of these
};

/// A stop watch with a place for each gadget. Exactly one place runs; a gadget's own time is what it spends outside the
/// gadgets that it calls. Reads the clock once per change of place and allocates nothing while it runs. Confined to the
/// pipeline's thread.
class GadgetClock {
 public:
  /// The places that always exist: the pipeline's caller (whose time does not count), its entrance (frames are made,
  /// readouts are copied), and its exit (images are handed on).
  static constexpr std::size_t kOutside = 0, kEntrance = 1, kExit = 2;

  GadgetClock() { clear(); }
  /// Adds a place.
  std::size_t add(std::string name);
  std::size_t next_branch() { return ++branches_; }
  void clear();
  const std::vector<std::string>& names() const { return names_; }

  /// While one exists, time goes to its place; then again to the previous one.
  class Stay {
   public:
    /// `clock` may be null: no measurement.
    Stay(GadgetClock* clock, std::size_t place) : clock_(clock) {
      if (clock_ != nullptr) before_ = clock_->move_to(place);
    }
    ~Stay() {
      if (clock_ != nullptr) clock_->move_to(before_);
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    void go_on_at(std::size_t place) {
      if (clock_ != nullptr) clock_->move_to(place);
    }

   private:
    GadgetClock* const clock_;
    std::size_t before_ = kOutside;
  };

  /// Ends the current measurement, and begins anew.
  const FrameTimes& cut(std::uint64_t images);

 private:
  using Time = std::chrono::steady_clock;

  std::size_t move_to(std::size_t place) {
    const Time::time_point now = Time::now();
    spent_[at_] += now - since_;
    since_ = now;
    return std::exchange(at_, place);
  }

  std::vector<std::string> names_;
  std::vector<Time::duration> spent_;  // by place
  std::size_t at_ = kOutside, branches_ = 0;
  Time::time_point since_ = Time::now();
  FrameTimes last_;
};

}  // namespace echotrain
