#include "gadgets/ultrasound/stolt_migration.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "gadgets/numerics/mri/ultrasound/plane_wave.h"
#include "gadgets/ultrasound/echo_geometry.h"

namespace echotrain {
namespace {

constexpr std::int64_t kMostSamples = 1 << 24;  // in a wave's spectrum; a plan for so many takes about 1 GB

void check_direction(const Vector& direction, const char* name, const char* meaning) {
  if (!(std::abs(dot(direction, direction) - 1) < 1e-3))
    throw ClientError(fmt::format("{} of ultrasound readouts must be a unit vector: it points {}", name, meaning));
}

}  // namespace

Parameters<StoltMigration::Options> StoltMigration::parameters() {
  using Nufft = numerics::NufftOptions;
  return Parameters<Options>()
      .integer("kernel_width", &Options::kernel_width, Nufft::kNarrowest, Nufft::kWidest,
               "width of the interpolation kernel")
      .unit("grid cells")
      .number("oversampling", &Options::oversampling, Nufft::kLeastOversampling, Nufft::kMostOversampling,
              "oversampling of the grid that the kernel interpolates on")
      .number("max_angle_deg", &Options::most_angle, 1, 90,
              "largest angle of echoes to the array's normal; echoes from farther aside are left out")
      .unit("degrees");
}

void StoltMigration::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    if (encoding.recon.matrix[2] != 1)
      throw ClientError("ultrasound images are slices: the header's reconSpace must have a matrix of 1 along z");
    recon_.push_back(encoding.recon);
  }
}

StoltMigration::Setting StoltMigration::setting_of(const EchoSpectra& spectra) const {
  const auto& reference = spectra.frame->reference;
  const Vector along = read_direction(reference), down = phase_direction(reference), at = position_of(reference);
  check_direction(along, "read_dir", "along the array");
  check_direction(down, "phase_dir", "away from it, in depth");
  const auto& recon = recon_.at(spectra.frame->key.encoding);
  Setting out;
  out.x = {recon.matrix[0], recon.fov_mm[0] / recon.matrix[0], dot(at, along)};
  out.z = {recon.matrix[1], recon.fov_mm[1] / recon.matrix[1], dot(at, down)};
  out.geometry = *spectra.geometry;
  out.geometry.waves.clear();
  out.first_hz = spectra.first_hz;
  out.step_hz = spectra.step_hz;
  out.frequencies = spectra.data.shape()[1];
  out.columns = spectra.data.shape()[2];
  return out;
}

StoltMigration::Remap StoltMigration::make(const EchoGeometry::Wave& wave) const {
  numerics::Context& compute = scan_->compute;
  const EchoGeometry& geometry = setting_.geometry;
  const std::int64_t columns = setting_.columns, count = setting_.frequencies * columns;
  if (count > kMostSamples)
    throw ClientError(fmt::format("echoes of {} frequencies in {} columns are more than {} values per wave",
                                  setting_.frequencies, columns, kMostSamples));
  HostArray<double> places = compute.allocate_host<double>({count, 2});
  HostArray<cfloat> factors = compute.allocate_host<cfloat>({setting_.frequencies, columns});
  const double sine = std::sin(wave.angle), cosine = std::cos(wave.angle);
  const double most = std::sin(options_.most_angle * std::numbers::pi / 180), period = 1 / geometry.pitch_mm;
  // The analytic signal of RF has twice the amplitude of its positive frequencies.
  const double scale = (geometry.demodulated_hz > 0 ? 1.0 : 2.0) / static_cast<double>(count);
  compute.threads().parallel_for(setting_.frequencies, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * columns; i < end * columns; ++i) {
      const double hz = setting_.first_hz + static_cast<double>(i / columns) * setting_.step_hz;
      const double k = hz / geometry.sound_mm_per_s;
      // A column stands for spatial frequencies a period apart; that of the echoes is the one nearest to 0.
      const double column = static_cast<double>(i % columns) / static_cast<double>(columns) * period;
      const double u = std::remainder(column - k * sine, period), root = std::sqrt(k * k - u * u);
      const double fx = u + k * sine, fz = k * cosine + root;
      const bool kept = std::abs(u) < k * most && root > 0;
      constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();
      places.data()[2 * i] = kept ? fx * setting_.x.size : kNowhere;
      places.data()[2 * i + 1] = kept ? fz * setting_.z.size : kNowhere;
      // The Jacobian times root / k, which removes the Jacobian's pole for echoes from the side.
      const double weight = kept ? scale * (root * cosine + k + u * sine) / k : 0;
      const double cycles = fx * (setting_.x.center - element_mm(geometry, 0)) + fz * setting_.z.center -
                            (hz - geometry.demodulated_hz) * wave.first_sample;
      factors.data()[i] = kept ? cfloat(std::polar(weight, 2 * std::numbers::pi * std::remainder(cycles, 1.0))) : 0;
    }
  });
  numerics::NufftOptions options;
  options.kernel_width = static_cast<int>(options_.kernel_width);
  options.oversampling = options_.oversampling;
  options.use = numerics::NufftUse::adjoint;
  return {numerics::NufftPlan::make(compute, places.view(), {setting_.z.count, setting_.x.count}, options),
          compute.place(factors)};
}

void StoltMigration::process(EchoSpectra&& spectra, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const std::vector<EchoGeometry::Wave>& waves = spectra.geometry->waves;
  if (Setting setting = setting_of(spectra); !(setting == setting_) || remaps_.size() > 2 * waves.size()) {
    remaps_.clear();
    setting_ = std::move(setting);
  }
  CoilImages out;
  out.frame = spectra.frame;
  out.data = compute.allocate<cfloat>({static_cast<std::int64_t>(waves.size()), 1, setting_.z.count, setting_.x.count});
  for (std::size_t w = 0; w < waves.size(); ++w) {
    auto remap = remaps_.find(waves[w]);
    if (remap == remaps_.end()) remap = remaps_.emplace(waves[w], make(waves[w])).first;
    const auto wave = static_cast<std::int64_t>(w);
    const numerics::DeviceView<cfloat> samples = spectra.data.view().slice(wave);
    numerics::multiply(compute, remap->second.factors.view(), samples);
    remap->second.plan->adjoint(compute, samples.reshaped({samples.size(), 1}), {}, out.data.view().slice(wave));
  }
  emit(std::move(out));
}

}  // namespace echotrain
