#include "gadgets/numerics/inverse/proximal/fista.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/proximal/vectors.h"

namespace echotrain::numerics {
namespace {

/// Nesterov's sequence of momenta.
class Momentum {
 public:
  double next() {
    const double before = t_;
    t_ = (1 + std::sqrt(1 + 4 * t_ * t_)) / 2;
    return (before - 1) / t_;
  }
  void restart() { t_ = 1; }

 private:
  double t_ = 1;
};

/// The proximal map of a sum of priors: u becomes the x with the least |x - u|^2 / 2 + sum_i t_i h_i(G_i x). Without a
/// closed form it is x = u - sum_i G_i^H p_i, p_i in the set that ConvexPrior::project() projects on; each call begins
/// with the p of the previous call.
class ProximalMap {
 public:
  ProximalMap(Context& context, const std::vector<WeighedPrior>& priors, const Shape& series, int inner)
      : context_(context), priors_(priors), inner_(inner) {
    if (closed()) return;
    if (priors.size() == 1) inner_ = std::min(inner, priors[0].prior->dual_steps());
    sum_ = context.allocate<cfloat>(series);
    part_ = context.allocate<cfloat>(series);
    double bound = 0;
    for (const WeighedPrior& each : priors) {
      bound += each.prior->bound();
      const Shape shape = each.prior->coefficients();
      duals_.push_back({context.zeros<cfloat>(shape), context.zeros<cfloat>(shape), context.allocate<cfloat>(shape)});
    }
    step_ = 1 / bound;
  }

  void apply(double threshold, DeviceView<cfloat> u) {
    if (priors_.empty()) return;
    if (closed()) return priors_[0].prior->shrink(context_, threshold * priors_[0].weight, u);
    Momentum momentum;
    for (Dual& dual : duals_) context_.copy<cfloat>(dual.p.cview(), dual.ahead.view());
    for (int i = 0; i < inner_; ++i) {
      context_.check_stop();
      sum_adjoints(&Dual::ahead, u);
      const double share = momentum.next();
      for (std::size_t k = 0; k < duals_.size(); ++k) {
        Dual& dual = duals_[k];
        const WeighedPrior& each = priors_[k];
        each.prior->forward(context_, sum_.cview(), dual.next.view());
        weighted_sum(context_, {1, dual.ahead.cview()}, {step_, dual.next.cview()}, dual.next.view());
        each.prior->project(context_, threshold * each.weight, dual.next.view());
        weighted_sum(context_, {1 + share, dual.next.cview()}, {-share, dual.p.cview()}, dual.ahead.view());
        std::swap(dual.p, dual.next);
      }
    }
    sum_adjoints(&Dual::p, u);
    context_.copy<cfloat>(sum_.cview(), u);
  }

 private:
  struct Dual {
    Array<cfloat> p, ahead, next;
  };
  bool closed() const { return priors_.empty() || (priors_.size() == 1 && priors_[0].prior->is_direct()); }

  /// sum_ = u - sum_i G_i^H of the duals.
  void sum_adjoints(Array<cfloat> Dual::*of, DeviceView<const cfloat> u) {
    for (std::size_t k = 0; k < duals_.size(); ++k) {
      priors_[k].prior->adjoint(context_, (duals_[k].*of).cview(), part_.view());
      weighted_sum(context_, {1, k == 0 ? u : sum_.cview()}, {-1, part_.cview()}, sum_.view());
    }
  }

  Context& context_;
  const std::vector<WeighedPrior>& priors_;
  int inner_;
  double step_ = 1;
  std::vector<Dual> duals_;
  Array<cfloat> sum_, part_;
};

class Fista final : public ProximalIteration {
 public:
  Fista(Context& context, const ProximalProblem& problem, const ProximalOptions& options,
        DeviceView<const cfloat> start)
      : context_(context),
        problem_(problem),
        options_(options),
        map_(context, problem.priors, start.shape(), options.inner),
        ahead_(context.allocate<cfloat>(start.shape())),
        next_(context.allocate<cfloat>(start.shape())) {
    context.copy<cfloat>(start, ahead_.view());
  }

  bool step(DeviceView<cfloat> x) override {
    const double step = 1 / options_.bound;
    apply_matrices(context_, problem_, ahead_.cview(), next_.view());
    weighted_sum(context_, {1, ahead_.cview()}, {-step, next_.cview()}, {step, problem_.b}, next_.view());
    map_.apply(step * options_.lambda, next_.view());
    // Tests for uphill: the step's change of the point ahead is opposed to the change of x.
    weighted_sum(context_, {1, ahead_.cview()}, {-1, next_.cview()}, ahead_.view());
    weighted_sum(context_, {1, next_.cview()}, {-1, x}, x);
    if (dot(context_, ahead_.cview(), DeviceView<const cfloat>(x)) > 0) momentum_.restart();
    weighted_sum(context_, {1, next_.cview()}, {momentum_.next(), x}, ahead_.view());
    context_.copy<cfloat>(next_.cview(), x);
    return true;
  }

 private:
  Context& context_;
  const ProximalProblem& problem_;
  ProximalOptions options_;
  ProximalMap map_;
  Momentum momentum_;
  Array<cfloat> ahead_, next_;
};

}  // namespace

std::unique_ptr<ProximalIteration> make_fista(Context& context, const ProximalProblem& problem,
                                              const ProximalOptions& options, DeviceView<const cfloat> start) {
  return std::make_unique<Fista>(context, problem, options, start);
}

}  // namespace echotrain::numerics
