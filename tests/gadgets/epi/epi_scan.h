// The EPI scan is small, and its images are known in closed form: Gaussians seen by coils, on a trapezoidal gradient.
#pragma once

#include <cmath>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {

inline constexpr int kPhaseCorrection = 24;

/// The properties of a simulated EPI scan. Times in us.
struct EpiSpec {
  int n = 48;                                             ///< points and lines
  double ramp = 100, flat = 60, delay = 20, dwell = 3;    ///< the gradient, and when it is sampled
  int samples = 73;                                       ///< of a readout
  std::vector<double> constant = {0.4}, slope = {-0.09};  ///< of reversed lines, by coil: [rad], [rad/pixel]
  double precession = 0, offset = 0;                      ///< [rad/echo], [rad]
  int navigators = 3;                                     ///< lines before the image's
  bool regular = false;                                   ///< n samples, a step apart
  int repetition = 0;
  double late = 0;     ///< of the gradient [us]; the header does not know
  double settles = 0;  ///< constant and slope are 1 + settles exp(-echo / 10) times as large
};

class EpiScan {
 public:
  explicit EpiScan(EpiSpec spec) : spec_(std::move(spec)), paths_{make_path(false), make_path(true)} {}
  int coils() const { return static_cast<int>(spec_.slope.size()); }

  /// The complex image of a coil [y, x]; with `late`, as it is when spins precess that much from echo to echo.
  std::vector<cdouble> image(int coil) const {
    std::vector<cdouble> out;
    for (int y = 0; y < spec_.n; ++y)
      for (int x = 0; x < spec_.n; ++x) out.push_back(value(coil, x - spec_.n / 2, y - spec_.n / 2));
    return out;
  }

  std::vector<Acquisition> scan() const {
    std::vector<Acquisition> out;
    for (int l = 0; l < spec_.navigators; ++l) {
      out.push_back(line(spec_.n / 2, l % 2 == 1, l - spec_.navigators));
      set_flag(out.back(), kPhaseCorrection);
    }
    for (int y = 0; y < spec_.n; ++y) out.push_back(line(y, y % 2 == 1, y));
    set_flag(out.back(), kLastInSlice);
    return out;
  }

  protocol::Header header() const { return with(description()); }
  /// Returns the header with that text after the element `trajectory`.
  protocol::Header with(const std::string& text, const std::string& parallel = "") const {
    std::string encoding = encoding_xml({.encoded = {spec_.n, spec_.n, 1},
                                         .trajectory = "epi",
                                         .limits = step_limit(spec_.n) + limit("repetition", 0, 9, 0),
                                         .parallel = parallel});
    encoding.insert(encoding.find("</trajectory>") + 13, text);
    const auto parsed = protocol::parse_header(
        "<ismrmrdHeader "
        "xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions><H1resonanceFrequency_Hz>63870000"
        "</H1resonanceFrequency_Hz></experimentalConditions>" +
            encoding + "</ismrmrdHeader>",
        {});
    if (!parsed) throw std::logic_error("the test's header is wrong: " + parsed.error().message);
    return *parsed;
  }
  std::string description(int samples = 0) const {
    std::string text = "<trajectoryDescription><identifier>ConventionalEPI</identifier>";
    const std::vector<std::pair<const char*, double>> times = {{"rampUpTime", spec_.ramp},
                                                               {"rampDownTime", spec_.ramp},
                                                               {"flatTopTime", spec_.flat},
                                                               {"acqDelayTime", spec_.delay},
                                                               {"numSamples", samples > 0 ? samples : spec_.samples}};
    for (const auto& [name, value] : times)
      text += fmt::format("<userParameterLong><name>{}</name><value>{:g}</value></userParameterLong>", name, value);
    return text +
           fmt::format("<userParameterDouble><name>dwellTime</name><value>{}</value></userParameterDouble>",
                       spec_.dwell) +
           "</trajectoryDescription>";
  }

  /// Returns where the samples of a line lie, in the order of time [cycles/pixel].
  const std::vector<double>& path(bool reversed) const { return paths_[reversed ? 1 : 0]; }

