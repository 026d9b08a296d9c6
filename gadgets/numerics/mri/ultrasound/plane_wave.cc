#include "gadgets/numerics/mri/ultrasound/plane_wave.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/ultrasound/plane_wave_ops.h"

namespace echotrain::numerics {

void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band) {
  const Shape &s = spectra.shape(), &b = band.shape(), &a = advances.shape();
  const bool good = s.rank() == 3 && b.rank() == 3 && a.rank() == 2 && b[0] == s[1] && a[0] == s[1] && a[1] == s[0] &&
                    b[1] <= s[2] && b[2] >= s[0] && which.first_bin >= 0 && which.first_bin < s[2];
  if (!good)
    throw std::invalid_argument(fmt::format("take_band: {} cannot be taken from bin {} of {} with advances {}",
                                            b.text(), which.first_bin, s.text(), a.text()));
  if (band.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, take_band(context, spectra, advances, which, band));
}

void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data) {
  if (factors.size() != data.size())
    throw std::invalid_argument("multiply " + data.shape().text() + " by " + factors.shape().text());
  if (data.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, multiply(context, factors, data));
}

void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  if (f.rank() != 4 || t.rank() != 4 || f[0] < 1 || !(t == Shape{1, f[1], f[2], f[3]}))
    throw std::invalid_argument("mean_of_channels: " + f.text() + " to " + t.text());
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, mean_of_channels(context, from, magnitudes, to));
}

void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range,
                  DeviceView<cfloat> to) {
  if (from.size() != to.size() || !(reference > 0) || !(range > 0))
    throw std::invalid_argument(fmt::format("log_compress: {} to {}, reference {}, range {}", from.shape().text(),
                                            to.shape().text(), reference, range));
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, log_compress(context, from, reference, range, to));
}

}  // namespace echotrain::numerics
