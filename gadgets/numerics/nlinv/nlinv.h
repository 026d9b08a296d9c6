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
  int first_passes = 2;    ///< of the Newton steps in the first frame, the later ones as if a frame had been before
  double first_alpha = 1;  ///< weight of the prior in the first Newton step
  double reduction = 0.5;  ///< of that weight from step to step
  double damping = 0.9;    ///< of the previous frame where it is the prior
  /// What the first frame's weighed data are scaled to in the 2-norm, times the root of the slices, so that each slice
  /// has about that norm. alpha counts in it.
  double scale = 100;
  double smoothness = 220;  ///< coefficients of coils at k [cycles/pixel] weigh (1 + smoothness |k|^2)^-order
  int order = 16;
};

/// Steps of conjugate gradients in each Newton step: floor(2 inner n / (steps + 1)) in step n, at least one. Their
/// number is fixed, so that a frame takes the same time whatever it shows: 2 4 6 8 10 12, 42 in all, for 6 and 7.
std::vector<int> nlinv_inner_steps(const NlinvOptions& options);

/// y = F^H W F x for every coil; x, y: [coil, y, x], or of several slices [slice, coil, y, x], where F gives the sum of
/// what slices give, each with its phases.
using NlinvMatrix = std::function<void(DeviceView<const cfloat> x, DeviceView<cfloat> y)>;

/// One frame: d is what was measured. The problem is that of s F^H W F, whose diagonal should be about 1.
struct NlinvFrame {
  NlinvMatrix matrix;
  double matrix_scale = 1;         ///< s, or 1 where `matrix` has it within
  double data_scale = 1;           ///< s, or 1 where `right` and `power` have it within
  DeviceView<const cfloat> right;  ///< shaped like x of `matrix`: F^H W d
  DeviceView<const double> power;  ///< [1]: sum of W |d|^2 over samples and coils
  /// Other than 0: in every frame with this number, `matrix` does the same work in the same memory and asks for none,
  /// so that on CUDA it may be recorded. No two objects of a process share a number: new_nlinv_number().
  std::uint64_t fixed = 0;
};
std::uint64_t new_nlinv_number();

/// How it went.
struct NlinvResult {
  double power = 0;     ///< of the data; not finite where they are not
  double residual = 0;  ///< |F x - d|_W / |d|_W; fp32 hides what is below some 1e-3
};

/// Frames of one slice, one after the other. The unknowns are the image m [y, x] and, for each coil, the coefficients
/// of its sensitivity c = sum_k w(k) h(k) exp(2 pi i k.r / field) / sqrt(field points). Coefficients whose weight is
/// below kLeastWeight are left out: what they could add is that square times what others do. Every Newton step solves
///   (D^H T D + alpha) dx = D^H (b - T (m c)) + alpha (reference - x)
/// by conjugate gradients from 0, in the form of Chronopoulos & Gear, "s-step iterative methods for symmetric linear
/// systems", J. Comp. Appl. Math. 25, 1989. The first frame begins at m = 1, h = 0 and has it as the reference; its
/// second pass begins at what the first one found, as later frames begin at the frame before, and has `damping` times
/// it as the reference.
///
/// Slices that are excited at once (simultaneous multi-slice) have an image and coefficients each, and one equation,
/// whose D is of all slices side by side and whose T joins them: Rosenzweig, Holme, Wilke, Voit, Frahm, Uecker,
/// "Simultaneous multi-slice MRI using Cartesian and radial FLASH and regularized nonlinear inversion: SMS-NLINV", MRM
/// 79, 2018.
///
/// Confined to one context and its thread. solve() enqueues its work, on CUDA as a graph that is kept where frames say
/// that they may be recorded, and waits once, at its end; the first frame also waits for its power before the work;
/// sums are ordered, so the same input gives the same bits in every run where
/// `matrix` does. std::invalid_argument when shapes do not fit.
class Nlinv {
 public:
  static constexpr double kLeastWeight = 1e-5;
  static constexpr std::int64_t kLeastExtent = 4, kMostExtent = 1024;  ///< of an image
  static constexpr std::int64_t kMostSlices = 16;

  /// image: [y, x]. field: [y, x], the extents after which sensitivities repeat, at least the image's. With samples
  /// anywhere it is twice the image, so that what is left of the image need not fit what is right of it.
  Nlinv(Context& context, std::int64_t coils, const Shape& image, const Shape& field, const NlinvOptions& options,
        std::int64_t slices = 1);
  ~Nlinv();
  Nlinv(const Nlinv&) = delete;
  Nlinv& operator=(const Nlinv&) = delete;

  std::int64_t slices() const;
  std::int64_t coils() const;
  const Shape& image() const;
  /// Coefficients of a coil: [x, y] of k from -floor(./2) on.
  Shape coefficients() const;
  /// [slice (y x + coil x y)]: of each slice m, and then h [coil, x, y], of the last frame.
  DeviceView<const cfloat> unknowns() const;

  /// Solves for a frame. to: [y, x], of several slices [slice, y, x], or the middle of that: m sqrt(sum |c|^2) in the
  /// unit of the data, whose magnitude does not depend on how m and c share it. Where the power is 0 or not finite, or
  /// the solution is not, the image is 0, and the frames before are forgotten.
  NlinvResult solve(const NlinvFrame& frame, DeviceView<cfloat> to);
  /// Forgets the frames before; the scale of the data too.
  void reset();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace echotrain::numerics
