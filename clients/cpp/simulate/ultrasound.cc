#include "clients/cpp/simulate/ultrasound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <ostream>
#include <random>

#include "clients/cpp/base/parallel.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/readout_writer.h"
#include "clients/cpp/simulate/subject/coils.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

constexpr double kFirstMm = 4;      // depth at which recording and the image begin
constexpr double kBandwidth = 0.5;  // of the pulse at half its amplitude, as a share of the centre frequency
constexpr double kScatterersPerCell = 10, kMostScatterers = 1e7;

double sound_mm_per_us(const UltrasoundOptions& u) { return u.sound_m_per_s / 1000; }
double aperture_mm(const UltrasoundOptions& u) { return u.elements * u.pitch_mm; }

/// Samples until the echo of the farthest corner has arrived.
int samples_of(const UltrasoundOptions& u) {
  const double last_mm = u.depth_mm + std::hypot(u.depth_mm, aperture_mm(u));
  return static_cast<int>(std::ceil((last_mm / sound_mm_per_us(u) - first_sample_us(u)) * u.sampling_mhz));
}

/// Width of the envelope exp(-t^2 / (2 width^2)) [us].
double pulse_width_us(const UltrasoundOptions& u) {
  return std::sqrt(2 * std::numbers::ln2) / (std::numbers::pi * kBandwidth * u.center_mhz);
}

double wavelength_mm(const UltrasoundOptions& u) { return sound_mm_per_us(u) / u.center_mhz; }

/// Number of scatterers of speckle in the whole image.
double scatterers_of_speckle(const UltrasoundOptions& u) {
  const double cell = 2 * wavelength_mm(u) * wavelength_mm(u);
  return kScatterersPerCell * aperture_mm(u) * (u.depth_mm - kFirstMm) / cell;
}

void check_ultrasound(const SimulateOptions& o) {
  const UltrasoundOptions& u = o.ultrasound;
  if (o.phantom != "points" && o.phantom != "speckle")
    throw UsageError("unknown phantom '" + o.phantom + "' for ultrasound; use points or speckle");
  if (u.depth_mm <= 2 * kFirstMm) throw UsageError(fmt::format("give --depth-mm above {:g}", 2 * kFirstMm));
  if (o.phantom == "speckle" && scatterers_of_speckle(u) > kMostScatterers)
    throw UsageError(
        fmt::format("speckle of {:.2g} scatterers is more than {:.0g}: give a smaller --depth-mm or a lower "
                    "--center-mhz",
                    scatterers_of_speckle(u), kMostScatterers));
  if (samples_of(u) > 65535)
    throw UsageError(
        fmt::format("{} samples are more than a readout holds: give a smaller --depth-mm or a lower "
                    "--sampling-mhz",
                    samples_of(u)));
}

std::string header_text(const SimulateOptions& o, int samples) {
  const UltrasoundOptions& u = o.ultrasound;
  const double depth = u.depth_mm - kFirstMm;
  const auto space = [&](const char* name, int nx, int ny, double fov_x, double fov_y) {
    return fmt::format(
        "    <{0}>\n"
        "      <matrixSize><x>{1}</x><y>{2}</y><z>1</z></matrixSize>\n"
        "      <fieldOfView_mm><x>{3}</x><y>{4}</y><z>{5}</z></fieldOfView_mm>\n"
        "    </{0}>\n",
        name, nx, ny, fov_x, fov_y, kSliceMm);
  };
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">\n"
             "  <acquisitionSystemInformation>\n"
             "    <systemVendor>Echotrain</systemVendor>\n"
             "    <systemModel>simulate ultrasound {}</systemModel>\n"
             "    <receiverChannels>{}</receiverChannels>\n"
             "  </acquisitionSystemInformation>\n"
             "  <experimentalConditions><H1resonanceFrequency_Hz>0</H1resonanceFrequency_Hz></experimentalConditions>\n"
             "  <encoding>\n",
             o.phantom, u.elements) +
         space("encodedSpace", samples, u.angles, aperture_mm(u), depth) +
         space("reconSpace", o.matrix, o.matrix, aperture_mm(u), depth) +
         fmt::format(
             "    <encodingLimits>\n"
             "      <kspace_encoding_step_1><minimum>0</minimum><maximum>{}</maximum><center>0</center>"
             "</kspace_encoding_step_1>\n"
             "      <repetition><minimum>0</minimum><maximum>{}</maximum><center>0</center></repetition>\n"
             "    </encodingLimits>\n"
             "    <trajectory>other</trajectory>\n"
             "  </encoding>\n"
             "</ismrmrdHeader>\n",
             u.angles - 1, o.frames - 1);
}

