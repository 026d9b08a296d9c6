// Fhd computes F^H d and F^H F: a frame as a least-squares problem.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/transforms/exact/split_adjoint.h"
#include "gadgets/shared/cache/operator_cache.h"
#include "gadgets/shared/frame_gridder.h"
#include "gadgets/shared/measurement.h"
#include "gadgets/shared/scan_field_map.h"

namespace echotrain {

/// Adds each part of a frame to F^H W d as it comes, or, where method auto takes the NUFFT, grids it whole; F^H W F
/// comes from a cache or is computed, before the data if such a scan is known. Source: Stone et al., JPDC 68, 2008,
/// sec. 2.2; Toeplitz form of F^H F: Fessler et al., IEEE TSP 53(9), 2005, and, with off-resonance correction,
/// off_resonance_normal.h.
class Fhd final : public Gadget<Samples, NormalEquations> {
 public:
  struct Options {
    std::int64_t dimensions = 2;
    std::string method = "nufft";
    double accuracy = 1e-4;
    std::string voxel = "delta";
    std::string precision = "exact";
    bool off_resonance = false;
    FieldOptions field;
  };
  static constexpr std::string_view kName = "fhd";
  static constexpr std::string_view kSummary =
      "Makes the normal equations (F^H F) x = F^H d of a frame, exactly or by the NUFFT.";
  static constexpr Delivery kDelivery = Delivery::parts;  // F^H F belongs to a whole window
  static Parameters<Options> parameters();

  explicit Fhd(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Samples&& samples, const Emit<NormalEquations>& emit) override;

 private:
  struct Part {
    Array<cfloat> data;
    Array<float> weights;
  };
  /// A frame that is not whole yet.
  struct Open {
    std::unique_ptr<numerics::SplitAdjoint> sum;       // for the exact method
    std::shared_ptr<const SamplePositions> positions;  // positions of the whole frame
    std::shared_ptr<SamplePositions> loose;            // positions of the parts so far, if the whole is not known
    std::vector<Part> parts;                           // kept if gridding waits for the last part
    Array<double> power;
    std::int64_t coils = 0;
    std::shared_ptr<const numerics::OffResonance> field;  // null: no correction
  };
  /// F^H W F with off-resonance correction, which the scan's frames share.
  struct Corrected {
    std::shared_ptr<const SamplePositions> positions;
    std::shared_ptr<const numerics::OffResonance> field;
    std::shared_ptr<const numerics::NormalOperator> matrix;
  };

  void choose_method();
  void choose_gridding();
  OperatorRequest request(std::shared_ptr<const SamplePositions> positions, std::uint16_t encoding) const;
  void add_exactly(Open& open, const Samples& samples);
  std::optional<Array<cfloat>> add_gridded(const Open& open, Samples&& samples);
  std::optional<Samples> join_parts(Open& open, Samples&& samples);
  std::shared_ptr<const numerics::NormalOperator> matrix_of(const Open& open, std::uint16_t encoding);
  std::shared_ptr<const numerics::NormalOperator> corrected(const Open& open, std::uint16_t encoding);
  double weight_of(const std::shared_ptr<const SamplePositions>& positions);
  void give(Open&& open, const Array<cfloat>& right, const std::shared_ptr<const Frame>& frame,
            const Emit<NormalEquations>& emit);

  Options options_;
  bool exact_ = false;  // the method, once chosen
  bool waits_ = false;  // gridding waits for a frame's last sample: sums in the samples' order, in short stretches
  Scan* scan_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  std::vector<numerics::NufftOptions> of_lags_;  // the gridding of Q by geometry, for the NUFFT method
  FrameGridder gridder_;                         // for the NUFFT method
  ScanFieldMap field_;
  std::list<Corrected> corrected_;  // most recent first, bounded
  std::map<std::uint64_t, Open> open_;
  std::weak_ptr<const SamplePositions> summed_;  // the positions whose sum of weights is known
  double weight_ = 0;
};

}  // namespace echotrain
