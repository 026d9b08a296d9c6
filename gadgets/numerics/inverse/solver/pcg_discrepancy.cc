#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/solver/pcg.h"

namespace echotrain::numerics {
namespace {

void require_for_lambda(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("lambda by discrepancy: " + problem);
}

/// An end of the range that holds the answer: log lambda, and log of residual over target, which rises with it.
struct End {
  double at = 0, excess = 0;
};

}  // namespace

DiscrepancyResult lambda_by_discrepancy(Context& context, const LinearOperator& a, const Regularizer* regularizer,
                                        DeviceView<const cfloat> b, DeviceView<cfloat> x, double data_power,
                                        double samples, double sigma, const PcgOptions& options,
                                        const DiscrepancyOptions& search) {
  require_for_lambda(regularizer != nullptr, "there is nothing to weigh without a regularizer");
  require_for_lambda(b.shape().rank() > 0 && b.shape()[0] == 1 && x.shape() == b.shape(),
                     "it is for one image at a time");
  require_for_lambda(data_power >= 0 && std::isfinite(data_power), fmt::format("|d|^2 cannot be {}", data_power));
  require_for_lambda(samples > 0 && sigma > 0 && std::isfinite(samples * sigma * sigma),
                     fmt::format("{} samples with noise of {} leave no residual to match", samples, sigma));
  require_for_lambda(search.smallest > 0 && search.largest > search.smallest && std::isfinite(search.largest),
                     fmt::format("no lambda is between {} and {}", search.smallest, search.largest));
  require_for_lambda(search.accuracy > 0 && search.solves >= 1, "accuracy and solves must be positive");

  PcgOptions solve = options;
  if (solve.largest_eigenvalue <= 0) solve.largest_eigenvalue = largest_eigenvalue(context, a);
  DiscrepancyResult result;
  result.target = 2 * sigma * sigma * samples;
  Array<cfloat> ax = context.allocate<cfloat>(x.shape());
  const auto excess_at = [&](double log_lambda) {
    solve.lambda = std::exp(log_lambda);
    result.last = pcg(context, a, regularizer, b, x, solve);
    solve.from_zero = false;
    a.apply(context, x, ax.view());
    result.residual = dot(context, DeviceView<const cfloat>(x), ax.cview()) -
                      2 * dot(context, DeviceView<const cfloat>(x), b) + data_power;
    result.lambda = solve.lambda;
    ++result.solves;
    constexpr double kLeast = 1e-9;  // rounding can leave any small number, even below 0
    return End{log_lambda, std::log(std::max(result.residual / result.target, kLeast))};
  };
  const auto good = [&](const End& end) { return std::abs(std::expm1(end.excess)) <= search.accuracy; };
  const auto finish = [&](DiscrepancyResult::Status status) {
    result.status = status;
    return result;
  };
  using Status = DiscrepancyResult::Status;

  // The search goes down from the largest lambda by decades: large ones are solved fast, and each starts where the last
  // ended.
  const double lowest = std::log(search.smallest);
  End high = excess_at(std::log(search.largest));
  if (good(high)) return finish(Status::matched);
  if (high.excess < 0) return finish(Status::above_range);
  End low = high;
  while (low.excess > 0) {
    if (low.at <= lowest) return finish(Status::below_range);
    if (result.solves >= search.solves) return finish(Status::not_matched);
    high = low;
    low = excess_at(std::max(lowest, low.at - std::log(10.0)));
    if (good(low)) return finish(Status::matched);
  }
  while (result.solves < search.solves) {
    const double share = std::clamp(low.excess / (low.excess - high.excess), 0.05, 0.95);
    const End middle = excess_at(low.at + share * (high.at - low.at));
    if (good(middle)) return finish(Status::matched);
    // The excess of the end that stays is halved, so that both ends move (the Illinois method).
    if (middle.excess < 0) {
      low = middle;
      high.excess /= 2;
    } else {
      high = middle;
      low.excess /= 2;
    }
  }
  return finish(Status::not_matched);
}

}  // namespace echotrain::numerics
