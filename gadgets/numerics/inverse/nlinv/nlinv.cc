#include "gadgets/numerics/inverse/nlinv/nlinv.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <memory>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/nlinv/nlinv_ops.h"

namespace echotrain::numerics {
namespace {

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("nlinv: " + problem);
}

double weight_of(const NlinvOptions& options, double ky, double kx) {
  return std::pow(1 + options.smoothness * (ky * ky + kx * kx), -options.order);
}

NlinvAxis make_axis(Context& context, std::int64_t points, std::int64_t field, const NlinvOptions& options) {
  NlinvAxis axis{.points = points, .most = 0, .cosine = {}, .sine = {}, .cosine_of_points = {}, .sine_of_points = {}};
  const auto size = static_cast<double>(field);
  while (axis.most + 1 <= (field - 1) / 2 &&
         weight_of(options, 0, static_cast<double>(axis.most + 1) / size) >= Nlinv::kLeastWeight)
    ++axis.most;
  const std::int64_t waves = axis.wave_rows(), rows = axis.point_rows();
  std::vector<float> cosine(static_cast<std::size_t>(waves * rows)), sine(cosine), turned(cosine), turned_sine(cosine);
  for (std::int64_t k = 0; k <= axis.most; ++k)
    for (std::int64_t r = 0; r <= axis.half(); ++r) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * r % field) / size;
      const auto at = static_cast<std::size_t>(k * rows + r), of_points = static_cast<std::size_t>(r * waves + k);
      cosine[at] = turned[of_points] = static_cast<float>(std::cos(angle) / std::sqrt(size));
      sine[at] = turned_sine[of_points] = static_cast<float>(std::sin(angle) / std::sqrt(size));
    }
  axis.cosine = context.upload<float>({cosine.data(), {waves, rows}});
  axis.sine = context.upload<float>({sine.data(), {waves, rows}});
  axis.cosine_of_points = context.upload<float>({turned.data(), {rows, waves}});
  axis.sine_of_points = context.upload<float>({turned_sine.data(), {rows, waves}});
  return axis;
}

/// The shape [slice, coil, y, x] or [slice, y, x]; without the slice where there is one.
Shape of_slices(std::int64_t slices, const Shape& one) {
  Shape shape;
  if (slices > 1) shape.push_back(slices);
  for (const auto extent : one) shape.push_back(extent);
  return shape;
}

void check(std::int64_t slices, std::int64_t coils, const Shape& image, const Shape& field,
           const NlinvOptions& options) {
  constexpr std::int64_t kMostCoils = 256, kLeast = Nlinv::kLeastExtent, kMost = Nlinv::kMostExtent;
  require(slices >= 1 && slices <= Nlinv::kMostSlices,
          fmt::format("1 to {} slices, not {}", Nlinv::kMostSlices, slices));
  require(coils >= 1 && coils <= kMostCoils, fmt::format("1 to {} coils, not {}", kMostCoils, coils));
  require(image.rank() == 2 && field.rank() == 2, "images have two axes, not " + image.text());
  for (std::size_t a = 0; a < 2; ++a)
    require(image[a] >= kLeast && image[a] <= kMost && field[a] >= image[a] && field[a] <= 2 * kMost,
            fmt::format("{} to {} points an axis within a field of at most twice as many, not {} in {}", kLeast, kMost,
                        image.text(), field.text()));
  require(options.newton_steps >= 1 && options.newton_steps <= NlinvOptions::kMostSteps && options.inner >= 1 &&
              options.inner <= NlinvOptions::kMostInner && options.first_passes >= 1 &&
              options.first_passes <= NlinvOptions::kMostPasses,
          fmt::format("{} Newton steps of {}", options.newton_steps, options.inner));
  require(options.first_alpha > 0 && options.reduction > 0 && options.reduction <= 1 && options.damping >= 0 &&
              options.damping <= 1 && options.scale > 0 && options.smoothness >= 0 && options.order >= 1,
          "a weight, a factor or a scale is out of range");
}

}  // namespace

