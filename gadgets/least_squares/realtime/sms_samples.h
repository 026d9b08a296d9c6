// Readouts of slices that were excited at once, sorted by the phases that the slices had.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// How slices that are excited at once are told apart by the phase of the excitation.
struct SmsEncoding {
  std::int64_t slices = 1;  ///< M; as many phases: in readouts of number n, slice m has the phase 2 pi m n / M
  bool by_spoke = false;    ///< n is kspace_encode_step_1 modulo M, not kspace_encode_step_2
  bool negative = false;    ///< the phase turns the other way
  std::int64_t phase_of(const protocol::AcquisitionHeader& head) const {
    return (by_spoke ? head.idx.kspace_encode_step_1 : head.idx.kspace_encode_step_2) % slices;
  }
};

/// The samples of one phase, where the context computes.
struct SmsSamples {
  Array<double> coordinates;  // [sample, 2], cycles/image pixel
  Array<cfloat> data;         // [sample, coil]
  Array<float> weights;       // [sample]
  std::int64_t count = 0;
};

/// What of a frame has come.
class SmsFrame {
 public:
  explicit SmsFrame(numerics::Context& compute) : paid_(compute.account()) {}
  /// ClientError when the number of channels changes, or when positions are missing.
  void add(Readouts&& readouts, const SmsEncoding& encoding, bool from_data, numerics::Context& compute);
  bool empty() const { return batches_.empty(); }
  std::int64_t coils() const { return batches_.front().data.shape()[1]; }

  /// How positions as they are sent become those of images.
  struct Space {
    std::array<double, 2> to_cycles_per_pixel{}, voxel_ratio{};
    bool from_data = false;  ///< the third component is the density weight
  };
  /// By phase. `beyond`: how many samples no voxel can hold; they take no part.
  std::vector<SmsSamples> sorted(const Space& space, std::int64_t slices, numerics::Context& compute,
                                 std::int64_t& beyond) const;

 private:
  std::vector<Readouts> batches_;
  std::vector<std::vector<std::uint16_t>> phases_;  // of each batch's readouts
  numerics::MemoryShare paid_;                      // of phases_
};

}  // namespace echotrain
