#include "tests/bench/nufft/nufft_errors.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <mutex>
#include <numbers>
#include <random>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"

namespace echotrain::bench {

using numerics::cfloat;
using numerics::DeviceView;
using cdouble = std::complex<double>;

namespace {

/// The image's extents and a sample's coordinates along z, y, x; axes that it lacks have one voxel.
struct Axes {
  std::int64_t n[3] = {1, 1, 1};
  explicit Axes(const numerics::Shape& image) {
    for (std::size_t a = 0; a < image.rank(); ++a) n[3 - image.rank() + a] = image[a];
  }
};
double coordinate(const std::vector<double>& all, std::size_t dims, std::int64_t sample, int axis) {
  const auto component = static_cast<std::size_t>(2 - axis);
  return component < dims ? all[static_cast<std::size_t>(sample) * dims + component] : 0.0;
}

std::vector<std::int64_t> random_points(std::int64_t of) {
  std::mt19937_64 random(2);
  std::vector<std::int64_t> points;
  for (int i = 0; i < kCheckedPoints; ++i)
    points.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(of)));
  return points;
}

/// exp(2 pi i k (i - floor(n/2))) for i < n, each from the one before: good to n roundings.
void waves(double k, std::int64_t n, cdouble* to, std::int64_t stride) {
  cdouble value = std::polar(1.0, -2 * std::numbers::pi * k * static_cast<double>(n / 2));
  const cdouble step = std::polar(1.0, 2 * std::numbers::pi * k);
  for (std::int64_t i = 0; i < n; ++i, value *= step) to[i * stride] = value;
}

/// sum += value * wave, elementwise; real and imaginary parts apart.
ECHOTRAIN_CLONES void add_product(const double* wave_re, const double* wave_im, double re, double im, int n,
                                  double* sum_re, double* sum_im) {
  for (int i = 0; i < n; ++i) {
    sum_re[i] += wave_re[i] * re - wave_im[i] * im;
    sum_im[i] += wave_re[i] * im + wave_im[i] * re;
  }
}

constexpr int kTogether = 16;  // samples that are worked on at a time

/// re[j] + i im[j] = sum_x row[x] wave[x, j]: one row of voxels seen by kTogether samples.
ECHOTRAIN_CLONES void sum_row(const cfloat* row, std::int64_t n, const double* wave_re, const double* wave_im,
                              double* re, double* im) {
  double sum_re[kTogether] = {}, sum_im[kTogether] = {};
  for (std::int64_t x = 0; x < n; ++x) {
    const double a = row[x].real(), b = row[x].imag();
    const double *wr = wave_re + x * kTogether, *wi = wave_im + x * kTogether;
    for (int j = 0; j < kTogether; ++j) {
      sum_re[j] += wr[j] * a - wi[j] * b;
      sum_im[j] += wr[j] * b + wi[j] * a;
    }
  }
  for (int j = 0; j < kTogether; ++j) re[j] = sum_re[j], im[j] = sum_im[j];
}

struct Error {
  double difference = 0, size = 0;
  void add(cdouble got, cdouble truth) {
    difference += std::norm(got - truth);
    size += std::norm(truth);
  }
  double relative() const { return std::sqrt(difference / size); }
};

double error_at_voxels(numerics::Context& context, const NufftCase& which, const std::vector<double>& k,
                       const std::vector<cfloat>& samples, const cfloat* images) {
  constexpr int kPoints = kCheckedPoints;
  const Axes axes(which.image);
  const std::size_t dims = which.image.rank();
  const auto count = static_cast<std::int64_t>(k.size() / dims);
  const std::vector<std::int64_t> voxels = random_points(which.image.size());
  std::vector<std::size_t> at[3];  // z, y, x of those voxels
  for (const std::int64_t v : voxels) {
    at[0].push_back(static_cast<std::size_t>(v / axes.n[2] / axes.n[1]));
    at[1].push_back(static_cast<std::size_t>(v / axes.n[2] % axes.n[1]));
    at[2].push_back(static_cast<std::size_t>(v % axes.n[2]));
  }
  const auto coils = static_cast<std::size_t>(which.coils);
  std::vector<double> sum(2 * coils * kPoints);
  std::mutex mutex;
  const std::int64_t stretches = std::min<std::int64_t>(count, 128);
  context.threads().parallel_for(stretches, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> part(sum.size()), re(kPoints), im(kPoints);
    std::vector<cdouble> table[3];
    for (int a = 0; a < 3; ++a) table[a].resize(static_cast<std::size_t>(axes.n[a]));
    for (std::int64_t s = begin * count / stretches; s < end * count / stretches; ++s) {
      for (int a = 0; a < 3; ++a) waves(coordinate(k, dims, s, a), axes.n[a], table[a].data(), 1);
      for (std::size_t i = 0; i < kPoints; ++i) {
        const cdouble z = table[0][at[0][i]], y = table[1][at[1][i]], x = table[2][at[2][i]];
        const double zy_re = z.real() * y.real() - z.imag() * y.imag(),
                     zy_im = z.real() * y.imag() + z.imag() * y.real();
        re[i] = zy_re * x.real() - zy_im * x.imag();
        im[i] = zy_re * x.imag() + zy_im * x.real();
      }
      for (std::size_t c = 0; c < coils; ++c) {
        const cfloat d = samples[static_cast<std::size_t>(s) * coils + c];
        double* to = part.data() + 2 * c * kPoints;
        add_product(re.data(), im.data(), d.real(), d.imag(), kPoints, to, to + kPoints);
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  });
  Error error;
  for (std::size_t c = 0; c < coils; ++c)
    for (std::size_t i = 0; i < kPoints; ++i)
      error.add(cdouble(images[static_cast<std::int64_t>(c) * which.image.size() + voxels[i]]),
                {sum[2 * c * kPoints + i], sum[(2 * c + 1) * kPoints + i]});
  return error.relative();
}

}  // namespace