NlinvProblem make_nlinv_problem(Context& context, std::int64_t coils, const Shape& image, const Shape& field,
                                const NlinvOptions& options) {
  NlinvProblem problem{.coils = coils,
                       .y = make_axis(context, image[0], field[0], options),
                       .x = make_axis(context, image[1], field[1], options),
                       .weights = {},
                       .between = {}};
  const std::int64_t kx = problem.x.waves(), ky = problem.y.waves();
  std::vector<float> weights;
  for (std::int64_t i = 0; i < kx; ++i)
    for (std::int64_t j = 0; j < ky; ++j)
      weights.push_back(
          static_cast<float>(weight_of(options, static_cast<double>(j - problem.y.most) / static_cast<double>(field[0]),
                                       static_cast<double>(i - problem.x.most) / static_cast<double>(field[1]))));
  problem.weights = context.upload<float>({weights.data(), {kx, ky}});
  problem.between = context.allocate<cfloat>({coils, ky * problem.x.points});
  return problem;
}

std::vector<int> nlinv_inner_steps(const NlinvOptions& options) {
  std::vector<int> steps;
  for (int n = 1; n <= options.newton_steps; ++n)
    steps.push_back(std::max(1, 2 * options.inner * n / (options.newton_steps + 1)));
  return steps;
}

std::uint64_t new_nlinv_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

namespace on_backend {
std::int64_t nlinv_back_sums(Context& context, const NlinvProblem& problem) {
  return ECHOTRAIN_DISPATCH(context, nlinv_back_sums(problem));
}
void nlinv_product(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, const cfloat* p,
                   cfloat* z) {
  ECHOTRAIN_DISPATCH(context, nlinv_product(context, problem, m, c, p, z));
}
void nlinv_back(Context& context, const NlinvProblem& problem, float scale, float alpha, const cfloat* m,
                const cfloat* c, const cfloat* y, const cfloat* p, cfloat* h, double* sums) {
  ECHOTRAIN_DISPATCH(context, nlinv_back(context, problem, scale, alpha, m, c, y, p, h, sums));
}
}  // namespace on_backend

struct Nlinv::State {
  Context& context;
  const NlinvOptions options;
  const Shape extents;
  const std::int64_t slices;
  NlinvProblem problem;  // problem of one slice
  std::vector<int> inner;
  bool begun = false;                              ///< a frame was solved
  double factor = 0;                               ///< scale of the data
  Array<cfloat> x, reference, r, p, q, s, d;       // [unknowns], slice after slice
  Array<cfloat> right, coils, product, convolved;  // [slice, coil, y, x]; right: in the unit of the unknowns
  Array<double> products, powers[3], inners;       // partial sums; inners: the residual's products
  Array<double> lengths[2];                        // [1]: of a step of conjugate gradients
  /// The recorded work of later frames. No more is kept: few frames wait for their last samples.
  struct Recorded {
    std::uint64_t fixed;
    double matrix_scale;
    std::shared_ptr<void> work;
  };
  static constexpr std::size_t kMostRecorded = 8;
  std::deque<Recorded> recorded;

  State(Context& with, std::int64_t planes, std::int64_t channels, const Shape& image, const Shape& field,
        const NlinvOptions& wanted)
      : context(with),
        options(wanted),
        extents(image),
        slices(planes),
        problem(make_nlinv_problem(with, channels, image, field, wanted)),
        inner(nlinv_inner_steps(wanted)) {
    const std::int64_t n = unknowns();
    for (Array<cfloat>* vector : {&x, &reference, &r, &p, &q, &s, &d}) *vector = context.zeros<cfloat>({n});
    for (Array<cfloat>* images : {&right, &coils, &product, &convolved})
      *images = context.zeros<cfloat>(of_slices(slices, {channels, image[0], image[1]}));
    products = context.zeros<double>({slices * ECHOTRAIN_DISPATCH(context, nlinv_back_sums(problem))});
    for (auto& sums : powers) sums = context.zeros<double>({ECHOTRAIN_DISPATCH(context, nlinv_vector_sums(n))});
    for (auto& length : lengths) length = context.zeros<double>({1});
    inners = context.zeros<double>({4});
    forget();
  }

  void forget() {
    begun = false;
    factor = 0;
    const std::vector<cfloat> ones(static_cast<std::size_t>(problem.voxels()), 1.0f);
    context.clear<cfloat>(x.view());
    for (std::int64_t slice = 0; slice < slices; ++slice)
      context.copy<cfloat>(HostView<const cfloat>(ones.data(), {problem.voxels()}),
                           x.view().part(slice * problem.unknowns(), {problem.voxels()}));
    context.copy<cfloat>(x.cview(), reference.view());
  }

