#include "gadgets/numerics/core/layout/sample_layout.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/layout/sample_layout_ops.h"

namespace echotrain::numerics {
namespace {

void require(bool good, const char* operation, const std::string& problem) {
  if (!good) throw std::invalid_argument(fmt::format("{}: {}", operation, problem));
}

void require_same_size(const char* operation, std::int64_t from, std::int64_t to) {
  require(from == to, operation, fmt::format("{} elements cannot become {}", from, to));
}

}  // namespace

void to_sample_major(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to,
                     std::int64_t first_sample) {
  const Shape &f = from.shape(), &t = to.shape();
  require(f.rank() == 3 && t.rank() == 2, "to_sample_major",
          "expected [readout, coil, sample] and [sample, coil], got " + f.text() + " and " + t.text());
  require(f[1] == t[1], "to_sample_major", fmt::format("{} coils cannot become {}", f[1], t[1]));
  const std::int64_t rows = f[0] * f[2];
  require(first_sample >= 0 && first_sample <= t[0] && rows <= t[0] - first_sample, "to_sample_major",
          fmt::format("rows {}..{} are not in {}", first_sample, first_sample + rows, t.text()));
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, to_sample_major(context, from, to, first_sample));
}

void add_lines(Context& context, DeviceView<const cfloat> from, HostView<const std::int32_t> lines,
               const LinePlacement& placement, DeviceView<cfloat> kspace) {
  const Shape &f = from.shape(), &k = kspace.shape();
  require(f.rank() == 3 && k.rank() == 3, "add_lines",
          "expected [readout, coil, sample] and [coil, line, x], got " + f.text() + " and " + k.text());
  require(f[1] == k[0], "add_lines", fmt::format("{} coils do not fit {}", f[1], k[0]));
  require(lines.size() == f[0], "add_lines", fmt::format("{} line numbers for {} readouts", lines.size(), f[0]));
  const auto [s0, s1, x0] = placement;
  require(0 <= s0 && s0 <= s1 && s1 <= f[2], "add_lines",
          fmt::format("samples {}..{} are not in a readout of {}", s0, s1, f[2]));
  require(0 <= x0 && x0 <= k[2] && s1 - s0 <= k[2] - x0, "add_lines",
          fmt::format("{} samples from x = {} are not in {}", s1 - s0, x0, k[2]));
  for (std::int64_t i = 0; i < lines.size(); ++i)  // lines within the range need no text
    if (lines[i] >= k[1]) require(false, "add_lines", fmt::format("line {} is not in {}", +lines[i], k[1]));
  if (from.size() == 0 || s0 == s1) return;
  ECHOTRAIN_DISPATCH(context, add_lines(context, from, lines, placement, kspace));
}

void scale_lines(Context& context, HostView<const float> factors, DeviceView<cfloat> kspace) {
  const Shape& k = kspace.shape();
  require(k.rank() == 3, "scale_lines", "expected [coil, line, x], got " + k.text());
  require(factors.size() == k[1], "scale_lines", fmt::format("{} factors for {} lines", factors.size(), k[1]));
  if (kspace.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, scale_lines(context, factors, kspace));
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor, DeviceView<float> to,
               DeviceView<PixelTally> tally) {
  require_same_size("component", from.size(), to.size());
  require(what != Component::complex, "component", "a complex image has no real component; use scale()");
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, component(context, from, what, factor, to, tally));
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor,
               DeviceView<std::uint16_t> to, DeviceView<PixelTally> tally) {
  require_same_size("component", from.size(), to.size());
  require(what != Component::complex, "component", "a complex image has no real component; use scale()");
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, component(context, from, what, factor, to, tally));
}

void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to,
           DeviceView<PixelTally> tally) {
  require_same_size("scale", from.size(), to.size());
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, scale(context, from, factor, to, tally));
}

void tally(Context& context, DeviceView<const cfloat> from, DeviceView<PixelTally> tally) {
  require(tally.size() == 1, "tally", "there is nowhere to count");
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, tally(context, from, tally));
}

}  // namespace echotrain::numerics
