#include "gadgets/ultrasound/echo_spectrum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gadgets/numerics/mri/ultrasound/plane_wave.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/ultrasound/echo_geometry.h"

namespace echotrain {

Parameters<EchoSpectrum::Options> EchoSpectrum::parameters() {
  return Parameters<Options>()
      .number("bandwidth_percent", &Options::bandwidth_percent, 1, 200,
              "width of the band kept about the centre frequency, relative to that frequency")
      .number("padding", &Options::padding, 1, 8,
              "columns per element: the zeros beside the array take what the remap moves sideways");
}

void EchoSpectrum::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void EchoSpectrum::process(Echoes&& echoes, const Emit<EchoSpectra>& emit) {
  numerics::Context& compute = scan_->compute;
  const EchoGeometry& geometry = *echoes.geometry;
  const auto& shape = echoes.data.shape();  // [element, wave, sample]
  const std::int64_t elements = shape[0], waves = shape[1], bins = shape[2];
  const EchoFrequencies kept = kept_frequencies(geometry, bins, options_.bandwidth_percent / 100);
  if (kept.count < 1)
    throw ClientError(
        fmt::format("echoes of {:g} MHz, sampled at {:g} MHz, have no frequency within the band of {:g} %",
                    geometry.center_hz / 1e6, geometry.sampling_hz / 1e6, options_.bandwidth_percent));

  // Each wave's delay at each element is undone, so that a column is a spatial frequency of the image.
  std::vector<double> advances;
  for (const auto& wave : geometry.waves)
    for (std::int64_t e = 0; e < elements; ++e)
      advances.push_back(element_mm(geometry, e) * std::sin(wave.angle) / geometry.sound_mm_per_s);

  EchoSpectra out;
  out.frame = echoes.frame;
  out.geometry = echoes.geometry;
  out.first_hz = kept.first_hz;
  out.step_hz = kept.step_hz;
  numerics::fft(compute, echoes.data.view(), 1, numerics::Direction::forward);
  const auto columns = static_cast<std::int64_t>(std::ceil(options_.padding * static_cast<double>(elements)));
  out.data = compute.allocate<cfloat>({waves, kept.count, numerics::fast_even_size(columns)});
  const Array<double> placed = compute.upload<double>({advances.data(), {waves, elements}});
  numerics::take_band(compute, echoes.data.view(), placed.view(), {kept.first_bin, kept.first_hz, kept.step_hz},
                      out.data.view());
  numerics::fft(compute, out.data.view(), 1, numerics::Direction::forward);
  emit(std::move(out));
}

}  // namespace echotrain