double adjoint_error(numerics::Context& context, const NufftCase& which, const std::vector<double>& coordinates,
                     const std::vector<cfloat>& samples, DeviceView<const cfloat> images) {
  const auto dims = static_cast<std::int64_t>(which.image.rank());
  const auto got = context.download<cfloat>(images);
  if (dims == 3) return error_at_voxels(context, which, coordinates, samples, got.data());
  const auto count = static_cast<std::int64_t>(coordinates.size()) / dims;
  const auto on_device = context.upload<cfloat>({samples.data(), {count, which.coils}});
  auto exact = context.allocate<cfloat>(images.shape());
  numerics::DirectAdjoint sum(context, which.image, which.coils);
  sum.add(context, {coordinates.data(), {count, dims}}, on_device.view());
  sum.get(context, exact.view());
  const auto truth = context.download<cfloat>(exact.view());
  Error error;
  for (std::int64_t i = 0; i < truth.size(); ++i) error.add(cdouble(got.data()[i]), cdouble(truth.data()[i]));
  return error.relative();
}

double forward_error(numerics::Context& context, const NufftCase& which, const std::vector<double>& coordinates,
                     const std::vector<cfloat>& images, DeviceView<const cfloat> samples) {
  const Axes axes(which.image);
  const std::size_t dims = which.image.rank();
  const auto got = context.download<cfloat>(samples);
  const std::vector<std::int64_t> chosen = random_points(static_cast<std::int64_t>(coordinates.size() / dims));
  Error error;
  std::mutex mutex;
  context.threads().parallel_for(kCheckedPoints / kTogether, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<cdouble> table[3];
    for (int a = 0; a < 3; ++a) table[a].resize(static_cast<std::size_t>(axes.n[a] * kTogether));
    std::vector<double> x_re(static_cast<std::size_t>(axes.n[2] * kTogether)), x_im(x_re.size());
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t* number = chosen.data() + group * kTogether;
      for (int a = 0; a < 3; ++a)
        for (int j = 0; j < kTogether; ++j)
          waves(-coordinate(coordinates, dims, number[j], a), axes.n[a], table[a].data() + j, kTogether);
      for (std::size_t i = 0; i < x_re.size(); ++i) x_re[i] = table[2][i].real(), x_im[i] = table[2][i].imag();
      for (std::int64_t c = 0; c < which.coils; ++c) {
        cdouble sum[kTogether] = {};
        for (std::int64_t zy = 0; zy < axes.n[0] * axes.n[1]; ++zy) {
          const cfloat* row = images.data() + (c * axes.n[0] * axes.n[1] + zy) * axes.n[2];
          double re[kTogether], im[kTogether];
          sum_row(row, axes.n[2], x_re.data(), x_im.data(), re, im);
          const std::int64_t z = zy / axes.n[1], y = zy % axes.n[1];
          for (int j = 0; j < kTogether; ++j)
            sum[j] += table[0][static_cast<std::size_t>(z * kTogether + j)] *
                      table[1][static_cast<std::size_t>(y * kTogether + j)] * cdouble(re[j], im[j]);
        }
        const std::lock_guard lock(mutex);
        for (int j = 0; j < kTogether; ++j) error.add(cdouble(got.data()[number[j] * which.coils + c]), sum[j]);
      }
    }
  });
  return error.relative();
}

}  // namespace echotrain::bench
