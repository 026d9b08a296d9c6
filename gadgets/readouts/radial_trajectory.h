// RadialTrajectory computes trajectories for radial readouts that come without one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/per_plane.h"

namespace echotrain {

/// Computes a trajectory for every imaging readout without one: one template spoke along x, turned by the readout's
/// angle towards y. Components are x and y, in the pipeline's trajectory_unit. Readouts that have a trajectory keep it.
///
/// Spoke n lies at offset_deg plus
///   golden_angle       n pi / tau = n 111.246 deg, tau = (1 + sqrt(5)) / 2
///   tiny_golden_angle  n pi / (tau + N - 1): Wundrak et al., IEEE TMI 34:1262-1269, 2015; N = 7 is 23.628 deg
///   linear             n span_deg / spokes
/// where n counts from 0. It is kspace_encode_step_1 minus its minimum or, with `arrival`, the order within the scan,
/// counted separately for each slice, contrast, phase and set, and on through repetitions. A readout that a sliding
/// window gives again keeps its number, by its scan_counter.
///
/// A spoke reaches to the edge of encoded k-space: sample s lies at (s - center_sample) / extent cycles/pixel, where
/// extent is the number of samples of an echo in the middle, and twice its longer side otherwise (partial echoes,
/// centre-out spokes). So the encoded matrix may count readout oversampling or not, as long as its field of view goes
/// with it. The echo is the part between discard_pre and discard_post; the line goes on beyond it.
///
/// In a stack, put it after partition_fft, where it has a form for planes (or, with kspace_encode_step_1, ahead of it).
/// Throws ClientError for a header whose trajectory has no spokes, and for a linear order without a number of spokes.
class RadialTrajectory final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::string order = "golden_angle";
    std::int64_t tiny_number = 7;
    std::int64_t spokes = 0;
    double span_deg = 180;
    double offset_deg = 0;
    std::string counter = "kspace_encode_step_1";
  };
  static constexpr std::string_view kName = "radial_trajectory";
  static constexpr std::string_view kSummary =
      "Gives radial readouts that come without a trajectory their own, by turning one template spoke.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  /// `planes`: the readouts are those of a stack's planes.
  explicit RadialTrajectory(Options options, bool planes = false) : options_(std::move(options)), planes_(planes) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;

 private:
  struct Space {
    double step = 0;                   // angle between spokes [rad]
    std::int64_t first = 0;            // the least kspace_encode_step_1
    std::array<double, 2> to_unit{};   // cycles/pixel to the unit of the pipeline
    std::vector<double> spoke;         // the template: radii [cycles/pixel]
    std::array<std::int64_t, 4> of{};  // its samples, centre, and samples discarded before and after
  };
  /// The numbers of readouts by their order.
  class Arrival {
   public:
    std::int64_t number(std::uint32_t scan_counter, std::uint64_t frame);

   private:
    struct Met {
      std::int64_t number;
      std::uint64_t frame;
    };
    std::unordered_map<std::uint32_t, Met> recent_, before_;  // by scan_counter; two generations, bounded
    std::int64_t next_ = 0;
    bool counted_ = true;  // the sender counts its readouts
  };
  using Series = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;

  std::int64_t number(const protocol::AcquisitionHeader& head, const Space& space, const Frame& frame);
  void prepare(Space& space, const protocol::AcquisitionHeader& head);

  Options options_;
  bool planes_;
  Scan* scan_ = nullptr;
  std::vector<Space> spaces_;
  std::map<Series, Arrival> arrivals_;
};

using RadialTrajectoryOfPlanes = PerPlane<RadialTrajectory>;

}  // namespace echotrain
