#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/dense/hermitian_eigen.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"
#include "gadgets/numerics/mri/espirit/espirit_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kPatchesAtOnce = 512;

/// Bytes of host memory that the kernels of this calibration take.
std::uint64_t work_bytes(const EspiritCalibration& c) {
  const std::int64_t n = c.order(), some = c.by_patches() ? c.patches() : kPatchesAtOnce;
  return SplitMatrix::bytes_of(c.coils, c.samples()) + 4 * SplitMatrix::bytes_of(n, n) +
         2 * SplitMatrix::bytes_of(some, c.rows()) + SplitMatrix::bytes_of(n, c.rows());
}

/// The middle of k-space [coil, sample], scaled to a largest value of 1.
SplitMatrix middle_of(Context& context, const EspiritCalibration& c) {
  const Extents n = last_axes(c.kspace.shape(), 3);
  SplitMatrix data(c.coils, c.samples());
  double most = 0;
  for (std::int64_t coil = 0; coil < c.coils; ++coil) {
    context.check_stop();
    const Planes<double> to = data.row(coil);
    std::int64_t i = 0;
    for (std::int64_t z = 0; z < c.extents[0]; ++z)
      for (std::int64_t y = 0; y < c.extents[1]; ++y) {
        const cfloat* from =
            c.kspace.data() + ((coil * n[0] + c.first[0] + z) * n[1] + c.first[1] + y) * n[2] + c.first[2];
        for (std::int64_t x = 0; x < c.extents[2]; ++x, ++i) {
          const cfloat v = from[x];
          if (!std::isfinite(v.real()) || !std::isfinite(v.imag())) continue;
          to.re[i] = static_cast<double>(v.real());
          to.im[i] = static_cast<double>(v.imag());
          most = std::max({most, std::abs(to.re[i]), std::abs(to.im[i])});
        }
      }
  }
  if (most > 0)
    for (std::int64_t coil = 0; coil < c.coils; ++coil) {
      const Planes<double> row = data.row(coil);
      for (std::int64_t i = 0; i < c.samples(); ++i) {
        row.re[i] /= most;
        row.im[i] /= most;
      }
    }
  return data;
}

/// A: [row, patch].
SplitMatrix calibration_matrix(const EspiritCalibration& c, const SplitMatrix& data) {
  const Extents fits = c.fits(), &n = c.extents;
  SplitMatrix a(c.rows(), c.patches());
  std::int64_t row = 0;
  for (std::int64_t coil = 0; coil < c.coils; ++coil)
    for (std::int64_t z = 0; z < c.kernel[0]; ++z)
      for (std::int64_t y = 0; y < c.kernel[1]; ++y)
        for (std::int64_t x = 0; x < c.kernel[2]; ++x, ++row)
          for (std::int64_t line = 0; line < fits[0] * fits[1]; ++line) {
            const std::int64_t from = ((line / fits[1] + z) * n[1] + line % fits[1] + y) * n[2] + x;
            std::copy_n(data.row(coil).re + from, fits[2], a.row(row).re + line * fits[2]);
            std::copy_n(data.row(coil).im + from, fits[2], a.row(row).im + line * fits[2]);
          }
  return a;
}

/// `count` columns of A from `begin` on, as rows: [patch, row].
SplitMatrix patches_of(const EspiritCalibration& c, const SplitMatrix& data, std::int64_t begin, std::int64_t count) {
  const Extents fits = c.fits(), &n = c.extents;
  SplitMatrix out(count, c.rows());
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t x0 = (begin + p) % fits[2], y0 = (begin + p) / fits[2] % fits[1],
                       z0 = (begin + p) / fits[2] / fits[1];
    std::int64_t row = 0;
    for (std::int64_t coil = 0; coil < c.coils; ++coil)
      for (std::int64_t z = 0; z < c.kernel[0]; ++z)
        for (std::int64_t y = 0; y < c.kernel[1]; ++y, row += c.kernel[2]) {
          const std::int64_t from = ((z0 + z) * n[1] + y0 + y) * n[2] + x0;
          std::copy_n(data.row(coil).re + from, c.kernel[2], out.row(p).re + row);
          std::copy_n(data.row(coil).im + from, c.kernel[2], out.row(p).im + row);
        }
  }
  return out;
}

