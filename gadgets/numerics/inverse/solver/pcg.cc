#include "gadgets/numerics/inverse/solver/pcg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/solver/pcg_ops.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {
namespace {

/// The least ratio of a preconditioner's factors to its largest.
constexpr float kFloor = 1e-4f;

void require_for_pcg(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("pcg: " + problem);
}

/// z = M^-1 r for a circulant matrix between diagonal ones.
class CirculantInverse {
 public:
  CirculantInverse(Context& context, const LinearOperator& a, const Regularizer* regularizer, double lambda)
      : dims_(static_cast<int>(a.image().rank())), voxels_(a.image().size()) {
    Array<float> eigenvalues = context.allocate<float>(a.image()), symbol;
    inverse_ = context.allocate<float>(a.image());
    unshare_ = context.allocate<float>(a.image());
    require_for_pcg(a.circulant(context, eigenvalues.view(), unshare_.view()),
                    "this operator has no circulant preconditioner");
    const bool regular = regularizer != nullptr && lambda > 0;
    if (regular) {
      symbol = context.allocate<float>(a.image());
      regularizer->symbol(context, symbol.view());
    }
    const float transforms = 1 / static_cast<float>(voxels_);
    ECHOTRAIN_DISPATCH(
        context, invert(context, eigenvalues.data(), static_cast<float>(lambda), regular ? symbol.data() : nullptr,
                        kFloor, transforms, inverse_.data(), voxels_));
    ECHOTRAIN_DISPATCH(context, invert(context, unshare_.data(), 0.0f, nullptr, 0.0f, 1.0f, unshare_.data(), voxels_));
  }
  /// r, z: [batch, image...]
  void apply(Context& context, const cfloat* r, DeviceView<cfloat> z) const {
    const std::int64_t batch = z.shape()[0];
    ECHOTRAIN_DISPATCH(context, multiply_real(context, r, unshare_.data(), z.data(), batch, voxels_));
    fft(context, z, dims_, Direction::forward);
    ECHOTRAIN_DISPATCH(context, multiply_real(context, z.data(), inverse_.data(), z.data(), batch, voxels_));
    fft(context, z, dims_, Direction::inverse);
    ECHOTRAIN_DISPATCH(context, multiply_real(context, z.data(), unshare_.data(), z.data(), batch, voxels_));
  }

 private:
  int dims_;
  std::int64_t voxels_;
  Array<float> inverse_, unshare_;
};

Array<float> inverse_diagonal(Context& context, const LinearOperator& a, const Regularizer* regularizer,
                              double lambda) {
  Array<float> diagonal = context.allocate<float>(a.image()), other;
  a.diagonal(context, diagonal.view());
  if (regularizer != nullptr && lambda > 0) {
    other = context.allocate<float>(a.image());
    regularizer->diagonal(context, other.view());
  }
  ECHOTRAIN_DISPATCH(context, invert(context, diagonal.data(), static_cast<float>(lambda),
                                     other ? other.data() : nullptr, kFloor, 1.0f, diagonal.data(), a.image().size()));
  return diagonal;
}

PcgResult take_result(Context& context, const Array<PcgState>& states, const Array<double>& residuals, double lambda) {
  const auto end = context.download<PcgState>(states.view());
  const auto log = context.download<double>(residuals.view());
  PcgResult result;
  result.lambda = lambda;
  const std::int64_t length = residuals.shape()[1];
  for (std::int64_t i = 0; i < states.size(); ++i) {
    const PcgState& state = end.data()[i];
    PcgItem item;
    item.residuals.assign(log.data() + i * length, log.data() + i * length + state.count);
    item.iterations = state.count - 1;
    item.status = state.status == PcgState::converged    ? PcgStatus::converged
                  : state.status == PcgState::broke_down ? PcgStatus::broke_down
                                                         : PcgStatus::iterations_used;
    result.items.push_back(std::move(item));
  }
  return result;
}

void check_options(const PcgOptions& options) {
  constexpr int kMostIterations = 10000;
  require_for_pcg(options.iterations >= 0 && options.iterations <= kMostIterations,
                  fmt::format("expected 0..{} iterations, got {}", kMostIterations, options.iterations));
  require_for_pcg(options.tolerance >= 0 && std::isfinite(options.tolerance),
                  fmt::format("the tolerance cannot be {}", options.tolerance));
  require_for_pcg(options.lambda >= 0 && std::isfinite(options.lambda),
                  fmt::format("lambda cannot be {}", options.lambda));
  require_for_pcg(options.largest_eigenvalue >= 0 && std::isfinite(options.largest_eigenvalue),
                  fmt::format("the largest eigenvalue cannot be {}", options.largest_eigenvalue));
}

}  // namespace

