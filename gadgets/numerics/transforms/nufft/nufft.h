// The non-uniform FFT by Kaiser-Bessel gridding: samples anywhere in k-space -> image on a Cartesian grid (the adjoint,
// type 1), and image -> samples (forward, type 2).
//
// Sources: output-driven, sector-based assignment with on-chip accumulation: Gregerson, "Implementing Fast MRI Gridding
// on GPUs via CUDA", 2008, section 4.1 (docs/seeds.md). Kernel: Beatty, Nishimura, Pauly, "Rapid gridding
// reconstruction with a minimal oversampling ratio", IEEE TMI 24(6), 2005; its shape is in kaiser_bessel.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/nufft/tuning.h"

namespace echotrain::numerics {

/// The operations that a plan is made for. Each use saves time and memory by supporting less than the one before it.
enum class NufftUse {
  all,        ///< everything
  adjoint,    ///< everything but interpolate() and forward()
  accumulate  ///< accumulate(), to_images(), deapodize() and apodize()
};

struct NufftOptions {
  static constexpr int kNarrowest = 2, kWidest = 8;
  static constexpr double kLeastOversampling = 1.25, kMostOversampling = 2;
  int kernel_width = 5;       ///< grid cells
  double oversampling = 1.5;  ///< each axis is rounded up to the next even size with no prime factors but 2, 3, 5 (7)
  NufftUse use = NufftUse::all;
  /// RMS relative error that grid() and adjoint() of a plan for the adjoint alone may add to the kernel's error, where
  /// that makes them faster, as on CUDA. 0 allows only fp32's rounding, so that accumulate() agrees.
  double slack = 0;
  bool operator==(const NufftOptions&) const = default;
};

/// Everything that depends on the trajectory and the image size only: grid size, tiles, gather lists, kernel weights
/// and deapodization factors. Immutable, shared between frames, and used by any number of coils.
///
/// Every tile of the grid gathers from the samples whose footprint touches it, in a fixed order: no atomics, so the
/// same input gives the same bits in every run and for any number of threads.
class NufftPlan {
 public:
  /// `coordinates`: float64, [sample, dims] in cycles/pixel, component 0 = x (fastest image axis); values outside
  /// [-0.5, 0.5) wrap. `image`: the image's extents, slowest first, 1 to 3 of them. Throws std::invalid_argument on bad
  /// options. `tuning`: default_tuning() where it is not given; throws std::invalid_argument when a tile or a piece is
  /// not valid, and on CUDA for any tile but the default.
  static std::shared_ptr<const NufftPlan> make(Context& context, HostView<const double> coordinates, const Shape& image,
                                               const NufftOptions& options = {},
                                               const std::optional<NufftTuning>& tuning = {});
  /// Makes a plan of the same kernel, grid and image for other samples, for accumulate(), to_images(), deapodize() and
  /// apodize(). `context` must be the one that this plan was made with, and the only one that uses either plan. Waits
  /// for nothing.
  std::shared_ptr<const NufftPlan> with_samples(Context& context, HostView<const double> coordinates) const;
  ~NufftPlan();

  const Shape& image_shape() const;  ///< the extents given to make()
  const Shape& grid_shape() const;   ///< oversampled extents, slowest first
  std::int64_t samples() const;
  const NufftOptions& options() const;
  const NufftTuning& tuning() const;  ///< the split of the work into tiles and pieces
  Backend backend() const;
  std::uint64_t bytes() const;  ///< memory the plan holds

  /// Convolves onto the grid: grid[c, m] = sum_s weights[s] samples[s, c] phi(m - u_s), u_s = coordinate * grid extent,
  /// m in FFT order. samples: [sample, coil]; weights: [sample] or empty (all 1); grid: [coil, grid...], overwritten.
  void grid(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
            DeviceView<cfloat> grid) const;

