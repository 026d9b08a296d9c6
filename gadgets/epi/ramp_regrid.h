// RampRegrid turns readouts sampled on the ramps of their gradient into regular lines.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/epi/ramp.h"

namespace echotrain {

/// Makes lines with the encoded matrix' number of points from EPI's readouts. The positions of their samples come from
/// a trajectory that the readouts bring (its x, in the pipeline's trajectory_unit), or from the header's
/// trajectoryDescription: rampUpTime, flatTopTime, rampDownTime, acqDelayTime [us], numSamples, and dwellTime [us]
/// where readouts have no sample time. Reversed readouts stay in the order of time and keep their flag:
/// epi_phase_correction turns them.
///
/// In:  Readouts [readout, coil, sample], imaging, calibration and phase correction (on the host).
/// Out: readouts with encoded matrix x samples and no trajectory; the centre of k-space is sample floor(n/2) of a line
///      that was not reversed. Readouts of other encodings and kinds pass, and so do regular ones.
///
/// A description with numSamples and none of the gradient's times says that all samples were taken where the gradient
/// is flat (converters of GE and Siemens without ramp sampling): such readouts are regular, also where they are shorter
/// than the matrix, and pass; those with a multiple of its points are oversampled and become lines.
///
/// Samples may be more than a step apart (Siemens' twofold matrix on ramps) as far as they encode what images show of
/// the field of view; lines then hold a profile within what they do encode.
///
/// `delay: navigators`: a late gradient moves samples on ramps otherwise than those of its flat part, so that no phase
/// along x undoes it. Phase-correction lines wait for the first other line; then those of their first slice give the
/// delay of the scan's gradient (gadgets/epi/gradient_delay.h), which a text reports. Where they do not, `delay_us` is
/// used, as with `delay: given`.
///
/// A header without a description, or whose description does not fit the readouts, gets a warning: readouts with as
/// many samples as the matrix has points are then taken for regular lines. Throws ClientError for others.
class RampRegrid final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::string delay = "navigators";
    double delay_us = 0;
  };
  static constexpr std::string_view kName = "ramp_regrid";
  static constexpr std::string_view kSummary =
      "Makes regular lines of EPI readouts that were sampled on the ramps of their gradient.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit RampRegrid(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  /// Weights of lines with the same samples.
  struct Weights {
    std::int64_t sets = 0;
    std::vector<float> host;  // [set, sample, x]
    Array<float> device;
  };
  struct Path {
    bool reversed;
    std::vector<double> positions;
  };
  struct Space {
    bool epi = false;
    std::int64_t points = 0;                       // points of a regular line
    double to_steps = 1;                           // factor from the trajectory's unit
    double needed = 1;                             // part of the field of view that images show
    std::optional<numerics::Trapezoid> trapezoid;  // samples and dwell are 0 where the description has none
    std::optional<std::int64_t> flat_samples;      // for a description without a gradient: samples on its flat part
    std::string without;                           // why there is no trapezoid
    std::vector<Path> paths;                       // trajectories that came with readouts, all of as many samples
    Weights along_paths;
    std::optional<double> delay_us;  // delay of the gradient; empty: not known yet
    std::vector<Readouts> waiting;   // phase correction, until it is known
  };
  using Key = std::array<std::int64_t, 5>;  // encoding, samples, those discarded at both ends, dwell time [ns]

  static Key key_of(const protocol::AcquisitionHeader& head);
  std::vector<Readouts> split(Readouts&& readouts) const;
  const Weights& described(const Readouts& readouts);
  bool waits(const Readouts& readouts);
  void find_delay(Space& space);
  void regrid(Readouts&& readouts, const Emit<Readouts>& emit);
  std::vector<float> weights_for(const Space& space, numerics::Trapezoid trapezoid,
                                 const protocol::AcquisitionHeader& head, double late) const;
  numerics::Trapezoid trapezoid_of(const Space& space, const protocol::AcquisitionHeader& head) const;
  Weights made_for(const Space& space, const protocol::AcquisitionHeader& head);
  std::int32_t path_of(const protocol::AcquisitionHeader& head, const float* path, std::int64_t dims);
  void upload(Weights& weights, std::int64_t samples, std::int64_t points);
  void combine(Readouts& readouts, const Weights& weights, const std::vector<std::int32_t>& sets, std::int64_t points);

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<Space> spaces_;
  std::map<Key, Weights> weights_;
};

}  // namespace echotrain