const char* to_string(PcgStatus status) {
  switch (status) {
    case PcgStatus::converged:
      return "converged";
    case PcgStatus::iterations_used:
      return "iterations used";
    default:
      return "broke down";
  }
}

PcgResult pcg(Context& context, const LinearOperator& a, const Regularizer* regularizer, DeviceView<const cfloat> b,
              DeviceView<cfloat> x, const PcgOptions& options) {
  check_options(options);
  const Shape& image = a.image();
  Shape shape{b.shape().rank() > 0 ? b.shape()[0] : 0};
  for (const auto e : image) shape.push_back(e);
  require_for_pcg(
      b.shape() == shape && x.shape() == shape,
      fmt::format("expected [batch, ...] of {}, got {} and {}", image.text(), b.shape().text(), x.shape().text()));
  require_for_pcg(regularizer == nullptr || regularizer->image() == image,
                  "the regularizer is for images of another shape");
  const std::int64_t batch = shape[0], voxels = image.size();
  if (batch == 0) return {};

  double lambda = 0;
  if (regularizer != nullptr && options.lambda > 0)
    lambda =
        options.lambda * (options.largest_eigenvalue > 0 ? options.largest_eigenvalue : largest_eigenvalue(context, a));
  const bool identity = lambda > 0 && regularizer->identity();
  const float shift = identity ? static_cast<float>(lambda) : 0.0f;

  const Context::KeepMemory repeated(context);
  Array<cfloat> r = context.allocate<cfloat>(shape), p = context.allocate<cfloat>(shape),
                q = context.allocate<cfloat>(shape), z;
  Array<float> jacobi;
  std::unique_ptr<const CirculantInverse> circulant;
  if (options.preconditioner == Preconditioner::jacobi) jacobi = inverse_diagonal(context, a, regularizer, lambda);
  if (options.preconditioner == Preconditioner::circulant) {
    circulant = std::make_unique<CirculantInverse>(context, a, regularizer, lambda);
    z = context.allocate<cfloat>(shape);
  }
  const std::int64_t blocks = ECHOTRAIN_DISPATCH(context, pcg_blocks(voxels));
  Array<double> partial = context.allocate<double>({batch, blocks, 3});
  const LinearOperator::Around can = a.around();
  const bool sums = can.parts > 0 && (lambda == 0 || identity);  // other priors add to A p before it is summed
  Array<double> product = context.allocate<double>({batch}), product_parts;
  if (sums) product_parts = context.allocate<double>({batch, can.parts});
  Array<std::int32_t> arrived = context.zeros<std::int32_t>({batch});
  Array<double> residuals = context.zeros<double>({batch, options.iterations + 1});
  Array<PcgState> states = context.zeros<PcgState>({batch});
  const PcgArrays arrays{.batch = batch,
                         .voxels = voxels,
                         .blocks = blocks,
                         .b = b.data(),
                         .x = x.data(),
                         .r = r.data(),
                         .p = p.data(),
                         .q = q.data(),
                         .z = z ? z.data() : nullptr,
                         .inverse_diagonal = jacobi ? jacobi.data() : nullptr,
                         .partial = partial.data(),
                         .product = product.data(),
                         .arrived = arrived.data(),
                         .residuals = residuals.data(),
                         .length = options.iterations + 1,
                         .states = states.data(),
                         .tolerance = options.tolerance};
  const auto precondition = [&] {
    if (!circulant) return;
    circulant->apply(context, r.data(), z.view());
    ECHOTRAIN_DISPATCH(context, pcg_product(context, arrays));
  };

  // Members that iterate together must take the same branches, so all of them decide by the same states.
  static_assert(sizeof(PcgState) % sizeof(float) == 0);
  const DeviceView<const float> all_states(reinterpret_cast<const float*>(states.data()),
                                           {batch * static_cast<std::int64_t>(sizeof(PcgState) / sizeof(float))});

  if (options.from_zero) {
    context.clear(x);
    context.clear(q.view());
  } else {
    a.apply(context, x, q.view());
    if (lambda > 0) regularizer->add(context, static_cast<float>(lambda), x, q.view());
  }
  ECHOTRAIN_DISPATCH(context, pcg_residual(context, arrays));
  precondition();
  ECHOTRAIN_DISPATCH(context, pcg_start(context, arrays));
  a.require_same(context, all_states);
  AroundApply around;
  if (can.before) {
    around.r = z ? z.data() : r.data();
    around.factor = arrays.inverse_diagonal;
    around.beta = &states.data()->beta;
    around.beta_stride = sizeof(PcgState) / sizeof(float);
  }
  if (sums) {
    around.shift = shift;
    around.product = product.data();
    around.partial = product_parts.data();
    around.arrived = arrived.data();
  }
  const auto step = [&] {
    if (!can.before) ECHOTRAIN_DISPATCH(context, pcg_turn(context, arrays));
    if (can.before || sums)
      a.apply_around(context, p.view(), q.view(), around);
    else
      a.apply(context, p.cview(), q.view());
    if (lambda > 0 && !identity) regularizer->add(context, static_cast<float>(lambda), p.cview(), q.view());
    if (!sums) ECHOTRAIN_DISPATCH(context, pcg_direction(context, arrays, shift));
    ECHOTRAIN_DISPATCH(context, pcg_advance(context, arrays));
    precondition();
    ECHOTRAIN_DISPATCH(context, pcg_finish(context, arrays));
    a.require_same(context, all_states);
  };
  const auto loop =
      ECHOTRAIN_DISPATCH(context, pcg_loop(context, arrays, options.iterations, a.can_be_recorded(), step));
  ECHOTRAIN_DISPATCH(context, pcg_clear(context, arrays));
  return take_result(context, states, residuals, lambda);
}