  /// Adds the samples first .. first + n - 1 of the plan to a grid (sign +1), or takes them away again (-1): grid[c, m]
  /// += sign sum_s weights[s] samples[s, c] phi(m - u_(first + s)). samples: [n, coil]; weights: [n] or empty; grid:
  /// [coil, grid...]. It serves readouts that are gridded as they come. On the CPU, the same calls give the same bits;
  /// on CUDA, they agree up to rounding, because samples are added in no fixed order.
  void accumulate(Context& context, std::int64_t first, DeviceView<const cfloat> samples,
                  DeviceView<const float> weights, float sign, DeviceView<cfloat> grid) const;

  /// Does the inverse FFT and deapodize() in fewer passes: only what the image keeps is transformed. grid: [coil,
  /// grid...] in FFT order, working space afterwards; image: [coil, image...], centre at floor(n/2).
  void to_images(Context& context, DeviceView<cfloat> grid, DeviceView<cfloat> image) const;

  /// Cuts the inverse FFT of a grid to the image and divides by the kernel's transform. oversampled: [coil, grid...] in
  /// FFT order; image: [coil, image...], centre at floor(n/2).
  void deapodize(Context& context, DeviceView<const cfloat> oversampled, DeviceView<cfloat> image) const;

  /// grid(), inverse FFT, deapodize(): image[c, r] = sum_s weights[s] samples[s, c] exp(+2 pi i k_s . r).
  void adjoint(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
               DeviceView<cfloat> image) const;

  /// The transpose of deapodize(): divides the image by the kernel's transform and fills it up with zeros to the grid.
  /// image: [coil, image...], centre at floor(n/2); oversampled: [coil, grid...] in FFT order, overwritten.
  void apodize(Context& context, DeviceView<const cfloat> image, DeviceView<cfloat> oversampled) const;

  /// Interpolates from the grid, the transpose of grid(): samples[s, c] = sum_m grid[c, m] phi(m - u_s). grid: [coil,
  /// grid...], m in FFT order; samples: [sample, coil], overwritten.
  void interpolate(Context& context, DeviceView<const cfloat> grid, DeviceView<cfloat> samples) const;

  /// apodize(), forward FFT, interpolate(): samples[s, c] = sum_r image[c, r] exp(-2 pi i k_s . r). Every sample is one
  /// sum in a fixed order: the same bits in every run and for any number of threads. A sample whose coordinates are not
  /// finite becomes 0.
  void forward(Context& context, DeviceView<const cfloat> image, DeviceView<cfloat> samples) const;

  struct Impl;  // defined in nufft_plan.h, for the backends' files
  explicit NufftPlan(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// A digest of a trajectory for plan caches: coordinates (float64 bits) and count.
std::uint64_t trajectory_digest(HostView<const double> coordinates);

/// The quantities besides the image on which the cost of options depends.
struct NufftLoad {
  Backend backend = Backend::cuda;
  std::int64_t samples = 0;  ///< samples of a transform; 0: as many as scans of such images usually have
};

/// Chooses the options of least work whose RMS relative error, that of rounding to fp32 included, is at most
/// `accuracy`. Throws std::invalid_argument when none reach it; the text names the accuracy within reach.
NufftOptions options_for_accuracy(double accuracy, const Shape& image, const NufftLoad& load = {});

/// The expected RMS relative error of either transform for white data: the aliasing sum of the kernel actually used
/// (Fessler & Sutton, IEEE TSP 51(2), 2003, sec. IV, applied to Kaiser-Bessel), averaged over the image.
double expected_error(const NufftOptions& options, const Shape& image);

/// The relative error, rounding to fp32 included, that no trajectory exceeds for white data: expected_error() with all
/// samples at the one place between grid points where aliases are largest, as may happen with a Cartesian trajectory.
double largest_error(const NufftOptions& options, const Shape& image);
/// Chooses the options of least work whose largest_error() is at most `error`; empty when none have so small an error.
std::optional<NufftOptions> options_within(double error, const Shape& image, const NufftLoad& load = {});

}  // namespace echotrain::numerics
