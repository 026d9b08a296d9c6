// The reference is NLINV by its definition in float64, with tiny scans: the truth that the fast one is compared with.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "gadgets/numerics/inverse/nlinv/nlinv.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {

using numerics::cdouble;
using Vector64 = std::vector<cdouble>;

inline cdouble inner(const Vector64& u, const Vector64& v) {
  cdouble sum = 0;
  for (std::size_t i = 0; i < u.size(); ++i) sum += std::conj(u[i]) * v[i];
  return sum;
}

/// Images of ny x nx, coils with waves -my .. my, -mx .. mx of a field fy x fx; samples anywhere. All by plain sums.
/// Several slices: sample s sees sum_m turns[s, m] of what the slices give. Their unknowns, and their images of coils,
/// follow one another.
struct NlinvReference {
  numerics::NlinvOptions options;
  std::size_t coils, ny, nx, fy, fx;
  std::int64_t my, mx;
  std::vector<double> coordinates;  // [sample, 2], x first
  std::vector<float> weights;
  double scale = 1;  // of F^H W F
  std::size_t slices = 1;
  Vector64 turns;  // [sample, slice]; empty: 1

  std::size_t voxels() const { return ny * nx; }
  std::size_t waves_y() const { return static_cast<std::size_t>(2 * my + 1); }
  std::size_t waves() const { return waves_y() * static_cast<std::size_t>(2 * mx + 1); }
  std::size_t of_slice() const { return voxels() + coils * waves(); }
  std::size_t unknowns() const { return slices * of_slice(); }
  /// Returns the image element of which element i of the images of coils [slice, coil, voxel] is a product.
  std::size_t image_at(std::size_t i) const { return i / (coils * voxels()) * of_slice() + i % voxels(); }
  cdouble turn(std::size_t sample, std::size_t slice) const {
    return turns.empty() ? 1.0 : turns[sample * slices + slice];
  }

