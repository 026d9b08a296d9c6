#include "gadgets/numerics/inverse/proximal/admm.h"

#include <vector>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/proximal/vectors.h"
#include "gadgets/numerics/inverse/solver/pcg.h"

namespace echotrain::numerics {
namespace {

constexpr double kRelaxation = 1.6;

/// The operator A + penalty sum_i G_i^H G_i on a series as one image.
class Augmented final : public LinearOperator {
 public:
  Augmented(const ProximalProblem& problem, double penalty)
      : problem_(problem), penalty_(penalty), image_{problem.b.size()} {}
  const Shape& image() const override { return image_; }
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override {
    const Shape& shape = problem_.b.shape();
    const auto from = x.reshaped(shape);
    const auto to = y.reshaped(shape);
    apply_matrices(context, problem_, from, to);
    double direct = 0;
    for (const WeighedPrior& each : problem_.priors) {
      if (each.prior->is_direct()) {
        direct += penalty_;
        continue;
      }
      Array<cfloat> c = context.allocate<cfloat>(each.prior->coefficients()), back = context.allocate<cfloat>(shape);
      each.prior->forward(context, from, c.view());
      each.prior->adjoint(context, c.cview(), back.view());
      weighted_sum(context, {1, to}, {penalty_, back.cview()}, to);
    }
    if (direct > 0) weighted_sum(context, {1, to}, {direct, from}, to);
  }
  void diagonal(Context& context, DeviceView<float> diagonal) const override {
    const std::int64_t frames = problem_.b.shape()[0], voxels = image_.size() / frames;
    for (std::int64_t f = 0; f < frames; ++f) {
      const auto& matrices = problem_.matrices;
      const LinearOperator& matrix = *matrices[matrices.size() == 1 ? 0 : static_cast<std::size_t>(f)];
      matrix.diagonal(context, diagonal.part(f * voxels, matrix.image()));
    }
  }
  bool circulant(Context& /*context*/, DeviceView<float> /*eigenvalues*/, DeviceView<float> /*share*/) const override {
    return false;
  }
  bool can_be_recorded() const override { return false; }

 private:
  const ProximalProblem& problem_;
  double penalty_;
  Shape image_;
};

/// The state of ADMM: the data have x, and each prior a copy z_i of G_i x; u_i adds up the difference of both.
class Admm final : public ProximalIteration {
 public:
  Admm(Context& context, const ProximalProblem& problem, const ProximalOptions& options, DeviceView<const cfloat> start)
      : context_(context),
        problem_(problem),
        options_(options),
        penalty_(options.penalty * options.bound),
        matrix_(problem, penalty_),
        right_(context.allocate<cfloat>(start.shape())),
        part_(context.allocate<cfloat>(start.shape())) {
    for (const WeighedPrior& each : problem.priors) {
      const Shape shape = each.prior->coefficients();
      copies_.push_back(
          {context.allocate<cfloat>(shape), context.zeros<cfloat>(shape), context.allocate<cfloat>(shape)});
      each.prior->forward(context, start, copies_.back().z.view());
    }
  }

  bool step(DeviceView<cfloat> x) override {
    context_.copy<cfloat>(problem_.b, right_.view());
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      Copy& copy = copies_[i];
      weighted_sum(context_, {1, copy.z.cview()}, {-1, copy.u.cview()}, copy.work.view());
      problem_.priors[i].prior->adjoint(context_, copy.work.cview(), part_.view());
      weighted_sum(context_, {1, right_.cview()}, {penalty_, part_.cview()}, right_.view());
    }
    PcgOptions inner;
    inner.iterations = options_.inner;
    inner.tolerance = kInnerTolerance;
    const Shape whole{1, x.size()};
    const PcgItem found =
        pcg(context_, matrix_, nullptr, right_.cview().reshaped(whole), x.reshaped(whole), inner).items.at(0);
    // Where numbers overflow, pcg gives 0; any other breakdown leaves a good iterate.
    if (found.status == PcgStatus::broke_down && norm(context_, DeviceView<const cfloat>(x)) == 0) return false;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      Copy& copy = copies_[i];
      const WeighedPrior& each = problem_.priors[i];
      each.prior->forward(context_, x, copy.work.view());
      weighted_sum(context_, {kRelaxation, copy.work.cview()}, {1 - kRelaxation, copy.z.cview()}, copy.work.view());
      weighted_sum(context_, {1, copy.work.cview()}, {1, copy.u.cview()}, copy.u.view());
      context_.copy<cfloat>(copy.u.cview(), copy.z.view());
      each.prior->shrink(context_, options_.lambda * each.weight / penalty_, copy.z.view());
      weighted_sum(context_, {1, copy.u.cview()}, {-1, copy.z.cview()}, copy.u.view());
    }
    return true;
  }

 private:
  static constexpr double kInnerTolerance = 1e-5;  // relative to |F x - d| and the copies together
  struct Copy {
    Array<cfloat> z, u, work;
  };

  Context& context_;
  const ProximalProblem& problem_;
  ProximalOptions options_;
  double penalty_;
  Augmented matrix_;
  Array<cfloat> right_, part_;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<ProximalIteration> make_admm(Context& context, const ProximalProblem& problem,
                                             const ProximalOptions& options, DeviceView<const cfloat> start) {
  return std::make_unique<Admm>(context, problem, options, start);
}

}  // namespace echotrain::numerics
