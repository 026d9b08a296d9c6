#include "tests/bench/nufft/nufft_cases.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>

#include "clients/cpp/simulate/subject/coils.h"
#include "clients/cpp/simulate/subject/phantom.h"

namespace echotrain::bench {

using numerics::cfloat;

namespace {

constexpr double kGoldenAngle = 1.9416110387254666;  // radians; pi / golden ratio

std::vector<double> spokes(int readouts, int samples, double angle) {
  std::vector<double> k;
  k.reserve(static_cast<std::size_t>(readouts) * static_cast<std::size_t>(samples) * 2);
  for (int r = 0; r < readouts; ++r)
    for (int s = 0; s < samples; ++s) {
      const double radius = static_cast<double>(s) / samples - 0.5;
      k.push_back(radius * std::cos(r * angle));
      k.push_back(radius * std::sin(r * angle));
    }
  return k;
}

std::vector<double> kooshball(int readouts, int samples) {
  std::vector<double> k;
  k.reserve(static_cast<std::size_t>(readouts) * static_cast<std::size_t>(samples) * 3);
  for (int r = 0; r < readouts; ++r) {
    const double z = 1 - (2.0 * r + 1) / readouts, ring = std::sqrt(1 - z * z), angle = r * kGoldenAngle;
    for (int s = 0; s < samples; ++s) {
      const double radius = 0.5 * s / (samples - 0.5);
      k.insert(k.end(), {radius * ring * std::cos(angle), radius * ring * std::sin(angle), radius * z});
    }
  }
  return k;
}

/// The options for the adjoint alone, with sums that may add an error.
numerics::NufftOptions adjoint_only(int width, double oversampling, double slack) {
  return {.kernel_width = width, .oversampling = oversampling, .use = numerics::NufftUse::adjoint, .slack = slack};
}

std::vector<double> radial_600x768() { return spokes(600, 768, std::numbers::pi / 600); }
std::vector<double> golden_402x512() { return spokes(402, 512, kGoldenAngle); }
std::vector<double> kooshball_10m() { return kooshball(39062, 256); }
std::vector<double> kooshball_284592() { return kooshball(1078, 264); }

std::vector<cfloat> white(std::int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<cfloat> out(static_cast<std::size_t>(count));
  for (auto& v : out) v = {value(random), value(random)};
  return out;
}

}  // namespace

const std::vector<NufftCase>& nufft_cases() {
  static const std::vector<NufftCase> cases = {
      {"adjoint_2d_radial_600x768_c16_384/e2e-3", {384, 384}, 16, {4, 1.5}, false, true, radial_600x768},
      {"adjoint_2d_radial_600x768_c16_384/e3e-5", {384, 384}, 16, {6, 1.75}, false, true, radial_600x768},
      {"adjoint_2d_radial_600x768_c16_384/e3e-5_w7", {384, 384}, 16, {7, 1.5}, false, true, radial_600x768},
      {"adjoint_3d_kooshball_10m_c8_256/e2e-3", {256, 256, 256}, 8, {5, 1.25}, false, true, kooshball_10m},
      {"adjoint_3d_kooshball_10m_c8_256/e2e-5", {256, 256, 256}, 8, {7, 1.5}, false, true, kooshball_10m},
      {"adjoint_3d_kooshball_284592_c1_128/e1e-5", {128, 128, 128}, 1, {7, 1.5}, true, true, kooshball_284592},
      {"adjoint_2d_radial_600x768_c16_384/slack_e2e-3",
       {384, 384},
       16,
       adjoint_only(4, 1.5, 6e-4),
       false,
       true,
       radial_600x768},
      {"adjoint_2d_radial_600x768_c16_384/slack_e3e-5",
       {384, 384},
       16,
       adjoint_only(6, 1.75, 2.6e-5),
       false,
       true,
       radial_600x768},
      {"adjoint_3d_kooshball_10m_c8_256/slack_e2e-3",
       {256, 256, 256},
       8,
       adjoint_only(5, 1.25, 9e-4),
       false,
       true,
       kooshball_10m},
      {"adjoint_2d_golden_402x512_c8_256/e1e-5", {256, 256}, 8, {7, 1.5}, true, false, golden_402x512},
      {"adjoint_2d_golden_402x512_c8_256/e1e-3", {256, 256}, 8, {5, 1.5}, true, true, golden_402x512},
      {"adjoint_3d_kooshball_284592_c1_128/e1e-3", {128, 128, 128}, 1, {5, 1.5}, true, true, kooshball_284592},
      {"adjoint_3d_kooshball_284592_c8_128/e1e-3", {128, 128, 128}, 8, {5, 1.5}, true, true, kooshball_284592},
      {"forward_2d_radial_600x768_c16_384/e2e-3", {384, 384}, 16, {4, 1.5}, false, true, radial_600x768, true},
      {"forward_2d_radial_600x768_c16_384/w5", {384, 384}, 16, {5, 1.25}, false, true, radial_600x768, true},
      {"forward_3d_kooshball_10m_c8_256/w4", {256, 256, 256}, 8, {4, 1.5}, false, true, kooshball_10m, true},
      {"adjoint_2d_radial_600x768_c16_384/w5", {384, 384}, 16, {5, 1.25}, false, true, radial_600x768},
      {"adjoint_3d_kooshball_284592_c1_128/w6", {128, 128, 128}, 1, {6, 1.75}, false, true, kooshball_284592},
      {"forward_3d_kooshball_10m_c8_256/e2e-3", {256, 256, 256}, 8, {5, 1.25}, false, true, kooshball_10m, true},
      {"forward_2d_golden_402x512_c8_256/e1e-3", {256, 256}, 8, {5, 1.5}, true, true, golden_402x512, true},
      {"forward_3d_kooshball_284592_c8_128/e1e-3", {128, 128, 128}, 8, {5, 1.5}, true, true, kooshball_284592, true},
  };
  return cases;
}

const NufftCase& nufft_case(const std::string& name) {
  for (const NufftCase& each : nufft_cases())
    if (each.name == name) return each;
  throw std::out_of_range("bench_nufft has no case " + name);
}

std::vector<cfloat> nufft_data(const NufftCase& which, const std::vector<double>& coordinates, NufftData data,
                               numerics::ThreadPool& threads) {
  const std::int64_t dims = static_cast<std::int64_t>(which.image.rank()), coils = which.coils,
                     count = static_cast<std::int64_t>(coordinates.size()) / dims, voxels = which.image.size();
  if (data == NufftData::white) return white((which.forward ? voxels : count) * coils);
  const auto matrix = static_cast<double>(which.image[0]);
  const auto phantom = client::Phantom::shepp_logan(static_cast<int>(dims), matrix);
  const client::CoilSet coil_set(static_cast<int>(coils), static_cast<int>(dims), matrix);
  std::vector<cfloat> out(static_cast<std::size_t>((which.forward ? voxels : count) * coils));
  if (which.forward) {
    const std::int64_t n = which.image[0];
    threads.parallel_for(voxels, 1 << 12, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v) {
        const std::int64_t at[3] = {v % n, v / n % n, dims == 3 ? v / n / n : n / 2};
        client::Vec3 r{};
        for (int a = 0; a < 3; ++a) r[static_cast<std::size_t>(a)] = static_cast<double>(at[a] - n / 2);
        const double value = phantom.value(r);
        for (std::int64_t c = 0; c < coils; ++c)
          out[static_cast<std::size_t>(c * voxels + v)] = cfloat(value * coil_set.profile(static_cast<int>(c), r));
      }
    });
    return out;
  }
  threads.parallel_for(count, 1 << 12, [&](std::int64_t begin, std::int64_t end) {
    std::vector<client::cdouble> signal(static_cast<std::size_t>(coils));
    for (std::int64_t s = begin; s < end; ++s) {
      client::Vec3 k{};
      std::copy_n(coordinates.data() + s * dims, dims, k.data());
      coil_set.kspace(phantom, k, signal);
      // The density of spokes; the centre's is not 0.
      const double radius = std::max(std::hypot(k[0], k[1], k[2]), 0.25 / matrix), ramp = std::pow(radius, dims - 1);
      for (std::int64_t c = 0; c < coils; ++c)
        out[static_cast<std::size_t>(s * coils + c)] = cfloat(ramp * signal[static_cast<std::size_t>(c)]);
    }
  });
  return out;
}

}  // namespace echotrain::bench
