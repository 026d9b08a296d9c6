#include "gadgets/numerics/mri/parallel/unfold.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace echotrain::numerics {
namespace {

/// Multiplies without the tests for infinity of std::complex.
cdouble times(cdouble a, cdouble b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
cdouble conjugate_times(cdouble a, cdouble b) {
  return {a.real() * b.real() + a.imag() * b.imag(), a.real() * b.imag() - a.imag() * b.real()};
}

constexpr std::int64_t kMostSets = 2, kMostUnknowns = kMostSets * kMostAliases;

/// The distance of a voxel from one that it folds onto. The phase of the alias does not change the other's solution.
struct Alias {
  std::int64_t y, z;
};

/// All aliases of a lattice, the voxel itself first.
std::vector<Alias> aliases_of(const Lattice& lattice, const LineGeometry& geometry) {
  const std::int64_t ny = geometry.padded[1], nz = geometry.padded[0];
  const std::int64_t ry = lattice.step_y, rz = lattice.step_z;
  const std::int64_t along_z = lattice.shift == 0 ? rz : ry * rz;
  if (ny % ry != 0 || nz % along_z != 0)
    throw std::invalid_argument(
        fmt::format("unfold: a grid of {} x {} (y, z) is no whole multiple of {} x {}", ny, nz, ry, along_z));
  std::vector<Alias> aliases;
  for (std::int64_t n = 0; n < rz; ++n)
    for (std::int64_t m = 0; m < ry; ++m) {
      const std::int64_t y = m * (ny / ry);
      const std::int64_t z = lattice.shift == 0 ? n * (nz / rz) : (n * ry - m * lattice.shift) * (nz / along_z);
      aliases.push_back({y, z});
    }
  return aliases;
}

/// The first row of (B^H B + lambda max(diag) I)^-1 B^H, for B [coil, unknown]. Columns of zeros are left out.
class FirstRow {
 public:
  FirstRow(std::int64_t coils, std::int64_t unknowns, double lambda)
      : lambda_(lambda),
        columns_(static_cast<std::size_t>(unknowns), std::vector<cdouble>(static_cast<std::size_t>(coils))) {}
  std::vector<cdouble>& column(std::int64_t unknown) { return columns_[static_cast<std::size_t>(unknown)]; }

  /// row: [coil].
  void solve(std::vector<cdouble>& row) {
    std::fill(row.begin(), row.end(), cdouble(0));
    used_.clear();
    double most = 0;
    for (const auto& column : columns_) {
      double size = 0;
      for (const cdouble& v : column) size += std::norm(v);
      most = std::max(most, size);
      if (size > 0) used_.push_back(&column);
      if (used_.empty()) return;  // this voxel's own maps are 0
    }
    const std::size_t n = used_.size();
    // Computes Cholesky's factor, by rows.
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        cdouble sum = i == j ? lambda_ * most : 0;
        for (std::size_t c = 0; c < row.size(); ++c) sum += conjugate_times((*used_[i])[c], (*used_[j])[c]);
        for (std::size_t k = 0; k < j; ++k) sum -= conjugate_times(factor_[j][k], factor_[i][k]);
        // Maps that are equal up to rounding cannot be told apart: the smallest pivot keeps the result finite.
        factor_[i][j] = i == j ? std::sqrt(std::max(sum.real(), 1e-13 * most)) : sum / factor_[j][j].real();
      }
    // L L^H x = e_0; the row is x^H B^H.
    std::array<cdouble, kMostUnknowns> x{};
    for (std::size_t i = 0; i < n; ++i) {
      cdouble sum = i == 0 ? 1 : 0;
      for (std::size_t k = 0; k < i; ++k) sum -= times(factor_[i][k], x[k]);
      x[i] = sum / factor_[i][i].real();
    }
    for (std::size_t i = n; i-- > 0;) {
      cdouble sum = x[i];
      for (std::size_t k = i + 1; k < n; ++k) sum -= conjugate_times(factor_[k][i], x[k]);
      x[i] = sum / factor_[i][i].real();
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += std::conj(times(x[i], (*used_[i])[c]));
  }

 private:
  double lambda_;
  std::vector<std::vector<cdouble>> columns_;
  std::vector<const std::vector<cdouble>*> used_;
  std::array<std::array<cdouble, kMostUnknowns>, kMostUnknowns> factor_{};
};

}  // namespace

Array<cfloat> unfold(Context& context, DeviceView<const cfloat> maps, const Lattice& lattice,
                     const LineGeometry& geometry, double lambda, std::int64_t sets, std::int64_t of) {
  const Shape& shape = maps.shape();
  if (sets < 1 || sets > kMostSets || of < 0 || of >= sets || shape.rank() == 0 || shape[0] % sets != 0)
    throw std::invalid_argument(fmt::format("unfold: maps {} have no set {} of {}", shape.text(), of, sets));
  if (shape.rank() != 4 || !(Shape{shape[1], shape[2], shape[3]} == geometry.image))
    throw std::invalid_argument(
        fmt::format("unfold: expected maps [coil, z, y, x] of {}, got {}", geometry.image.text(), shape.text()));
  if (!(lambda >= 0 && lambda <= 1)) throw std::invalid_argument("unfold: lambda is 0 to 1");
  if (lattice.size() > kMostAliases)
    throw std::invalid_argument(
        fmt::format("unfold: R is {}, and at most {} can be unfolded", lattice.size(), kMostAliases));
  const std::vector<Alias> aliases = aliases_of(lattice, geometry);
  context.check_stop();
  const HostArray<cfloat> from = context.download<cfloat>(maps);
  const std::int64_t coils = shape[0] / sets, nz = shape[1], ny = shape[2], nx = shape[3];
  HostArray<cfloat> to = context.allocate_host<cfloat>({coils, nz, ny, nx});
  const auto count = static_cast<std::int64_t>(aliases.size());
  /// The image's index on an axis of the grid, -1 outside.
  const auto moved = [](std::int64_t i, std::int64_t by, std::int64_t image, std::int64_t padded) {
    const std::int64_t at = (((i - image / 2 + padded / 2 + by) % padded + padded) % padded) - padded / 2 + image / 2;
    return at >= 0 && at < image ? at : -1;
  };
  context.threads().parallel_for(nz * ny, 1, [&](std::int64_t begin, std::int64_t end) {
    FirstRow system(coils, sets * count, lambda);
    std::vector<cdouble> row(static_cast<std::size_t>(coils));
    for (std::int64_t line = begin; line < end; ++line)
      for (std::int64_t x = 0; x < nx; ++x) {
        for (std::int64_t a = 0; a < count; ++a) {
          const Alias& alias = aliases[static_cast<std::size_t>(a)];
          const std::int64_t y = moved(line % ny, alias.y, ny, geometry.padded[1]);
          const std::int64_t z = moved(line / ny, alias.z, nz, geometry.padded[0]);
          for (std::int64_t i = 0; i < sets; ++i) {  // the wanted set comes first
            const cfloat* const set = from.data() + (of + i) % sets * coils * nz * ny * nx;
            for (std::int64_t c = 0; c < coils; ++c)
              system.column(i * count + a)[static_cast<std::size_t>(c)] =
                  y < 0 || z < 0 ? cdouble(0) : cdouble(set[((c * nz + z) * ny + y) * nx + x]);
          }
        }
        system.solve(row);
        // A is 1/R of the sum over aliases.
        for (std::int64_t c = 0; c < coils; ++c)
          to.data()[(c * nz * ny + line) * nx + x] =
              cfloat(std::conj(static_cast<double>(count) * row[static_cast<std::size_t>(c)]));
      }
  });
  return context.place<cfloat>(to);
}

}  // namespace echotrain::numerics