  /// w(k) exp(2 pi i k.r / field) / sqrt(field) of wave i = (kx, ky) at voxel v.
  cdouble wave(std::size_t i, std::size_t v) const {
    const double kx = static_cast<double>(static_cast<std::int64_t>(i / waves_y()) - mx) / static_cast<double>(fx),
                 ky = static_cast<double>(static_cast<std::int64_t>(i % waves_y()) - my) / static_cast<double>(fy);
    const double x = static_cast<double>(v % nx) - static_cast<double>(nx / 2),
                 y = static_cast<double>(v / nx) - static_cast<double>(ny / 2);
    return std::polar(std::pow(1 + options.smoothness * (kx * kx + ky * ky), -options.order) /
                          std::sqrt(static_cast<double>(fx * fy)),
                      2 * std::numbers::pi * (kx * x + ky * y));
  }
  /// C h: [slice, coil, voxel]
  Vector64 coil_images(const Vector64& x) const {
    Vector64 out(slices * coils * voxels());
    for (std::size_t i = 0; i < waves(); ++i)
      for (std::size_t v = 0; v < voxels(); ++v) {
        const cdouble e = wave(i, v);
        for (std::size_t j = 0; j < slices * coils; ++j)
          out[j * voxels() + v] += e * x[j / coils * of_slice() + voxels() + j % coils * waves() + i];
      }
    return out;
  }
  /// D p = m C p + p c at x
  Vector64 derivative(const Vector64& x, const Vector64& p) const {
    const Vector64 c = coil_images(x);
    Vector64 out = coil_images(p);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[image_at(i)] * out[i] + p[image_at(i)] * c[i];
    return out;
  }
  /// D^H z at x
  Vector64 adjoint(const Vector64& x, const Vector64& z) const {
    const Vector64 c = coil_images(x);
    Vector64 out(unknowns());
    for (std::size_t i = 0; i < z.size(); ++i) out[image_at(i)] += std::conj(c[i]) * z[i];
    for (std::size_t i = 0; i < waves(); ++i)
      for (std::size_t v = 0; v < voxels(); ++v) {
        const cdouble e = wave(i, v);
        for (std::size_t j = 0; j < slices * coils; ++j) {
          const std::size_t first = j / coils * of_slice();
          out[first + voxels() + j % coils * waves() + i] += std::conj(e * x[first + v]) * z[j * voxels() + v];
        }
      }
    return out;
  }
  Vector64 image_of(const Vector64& x) const {  // m c
    Vector64 out = coil_images(x);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] *= x[image_at(i)];
    return out;
  }
  /// exp(-2 pi i k.r) of sample s at voxel v.
  cdouble phase(std::size_t s, std::size_t v) const {
    const double x = static_cast<double>(v % nx) - static_cast<double>(nx / 2),
                 y = static_cast<double>(v / nx) - static_cast<double>(ny / 2);
    return std::polar(1.0, -2 * std::numbers::pi * (coordinates[2 * s] * x + coordinates[2 * s + 1] * y));
  }
  Vector64 forward(const Vector64& z) const {  // [slice, coil, voxel] to [sample, coil]
    Vector64 out(weights.size() * coils);
    for (std::size_t s = 0; s < weights.size(); ++s)
      for (std::size_t v = 0; v < voxels(); ++v) {
        const cdouble e = phase(s, v);
        for (std::size_t j = 0; j < slices * coils; ++j)
          out[s * coils + j % coils] += turn(s, j / coils) * e * z[j * voxels() + v];
      }
    return out;
  }
  Vector64 back(const Vector64& d) const {  // F^H W d
    Vector64 out(slices * coils * voxels());
    for (std::size_t s = 0; s < weights.size(); ++s)
      for (std::size_t v = 0; v < voxels(); ++v) {
        const cdouble e = std::conj(phase(s, v)) * static_cast<double>(weights[s]);
        for (std::size_t j = 0; j < slices * coils; ++j)
          out[j * voxels() + v] += std::conj(turn(s, j / coils)) * e * d[s * coils + j % coils];
      }
    return out;
  }
  double power(const Vector64& d) const {
    double sum = 0;
    for (std::size_t i = 0; i < d.size(); ++i) sum += static_cast<double>(weights[i / coils]) * std::norm(d[i]);
    return sum;
  }

  /// (D^H T D + alpha) p at x
  Vector64 newton_matrix(const Vector64& x, double alpha, const Vector64& p) const {
    Vector64 tz = back(forward(derivative(x, p)));
    for (auto& v : tz) v *= scale;
    Vector64 out = adjoint(x, tz);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += alpha * p[i];
    return out;
  }
  /// D^H (b - T m c) + alpha (reference - x), b of data times `factor`.
  Vector64 newton_right(const Vector64& x, const Vector64& reference, double alpha, double factor,
                        const Vector64& d) const {
    Vector64 left = forward(image_of(x));
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = scale * (factor * d[i] - left[i]);
    Vector64 out = adjoint(x, back(left));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += alpha * (reference[i] - x[i]);
    return out;
  }
  /// The unknowns after the first Newton step with alpha = 1, by Gauss; the matrix is positive definite.
  Vector64 newton_step(double factor, const Vector64& data) const {
    const std::size_t n = unknowns();
    const Vector64 x = start();
    Vector64 b = newton_right(x, x, 1, factor, data);
    std::vector<Vector64> rows(n, Vector64(n));
    for (std::size_t j = 0; j < n; ++j) {
      Vector64 unit(n);
      unit[j] = 1;
      const Vector64 column = newton_matrix(x, 1, unit);
      for (std::size_t i = 0; i < n; ++i) rows[i][j] = column[i];
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = i + 1; k < n; ++k) {
        const cdouble f = rows[k][i] / rows[i][i];
        for (std::size_t j = i; j < n; ++j) rows[k][j] -= f * rows[i][j];
        b[k] -= f * b[i];
      }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t j = i + 1; j < n; ++j) b[i] -= rows[i][j] * b[j];
      b[i] /= rows[i][i];
    }
    for (std::size_t i = 0; i < n; ++i) b[i] += x[i];
    return b;
  }
  Vector64 conjugate_gradients(const Vector64& x, double alpha, Vector64 r, int steps) const {
    Vector64 d(r.size()), p = r;
    double old = inner(r, r).real();
    for (int i = 0; i < steps && old > 0; ++i) {
      const Vector64 h = newton_matrix(x, alpha, p);
      const double a = old / inner(p, h).real();
      for (std::size_t j = 0; j < r.size(); ++j) {
        d[j] += a * p[j];
        r[j] -= a * h[j];
      }
      const double now = inner(r, r).real();
      for (std::size_t j = 0; j < r.size(); ++j) p[j] = r[j] + now / old * p[j];
      old = now;
    }
    return d;
  }
  Vector64 damped(Vector64 x) const {
    for (auto& v : x) v *= options.damping;
    return x;
  }
  Vector64 start() const {
    Vector64 x(unknowns());
    for (std::size_t i = 0; i < slices * voxels(); ++i) x[i / voxels() * of_slice() + i % voxels()] = 1;
    return x;
  }
  /// A frame's unknowns from those of the frame before.
  Vector64 solve(Vector64 x, const Vector64& reference, double factor, const Vector64& d) const {
    double alpha = options.first_alpha;
    for (const int steps : numerics::nlinv_inner_steps(options)) {
      const Vector64 change = conjugate_gradients(x, alpha, newton_right(x, reference, alpha, factor, d), steps);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += change[i];
      alpha *= options.reduction;
    }
    return x;
  }
  /// m sqrt(sum |c|^2) / factor: [slice, voxel]
  Vector64 picture(const Vector64& x, double factor) const {
    const Vector64 c = coil_images(x);
    Vector64 out(slices * voxels());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t m = i / voxels(), v = i % voxels();
      double sum = 0;
      for (std::size_t j = 0; j < coils; ++j) sum += std::norm(c[(m * coils + j) * voxels() + v]);
      out[i] = x[m * of_slice() + v] * std::sqrt(sum) / factor;
    }
    return out;
  }
};