/// Divides rows [from, to) of `basis`, vectors [patch, value] times A, by the factors that give them unit length.
template <int kVectorBytes>
ECHOTRAIN_INLINE void from_patches(const SplitMatrix& patches, const HermitianEigen& eigen, std::int64_t from,
                                   std::int64_t to, SplitMatrix& basis) {
  const std::int64_t rows = basis.columns();
  for (std::int64_t k = from; k < to; k += kTileRows)
    for (std::int64_t r = 0; r < rows; r += kTileColumns) {
      Tile tile;
      tile_product<false, kVectorBytes>(eigen.vectors.row(0).at(k), patches.row(0).at(r), patches.rows(),
                                        {1, eigen.vectors.step(), patches.step()}, tile);
      for (std::int64_t i = 0; i < std::min(kTileRows, to - k); ++i) {
        const double by = 1 / std::sqrt(eigen.values[static_cast<std::size_t>(k + i)]);
        const Planes<double> row = basis.row(k + i).at(r);
        for (std::int64_t j = 0; j < std::min(kTileColumns, rows - r); ++j) {
          row.re[j] = by * tile.re[i][j];
          row.im[j] = by * tile.im[i][j];
        }
      }
    }
}

ECHOTRAIN_VECTOR_CLONES(void make_basis(const SplitMatrix& patches, const HermitianEigen& eigen, std::int64_t from,
                                        std::int64_t to, SplitMatrix& basis),
                        from_patches<kVectorBytes>(patches, eigen, from, to, basis))

/// The left singular vectors of A above the threshold, as rows: [value, row]. None where the data are 0.
SplitMatrix basis_of(Context& context, const EspiritCalibration& c, const SplitMatrix& data) {
  ThreadPool& threads = context.threads();
  const std::int64_t n = c.order();
  SplitMatrix gram(n, n);
  if (c.by_patches())
    add_gram(threads, calibration_matrix(c, data), gram);
  else
    for (std::int64_t begin = 0; begin < c.patches(); begin += kPatchesAtOnce)
      add_gram(threads, patches_of(c, data, begin, std::min(kPatchesAtOnce, c.patches() - begin)), gram);
  const HermitianEigen eigen = hermitian_eigen(threads, std::move(gram), c.share());
  const auto kept = static_cast<std::int64_t>(eigen.values.size());
  if (!(eigen.values.back() > 0)) return {};
  SplitMatrix basis(kept, c.rows());
  if (c.by_patches()) {
    const SplitMatrix patches = patches_of(c, data, 0, n);
    threads.parallel_for((kept + kTileRows - 1) / kTileRows, 1, [&](std::int64_t begin, std::int64_t end) {
      make_basis(patches, eigen, begin * kTileRows, std::min(kept, end * kTileRows), basis);
    });
  } else {  // the sums of patches' products are the conjugate of A A^H
    for (std::int64_t k = 0; k < kept; ++k)
      for (std::int64_t r = 0; r < n; ++r) {
        basis.row(k).re[r] = eigen.vectors.row(r).re[k];
        basis.row(k).im[r] = -eigen.vectors.row(r).im[k];
      }
  }
  return basis;
}

/// EspiritKernels::kernels of one pair of coils.
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_offsets(const EspiritCalibration& c, const SplitMatrix& basis, std::int64_t a, std::int64_t b,
                                  const std::int64_t* places, cdouble* to) {
  const std::int64_t size = c.kernel_size(), centre = volume(c.span()) / 2, step = basis.step();
  for (std::int64_t j = 0; j < size; j += kTileRows)
    for (std::int64_t i = 0; i < size; i += kTileColumns) {
      Tile tile;
      tile_product<true, kVectorBytes>(basis.row(0).at(b * size + j), basis.row(0).at(a * size + i), basis.rows(),
                                       {1, step, step}, tile);
      for (std::int64_t p = 0; p < std::min(kTileRows, size - j); ++p)
        for (std::int64_t q = 0; q < std::min(kTileColumns, size - i); ++q)
          to[centre + places[i + q] - places[j + p]] += cdouble(tile.re[p][q], tile.im[p][q]);
    }
}

