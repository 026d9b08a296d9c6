// SmsScan is the common part of gadgets for simultaneous multi-slice scans (SMS) whose slices are separated by phases.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/api/errors.h"
#include "gadgets/api/items.h"
#include "gadgets/api/parameters.h"
#include "gadgets/api/scan.h"
#include "gadgets/shared/sms/sms_samples.h"

namespace echotrain {

struct SmsOptions {
  static constexpr std::int64_t kMostSlices = 16;
  std::int64_t slices = 0;
  std::string number = "kspace_encode_step_2";
  std::string direction = "positive";
  std::string weights = "ramp";
  double distance = 0;
};

/// The rows of SmsOptions, for options that have these as their base.
template <class Options>
Parameters<Options> sms_parameters() {
  return Parameters<Options>()
      .integer("slices", inherited<Options>(&SmsOptions::slices), 0, SmsOptions::kMostSlices,
               "how many slices each excitation excites; 0: what the header's multiband says")
      .choice("number", &SmsOptions::number, {"kspace_encode_step_2", "kspace_encode_step_1"},
              "the counter that numbers the phases, modulo `slices`: slice m has the phase 2 pi m n / slices in "
              "readouts of number n. kspace_encode_step_2: the readouts of an angle are numbered. "
              "kspace_encode_step_1: the phases turn from spoke to spoke")
      .choice("direction", &SmsOptions::direction, {"positive", "negative"},
              "sign of these phases; of three slices and more, the other one gives the slices in another order")
      .choice("weights", &SmsOptions::weights, {"ramp", "from_data"},
              "density weights. ramp: analytic, of each readout by itself (radial, spiral). from_data: the "
              "trajectory's third component")
      .number("distance", inherited<Options>(&SmsOptions::distance), 0, 1000,
              "from the centre of a slice to that of the next which is excited with it; 0: the header's field of view "
              "along z over its planes")
      .unit("mm");
}

/// The header's facts about one encoding.
struct SmsSpace {
  SmsEncoding sms;
  SmsFrame::Space samples;
  numerics::Shape image;  // [y, x]
  std::int64_t sets = 1;  // sets of simultaneous slices
  double distance_mm = 0;
  std::array<float, 3> fov_mm{};
};

/// A frame's samples by number, and their summary.
struct SmsSorted {
  std::vector<SmsSamples> of_number;
  SmsTally tally;
};

/// Gathers frames of readouts and gives the images of slices their places. Errors and warnings begin with the gadget's
/// name. Throws ClientError as CgSenseSms lists.
class SmsScan {
 public:
  /// gadget: its name, which must outlive this.
  SmsScan(std::string_view gadget, SmsOptions options) : gadget_(gadget), options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan);
  const SmsSpace& space(std::size_t encoding) const { return spaces_.at(encoding); }

  /// Called with all readouts of a frame that has any.
  using Whole = std::function<void(const SmsFrame&, const std::shared_ptr<const Frame>&)>;
  void process(Readouts&& readouts, const Whole& whole);
  /// Returns the frame's samples. Throws ClientError where they give no image; warns of defects that images will have.
  SmsSorted sorted(const SmsFrame& frame, const SmsSpace& space);
  /// The frame of the image of a slice, 0 .. M - 1 of the simultaneous ones.
  std::shared_ptr<const Frame> frame_of(const Frame& frame, std::int64_t slice) const;

 private:
  void add_space(const protocol::Header& header, std::size_t encoding);
  void judge(const SmsFrame& open, const SmsTally& tally, const SmsSpace& space);

  std::string_view gadget_;
  SmsOptions options_;
  Scan* scan_ = nullptr;
  std::vector<SmsSpace> spaces_;            // by encoding
  std::map<std::uint64_t, SmsFrame> open_;  // by frame
  std::int64_t most_ = 1;                   // slices that one frame makes
  bool warned_of_beyond_ = false, warned_of_missing_ = false, warned_of_counter_ = false;
};

}  // namespace echotrain