protocol::AcquisitionHeader head_of(const SimulateOptions& o, int samples, int frame, int wave, double angle_deg) {
  const UltrasoundOptions& u = o.ultrasound;
  protocol::AcquisitionHeader head{};
  head.version = 1;
  head.measurement_uid = 1;
  head.scan_counter = static_cast<std::uint32_t>(frame * u.angles + wave);
  head.number_of_samples = static_cast<std::uint16_t>(samples);
  head.available_channels = head.active_channels = static_cast<std::uint16_t>(u.elements);
  for (int c = 0; c < u.elements; ++c) head.channel_mask[c / 64] |= 1ull << (c % 64);
  head.sample_time_us = static_cast<float>(1 / u.sampling_mhz);
  head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
  head.position[1] = static_cast<float>((kFirstMm + u.depth_mm) / 2);
  head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(wave);
  head.idx.repetition = static_cast<std::uint16_t>(frame);
  const std::array<double, 6> fields{angle_deg,       first_sample_us(u), u.pitch_mm,
                                     u.sound_m_per_s, u.center_mhz,       u.iq ? u.center_mhz : 0};
  for (std::size_t i = 0; i < fields.size(); ++i) head.user_float[i] = static_cast<float>(fields[i]);
  raise_flag(head, wave == 0, ISMRMRD::ISMRMRD_ACQ_FIRST_IN_REPETITION);
  raise_flag(head, wave + 1 == u.angles, ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION);
  raise_flag(head, wave + 1 == u.angles && frame + 1 == o.frames, ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT);
  return head;
}

}  // namespace

double first_sample_us(const UltrasoundOptions& u) { return 2 * kFirstMm / sound_mm_per_us(u) * 0.8; }

std::vector<Scatterer> scatterers(const SimulateOptions& o) {
  const UltrasoundOptions& u = o.ultrasound;
  const double half = aperture_mm(u) / 2, depth = u.depth_mm - kFirstMm;
  if (o.phantom == "points")
    return {{-0.4 * half, kFirstMm + 0.3 * depth, 1},
            {0.3 * half, kFirstMm + 0.42 * depth, 1},
            {-0.15 * half, kFirstMm + 0.6 * depth, 1},
            {0.2 * half, kFirstMm + 0.8 * depth, 1}};
  std::mt19937_64 random(o.seed);
  std::uniform_real_distribution<double> x(-half, half), z(kFirstMm, u.depth_mm);
  std::normal_distribution<double> amplitude;
  std::vector<Scatterer> out;
  const double radius = std::min(half, depth) / 4, middle = kFirstMm + depth / 2;
  for (auto i = static_cast<std::int64_t>(scatterers_of_speckle(u)); i > 0; --i) {
    Scatterer s;
    s.x = x(random);
    s.z = z(random);
    s.amplitude = amplitude(random);
    if (std::hypot(s.x, s.z - middle) > radius) out.push_back(s);
  }
  return out;
}

std::vector<double> wave_angles(const UltrasoundOptions& u) {
  std::vector<double> angles;
  for (int i = 0; i < u.angles; ++i)
    angles.push_back(u.angles == 1 ? 0 : u.angle_span_deg * (static_cast<double>(i) / (u.angles - 1) - 0.5));
  return angles;
}