  Acquisition line(int y, bool reversed, int echo) const {
    const std::vector<double>& positions = path(reversed);
    std::vector<cfloat> data;
    for (int c = 0; c < coils(); ++c)
      for (const double kx : positions) {
        const auto coil = static_cast<std::size_t>(c);
        const double size = reversed ? 1 + spec_.settles * std::exp(-echo / 10.0) : 0;
        const double shift = size * spec_.slope[coil] / (2 * std::numbers::pi);
        const double phase = size * spec_.constant[coil] + spec_.offset + spec_.precession * echo;
        data.push_back(
            cfloat(std::polar(1.0, phase) * kspace(c, kx - shift, (y - spec_.n / 2) / static_cast<double>(spec_.n))));
      }
    Acquisition out = readout(coils(), std::move(data));
    out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    out.head.idx.repetition = static_cast<std::uint16_t>(spec_.repetition);
    out.head.sample_time_us = static_cast<float>(spec_.dwell);
    if (reversed) set_flag(out, kReverse);
    return out;
  }

 private:
  struct Blob {
    double amplitude, sigma, x, y;  // pixels
  };
  static const std::vector<Blob>& blobs() {
    static const std::vector<Blob> all = {{1, 3, -6, 5}, {0.7, 2.5, 8, -4}, {0.4, 4, 2, -9}};
    return all;
  }
  /// Coils weight by a phase along x and y, and look at different blobs.
  static cdouble weight(int coil, std::size_t blob) { return std::polar(1.0 + 0.5 * ((coil + blob) % 3), 0.7 * coil); }
  double turns(int coil) const { return 0.02 * coil; }  // cycles/pixel along x

  cdouble value(int coil, double x, double y) const {
    cdouble sum = 0;
    for (std::size_t b = 0; b < blobs().size(); ++b) {
      const auto& [amplitude, sigma, bx, by] = blobs()[b];
      const double r2 = (x - bx) * (x - bx) + (y - by) * (y - by);
      sum += weight(coil, b) * amplitude * std::exp(-r2 / (2 * sigma * sigma));
    }
    return sum * std::polar(1.0, 2 * std::numbers::pi * turns(coil) * x);
  }
  cdouble kspace(int coil, double kx, double ky) const {
    cdouble sum = 0;
    const double k = kx - turns(coil);
    for (std::size_t b = 0; b < blobs().size(); ++b) {
      const auto& [amplitude, sigma, bx, by] = blobs()[b];
      const double pi = std::numbers::pi, size = 2 * pi * sigma * sigma * amplitude;
      sum += weight(coil, b) * std::polar(size * std::exp(-2 * pi * pi * sigma * sigma * (k * k + ky * ky)),
                                          -2 * pi * (k * bx + ky * by));
    }
    return sum;
  }
  std::vector<double> make_path(bool reversed) const {
    std::vector<double> out;
    if (spec_.regular) {
      for (int s = 0; s < spec_.n; ++s)
        out.push_back(((reversed ? spec_.n - 1 - s : s) - spec_.n / 2) / static_cast<double>(spec_.n));
      return out;
    }
    const double whole = area(2 * spec_.ramp + spec_.flat);
    const double covered = area(spec_.delay + spec_.samples * spec_.dwell) - area(spec_.delay);
    for (int s = 0; s < spec_.samples; ++s) {
      const double k = (area(spec_.delay + (s + 0.5) * spec_.dwell - spec_.late) - whole / 2) / covered;
      out.push_back(reversed ? -k : k);
    }
    return out;
  }
  /// Under the gradient of height 1 until `time`, by small steps.
  double area(double time) const {
    constexpr int kSteps = 10000;
    double sum = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double t = time * (i + 0.5) / kSteps, end = 2 * spec_.ramp + spec_.flat;
      sum += std::clamp(std::min(t, end - t) / spec_.ramp, 0.0, 1.0) * time / kSteps;
    }
    return sum;
  }

  EpiSpec spec_;
  std::array<std::vector<double>, 2> paths_;  // forward, reversed
};

}  // namespace echotrain::testing
