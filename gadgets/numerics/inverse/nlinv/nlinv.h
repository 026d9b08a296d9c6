// Image and coil sensitivities together, by regularised nonlinear inversion (NLINV).
//
// Sources: Uecker, Hohage, Block, Frahm, "Image reconstruction by regularized nonlinear inversion - joint estimation of
// coil sensitivities and image content", MRM 60, 2008 (model, weights, Newton steps); Uecker, Zhang, Frahm, "Nonlinear
// inverse reconstruction for real-time MRI of the human heart using undersampled radial FLASH", MRM 63, 2010
// (F^H F as a convolution, the previous frame as the prior); Bakushinskii's iteratively regularised Gauss-Newton
// method.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct NlinvOptions {
  static constexpr int kMostSteps = 30, kMostInner = 100, kMostPasses = 10;
  int newton_steps = 6;
  int inner = 7;           ///< steps of conjugate gradients in a Newton step, in the mean; see nlinv_inner_steps()
  int first_passes = 2;    ///< passes of the Newton steps in the first frame; later passes treat the first result as
                           ///< the previous frame
  double first_alpha = 1;  ///< weight of the prior in the first Newton step
  double reduction = 0.5;  ///< factor of that weight from step to step
  double damping = 0.9;    ///< factor of the previous frame where it is the prior
  /// The 2-norm to which the first frame's weighed data are scaled, times the root of the slices, so that each slice
  /// has about that norm. alpha is relative to it.
  double scale = 100;
  double smoothness = 220;  ///< coefficients of coils at k [cycles/pixel] weigh (1 + smoothness |k|^2)^-order
  int order = 16;
};

/// The numbers of conjugate gradient steps in the Newton steps: floor(2 inner n / (steps + 1)) in step n, at least one.
/// They are fixed, so that a frame takes the same time whatever it shows: 2 4 6 8 10 12, 42 in all, for 6 and 7.
std::vector<int> nlinv_inner_steps(const NlinvOptions& options);

/// y = F^H W F x for every coil; x, y: [coil, y, x], or of several slices [slice, coil, y, x], where F sums over the
/// slices, each with its phases.
using NlinvMatrix = std::function<void(DeviceView<const cfloat> x, DeviceView<cfloat> y)>;

/// One frame: d is the measured data. The problem is that of s F^H W F, whose diagonal should be about 1.
struct NlinvFrame {
  NlinvMatrix matrix;
  double matrix_scale = 1;         ///< s, or 1 where `matrix` includes it
  double data_scale = 1;           ///< s, or 1 where `right` and `power` include it
  DeviceView<const cfloat> right;  ///< shaped like x of `matrix`: F^H W d
  DeviceView<const double> power;  ///< [1]: sum of W |d|^2 over samples and coils
  /// If not 0: in every frame with this number, `matrix` does the same work in the same memory and asks for none, so
  /// that on CUDA it may be recorded. No two objects of a process share a number: new_nlinv_number().
  std::uint64_t fixed = 0;
};
std::uint64_t new_nlinv_number();

/// The outcome of a solve.
struct NlinvResult {
  double power = 0;     ///< power of the data; not finite where they are not
  double residual = 0;  ///< |F x - d|_W / |d|_W; fp32 hides residuals below some 1e-3
};

/// Frames of one slice, one after the other. The unknowns are the image m [y, x] and, for each coil, the coefficients
/// of its sensitivity c = sum_k w(k) h(k) exp(2 pi i k.r / field) / sqrt(field points). Coefficients whose weight is
/// below kLeastWeight are left out: their effect is smaller than that of others by that square. Every Newton step
/// solves
///   (D^H T D + alpha) dx = D^H (b - T (m c)) + alpha (reference - x)
/// by conjugate gradients from 0, in the form of Chronopoulos & Gear, "s-step iterative methods for symmetric linear
/// systems", J. Comp. Appl. Math. 25, 1989. The first frame begins at m = 1, h = 0 and has it as the reference; its
/// second pass begins at the first one's result, as later frames begin at the previous frame, and has `damping` times
/// it as the reference.
///
/// Slices that are excited at once (simultaneous multi-slice) have an image and coefficients each, and one equation,
/// whose D has all slices side by side and whose T couples them: Rosenzweig, Holme, Wilke, Voit, Frahm, Uecker,
/// "Simultaneous multi-slice MRI using Cartesian and radial FLASH and regularized nonlinear inversion: SMS-NLINV", MRM
/// 79, 2018.
///
/// Confined to one context and its thread. solve() enqueues its work, on CUDA as a graph that is kept where frames say
/// that they may be recorded, and waits once, at its end; the first frame also waits for its power before the work;
/// sums are ordered, so the same input gives the same bits in every run where `matrix` does. Throws
/// std::invalid_argument when shapes do not fit.
class Nlinv {
 public:
  static constexpr double kLeastWeight = 1e-5;
  static constexpr std::int64_t kLeastExtent = 4, kMostExtent = 1024;  ///< extents of an image
  static constexpr std::int64_t kMostSlices = 16;

  /// image: [y, x]. field: [y, x], the extents after which sensitivities repeat, at least the image's. With samples
  /// anywhere it is twice the image, so that the left edge of the image need not match the right one.
  Nlinv(Context& context, std::int64_t coils, const Shape& image, const Shape& field, const NlinvOptions& options,
        std::int64_t slices = 1);
  ~Nlinv();
  Nlinv(const Nlinv&) = delete;
  Nlinv& operator=(const Nlinv&) = delete;

  std::int64_t slices() const;
  std::int64_t coils() const;
  const Shape& image() const;
  /// The shape of a coil's coefficients: [x, y] of k from -floor(./2) on.
  Shape coefficients() const;
  /// The unknowns of the last frame, [slice (y x + coil x y)]: of each slice m, and then h [coil, x, y].
  DeviceView<const cfloat> unknowns() const;

  /// Solves for a frame. to: [y, x], of several slices [slice, y, x], or the middle of it: m sqrt(sum |c|^2) in the
  /// unit of the data, whose magnitude does not depend on how m and c share it. Where the power is 0, or the power or
  /// the solution is not finite, the image is 0, and earlier frames are forgotten.
  NlinvResult solve(const NlinvFrame& frame, DeviceView<cfloat> to);
  /// Forgets all earlier frames, and the scale of the data.
  void reset();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace echotrain::numerics
