#include "gadgets/images/kspace/filter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

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

WindowKind kind_of(const Filter::Options& options) {
  return options.shape == "hann"    ? WindowKind::hann
         : options.shape == "tukey" ? WindowKind::tukey
                                    : WindowKind::gaussian;
}
double parameter_of(const Filter::Options& options) { return options.shape == "tukey" ? options.alpha : options.sigma; }
/// True if axis a (z, y, x) of n points is to have a window.
bool wanted(const Filter::Options& options, std::size_t a, std::int64_t n) {
  return n > 1 && options.axes.find("zyx"[a]) != std::string::npos;
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
      .text("axes", &Options::axes, "the axes that the window is for, some of x, y and z")
      .flag("elliptic", &Options::elliptic, "one window of the radius, instead of one along each axis");
}

Filter::Filter(Options options) : options_(checked(std::move(options))) {}

KSpaceChange Filter::change(const numerics::Shape& n, const std::array<std::optional<double>, 3>& reach) const {
  const WindowKind kind = kind_of(options_);
  const double parameter = parameter_of(options_);
  std::array<std::vector<float>, 3> factors;
  std::array<double, 3> radii{};
  for (std::size_t a = 0; a < 3; ++a) {
    if (!reach[a] || !wanted(options_, a, n[a + 1])) continue;
    radii[a] = std::max(*reach[a], 1.0);
    if (!options_.elliptic)
      factors[a] = numerics::window(n[a + 1], n[a + 1] / 2, options_.width * radii[a], kind, parameter);
  }
  return [this, kind, parameter, factors,
          radii](numerics::DeviceView<cfloat> kspace) -> std::map<std::string, std::string> {
    if (options_.elliptic)
      numerics::multiply_radius(scan_->compute, kspace, radii, options_.width, kind, parameter);
    else
      numerics::multiply_axes(scan_->compute, kspace, factors);
    return {{"filter", options_.shape + (options_.elliptic ? ", elliptic" : "")}};
  };
}

void Filter::process(KSpace&& kspace, const Emit<KSpace>& emit) {
  const auto& n = kspace.data.shape();  // [coil, z, y, x]
  std::array<std::int64_t, 3> first{}, last{n[1], n[2], n[3]};
  if (kspace.lines && kspace.lines->count() > 0) {
    const SampledLines& lines = *kspace.lines;
    first = {lines.first[1], lines.first[0], lines.first_x};
    last = {lines.last[1] + 1, lines.last[0] + 1, lines.last_x};
  }
  std::array<std::optional<double>, 3> reach;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t center = n[a + 1] / 2;
    reach[a] = static_cast<double>(std::max(center - first[a], last[a] - 1 - center));
  }
  kspace.image_noise = 0;
  kspace.frame = with_notes(*kspace.frame, change(n, reach)(kspace.data.view()));
  emit(std::move(kspace));
}

std::optional<KSpaceChange> Filter::change_of(const CoilImages& images, const AcquiredExtent& extent) const {
  if (has_own_unit(*images.frame) || are_phases(*images.frame, *scan_, kName)) return std::nullopt;
  const auto& n = images.data.shape();  // [coil, z, y, x]
  const auto ranges = extent.of(*images.frame);
  std::array<std::optional<double>, 3> reach;
  for (std::size_t a = 0; a < 3; ++a) {
    if (ranges[a])
      reach[a] = std::max(-ranges[a]->first, ranges[a]->last);
    else if (!images.frame->acquired)
      reach[a] = static_cast<double>(n[a + 1] / 2);
  }
  return change(n, reach);
}

}  // namespace echotrain
