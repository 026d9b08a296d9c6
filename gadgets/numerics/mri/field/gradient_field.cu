#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/field/gradient_field.h"

namespace echotrain::numerics {

constexpr int kFieldRow = 2 + 2 * GradientField::kFields;  // numbers of a term in the table

/// Sums of solid harmonics at places r, in units of the radius. Within an order m, degrees follow from two lower ones:
/// K_n = a z K_(n-1) - b r^2 K_(n-2); from order to order, K_m^m = sqrt((2 m - 1) / (2 m)) (x + i y) K_(m-1)^(m-1).
template <class T, int kMost>
ECHOTRAIN_EACH void sum_harmonics(const T* table, int degree, const T (&r)[3][kMost], int count,
                                  T (&sums)[GradientField::kFields][kMost]) {
  T re[kMost], im[kMost], squared[kMost], now[kMost], last[kMost];
  for (int l = 0; l < count; ++l) {
    re[l] = 1, im[l] = 0;
    squared[l] = r[0][l] * r[0][l] + r[1][l] * r[1][l] + r[2][l] * r[2][l];
  }
  for (int f = 0; f < GradientField::kFields; ++f)
    for (int l = 0; l < count; ++l) sums[f][l] = 0;
  for (int m = 0; m <= degree; ++m) {
    for (int l = 0; l < count; ++l) now[l] = 1, last[l] = 0;
    for (int n = m; n <= degree; ++n, table += kFieldRow) {
      if (n > m)
        for (int l = 0; l < count; ++l) {
          const T next = table[0] * r[2][l] * now[l] - table[1] * squared[l] * last[l];
          last[l] = now[l];
          now[l] = next;
        }
      for (int f = 0; f < GradientField::kFields; ++f) {
        const T cosine = table[2 + 2 * f], sine = table[3 + 2 * f];
        for (int l = 0; l < count; ++l) sums[f][l] += now[l] * (cosine * re[l] + sine * im[l]);
      }
    }
    // The table's first number of order m + 1 is that of K_(m+1)^(m+1).
    if (m < degree)
      for (int l = 0; l < count; ++l) {
        const T turned = table[0] * (r[0][l] * re[l] - r[1][l] * im[l]);
        im[l] = table[0] * (r[0][l] * im[l] + r[1][l] * re[l]);
        re[l] = turned;
      }
  }
}

/// The determinant of the identity plus the field's derivatives.
template <class T>
ECHOTRAIN_EACH T stretch(const T (&d)[9]) {
  const T xx = 1 + d[0], yy = 1 + d[4], zz = 1 + d[8];
  return xx * (yy * zz - d[5] * d[7]) - d[1] * (d[3] * zz - d[5] * d[6]) + d[2] * (d[3] * d[7] - yy * d[6]);
}

struct GradientMapped {
  static constexpr bool kClones = true;
  static constexpr int kLanes[] = {0, 0, 64};
  static constexpr float kFar = 1e6F;  // voxels; what is not finite goes there, too
  const float* table;
  int degree;
  float first[3], step[3][3];  // places in units of the radius; step[axis][component]
  float voxels[3][3];          // [axis][component]: voxels along an axis for a displacement in units of the radius
  bool modulate, planar, modulate_shift;
  const float* shift;  // null: none
  std::int64_t nz, ny, nx;
  float* map;

