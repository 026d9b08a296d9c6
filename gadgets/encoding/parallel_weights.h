// The weights that unmix coils (GRAPPA, SENSE), shared by frames with the same acquired lines and reference lines.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/numerics/mri/parallel/line_correction.h"
#include "gadgets/numerics/mri/parallel/line_unmixing.h"

namespace echotrain {

struct WeightsOptions {
  enum class Method { grappa, unfold };
  Method method = Method::grappa;
  numerics::GrappaOptions kernel;                     ///< grappa
  bool coil_images = false;                           ///< grappa: for the k-space of each coil instead of one image
  double lambda = 0;                                  ///< unfold: the lambda of numerics::unfold()
  bool espirit = false;                               ///< unfold: ESPIRiT's maps; else adaptive ones
  std::int64_t sets = 1;                              ///< unfold: EspiritOptions::sets
  bool noise = false;                                 ///< `g` and `per_deviation` too
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  ///< bound on all kept weights; the last ones are always kept
};

struct Weights {
  std::int64_t coils = 0;
  numerics::LineGeometry geometry;
  /// [coil, z, y, x], twice as many with corrections: first conj(u), the weights of images of the lattice's rows, then
  /// the maps, the weights of the corrections' images. Empty for coil images, and where `lines` has its own copies.
  Array<cfloat> factors;
  std::shared_ptr<const Weights> second;  ///< unfold: those of the second set's image, which the first is joined with
  numerics::LineUnmixing lines;           ///< the faster way to the combined image, where there is one
  /// For each row z * y: 1 on the lattice, else 0. Empty where no other row came.
  std::vector<float> on_lattice;
  numerics::HybridKernels hybrid;  ///< grappa
  numerics::LineCorrections rows;  ///< grappa: plan_corrections(); for coil images plan_filling()
  double residual = 0;             ///< grappa: GrappaKernels::residual
  Array<cfloat> g, per_deviation;  ///< [1, z, y, x]: the g-factor; 1 / numerics::NoiseGain::deviation, or 0
  double mean_g = 0;               ///< mean over voxels that have maps
  std::string no_noise;            ///< why `g` and `per_deviation` are missing, though they were asked for
  std::string problem;             ///< why there are no weights; then all other members are empty

  bool corrected() const { return rows.count() > 0; }
  /// 1 / the points of the encoded matrix, the scale of images.
  float scale() const { return 1.0f / static_cast<float>(geometry.encoded.size()); }
  std::uint64_t bytes() const;
};

/// The weights of a scan's frames: made for the first frame that needs them, and kept for later ones of the same
/// reference lines, acquired rows and image. A block's weights are dropped when a later block takes its place (the same
/// slice, contrast and set), the least recently used when all together exceed the bound, and all when there is no
/// memory to make others. The scan pays for them, and counts those made and reused.
class ParallelWeights {
 public:
  explicit ParallelWeights(const WeightsOptions& options) : options_(options) {}
  void start(Scan& scan) { scan_ = &scan; }

  struct Found {
    std::shared_ptr<const Weights> weights;
    bool reused;
  };
  /// `lines` form a lattice, and their matrix is that of the geometry. Weights that cannot be made say why, and are not
  /// tried again. Throws ResourceError when the scan's memory is exhausted; Stopped when it is to stop.
  Found of(const Calibration& calibration, const SampledLines& lines, const numerics::LineGeometry& geometry);
  /// Makes a block's first weights before a frame asks for them with of(), which then does not count them as reused.
  /// After a frame that asks for other weights or for none, or where memory is short, this does nothing any more.
  void prepare(const Calibration& calibration, const SampledLines& lines, const numerics::LineGeometry& geometry);
  /// Notes that a frame was refused, so that it asks for no weights.
  void frame_refused() { prepares_ = false; }

  std::size_t kept() const { return kept_.size(); }

 private:
  struct Entry {
    std::uint64_t calibration;
    FrameKey of;  // the block's
    SampledLines lines;
    numerics::LineGeometry geometry;
    std::shared_ptr<const Weights> weights;
    bool early = false;  // no frame has asked for them yet
    bool same(const Entry& other) const;
    std::uint64_t bytes() const { return weights->bytes() + lines.came.size(); }
  };
  std::shared_ptr<const Weights> make(const Calibration& calibration, const Entry& entry) const;
  void add(const Calibration& calibration, Entry wanted);

  WeightsOptions options_;
  Scan* scan_ = nullptr;
  bool prepares_ = true;
  std::list<Entry> kept_;  // most recently used first
};

}  // namespace echotrain