  std::int64_t unknowns() const { return slices * problem.unknowns(); }
  /// Calls work(unknowns, images) for each slice, with the begin of its part of the unknowns and of the images of
  /// coils.
  template <class Work>
  void for_slices(const Work& work) const {
    for (std::int64_t slice = 0; slice < slices; ++slice)
      work(slice * problem.unknowns(), slice * problem.coils * problem.voxels());
  }
  /// coils = C x
  void make_coils() {
    for_slices([&](std::int64_t u, std::int64_t i) {
      ECHOTRAIN_DISPATCH(context, nlinv_product(context, problem, nullptr, nullptr, x.data() + u, coils.data() + i));
    });
  }
  /// product = m c
  void multiply() {
    for_slices([&](std::int64_t u, std::int64_t i) {
      ECHOTRAIN_DISPATCH(context, nlinv_multiply(context, problem, x.data() + u, coils.data() + i, product.data() + i));
    });
  }
  /// product = D r
  void differentiate() {
    for_slices([&](std::int64_t u, std::int64_t i) {
      ECHOTRAIN_DISPATCH(
          context, nlinv_product(context, problem, x.data() + u, coils.data() + i, r.data() + u, product.data() + i));
    });
  }
  void convolve(const NlinvFrame& frame) { frame.matrix(product.cview(), convolved.view()); }
  void combine(std::int64_t n, double a, const cfloat* u, double b, const cfloat* v, cfloat* to) {
    ECHOTRAIN_DISPATCH(context, nlinv_combine(context, n, static_cast<float>(a), u, static_cast<float>(b), v, to));
  }

  /// Does one Newton step; `coils` belong to x before and after it.
  void newton_step(const NlinvFrame& frame, double alpha, int steps) {
    const std::int64_t n = unknowns();
    const auto weight = static_cast<float>(alpha);
    const auto back = [&](double scale, cfloat* to) {
      double* sums = products.data();
      for_slices([&](std::int64_t u, std::int64_t i) {
        ECHOTRAIN_DISPATCH(context, nlinv_back(context, problem, static_cast<float>(scale), weight, x.data() + u,
                                               coils.data() + i, convolved.data() + i, r.data() + u, to + u, sums));
        sums += products.size() / slices;
      });
    };
    multiply();
    convolve(frame);
    combine(convolved.size(), 1, right.data(), -frame.matrix_scale, convolved.data(), convolved.data());
    combine(n, 1, reference.data(), -1, x.data(), r.data());
    back(1, q.data());
    ECHOTRAIN_DISPATCH(context, nlinv_begin(context, n, q.data(), r.data(), powers[0].data()));
    for (int i = 0; i < steps; ++i) {
      differentiate();
      convolve(frame);
      back(frame.matrix_scale, q.data());
      ECHOTRAIN_DISPATCH(context, nlinv_step(context, {.n = n,
                                                       .first = i == 0,
                                                       .last = i + 1 == steps,
                                                       .old = powers[(i + 2) % 3].data(),
                                                       .now = powers[i % 3].data(),
                                                       .product = products.data(),
                                                       .products = products.size(),
                                                       .length_before = lengths[(i + 1) % 2].data(),
                                                       .length = lengths[i % 2].data(),
                                                       .q = q.data(),
                                                       .r = r.data(),
                                                       .p = p.data(),
                                                       .s = s.data(),
                                                       .d = d.data(),
                                                       .x = x.data(),
                                                       .next = powers[(i + 1) % 3].data()}));
    }
    make_coils();
  }

  /// Does the Newton steps, and prepares the residual.
  void pass(const NlinvFrame& frame) {
    double alpha = options.first_alpha;
    for (const int steps : inner) {
      newton_step(frame, alpha, steps);
      alpha *= options.reduction;
    }
  }
  void draw_to_frame_before() { combine(unknowns(), options.damping, x.data(), 0, x.data(), reference.data()); }
  void apply_model(const NlinvFrame& frame) {
    multiply();
    convolve(frame);
  }
  /// Does the work of a frame after the first.
  void later_frame(const NlinvFrame& frame) {
    draw_to_frame_before();
    pass(frame);
    apply_model(frame);
  }
  /// The recorded work of frames like this one; null if it may not be recorded.
  std::shared_ptr<void>* recorded_of(const NlinvFrame& frame) {
    if (frame.fixed == 0) return nullptr;
    for (Recorded& each : recorded)
      if (each.fixed == frame.fixed && each.matrix_scale == frame.matrix_scale) return &each.work;
    if (recorded.size() == kMostRecorded) recorded.pop_front();
    recorded.push_back({.fixed = frame.fixed, .matrix_scale = frame.matrix_scale, .work = nullptr});
    return &recorded.back().work;
  }

