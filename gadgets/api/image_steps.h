// The cost of the gadgets that an image goes through.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain {

/// A stop watch for gadgets that take images, which call each other: from the first to the one that asks, each one's
/// own time, without those that it calls. On a GPU, work runs later: then it is the time of enqueuing, and of waiting
/// for the device. Kept by the scan's context (Context::cache) and confined to its thread; allocates nothing after the
/// first image.
class ImageSteps {
 public:
  /// While one exists, the scan's thread is in its gadget.
  class Stay {
   public:
    /// `steps` may be null: no measurement. `name` must outlive this.
    Stay(ImageSteps* steps, std::string_view name) : steps_(steps) {
      if (steps_ == nullptr) return;
      steps_->count();
      steps_->open_.push_back({name, {}});
    }
    ~Stay() {
      if (steps_ == nullptr) return;
      steps_->count();
      steps_->open_.pop_back();
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    ImageSteps* const steps_;
  };

  /// "scale 12": name and microseconds of each gadget that the image has reached, in order.
  std::vector<std::string> texts() {
    count();
    std::vector<std::string> out;
    for (const Step& step : open_)
      out.push_back(std::string(step.name) + " " +
                    std::to_string(std::chrono::round<std::chrono::microseconds>(step.spent).count()));
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    std::string_view name;
    Clock::duration spent;
  };

  void count() {
    const Clock::time_point now = Clock::now();
    if (!open_.empty()) open_.back().spent += now - since_;
    since_ = now;
  }

  std::vector<Step> open_;
  Clock::time_point since_;
};

}  // namespace echotrain