/// A tiny scan of slices and coils that the model can have. Sample s is of number s % slices and is sampled anywhere.
/// Few waves, so that float64 is quick.
struct TinyScan {
  NlinvReference reference;
  Vector64 phases, data;  // [number, slice], [sample, coil]; data as cfloat has them

  explicit TinyScan(std::size_t slices, unsigned seed = 1, std::size_t samples = 75) {
    auto& r = reference;
    r.slices = slices;
    r.coils = 3;
    r.ny = 7;
    r.nx = 6;
    r.fy = 14;
    r.fx = 12;
    r.my = 2;
    r.mx = 1;
    r.options.smoothness = 45;  // (1 + 45 / 49)^-16 = 3e-5 and (1 + 45 / 144)^-16 = 1e-2 stay, the next do not
    r.options.newton_steps = 4;
    r.options.inner = 6;
    r.options.scale = 30;
    for (std::size_t n = 0; n < slices; ++n)
      for (std::size_t m = 0; m < slices; ++m)
        phases.push_back(
            std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(n * m) / static_cast<double>(slices)));
    Random random(seed);
    double sum = 0;
    for (std::size_t s = 0; s < samples; ++s) {
      r.coordinates.push_back(random.uniform(-0.5, 0.5));
      r.coordinates.push_back(random.uniform(-0.5, 0.5));
      r.weights.push_back(static_cast<float>(random.uniform(0.2, 1) / static_cast<double>(samples)));
      sum += static_cast<double>(r.weights.back());
      for (std::size_t m = 0; m < slices; ++m) r.turns.push_back(phases[s % slices * slices + m]);
    }
    r.scale = std::numbers::pi / 4 / sum;
    const auto drawn = random.normals(static_cast<std::int64_t>(r.unknowns()));
    Vector64 truth(drawn.begin(), drawn.end());
    for (std::size_t j = 0; j < slices * r.coils; ++j)
      truth[j / r.coils * r.of_slice() + r.voxels() + j % r.coils * r.waves() + r.waves() / 2] +=
          20.0;  // a coil's mean
    for (const cdouble d : r.forward(r.image_of(truth))) data.push_back(cdouble(numerics::cfloat(d)));
  }
  numerics::Shape image() const {
    return {static_cast<std::int64_t>(reference.ny), static_cast<std::int64_t>(reference.nx)};
  }
  numerics::Shape field() const {
    return {static_cast<std::int64_t>(reference.fy), static_cast<std::int64_t>(reference.fx)};
  }
  std::int64_t coils() const { return static_cast<std::int64_t>(reference.coils); }
  std::int64_t slices() const { return static_cast<std::int64_t>(reference.slices); }
  numerics::Shape images() const { return {slices(), image()[0], image()[1]}; }
  numerics::Shape coil_images() const { return {slices(), coils(), image()[0], image()[1]}; }
  double factor() const {
    return reference.options.scale * std::sqrt(static_cast<double>(slices())) /
           std::sqrt(reference.scale * reference.power(data));
  }
};

/// Suites of NLINV.
template <class B>
class OnNlinv : public OnBackend<B> {
 protected:
  std::vector<numerics::cfloat> unknowns(const numerics::Nlinv& nlinv) {
    const auto host = this->context().template download<numerics::cfloat>(nlinv.unknowns());
    return std::vector<numerics::cfloat>(host.data(), host.data() + host.size());
  }
  /// `images`: the shape of images of coils. Bounds: the NUFFT's accuracy of 2e-6, of point spread functions too.
  void expect_sums(const numerics::NlinvFrame& frame, const NlinvReference& r, const Vector64& data,
                   const numerics::Shape& images) {
    numerics::Context& context = this->context();
    EXPECT_EQ(frame.matrix_scale, 1);
    EXPECT_NEAR(frame.data_scale, r.scale, 1e-6 * r.scale);
    EXPECT_NEAR(context.template download<double>(frame.power).data()[0], r.power(data), 1e-6 * r.power(data));
    ASSERT_EQ(frame.right.size(), images.size());
    const auto right = context.template download<numerics::cfloat>(frame.right);
    const Vector64 truth = r.back(data);
    EXPECT_LT(relative_error(right.data(), truth, truth.size()), 1e-5);
    const auto z = Random(5).normals(static_cast<std::int64_t>(truth.size()));
    const auto z_there = this->upload(z, images);
    auto tz = context.template allocate<numerics::cfloat>(images);
    frame.matrix(z_there.cview(), tz.view());
    Vector64 product = r.back(r.forward(Vector64(z.begin(), z.end())));
    for (cdouble& v : product) v *= r.scale;
    EXPECT_LT(relative_error(this->download(tz), product, product.size()), 1e-5);
  }
};

}  // namespace echotrain::testing
