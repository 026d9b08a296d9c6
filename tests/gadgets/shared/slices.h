// The slices were excited at once; they are simulated in float64.
#pragma once

#include "tests/gadgets/scan.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {

inline constexpr int kSmsSide = 20, kSmsSamples = 40;

inline protocol::Header sms_header(int planes = 1, int sets = 1, const std::string& parallel = "") {
  return header({.encoded = {kSmsSide, kSmsSide, planes},
                 .encoded_fov = {kSmsSide, kSmsSide, 5.0 * planes},
                 .trajectory = "radial",
                 .limits = limit("slice", 0, sets - 1, 0),
                 .parallel = parallel});
}

/// Slices with other objects and other sensitivities, the sum of whose squares is 1.
struct SmsSlices {
  int m, coils;
  std::vector<std::vector<cdouble>> objects, maps;  // of each slice: [y, x], [coil, y, x]
  explicit SmsSlices(int count, int receivers = 6) : m(count), coils(receivers) {
    for (int s = 0; s < m; ++s) {
      std::vector<cdouble> map, object;
      std::vector<double> power(kSmsSide * kSmsSide);
      for (int c = 0; c < coils; ++c)
        for (int y = 0; y < kSmsSide; ++y)
          for (int x = 0; x < kSmsSide; ++x) {
            const double angle = 2 * std::numbers::pi * c / coils + 0.9 * s;
            const double dx = (x - kSmsSide / 2) / (0.8 * kSmsSide) - std::cos(angle),
                         dy = (y - kSmsSide / 2) / (0.8 * kSmsSide) - std::sin(angle);
            const cdouble one = std::exp(-dx * dx - dy * dy) * std::polar(1.0, 0.5 * c + 0.4 * dx + 0.3 * s);
            map.push_back(coils == 1 ? 1.0 : one);
            power[static_cast<std::size_t>(y * kSmsSide + x)] += std::norm(map.back());
          }
      for (std::size_t i = 0; i < map.size(); ++i) map[i] /= std::sqrt(power[i % power.size()]);
      for (int y = 0; y < kSmsSide; ++y)
        for (int x = 0; x < kSmsSide; ++x) {
          const double r = std::hypot(x - kSmsSide / 2 - s, y - kSmsSide / 2),
                       hole = std::hypot(x - kSmsSide / 2 - 3 + 3 * s, y - kSmsSide / 2 + 2 - 2 * s);
          object.push_back((1 + 0.5 * s) / (1 + std::exp(2 * (r - 6))) - 0.7 * std::exp(-hole * hole / 5));
        }
      maps.push_back(std::move(map));
      objects.push_back(std::move(object));
    }
  }
  /// A spoke with the phases of number n: sum_m exp(i sign 2 pi m n / M) of what each slice gives.
  Acquisition spoke(double angle, int n, int sign = 1) const {
    std::vector<cfloat> seen(maps[0].size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      cdouble sum = 0;
      for (std::size_t s = 0; s < objects.size(); ++s)
        sum += std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(s) * n / m) * maps[s][i] *
               objects[s][i % objects[s].size()];
      seen[i] = cfloat(sum);
    }
    std::vector<float> trajectory;
    std::vector<double> k;
    for (int i = 0; i < kSmsSamples; ++i)
      for (const double direction : {std::cos(angle), std::sin(angle)}) {
        trajectory.push_back(static_cast<float>(direction * (i - kSmsSamples / 2) / kSmsSamples));
        k.push_back(static_cast<double>(trajectory.back()));
      }
    const auto values = direct_forward(k, seen, coils, {kSmsSide, kSmsSide});  // [sample, coil]
    std::vector<cfloat> data;
    for (int c = 0; c < coils; ++c)
      for (int i = 0; i < kSmsSamples; ++i) data.emplace_back(values[static_cast<std::size_t>(i * coils + c)]);
    Acquisition out = readout(coils, std::move(data), std::move(trajectory));
    out.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(n);
    out.head.slice_dir[2] = 1;
    out.head.read_dir[0] = out.head.phase_dir[1] = 1;
    out.head.position[2] = 30;
    return out;
  }
  /// `angles` of each number; those of another number lie `turned` of a step further.
  std::vector<Acquisition> frame(int angles, double turned, int repetition = 0, int sign = 1) const {
    std::vector<Acquisition> out;
    for (int i = 0; i < angles; ++i)
      for (int n = 0; n < m; ++n) {
        out.push_back(spoke(std::numbers::pi * (i + turned * n + 0.31 * repetition) / angles, n, sign));
        out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
        out.back().head.idx.repetition = static_cast<std::uint16_t>(repetition);
      }
    set_flag(out.back(), kLastInSlice);
    return out;
  }
};

inline double error_of_slice(const protocol::Image& image, const std::vector<cdouble>& truth) {
  std::vector<double> got, size;
  for (const auto v : pixels<cfloat>(image)) got.push_back(std::abs(cdouble(v)));
  for (const auto v : truth) size.push_back(std::abs(v));
  return nrmse(got, size);
}

/// With `more` components behind kx and ky, and these times `factor`.
inline std::vector<Acquisition> with_components(std::vector<Acquisition> scan, const std::vector<float>& more,
                                                float factor = 1) {
  for (auto& a : scan) {
    std::vector<float> positions(2 * kSmsSamples), trajectory;
    a.trajectory.copy_to(positions.data());
    for (std::size_t i = 0; i < kSmsSamples; ++i) {
      trajectory.insert(trajectory.end(), {factor * positions[2 * i], factor * positions[2 * i + 1]});
      trajectory.insert(trajectory.end(), more.begin(), more.end());
    }
    a.head.trajectory_dimensions = static_cast<std::uint16_t>(2 + more.size());
    a.trajectory = protocol::Payload::take(trajectory);
  }
  return scan;
}

}  // namespace echotrain::testing