std::vector<std::complex<float>> echoes(const UltrasoundOptions& u, const std::vector<Scatterer>& phantom,
                                        double angle_deg) {
  const int samples = samples_of(u);
  const double c = sound_mm_per_us(u), begin = first_sample_us(u), width = pulse_width_us(u), reach = 5 * width;
  const double angle = static_cast<double>(static_cast<float>(angle_deg)) * std::numbers::pi / 180;
  std::vector<std::complex<float>> data(static_cast<std::size_t>(u.elements) * static_cast<std::size_t>(samples));
  parallel_for(static_cast<std::size_t>(u.elements), [&](std::size_t e) {
    const double place = (static_cast<double>(e) - (u.elements - 1) / 2.0) * u.pitch_mm;
    std::vector<std::complex<double>> trace(static_cast<std::size_t>(samples));
    for (const Scatterer& s : phantom) {
      const double way = std::hypot(s.x - place, s.z);
      const double arrival = (s.z * std::cos(angle) + s.x * std::sin(angle) + way) / c;
      const double amplitude = s.amplitude / std::sqrt(way);
      const int first = std::max(0, static_cast<int>(std::ceil((arrival - reach - begin) * u.sampling_mhz)));
      const int last = std::min(samples - 1, static_cast<int>(std::floor((arrival + reach - begin) * u.sampling_mhz)));
      for (int n = first; n <= last; ++n) {
        const double time = begin + n / u.sampling_mhz, after = time - arrival;
        const double envelope = amplitude * std::exp(-after * after / (2 * width * width));
        const double cycles = u.center_mhz * after - (u.iq ? u.center_mhz * time : 0);
        const auto signal = std::polar(envelope, 2 * std::numbers::pi * cycles);
        trace[static_cast<std::size_t>(n)] += u.iq ? signal : std::complex<double>(signal.real());
      }
    }
    for (std::size_t n = 0; n < trace.size(); ++n) data[e * trace.size() + n] = std::complex<float>(trace[n]);
  });
  return data;
}

void simulate_ultrasound(const SimulateOptions& options, std::ostream& out) {
  check_ultrasound(options);
  const SimulateOptions& o = options;
  const UltrasoundOptions& u = o.ultrasound;
  const std::vector<Scatterer> phantom = scatterers(o);
  const std::vector<double> angles = wave_angles(u);
  const int samples = samples_of(u);
  protocol::DatasetWriter file(o.output, o.group);
  file.header_xml(header_text(o, samples));
  NoiseSource noise(o.seed, o.noise, u.elements, false);
  std::vector<std::vector<std::complex<float>>> clean;
  for (const double angle : angles) clean.push_back(echoes(u, phantom, angle));
  for (int frame = 0; frame < o.frames; ++frame)
    for (int wave = 0; wave < u.angles; ++wave) {
      protocol::Acquisition readout;
      readout.head = head_of(o, samples, frame, wave, angles[static_cast<std::size_t>(wave)]);
      auto data = clean[static_cast<std::size_t>(wave)];
      if (o.noise > 0) noise.add(data);
      for (std::size_t i = 0; i < data.size() && !u.iq; ++i) data[i] = data[i].real();
      readout.data = protocol::Payload::take(std::move(data));
      file.append(readout);
    }
  if (o.truth) {
    std::vector<float> values;
    for (const Scatterer& s : phantom)
      for (const double value : {s.x, s.z, s.amplitude}) values.push_back(static_cast<float>(value));
    file.array("scatterers", {phantom.size(), 3}, values.data());
  }
  file.flush();
  out << fmt::format("{}: ultrasound {}, {} elements, {} frames of {} waves of {} {} samples\n", o.output.string(),
                     o.phantom, u.elements, o.frames, u.angles, samples, u.iq ? "IQ" : "RF");
}

}  // namespace echotrain::client