ECHOTRAIN_VECTOR_CLONES(void add_offsets_of_pair(const EspiritCalibration& c, const SplitMatrix& basis, std::int64_t a,
                                                 std::int64_t b, const std::int64_t* places, cdouble* to),
                        add_offsets<kVectorBytes>(c, basis, a, b, places, to))

std::vector<cfloat> virtual_coil_of(const ThreadPool& threads, const SplitMatrix& data) {
  const std::int64_t coils = data.rows();
  std::vector<cdouble> covariance(static_cast<std::size_t>(triangle_size(coils)));
  for (std::int64_t a = 0; a < coils; ++a)
    for (std::int64_t b = 0; b <= a; ++b) {
      threads.check_stop();
      const Planes<const double> p = data.row(a), q = data.row(b);
      double re = 0, im = 0;
      for (std::int64_t s = 0; s < data.columns(); ++s) {
        re += p.re[s] * q.re[s] + p.im[s] * q.im[s];
        im += p.im[s] * q.re[s] - p.re[s] * q.im[s];
      }
      covariance[static_cast<std::size_t>(triangle_index(a, b))] = cdouble(re, im);
    }
  std::vector<cfloat> vector(static_cast<std::size_t>(coils));
  principal_component(covariance.data(), coils, vector.data());
  return vector;
}

}  // namespace

EspiritKernels espirit_kernels(Context& context, const EspiritCalibration& c) {
  MemoryShare(context.account()).grow_to(work_bytes(c));  // makes room for it
  const SplitMatrix data = middle_of(context, c);
  const SplitMatrix basis = basis_of(context, c, data);
  const std::int64_t pairs = triangle_size(c.coils), size = c.kernel_size();
  const Extents span = c.span();
  EspiritKernels made{context.allocate<cfloat>({pairs, span[0], span[1], span[2]}), {}};
  std::vector<std::int64_t> places;  // places of a kernel, as offsets in `span`
  for (std::int64_t z = 0; z < c.kernel[0]; ++z)
    for (std::int64_t y = 0; y < c.kernel[1]; ++y)
      for (std::int64_t x = 0; x < c.kernel[2]; ++x) places.push_back((z * span[1] + y) * span[2] + x);
  context.threads().parallel_for(c.coils * c.coils, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<cdouble> sums(static_cast<std::size_t>(volume(span)));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t a = i / c.coils, b = i % c.coils;
      if (b > a) continue;
      std::fill(sums.begin(), sums.end(), cdouble(0));
      if (basis.rows() > 0) add_offsets_of_pair(c, basis, a, b, places.data(), sums.data());
      cfloat* to = made.kernels.data() + triangle_index(a, b) * volume(span);
      for (const cdouble& sum : sums) *to++ = cfloat(sum / static_cast<double>(size));
    }
  });
  const std::vector<cfloat> coil = virtual_coil_of(context.threads(), data);
  made.coil = context.upload<cfloat>({coil.data(), {c.coils}});
  return made;
}

void kernels_of_planes(Context& context, DeviceView<const cfloat> kernels, std::int64_t first, std::int64_t n,
                       DeviceView<cfloat> to) {
  const std::int64_t planes = to.shape()[1], offsets = kernels.shape()[1], flat = to.shape()[2] * to.shape()[3];
  std::vector<cfloat> phases;  // [plane, offset]
  for (std::int64_t z = 0; z < planes; ++z)
    for (std::int64_t d = 0; d < offsets; ++d)
      phases.push_back(
          cfloat(std::polar(1.0, 2 * std::numbers::pi * static_cast<double>((d - offsets / 2) * (first + z - n / 2)) /
                                     static_cast<double>(n))));
  context.threads().parallel_for(kernels.shape()[0] * planes, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const cfloat* from = kernels.data() + i / planes * offsets * flat;
      cfloat* row = to.data() + i * flat;
      std::fill_n(row, flat, cfloat{});
      for (std::int64_t d = 0; d < offsets; ++d) {
        const cfloat phase = phases[static_cast<std::size_t>(i % planes * offsets + d)];
        for (std::int64_t k = 0; k < flat; ++k) {
          const cfloat v = from[d * flat + k];
          row[k] += cfloat(v.real() * phase.real() - v.imag() * phase.imag(),
                           v.real() * phase.imag() + v.imag() * phase.real());
        }
      }
    }
  });
}

}  // namespace echotrain::numerics::cpu
