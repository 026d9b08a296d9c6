// FieldMap makes a field map from two echoes.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Joins the images of two contrasts to a map of the main field in Hz, positive where the phase of images grows with
/// the echo time: the phase of sum_c late_c conj(early_c) over 2 pi times the echoes' distance, unwrapped, smoothed and
/// extrapolated where there is no signal. Images of other contrasts end here. The map is real, of one channel, with the
/// frame of the early echo; `image: {component: real}` after it makes an image of it, which a branch of role field_map
/// gives to the gadgets that correct for it, and which a client may keep and send. Waits for the device, once per map.
/// Meta attributes: field_map_regions (number of parts of the object that do not touch; their maps may differ by
/// multiples of field_map_wrap), field_map_wrap [Hz]. Method: see gadgets/numerics/mri/field/field_map.h.
class FieldMap final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::int64_t early = 0, late = 1;
    double delta_ms = 0;
    double threshold = 0.1;
    double smooth = 1;
  };
  static constexpr std::string_view kName = "field_map";
  static constexpr std::string_view kSummary =
      "Joins the images of two echoes to a map of the main field in Hz, unwrapped and smoothed.";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument when both echoes are one.
  explicit FieldMap(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  double delta_s() const;

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<double> echo_times_ms_;
  std::map<FrameKey, CoilImages> waiting_;  // by key without the contrast: one echo, of the latest repetition
  std::size_t lost_ = 0;                    // images of earlier repetitions whose partner did not come
};

}  // namespace echotrain