double largest_eigenvalue(Context& context, const LinearOperator& a, int steps) {
  require_for_pcg(steps >= 1, "the power iteration needs at least one step");
  const Context::KeepMemory repeated(context);
  Shape shape{1};
  for (const auto e : a.image()) shape.push_back(e);
  const std::int64_t voxels = a.image().size();
  Array<cfloat> v = context.allocate<cfloat>(shape), w = context.allocate<cfloat>(shape);
  Array<double> sums = context.allocate<double>({steps + 1, 2});
  // <v, w> and |w|^2 of each step; before the first one, both are |v|^2.
  const auto products = [&](const Array<cfloat>& other, std::int64_t step) {
    inner_products(context, v.cview(), other.cview(), sums.view().slice(step));
  };
  ECHOTRAIN_DISPATCH(context, fill_start(context, v.data(), voxels));
  products(v, 0);
  for (int i = 0; i < steps; ++i) {
    const double* power = sums.data() + 2 * i + 1;
    ECHOTRAIN_DISPATCH(context, normalize(context, power, v.data(), voxels));
    a.apply(context, v.cview(), w.view());
    products(w, i + 1);
    std::swap(v, w);
  }
  const HostArray<double> found = context.download<double>(sums.cview());
  for (int i = 1; i <= steps; ++i) {
    const double quotient = found.data()[2 * i], power = found.data()[2 * i + 1];
    if (!std::isfinite(quotient) || !std::isfinite(power))
      throw ResourceError("pcg: the operator gives values that are not finite");
    if (power == 0) return 0;
  }
  return std::max(0.0, found.data()[2 * steps]);
}

}  // namespace echotrain::numerics
