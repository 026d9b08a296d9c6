#include "gadgets/images/filter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/partial/window.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {

using numerics::WindowKind;

namespace {

Filter::Options checked(Filter::Options options) {
  if (options.axes.empty() || options.axes.find_first_not_of("xyz") != std::string::npos)
    throw std::invalid_argument("axes: expected some of x, y and z, not '" + options.axes + "'");
  return options;
}

/// The window of axis a (z, y, x) of n points, whose outermost acquired sample is `reach` from the centre; empty if
/// none is wanted.
std::vector<float> window_of(const Filter::Options& options, std::size_t a, std::int64_t n, double reach) {
  if (n == 1 || options.axes.find("zyx"[a]) == std::string::npos) return {};
  const WindowKind kind = options.shape == "hann"    ? WindowKind::hann
                          : options.shape == "tukey" ? WindowKind::tukey
                                                     : WindowKind::gaussian;
  return numerics::window(n, n / 2, options.width * std::max(reach, 1.0), kind,
                          kind == WindowKind::tukey ? options.alpha : options.sigma);
}

}  // namespace

Parameters<Filter::Options> Filter::parameters() {
  return Parameters<Options>()
      .choice("shape", &Options::shape, {"hann", "tukey", "gaussian"},
              "hann: a cosine from the centre to the edge. tukey: 1 in the middle, a cosine at the edge. gaussian: the "
              "bell of that width")
      .number(
          "width", &Options::width, 0.1, 2,
          "where the window ends (gaussian: what sigma counts in), as a part of the distance from the centre to the "
          "outermost sample acquired")
      .number("alpha", &Options::alpha, 0, 1, "tukey only; part of the width that the cosine takes")
      .number("sigma", &Options::sigma, 0.05, 2, "gaussian only; standard deviation as a part of the width")
      .text("axes", &Options::axes, "the axes that the window is for, some of x, y and z");
}

Filter::Filter(Options options) : options_(checked(std::move(options))) {}

void Filter::process(KSpace&& kspace, const Emit<KSpace>& emit) {
  const auto& n = kspace.data.shape();  // [coil, z, y, x]
  std::array<std::int64_t, 3> first{}, last{n[1], n[2], n[3]};
  if (kspace.lines && kspace.lines->count() > 0) {
    const SampledLines& lines = *kspace.lines;
    first = {lines.first[1], lines.first[0], lines.first_x};
    last = {lines.last[1] + 1, lines.last[0] + 1, lines.last_x};
  }
  std::array<std::vector<float>, 3> factors;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t extent = n[a + 1], center = extent / 2;
    factors[a] = window_of(options_, a, extent, static_cast<double>(std::max(center - first[a], last[a] - 1 - center)));
  }
  numerics::multiply_axes(scan_->compute, kspace.data.view(), factors);
  kspace.frame = with_notes(*kspace.frame, {{"filter", options_.shape}});
  emit(std::move(kspace));
}

FilterOfImages::FilterOfImages(Options options) : options_(checked(std::move(options))) {}

void FilterOfImages::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  extent_ = AcquiredExtent(header);
}

void FilterOfImages::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (has_own_unit(*images.frame) || are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  const auto& n = images.data.shape();  // [coil, z, y, x]
  const auto ranges = extent_.of(*images.frame);
  std::array<std::vector<float>, 3> factors;
  for (std::size_t a = 0; a < 3; ++a) {
    const auto half = static_cast<double>(n[a + 1] / 2);
    if (images.frame->acquired && !ranges[a]) continue;
    factors[a] = window_of(options_, a, n[a + 1], ranges[a] ? std::max(-ranges[a]->first, ranges[a]->last) : half);
  }
  numerics::Context& compute = scan_->compute;
  Array<cfloat> kspace = compute.allocate<cfloat>(n);
  const numerics::Shape whole{n[1], n[2], n[3]};
  numerics::centered_fft(compute, images.data.view(), kspace.view(), whole, 3, numerics::Direction::forward,
                         1.0f / static_cast<float>(whole.size()));
  numerics::multiply_axes(compute, kspace.view(), factors);
  CoilImages out;
  out.frame = with_notes(*images.frame, {{"filter", options_.shape}});
  out.data = compute.allocate<cfloat>(n);
  numerics::centered_fft(compute, kspace.view(), out.data.view(), whole, 3, numerics::Direction::inverse, 1);
  emit(std::move(out));
}

}  // namespace echotrain
