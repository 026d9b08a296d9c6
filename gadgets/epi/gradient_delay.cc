#include "gadgets/epi/gradient_delay.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gadgets/epi/epi_readouts.h"
#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/epi/navigator.h"

namespace echotrain {
namespace {

using numerics::cdouble;

/// The slope of the phase between reversed lines and others; no value where it cannot be determined.
std::optional<double> slope_with(const std::vector<Readouts>& navigators, std::int64_t points,
                                 const numerics::ProfileTransform& transform, const std::vector<float>& weights) {
  const protocol::AcquisitionHeader& first = navigators.front().heads.front();
  constexpr std::size_t kMostLines = 16;
  numerics::Navigators lines;
  lines.n = points;
  for (const Readouts& each : navigators) {
    const numerics::Shape& shape = each.host_data.shape();
    lines.coils = shape[1];
    std::vector<cfloat> line(static_cast<std::size_t>(shape[1] * points));
    for (std::size_t i = 0; i < each.heads.size(); ++i) {
      if (each.heads[i].idx.slice != first.idx.slice || lines.profiles.size() == kMostLines) continue;
      const bool reversed = is_reversed(each.heads[i]);
      regular_line(weights.data() + (reversed ? shape[2] * points : 0),
                   each.host_data.view().slice(static_cast<std::int64_t>(i)), {line.data(), {shape[1], points}});
      lines.profiles.push_back(transform({line.data(), {shape[1], points}}, reversed));
      lines.reversed.push_back(reversed);
    }
  }
  const std::vector<cdouble> products = numerics::odd_even_products(lines);
  if (products.empty()) return std::nullopt;
  std::vector<cdouble> all(static_cast<std::size_t>(points));
  for (std::size_t i = 0; i < products.size(); ++i) all[i % all.size()] += products[i];
  return numerics::linear_phase(all).slope;
}

/// (re, im) += value * weights.
ECHOTRAIN_CLONES void add_weighted(const float* weights, cfloat value, std::int64_t n, double* re, double* im) {
  const double a = value.real(), b = value.imag();
  for (std::int64_t x = 0; x < n; ++x) {
    re[x] += a * static_cast<double>(weights[x]);
    im[x] += b * static_cast<double>(weights[x]);
  }
}

}  // namespace

void regular_line(const float* weights, numerics::HostView<const cfloat> samples, numerics::HostView<cfloat> line) {
  const std::int64_t coils = samples.shape()[0], count = samples.shape()[1], points = line.shape()[1];
  std::vector<double> re(static_cast<std::size_t>(points)), im(re.size());
  for (std::int64_t c = 0; c < coils; ++c) {
    std::fill(re.begin(), re.end(), 0);
    std::fill(im.begin(), im.end(), 0);
    for (std::int64_t s = 0; s < count; ++s)
      add_weighted(weights + s * points, samples.data()[c * count + s], points, re.data(), im.data());
    for (std::int64_t x = 0; x < points; ++x)
      line.data()[c * points + x] = cfloat(cdouble(re[static_cast<std::size_t>(x)], im[static_cast<std::size_t>(x)]));
  }
}

std::optional<double> gradient_delay(const std::vector<Readouts>& navigators, std::int64_t points,
                                     const std::function<std::vector<float>(double late)>& weights) {
  constexpr int kMostSteps = 8;
  constexpr double kFlat = 1e-5;  // rad a point
  const numerics::ProfileTransform transform(points);
  const auto slope = [&](double late) -> std::optional<double> {
    try {
      return slope_with(navigators, points, transform, weights(late));
    } catch (const std::invalid_argument&) {
      if (late == 0) throw;
      return std::nullopt;  // samples moved so far make no line
    }
  };
  double before = 0, late = 1;
  std::optional<double> slope_before = slope(before), slope_now;
  if (!slope_before) return std::nullopt;
  for (int step = 0; step < kMostSteps; ++step) {
    slope_now = slope(late);
    if (!slope_now) {
      late = (before + late) / 2;
      continue;
    }
    if (std::abs(*slope_now) <= kFlat) break;
    if (*slope_now == *slope_before) return std::nullopt;
    const double next = late - *slope_now * (late - before) / (*slope_now - *slope_before);
    before = late;
    slope_before = slope_now;
    late = next;
    if (!(std::abs(late) <= kMostDelay)) return std::nullopt;
  }
  return slope_now && std::abs(*slope_now) <= kFlat ? std::optional(late) : std::nullopt;
}

}  // namespace echotrain