  NlinvResult run(const NlinvFrame& frame, DeviceView<cfloat> to) {
    NlinvResult result;
    // Only the first frame's power is needed before the work; later ones are read with the residual.
    if (factor == 0) {
      result.power = context.download<double>(frame.power).data()[0];
      if (!(result.power > 0) || !std::isfinite(result.power)) return result;
      factor = options.scale * std::sqrt(static_cast<double>(slices)) / std::sqrt(frame.data_scale * result.power);
    }
    const Context::KeepMemory keep(context);
    const double unit = factor * frame.data_scale;
    combine(right.size(), unit, frame.right.data(), 0, frame.right.data(), right.data());
    if (!begun) {
      make_coils();
      for (int i = 0; i < options.first_passes; ++i) {
        if (i > 0) draw_to_frame_before();
        pass(frame);
      }
      apply_model(frame);
    } else if (std::shared_ptr<void>* const work = recorded_of(frame)) {
      ECHOTRAIN_DISPATCH(context, nlinv_run(context, *work, [&] { later_frame(frame); }));
    } else {
      later_frame(frame);
    }
    inner_products(context, product.cview(), right.cview(), inners.view().part(0, {2}));
    inner_products(context, product.cview(), convolved.cview(), inners.view().part(2, {2}));
    HostArray<double> host = context.allocate_host<double>({5});
    context.copy<double>(inners.cview(), host.view().part(0, {4}));
    context.copy<double>(frame.power, host.view().part(4, {1}));
    // Most images are good, so their work need not wait for the host.
    const std::int64_t ny = to.shape()[to.shape().rank() - 2], nx = to.shape()[to.shape().rank() - 1];
    cfloat* image = to.data();
    for_slices([&](std::int64_t u, std::int64_t i) {
      ECHOTRAIN_DISPATCH(context, nlinv_image(context, problem, static_cast<float>(1 / factor), x.data() + u,
                                              coils.data() + i, ny, nx, image));
      image += ny * nx;
    });
    context.synchronize();
    const double *sums = host.data(), power = sums[4];
    result.power = power;
    const double left = power - 2 * sums[0] / (factor * unit) + sums[2] * frame.matrix_scale / (factor * unit);
    result.residual = power > 0 ? std::sqrt(std::max(0.0, left) / power) : 0;
    if (!std::isfinite(left)) result.residual = left;
    return result;
  }
};

Nlinv::Nlinv(Context& context, std::int64_t coils, const Shape& image, const Shape& field, const NlinvOptions& options,
             std::int64_t slices) {
  check(slices, coils, image, field, options);
  state_ = std::make_unique<State>(context, slices, coils, image, field, options);
}
Nlinv::~Nlinv() = default;

std::int64_t Nlinv::slices() const { return state_->slices; }
std::int64_t Nlinv::coils() const { return state_->problem.coils; }
const Shape& Nlinv::image() const { return state_->extents; }
Shape Nlinv::coefficients() const { return {state_->problem.x.waves(), state_->problem.y.waves()}; }
DeviceView<const cfloat> Nlinv::unknowns() const { return state_->x.cview(); }
void Nlinv::reset() { state_->forget(); }

NlinvResult Nlinv::solve(const NlinvFrame& frame, DeviceView<cfloat> to) {
  State& s = *state_;
  require(frame.right.shape() == s.coils.shape(),
          fmt::format("{} is not {}", frame.right.shape().text(), s.coils.shape().text()));
  require(frame.power.size() == 1 && frame.matrix != nullptr && frame.matrix_scale > 0 && frame.data_scale > 0,
          "a part of the frame is missing");
  const std::size_t first = s.slices > 1 ? 1 : 0;
  bool fits = to.shape().rank() == first + 2 && (first == 0 || to.shape()[0] == s.slices);
  for (std::size_t a = 0; fits && a < 2; ++a)
    fits = to.shape()[first + a] >= 1 && to.shape()[first + a] <= s.extents[a];
  require(fits, fmt::format("{} is not a part of {}", to.shape().text(), of_slices(s.slices, s.extents).text()));
  const NlinvResult result = s.run(frame, to);
  const bool good = result.power > 0 && std::isfinite(result.power) && std::isfinite(result.residual);
  if (good) s.begun = true;
  if (!good && (s.begun || s.factor > 0)) s.forget();  // the state that it left must not reach later frames
  if (!good) s.context.clear<cfloat>(to);
  return result;
}

}  // namespace echotrain::numerics
