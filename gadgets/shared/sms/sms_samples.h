// The samples of simultaneous slices (SMS), sorted by the phases that the slices had.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gadgets/api/errors.h"
#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// The phases of the excitation by which simultaneous slices are separated.
struct SmsEncoding {
  std::int64_t slices = 1;  ///< M, the number of slices and of phases: in readouts of number n, slice m has the phase 2
                            ///< pi m n / M
  bool by_spoke = false;    ///< n is kspace_encode_step_1 modulo M, not kspace_encode_step_2
  bool negative = false;    ///< the phase has the opposite sign
  std::int64_t counter_of(const protocol::AcquisitionHeader& head) const {
    return by_spoke ? head.idx.kspace_encode_step_1 : head.idx.kspace_encode_step_2;
  }
  std::int64_t phase_of(const protocol::AcquisitionHeader& head) const { return counter_of(head) % slices; }
  /// The factor exp(i phi) of slice m in readouts of number n.
  cfloat factor(std::int64_t m, std::int64_t n) const;
};

/// The samples of one phase, where the context computes.
struct SmsSamples {
  Array<double> coordinates;  // [sample, 2], cycles/image pixel
  Array<cfloat> data;         // [sample, coil]
  Array<float> weights;       // [sample]
  std::int64_t count = 0;
};

/// A summary of a frame's samples.
struct SmsTally {
  std::int64_t samples = 0;
  std::int64_t beyond = 0;   ///< samples that no voxel can hold; they take no part
  std::int64_t numbers = 0;  ///< numbers with samples
  double weight = 0;         ///< weight of all samples together
};

/// A frame with the readouts so far.
class SmsFrame {
 public:
  /// gadget: its name, for errors; it must outlive this.
  explicit SmsFrame(std::string_view gadget) : gadget_(gadget) {}
  /// Adds readouts. Throws ClientError when the number of channels changes, or when positions are missing.
  void add(Readouts&& readouts, const SmsEncoding& encoding, bool from_data, numerics::Context& compute);
  bool empty() const { return batches_.empty(); }
  std::int64_t coils() const { return batches_.front().data.shape()[1]; }

  /// The conversion of positions as sent to those of images.
  struct Space {
    std::array<double, 2> to_cycles_per_pixel{}, voxel_ratio{};
    bool from_data = false;  ///< the third component is the density weight
  };
  /// Returns the samples by phase.
  std::vector<SmsSamples> sorted(const Space& space, std::int64_t slices, numerics::Context& compute,
                                 SmsTally& tally) const;
  std::int64_t largest_counter() const { return largest_counter_; }  ///< largest SmsEncoding::counter_of() so far

 private:
  std::string_view gadget_;
  std::vector<Readouts> batches_;
  std::vector<std::vector<std::uint16_t>> phases_;  // for each batch's readouts
  std::int64_t largest_counter_ = 0;
};

}  // namespace echotrain
