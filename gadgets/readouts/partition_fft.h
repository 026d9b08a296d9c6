// PartitionFft transforms stacks of stars and spirals along z, where they are Cartesian; in the plane they are not.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Turns the partitions (kspace_encode_step_2) of each spoke or interleave (kspace_encode_step_1) into planes, by a
/// Fourier transform along z. All planes share the 2D work that follows: a plane is passed on as a channel, channel =
/// coil * planes + plane, and PlaneReadouts holds the number of planes.
///
/// In:  imaging Readouts [readout, coil, sample], one per partition, in any order; trajectory x y, x y z or
///      x y weight, or none. Readouts of other kinds pass by. Noise has to be whitened before.
/// Out: PlaneReadouts [spoke, coil * planes, sample], trajectory x, y and, if the data had one, the density weight.
///      The head of a spoke is that of its first partition.
///
/// Planes are those of the recon space: the encoded extent is cut to it and missing resolution zero-filled. They are
/// scaled by 1 / (encoded partitions), so that an object of amplitude 1 has value 1. A spoke goes on as soon as all
/// partitions of the header's encoding limits have come (times its averages, if it announces them), the rest at the end
/// of the frame. Repeated partitions are averaged; a spoke that comes again after it was whole counts as another spoke.
/// Missing partitions stay zero and are counted in the image's meta attribute missing_partitions.
///
/// Throws ClientError for a Cartesian trajectory, a matrix of one partition, and a rotated stack, whose partitions
/// differ in the plane by more than a hundredth of a cycle per field of view: a phase of 2 pi / 200 at its edge.
class PartitionFft final : public Gadget<Readouts, PlaneReadouts> {
 public:
  struct Options {
    std::string third_component = "z";
    std::string direction = "inverse";
  };
  static constexpr std::string_view kName = "partition_fft";
  static constexpr std::string_view kSummary =
      "Fourier transform along z of stacks of stars and spirals: the partitions of each spoke become planes.";
  static constexpr Delivery kDelivery = Delivery::parts;  // no window moves on by spokes
  static Parameters<Options> parameters();

  explicit PartitionFft(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<PlaneReadouts>& emit) override;

 private:
  struct Space {
    std::int64_t partitions = 0, padded = 0, planes = 0;  // encoded, transformed, of the image
    std::int64_t offset = 0;                              // row = step + offset
    std::int64_t first = 0, last = 0;                     // rows the header announces
    std::int32_t averages = 1;                            // number of times that it announces each of them
    std::array<double, 2> tolerance{};                    // tolerance of the trajectory's x and y, in their unit
    std::int64_t announced() const { return (last - first + 1) * averages; }
  };
  struct Spoke {
    std::int64_t number = 0;  // in the order of first readouts
    protocol::AcquisitionHeader head{};
    Array<cfloat> data;              // [coil, partition, sample]
    HostArray<float> trajectory;     // [sample, component]; empty if the data has none
    std::vector<std::int32_t> hits;  // per partition: how often it came
    std::int64_t arrived = 0;        // number of those the header announces
  };
  struct Open {
    std::map<std::uint16_t, Spoke> waiting;  // by encoding step 1
    std::bitset<65536> given;                // encoding steps 1 of spokes that were whole
    std::int64_t spokes = 0;
    std::int64_t missing = 0;
    bool started = false;
  };

  static void adapt(Frame& frame, const Space& space);
  std::int64_t components(std::int64_t of_data) const;
  void add(Open& open, const Space& space, const Readouts& readouts, std::vector<Spoke>& whole);
  Spoke make_spoke(std::int64_t number, const Space& space, const Readouts& readouts, std::size_t index);
  void check_trajectory(const Spoke& spoke, const Space& space, const Readouts& readouts, std::size_t index) const;
  void take_rest(Open& open, const Space& space, std::vector<Spoke>& whole);
  void transform(Spoke& spoke, const Space& space, numerics::DeviceView<cfloat> to);
  PlaneReadouts give(std::vector<Spoke>& spokes, const Space& space);

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<Space> spaces_;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace echotrain
