// What frames that left out the same lines, and share reference lines, have in common: weights that unmix their coils.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/numerics/parallel/line_correction.h"
#include "gadgets/numerics/unmixing/line_unmixing.h"

namespace echotrain {

struct WeightsOptions {
  enum class Method { grappa, unfold };
  Method method = Method::grappa;
  numerics::GrappaOptions kernel;                     ///< grappa
  bool coil_images = false;                           ///< grappa: for the k-space of each coil in place of one image
  double lambda = 0;                                  ///< unfold: numerics::unfold()'s
  bool espirit = false;                               ///< unfold: the maps; else adaptive
  bool noise = false;                                 ///< `g` and `per_deviation` too
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  ///< of all weights that are kept; the last ones always are
};

struct Weights {
  std::int64_t coils = 0;
  numerics::LineGeometry geometry;
  /// [coil, z, y, x], twice as many with corrections: first conj(u), which weighs images of the lattice's rows, then
  /// the maps, which weigh those of the corrections. Empty for coil images, and where `lines` has copies of its own.
  Array<cfloat> factors;
  numerics::LineUnmixing lines;  ///< the quicker way to the combined image, where there is one
  /// Of each row z * y: 1 on the lattice, else 0. Empty where no other row came.
  std::vector<float> on_lattice;
  numerics::HybridKernels hybrid;  ///< grappa
  numerics::LineCorrections rows;  ///< grappa: plan_corrections(); for coil images plan_filling()
  double residual = 0;             ///< grappa: GrappaKernels::residual
  Array<cfloat> g, per_deviation;  ///< [1, z, y, x]: the g-factor; 1 / numerics::NoiseGain::deviation, or 0
  double mean_g = 0;               ///< where there are maps
  std::string no_noise;            ///< why there are no `g` and `per_deviation`, though they were asked for
  std::string problem;             ///< why there are no weights; then all else is empty

  bool corrected() const { return rows.count() > 0; }
  /// 1 / the points of the encoded matrix, by which images are multiplied.
  float scale() const { return 1.0f / static_cast<float>(geometry.encoded.size()); }
  std::uint64_t bytes() const;
};

/// The weights of a scan's frames: made with the first that needs them, and kept for later ones of the same reference
/// lines, acquired rows and image. Those of a block go when a later block takes its place (the same slice, contrast and
/// set), those unused for longest when all together exceed the bound, and all when making others finds no memory. The
/// scan pays for all of it, and counts what is made and reused.
class ParallelWeights {
 public:
  explicit ParallelWeights(const WeightsOptions& options) : options_(options) {}
  void start(Scan& scan) { scan_ = &scan; }

  struct Found {
    std::shared_ptr<const Weights> weights;
    bool reused;
  };
  /// `lines` form a lattice, and their matrix is that of the geometry. Weights that cannot be made say why, and are
  /// not tried again. ResourceError when the scan's memory is exhausted; Stopped when it is to stop.
  Found of(const Calibration& calibration, const SampledLines& lines, const numerics::LineGeometry& geometry);
  /// Makes a block's first weights before a frame asks for them with of(), which then does not count them as reused.
  /// After a frame that asks for others in their place or for none, or where memory is short, this does nothing more.
  void prepare(const Calibration& calibration, const SampledLines& lines, const numerics::LineGeometry& geometry);
  /// A frame was refused, so that it asks for none.
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
