#include "gadgets/numerics/inverse/proximal/priors.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "gadgets/numerics/inverse/proximal/vectors.h"
#include "gadgets/numerics/inverse/sparse/low_rank.h"
#include "gadgets/numerics/inverse/sparse/wavelet.h"

namespace echotrain::numerics {
namespace {

/// The random shifts at which wavelets or blocks begin.
class Shifts {
 public:
  std::array<std::int64_t, 3> next(const Shape& series, std::int64_t most) {
    std::array<std::int64_t, 3> shift{};
    for (std::size_t a = 0; a < 3; ++a)
      shift[a] = static_cast<std::int64_t>(engine_() % static_cast<std::uint32_t>(std::min(most, series[a + 1])));
    return shift;
  }

 private:
  std::mt19937 engine_{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same shifts in every run
};

class WaveletPrior final : public ConvexPrior {
 public:
  WaveletPrior(const Shape& series, std::int64_t smallest, bool random)
      : series_(series), whole_(wavelet_extents(series, smallest)), options_{smallest, {}}, random_(random) {}
  bool is_direct() const override { return whole_ == series_; }
  int dual_steps() const override { return 3; }
  Shape coefficients() const override { return whole_; }
  void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> c) const override {
    check(x.shape());
    copy_corner(context, x, c);
  }
  void adjoint(Context& context, DeviceView<const cfloat> c, DeviceView<cfloat> x) const override {
    check(x.shape());
    copy_corner(context, c, x);
  }
  void shrink(Context& context, double threshold, DeviceView<cfloat> c) const override {
    wavelet_analysis(context, c, options_);
    numerics::shrink(context, threshold, c.reshaped({1, c.size()}));
    wavelet_synthesis(context, c, options_);
  }
  double value(Context& context, DeviceView<const cfloat> c) const override {
    Array<cfloat> all = context.allocate<cfloat>(whole_);
    context.copy<cfloat>(c, all.view());
    wavelet_analysis(context, all.view(), {options_.smallest, {}});
    return sum_of_magnitudes(context, all.cview().reshaped({1, all.size()}));
  }
  void shift_on() override {
    constexpr std::int64_t kMostShift = 1 << 20;
    if (random_) options_.shift = shifts_.next(whole_, kMostShift);
  }

 private:
  void check(const Shape& x) const {
    if (!(x == series_))
      throw std::invalid_argument("wavelet prior: " + x.text() + " is not " + series_.text() +
                                  ", which it was made for");
  }

  Shape series_, whole_;
  WaveletOptions options_;
  bool random_;
  Shifts shifts_;
};

class VariationPrior final : public ConvexPrior {
 public:
  VariationPrior(const Shape& series, const DifferenceAxes& axes)
      : axes_(axes), shape_{count(axes, series), series[0], series[1], series[2], series[3]} {}
  bool is_direct() const override { return false; }
  Shape coefficients() const override { return shape_; }
  double bound() const override { return 4 * static_cast<double>(shape_[0]); }
  void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> c) const override {
    differences(context, axes_, x, c);
  }
  void adjoint(Context& context, DeviceView<const cfloat> c, DeviceView<cfloat> x) const override {
    differences_adjoint(context, axes_, c, x);
  }
  void shrink(Context& context, double threshold, DeviceView<cfloat> c) const override {
    numerics::shrink(context, threshold, c);
  }
  void project(Context& context, double threshold, DeviceView<cfloat> c) const override { clip(context, threshold, c); }
  double value(Context& context, DeviceView<const cfloat> c) const override { return sum_of_magnitudes(context, c); }

