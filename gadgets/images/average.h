// Average computes the mean of images that differ in one counter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Computes the complex mean of the images that agree in all counters but `over`, each weighted by the number of
/// readouts it was made of, so that the mean has the noise of all readouts together. (After coil_combine: {method:
/// rss}, it is a mean of magnitudes.) The mean is emitted when all images that the header's limits of that counter
/// announce have come, else at the end of the scan; with `running`, every image gives the mean so far. The mean's
/// header, and with it the counter, is that of its first image, with `running` that of its last. Meta attribute:
/// averages.
///
/// Averages of lines (idx.average) need no such gadget where a frame holds all of them, as with `frame: auto`:
/// cartesian_kspace averages them before the transform. With `frame: {until: last_in_average}` each average is an image
/// of its own, for `over: average` to join. Images that a client sent have a weight of 1 each; its phases pass
/// unchanged.
class Average final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string over = "average";
    bool running = false;
  };
  static constexpr std::string_view kName = "average";
  static constexpr std::string_view kSummary = "The mean of images that differ in one counter.";
  static Parameters<Options> parameters();

  explicit Average(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  struct Sum {
    std::shared_ptr<const Frame> frame;
    Array<cfloat> data;  // sum of images times their weights
    double weight = 0;
    double noise_power = 0;  // the variance of `data`, as CoilImages::noise
    bool noise_known = true;
    std::int64_t readouts = 0;
    std::size_t images = 0;
  };
  void add(Sum& sum, const CoilImages& images);
  CoilImages mean(const Sum& sum) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<std::size_t> announced_;  // number of values of the counter, per encoding; 0: not known
  std::map<FrameKey, Sum> open_;        // by key without the counter
};

}  // namespace echotrain
