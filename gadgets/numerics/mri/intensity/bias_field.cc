#include "gadgets/numerics/mri/intensity/bias_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/intensity/bias_field_ops.h"

namespace echotrain::numerics {
namespace {

Thinning thinning_of(const Extents& extents, const BiasFieldOptions& options) {
  Thinning out;
  const std::int64_t most = extents[0] > 1 ? options.most_voxels_3d : options.most_voxels_2d;
  for (;;) {
    for (std::size_t a = 0; a < 3; ++a) {
      out.first[a] = std::min(out.step[a] / 2, extents[a] - 1);
      out.n[a] = (extents[a] - out.first[a] + out.step[a] - 1) / out.step[a];
    }
    if (volume(out.n) <= most) return out;
    ++out.step[static_cast<std::size_t>(std::max_element(out.n.begin(), out.n.end()) - out.n.begin())];
  }
}

BiasSignal signal_of(HostView<const float> magnitude, const Extents& extents, const Thinning& thin, double threshold) {
  std::vector<double> values;
  for (std::int64_t z = 0; z < thin.n[0]; ++z)
    for (std::int64_t y = 0; y < thin.n[1]; ++y)
      for (std::int64_t x = 0; x < thin.n[2]; ++x)
        values.push_back(
            magnitude[((thin.first[0] + z * thin.step[0]) * extents[1] + thin.first[1] + y * thin.step[1]) *
                          extents[2] +
                      thin.first[2] + x * thin.step[2]]);
  if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
    throw std::invalid_argument("bias field: the image holds voxels that are not finite numbers");
  std::vector<double> sorted = values;
  const auto high = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(values.size() - 1, values.size() * 99 / 100));
  std::nth_element(sorted.begin(), high, sorted.end());
  const double strong = *high > 0 ? *high : *std::max_element(values.begin(), values.end());
  BiasSignal out;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (!(values[v] > 0 && values[v] >= threshold * strong)) continue;
    out.at.push_back(v);
    out.logarithm.push_back(std::log(values[v]));
  }
  return out;
}

}  // namespace

BiasFieldFacts bias_field(Context& context, DeviceView<const float> magnitude, const BiasFieldOptions& options,
                          DeviceView<float> field) {
  if (magnitude.shape().rank() != 3 || !(magnitude.shape() == field.shape()) || magnitude.size() == 0)
    throw std::invalid_argument(
        fmt::format("bias field: {} and {} are not one volume", magnitude.shape().text(), field.shape().text()));
  const Extents extents = last_axes(magnitude.shape(), 3);
  const Thinning thin = thinning_of(extents, options);
  HostArray<float> copy;
  if (context.cuda()) copy = context.download<float>(magnitude);
  const HostView<const float> host(context.cuda() ? copy.data() : magnitude.data(), magnitude.shape());
  return ECHOTRAIN_DISPATCH(
      context, fit_bias_field(context, thin, signal_of(host, extents, thin, options.threshold), options, field));
}

}  // namespace echotrain::numerics
