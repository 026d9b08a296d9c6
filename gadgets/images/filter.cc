#include "gadgets/images/filter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/partial/window.h"

namespace echotrain {

using numerics::WindowKind;

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

Filter::Filter(Options options) : options_(std::move(options)) {
  if (options_.axes.empty() || options_.axes.find_first_not_of("xyz") != std::string::npos)
    throw std::invalid_argument("axes: expected some of x, y and z, not '" + options_.axes + "'");
}

void Filter::process(KSpace&& kspace, const Emit<KSpace>& emit) {
  const auto& n = kspace.data.shape();  // [coil, z, y, x]
  std::array<std::int64_t, 3> first{}, last{n[1], n[2], n[3]};
  if (kspace.lines && kspace.lines->count() > 0) {
    const SampledLines& lines = *kspace.lines;
    first = {lines.first[1], lines.first[0], lines.first_x};
    last = {lines.last[1] + 1, lines.last[0] + 1, lines.last_x};
  }
  const WindowKind kind = options_.shape == "hann"    ? WindowKind::hann
                          : options_.shape == "tukey" ? WindowKind::tukey
                                                      : WindowKind::gaussian;
  std::array<std::vector<float>, 3> factors;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t extent = n[a + 1], center = extent / 2;
    if (extent == 1 || options_.axes.find("zyx"[a]) == std::string::npos) continue;
    const auto reach = static_cast<double>(std::max<std::int64_t>({center - first[a], last[a] - 1 - center, 1}));
    factors[a] = numerics::window(extent, center, options_.width * reach, kind,
                                  kind == WindowKind::tukey ? options_.alpha : options_.sigma);
  }
  numerics::multiply_axes(scan_->compute, kspace.data.view(), factors);
  kspace.frame = with_notes(*kspace.frame, {{"filter", options_.shape}});
  emit(std::move(kspace));
}

}  // namespace echotrain
