// The priors of the gadget `pcg`: Tikhonov, smoothness, and the edges of a reference image.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/pcg_options.h"
#include "gadgets/numerics/inverse/solver/regularizer.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Makes each prior once. Sources: see gadgets/numerics/inverse/solver/regularizer.h and sobel.h.
class PcgPriors {
 public:
  using RegularizerPtr = std::shared_ptr<const numerics::Regularizer>;
  explicit PcgPriors(PcgSolverOptions options) : options_(std::move(options)) {}
  /// Requests the reference image, if the options ask for one.
  void start(const protocol::Header& header, Scan& scan);

  /// The prior of a frame, if it needs no other frame; nullptr if there is none.
  RegularizerPtr prior_of(const NormalEquations& equations);
  /// The prior without edges; nullptr if there is none.
  RegularizerPtr plain(std::uint16_t encoding);
  /// The prior from the magnitude of all coils and contrasts together: drafts [coil, z, y, x] of one slice.
  RegularizerPtr edges_of(const std::vector<Array<cfloat>>& drafts, std::uint16_t encoding);

 private:
  RegularizerPtr edges_in(const Array<cfloat>& images, std::uint16_t encoding);
  RegularizerPtr given_edges(const NormalEquations& equations);

  PcgSolverOptions options_;
  Scan* scan_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  std::vector<std::vector<double>> voxel_size_;  // per encoding, slowest axis first, the smallest is 1
  std::map<std::uint16_t, RegularizerPtr> plain_;
  std::map<FrameKey, RegularizerPtr> given_;  // edges of given references, by slice and encoding
};

}  // namespace echotrain