 private:
  DifferenceAxes axes_;
  Shape shape_;
};

class LowRankPrior final : public ConvexPrior {
 public:
  LowRankPrior(const Shape& series, std::int64_t block, bool random)
      : series_(series), blocks_{block, {}}, random_(random) {
    double voxels = 1;
    for (std::size_t a = 1; a < 4; ++a) voxels *= static_cast<double>(std::min(block, series[a]));
    const auto frames = static_cast<double>(series[0]);
    const double values = static_cast<double>(count(blocks_, series)) * std::min(voxels, frames);
    weight_ = std::sqrt(voxels) + std::sqrt(frames) + std::sqrt(std::log(values));
  }
  Shape coefficients() const override { return series_; }
  void shrink(Context& context, double threshold, DeviceView<cfloat> c) const override {
    shrink_singular_values(context, blocks_, threshold * weight_, c);
  }
  double value(Context& context, DeviceView<const cfloat> c) const override {
    return weight_ * sum_of_singular_values(context, {blocks_.extent, {}}, c);
  }
  void shift_on() override {
    if (random_) blocks_.shift = shifts_.next(series_, blocks_.extent);
  }

 private:
  Shape series_;
  LowRankBlocks blocks_;
  bool random_;
  double weight_ = 1;
  Shifts shifts_;
};

class ReshapedPrior final : public ConvexPrior {
 public:
  ReshapedPrior(std::unique_ptr<ConvexPrior> prior, const Shape& from, const Shape& to)
      : prior_(std::move(prior)), from_(from), inner_(prior_->coefficients()), outer_(is_direct() ? to : inner_) {}
  bool is_direct() const override { return prior_->is_direct(); }
  int dual_steps() const override { return prior_->dual_steps(); }
  Shape coefficients() const override { return outer_; }
  double bound() const override { return prior_->bound(); }
  void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> c) const override {
    prior_->forward(context, x.reshaped(from_), c.reshaped(inner_));
  }
  void adjoint(Context& context, DeviceView<const cfloat> c, DeviceView<cfloat> x) const override {
    prior_->adjoint(context, c.reshaped(inner_), x.reshaped(from_));
  }
  void shrink(Context& context, double threshold, DeviceView<cfloat> c) const override {
    prior_->shrink(context, threshold, c.reshaped(inner_));
  }
  void project(Context& context, double threshold, DeviceView<cfloat> c) const override {
    prior_->project(context, threshold, c.reshaped(inner_));
  }
  double value(Context& context, DeviceView<const cfloat> c) const override {
    return prior_->value(context, c.reshaped(inner_));
  }
  void shift_on() override { prior_->shift_on(); }

 private:
  std::unique_ptr<ConvexPrior> prior_;
  Shape from_, inner_, outer_;
};

}  // namespace

void ConvexPrior::forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> c) const {
  context.copy<cfloat>(x, c);
}

void ConvexPrior::adjoint(Context& context, DeviceView<const cfloat> c, DeviceView<cfloat> x) const {
  context.copy<cfloat>(c, x);
}

void ConvexPrior::project(Context& context, double threshold, DeviceView<cfloat> c) const {
  Array<cfloat> kept = context.allocate<cfloat>(c.shape());
  context.copy<cfloat>(c, kept.view());
  shrink(context, threshold, kept.view());
  weighted_sum(context, {1, c}, {-1, kept.cview()}, c);
}

std::unique_ptr<ConvexPrior> wavelet_prior(const Shape& series, std::int64_t smallest, bool shifts) {
  return std::make_unique<WaveletPrior>(series, smallest, shifts);
}

std::unique_ptr<ConvexPrior> reshaped(std::unique_ptr<ConvexPrior> prior, const Shape& from, const Shape& to) {
  if (!prior || from == to) return prior;
  return std::make_unique<ReshapedPrior>(std::move(prior), from, to);
}

std::unique_ptr<ConvexPrior> variation_prior(const Shape& series, const DifferenceAxes& axes) {
  if (count(axes, series) == 0) return nullptr;
  return std::make_unique<VariationPrior>(series, axes);
}

std::unique_ptr<ConvexPrior> low_rank_prior(const Shape& series, std::int64_t block, bool shifts) {
  return std::make_unique<LowRankPrior>(series, block, shifts);
}

}  // namespace echotrain::numerics