  struct Shifted {
    float by, slope;
  };
  /// The shift of a voxel and its slope, as in unwarp().
  ECHOTRAIN_EACH Shifted shift_of(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const std::int64_t below = y > 0 ? y - 1 : y, above = y + 1 < ny ? y + 1 : y;
    const float* line = shift + z * ny * nx + x;
    const float slope =
        above > below ? (line[above * nx] - line[below * nx]) / static_cast<float>(above - below) : 0.0F;
    return {line[y * nx], slope};
  }
  /// The four neighbours of a place along an axis of n voxels, and their weights (Catmull-Rom); beyond the borders, the
  /// outermost voxel counts again.
  struct Neighbours {
    std::int64_t at[4];
    float weight[4];
  };
  ECHOTRAIN_EACH static Neighbours neighbours(float place, std::int64_t n) {
    const auto most = static_cast<float>(n - 1);
    const float inside = place > 0 ? (place < most ? place : most) : 0.0F;
    const auto low = static_cast<std::int64_t>(inside);
    const float t = inside - static_cast<float>(low);
    Neighbours out{};
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = low - 1 + i;
      out.at[i] = at < 0 ? 0 : at < n ? at : n - 1;
    }
    out.weight[0] = t * (-0.5F + t * (1 - 0.5F * t));
    out.weight[1] = 1 + t * t * (-2.5F + 1.5F * t);
    out.weight[2] = t * (0.5F + t * (2 - 1.5F * t));
    out.weight[3] = t * t * (-0.5F + 0.5F * t);
    return out;
  }
  ECHOTRAIN_EACH Shifted shift_at(float z, float y, float x) const {
    const Neighbours of_z = neighbours(z, nz), of_y = neighbours(y, ny), of_x = neighbours(x, nx);
    Shifted out{0, 0};
    for (int k = 0; k < 4; ++k)
      for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) {
          const float weight = of_z.weight[k] * of_y.weight[j] * of_x.weight[i];
          if (weight == 0) continue;
          const Shifted one = shift_of(of_z.at[k], of_y.at[j], of_x.at[i]);
          out.by += weight * one.by;
          out.slope += weight * one.slope;
        }
    return out;
  }

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, Lanes<kMost> x) const {
    float r[3][kMost], sums[GradientField::kFields][kMost];
    for (int c = 0; c < 3; ++c)
      for (int l = 0; l < x.count; ++l)
        r[c][l] = first[c] + static_cast<float>(x.first + l) * step[0][c] + static_cast<float>(y) * step[1][c] +
                  static_cast<float>(z) * step[2][c];
    sum_harmonics<float, kMost>(table, degree, r, x.count, sums);
    const std::int64_t size = nz * ny * nx;
    for (int l = 0; l < x.count; ++l) {
      float v[3], d[9];
      for (int a = 0; a < 3; ++a) {
        v[a] = voxels[a][0] * sums[0][l] + voxels[a][1] * sums[1][l] + voxels[a][2] * sums[2][l];
        if (!(v[a] > -kFar && v[a] < kFar)) v[a] = kFar;
      }
      if (planar) v[2] = 0;
      for (int i = 0; i < 9; ++i) d[i] = sums[3 + i][l];
      const float whole = stretch(d);
      float factor = whole > 0 && whole < kFar ? (modulate ? whole : 1.0F) : 0.0F;
      if (shift != nullptr) {
        const Shifted s = shift_at(static_cast<float>(z) + v[2], static_cast<float>(y) + v[1],
                                   static_cast<float>(x.first + l) + v[0]);
        v[1] += s.by;
        factor *= 1 + s.slope > 0 ? (modulate_shift ? 1 + s.slope : 1.0F) : 0.0F;
      }
      float* to = map + (z * ny + y) * nx + x.first + l;
      for (int a = 0; a < 3; ++a) to[a * size] = v[a];
      to[3 * size] = factor;
    }
  }
};
ECHOTRAIN_MAP(GradientMapped, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <stdexcept>

namespace echotrain::numerics {
namespace {

/// Schmidt's factor of r^n P_n^m.
double schmidt(int n, int m) {
  double ratio = 1;  // (n - m)! / (n + m)!
  for (int i = n - m + 1; i <= n + m; ++i) ratio /= i;
  return std::sqrt((m > 0 ? 2 : 1) * ratio);
}

using Series = std::vector<cdouble>;  // c of Re(c r^n P_n^m exp(i m phi)), at place(n, m)

/// The derivatives by x, y, z. They are of one degree less: with R = r^n P_n^m exp(i m phi), d/dz R_n^m = (n + m)
/// R_(n-1)^m, (d/dx + i d/dy) R_n^m = -R_(n-1)^(m+1), (d/dx - i d/dy) R_n^m = (n + m) (n + m - 1) R_(n-1)^(m-1)
/// (Hobson, Spherical and Ellipsoidal Harmonics, 1931, chapter III).
std::array<Series, 3> derivatives(const Series& of, int degree) {
  const auto place = GradientHarmonics::place;
  std::array<Series, 3> by;
  by.fill(Series(of.size()));
  for (int n = 1; n <= degree; ++n)
    for (int m = 0; m <= n; ++m) {
      const cdouble c = of[place(n, m)], i(0, 1);
      if (m < n) by[2][place(n - 1, m)] += static_cast<double>(n + m) * c;
      const double half = m > 0 ? 0.5 : 1;
      if (m + 1 < n) {
        by[0][place(n - 1, m + 1)] -= half * c;
        by[1][place(n - 1, m + 1)] += half * i * c;
      }
      if (m > 0) {
        const double down = half * (n + m) * (n + m - 1);
        by[0][place(n - 1, m - 1)] += down * c;
        by[1][place(n - 1, m - 1)] += down * i * c;
      }
    }
  for (Series& each : by)  // exp(0 i phi) is real
    for (int n = 0; n <= degree; ++n) each[place(n, 0)] = each[place(n, 0)].real();
  return by;
}

}  // namespace

GradientField::GradientField(const GradientHarmonics& harmonics)
    : radius_mm_(harmonics.radius_mm), degree_(harmonics.degree) {
  const auto place = GradientHarmonics::place;
  if (!(radius_mm_ > 0) || !std::isfinite(radius_mm_) || degree_ < 0 || degree_ > GradientHarmonics::kMostDegree)
    throw std::invalid_argument(
        fmt::format("a gradient field has no radius of {} mm, no degree of {}", radius_mm_, degree_));
  std::array<Series, kFields> series;
  for (std::size_t coil = 0; coil < 3; ++coil) {
    const auto& terms = harmonics.of_coil[coil];
    if (terms.size() != place(degree_, degree_) + 1)
      throw std::invalid_argument(fmt::format("a gradient field of degree {} has {} terms", degree_, terms.size()));
    for (int n = 0; n <= degree_; ++n)
      for (int m = 0; m <= n; ++m) {
        const auto& term = terms[place(n, m)];
        if (!std::isfinite(term.cosine) || !std::isfinite(term.sine))
          throw std::invalid_argument("a gradient field has coefficients that are not finite");
        series[coil].push_back(schmidt(n, m) * cdouble(term.cosine, m > 0 ? -term.sine : 0));
      }
    auto by = derivatives(series[coil], degree_);
    for (std::size_t a = 0; a < 3; ++a) series[3 + 3 * coil + a] = std::move(by[a]);
  }
  for (int m = 0; m <= degree_; ++m)
    for (int n = m; n <= degree_; ++n) {
      const double all = n * n - m * m, less = (n - 1) * (n - 1) - m * m;
      table_.push_back(n > m ? (2 * n - 1) / std::sqrt(all) : m > 1 ? std::sqrt((2.0 * m - 1) / (2.0 * m)) : 1);
      table_.push_back(n > m + 1 ? std::sqrt(less / all) : 0);
      for (const Series& each : series) {
        const cdouble c = each[place(n, m)] / schmidt(n, m);
        table_.push_back(c.real());
        table_.push_back(-c.imag());
      }
    }
}

GradientField::Values GradientField::at(const std::array<double, 3>& mm) const {
  double r[3][1], sums[kFields][1];
  for (std::size_t a = 0; a < 3; ++a) r[a][0] = mm[a] / radius_mm_;
  sum_harmonics<double, 1>(table_.data(), degree_, r, 1, sums);
  Values out{};
  for (std::size_t f = 0; f < out.size(); ++f) out[f] = (f < 3 ? radius_mm_ : 1) * sums[f][0];
  return out;
}

void gradient_map(Context& context, const GradientField& field, const VoxelPlaces& places, bool modulate,
                  const LineShift& shift, DeviceView<float> map) {
  const Shape& n = map.shape();
  const bool shifted = shift.voxels.data() != nullptr;
  if (n.rank() != 4 || n[0] != 4 || (shifted && !(shift.voxels.shape() == Shape{n[1], n[2], n[3]})))
    throw std::invalid_argument(
        fmt::format("gradient_map: a map {} and shifts {} do not fit", n.text(), shift.voxels.shape().text()));
  const std::vector<float> host(field.table().begin(), field.table().end());
  const Readable<float> table(context, {host.data(), {static_cast<std::int64_t>(host.size())}});
  GradientMapped f{};
  f.table = table.data();
  f.degree = field.degree();
  for (std::size_t a = 0; a < 3; ++a) {
    f.first[a] = static_cast<float>(places.first[a] / field.radius_mm());
    double squared = 0;
    for (const double s : places.step[a]) squared += s * s;
    for (std::size_t c = 0; c < 3; ++c) {
      f.step[a][c] = static_cast<float>(places.step[a][c] / field.radius_mm());
      f.voxels[a][c] = static_cast<float>(places.step[a][c] / squared * field.radius_mm());
    }
  }
  f.modulate = modulate;
  f.planar = n[1] == 1;
  f.modulate_shift = shift.modulate;
  f.shift = shift.voxels.data();
  f.nz = n[1], f.ny = n[2], f.nx = n[3];
  f.map = map.data();
  constexpr std::int64_t kGrain = 1024;  // an element takes a hundred times as long as a copied one
  echotrain::numerics::map(context, {n[1], n[2], n[3]}, f, kGrain);
}

}  // namespace echotrain::numerics
#endif
