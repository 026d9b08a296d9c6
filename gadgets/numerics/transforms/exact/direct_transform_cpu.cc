#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/transforms/exact/direct_transform_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kColumns = 32;         // complex columns of a tile: their real parts, then their imaginary parts
constexpr std::int64_t kTile = 2 * kColumns;  // floats
constexpr std::int64_t kRows = 4;             // rows worked on at once
constexpr std::int64_t kGroup = 128;          // samples that are summed in registers
constexpr std::int64_t kChunk = 2048;         // samples whose tables are kept at a time
static_assert(kDirectGroup % kGroup == 0 && kChunk % kDirectGroup == 0);

/// sum[r][c] += sum_s a[s][r] b[s][c] for kRows rows and the columns of a tile, `n` samples.
template <int kVectorBytes>
ECHOTRAIN_INLINE void multiply_by(const float* a, const float* b, std::int64_t n, float* sums) {
  using Vector [[gnu::vector_size(kVectorBytes), gnu::may_alias]] = float;
  constexpr std::int64_t kLanes = kVectorBytes / sizeof(float), kVectors = kTile / kLanes;
  static_assert(kRows == 4 && kVectors % 2 == 0);
  for (std::int64_t pair = 0; pair < kVectors; pair += 2) {
    Vector s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{};
    const float* column = b + pair * kLanes;
    for (std::int64_t s = 0; s < n; ++s) {
      const Vector b0 = *reinterpret_cast<const Vector*>(column + s * kTile),
                   b1 = *reinterpret_cast<const Vector*>(column + s * kTile + kLanes);
      const float* row = a + s * kRows;
      s00 += row[0] * b0;
      s01 += row[0] * b1;
      s10 += row[1] * b0;
      s11 += row[1] * b1;
      s20 += row[2] * b0;
      s21 += row[2] * b1;
      s30 += row[3] * b0;
      s31 += row[3] * b1;
    }
    Vector* to = reinterpret_cast<Vector*>(sums + pair * kLanes);
    to[0] += s00;
    to[1] += s01;
    to[kVectors] += s10;
    to[kVectors + 1] += s11;
    to[2 * kVectors] += s20;
    to[2 * kVectors + 1] += s21;
    to[3 * kVectors] += s30;
    to[3 * kVectors + 1] += s31;
  }
}

ECHOTRAIN_VECTOR_CLONES(void multiply(const float* a, const float* b, std::int64_t n, float* sums),
                        multiply_by<kVectorBytes>(a, b, n, sums))

/// b = d * e for `n` columns: complex numbers, parts apart.
ECHOTRAIN_CLONES void scale_columns(float re, float im, const float* e_re, const float* e_im, std::int64_t n,
                                    float* b_re, float* b_im) {
  for (std::int64_t i = 0; i < n; ++i) {
    b_re[i] = re * e_re[i] - im * e_im[i];
    b_im[i] = re * e_im[i] + im * e_re[i];
  }
}

cdouble wave(double turns) {
  turns -= std::round(turns);
  return std::polar(1.0, 2 * std::numbers::pi * turns);
}

std::int64_t padded_rows(const DirectGrid& grid) { return (grid.nx + kRows - 1) / kRows * kRows; }
std::int64_t tiles(const DirectGrid& grid) { return (grid.columns() + kColumns - 1) / kColumns; }

/// 64-byte aligned floats of this size, in an array that is a little larger.
class Aligned {
 public:
  Aligned(Context& context, std::int64_t floats) : memory_(context.zeros<float>({floats + 16})) {}
  float* data() {
    void* at = memory_.data();
    std::size_t space = static_cast<std::size_t>(memory_.size()) * sizeof(float);
    return static_cast<float*>(std::align(64, 64, at, space));
  }

 private:
  Array<float> memory_;
};

/// Tables that depend on the samples and one axis, for a chunk of samples.
class Tables {
 public:
  Tables(Context& context, const DirectGrid& grid)
      : grid_(grid),
        rows_(context, padded_rows(grid) * kChunk),
        y_(context, 2 * grid.ny * kChunk),
        z_(context, 2 * grid.nz * kChunk) {}

  void fill(ThreadPool& threads, const double* coordinates, std::int64_t n) {
    threads.parallel_for(n, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        const double* k = coordinates + s * grid_.dims;
        fill_rows(k[0], s);
        fill_axis(k[1], grid_.ny, y_.data() + 2 * grid_.ny * s);
        if (grid_.dims > 2)
          fill_axis(k[2], grid_.nz, z_.data() + 2 * grid_.nz * s);
        else
          z_.data()[2 * s] = 1;
      }
    });
  }
  /// Rows kRows * block onwards, [sample, kRows], from the first sample of a group on.
  const float* rows(std::int64_t block, std::int64_t first) { return rows_.data() + (block * kChunk + first) * kRows; }
  const float* y(std::int64_t s) { return y_.data() + 2 * grid_.ny * s; }  // real parts, then imaginary parts
  const float* z(std::int64_t s) { return z_.data() + 2 * grid_.nz * s; }

 private:
  void fill_rows(double k, std::int64_t s) {
    cdouble at = wave(k * grid_.half_position(0));
    const cdouble step = wave(k);
    float* rows = rows_.data();
    const auto put = [&](std::int64_t row, double value) {
      rows[(row / kRows * kChunk + s) * kRows + row % kRows] = static_cast<float>(value);
    };
    for (std::int64_t i = 0; i < grid_.cosines(); ++i, at *= step) {
      put(i, at.real());
      // The sine of position 0, which odd extents have, is left out.
      const std::int64_t sine = grid_.nx % 2 == 0 ? i : i - 1;
      if (sine >= 0) put(grid_.cosines() + sine, at.imag());
    }
  }
  static void fill_axis(double k, std::int64_t n, float* to) {
    cdouble at = wave(-k * static_cast<double>(n / 2));
    const cdouble step = wave(k);
    for (std::int64_t i = 0; i < n; ++i, at *= step) {
      to[i] = static_cast<float>(at.real());
      to[n + i] = static_cast<float>(at.imag());
    }
  }

  const DirectGrid& grid_;
  Aligned rows_, y_, z_;
};

/// b[s][column] = d_s exp(2 pi i (ky y + kz z)) for the columns of a tile and a group of samples.
void make_columns(const DirectGrid& grid, Tables& tables, const cfloat* samples, std::int64_t coil, std::int64_t first,
                  std::int64_t n, std::int64_t column, std::int64_t columns, float* b) {
  for (std::int64_t s = 0; s < n; ++s) {
    const cfloat d = samples[(first + s) * grid.coils + coil];
    const float *y = tables.y(first + s), *z = tables.z(first + s);
    float* row = b + s * kTile;
    for (std::int64_t done = 0; done < columns;) {
      const std::int64_t at = column + done, iy = at % grid.ny, iz = at / grid.ny,
                         run = std::min(columns - done, grid.ny - iy);
      const float re = d.real() * z[iz] - d.imag() * z[grid.nz + iz],
                  im = d.real() * z[grid.nz + iz] + d.imag() * z[iz];
      scale_columns(re, im, y + iy, y + grid.ny + iy, run, row + done, row + kColumns + done);
      done += run;
    }
  }
}

}  // namespace

std::int64_t direct_sums(Context& /*context*/, const DirectGrid& grid) {
  return grid.coils * tiles(grid) * padded_rows(grid) * kTile + 16;
}

void direct_add(Context& context, const DirectGrid& grid, const double* coordinates, const cfloat* samples,
                std::int64_t n, float* sums) {
  Tables tables(context, grid);
  const std::int64_t rows = padded_rows(grid), tiles_of_coil = tiles(grid);
  for (std::int64_t chunk = 0; chunk < n; chunk += kChunk) {
    const std::int64_t in_chunk = std::min(kChunk, n - chunk);
    tables.fill(context.threads(), coordinates + chunk * grid.dims, in_chunk);
    // One thread sums a tile, and adds the groups in order.
    context.threads().parallel_for(grid.coils * tiles_of_coil, 1, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) float b[kGroup * kTile] = {};
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t coil = t / tiles_of_coil, in_coil = t % tiles_of_coil * kColumns,
                           columns = std::min(kColumns, grid.columns() - in_coil);
        if (columns < kColumns) std::fill(std::begin(b), std::end(b), 0.0f);
        for (std::int64_t g = 0; g < in_chunk; g += kGroup) {
          const std::int64_t in_group = std::min(kGroup, in_chunk - g);
          make_columns(grid, tables, samples + chunk * grid.coils, coil, g, in_group, grid.first_column + in_coil,
                       columns, b);
          for (std::int64_t block = 0; block < rows / kRows; ++block)
            multiply(tables.rows(block, g), b, in_group, sums + (t * rows + block * kRows) * kTile);
        }
      }
    });
  }
}

void direct_get(Context& context, const DirectGrid& grid, const float* sums, cfloat* image) {
  const std::int64_t rows = padded_rows(grid), tiles_of_coil = tiles(grid), cosines = grid.cosines();
  const bool even = grid.nx % 2 == 0;
  context.threads().parallel_for(grid.coils * tiles_of_coil, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t coil = t / tiles_of_coil, in_coil = t % tiles_of_coil * kColumns;
      const float* tile = sums + t * rows * kTile;
      for (std::int64_t c = 0; c < std::min(kColumns, grid.columns() - in_coil); ++c) {
        cfloat* line = image + ((coil * grid.ny * grid.nz) + grid.first_column + in_coil + c) * grid.nx;
        for (std::int64_t i = 0; i < cosines; ++i) {
          const cfloat cosine(tile[i * kTile + c], tile[i * kTile + kColumns + c]);
          cfloat sine;
          if (const std::int64_t row = even ? cosines + i : cosines + i - 1; even || i > 0)
            sine = {tile[row * kTile + c], tile[row * kTile + kColumns + c]};
          const cfloat turned(-sine.imag(), sine.real());  // i S
          line[grid.nx / 2 + i] = cosine + turned;
          line[even ? grid.nx / 2 - 1 - i : grid.nx / 2 - i] = cosine - turned;
        }
      }
    }
  });
}

void direct_at(Context& context, int dims, const double* coordinates, const cfloat* samples, std::int64_t n,
               std::int64_t coils, const double* voxels, std::int64_t count, cdouble* out) {
  context.threads().parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<cdouble> sums(static_cast<std::size_t>(coils));
    for (std::int64_t v = begin; v < end; ++v) {
      std::fill(sums.begin(), sums.end(), cdouble{});
      for (std::int64_t s = 0; s < n; ++s) {
        double turns = 0;
        for (int a = 0; a < dims; ++a) turns += coordinates[s * dims + a] * voxels[v * dims + a];
        const cdouble phase = wave(turns);
        for (std::int64_t c = 0; c < coils; ++c)
          sums[static_cast<std::size_t>(c)] += cdouble(samples[s * coils + c]) * phase;
      }
      for (std::int64_t c = 0; c < coils; ++c) out[c * count + v] += sums[static_cast<std::size_t>(c)];
    }
  });
}

void round_sums(Context& /*context*/, const cdouble* sums, std::int64_t n, cfloat* out) {
  std::transform(sums, sums + n, out, [](cdouble v) { return cfloat(v); });
}

void pick_voxels(Context& /*context*/, const cfloat* image, std::int64_t voxels, std::int64_t coils,
                 const std::int64_t* chosen, std::int64_t count, cfloat* out) {
  for (std::int64_t c = 0; c < coils; ++c)
    for (std::int64_t i = 0; i < count; ++i) out[c * count + i] = image[c * voxels + chosen[i]];
}

void weigh_samples(Context& context, const SampleFactors& factors, const float* weights, std::int64_t n,
                   std::int64_t coils, double* coordinates, cfloat* samples) {
  const int dims = factors.dims;
  context.threads().parallel_for(n, 4096 / coils + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      double* k = coordinates + s * dims;
      cfloat* values = samples + s * coils;
      if (!std::all_of(k, k + dims, [](double v) { return std::isfinite(v); })) {
        std::fill_n(k, dims, 0.0);
        std::fill_n(values, coils, cfloat{});  // the data may be anything, such as NaN
        continue;
      }
      double size = weights == nullptr ? 1.0 : weights[s];
      for (int i = 0; i < factors.power; ++i) size *= basis_transform(factors.basis, k, dims);
      const auto factor = cfloat(size * wave(k[0] * factors.shift));
      for (std::int64_t c = 0; c < coils; ++c) values[c] = factor == cfloat{} ? cfloat{} : factor * values[c];
    }
  });
}

void fill_hermitian(Context& context, const DirectGrid& grid, const cfloat* half, cfloat* q) {
  const std::int64_t n[3] = {grid.nz, grid.ny, grid.nx};
  const auto lag_of = [](std::int64_t i, std::int64_t extent) { return i < (extent + 1) / 2 ? i : i - extent; };
  context.threads().parallel_for(grid.nz * grid.ny, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t x = 0; x < n[2]; ++x) {
        std::int64_t lag[3] = {lag_of(row / n[1], n[0]), lag_of(row % n[1], n[1]), lag_of(x, n[2])};
        cfloat value{};
        bool edge = false;
        for (int a = 0; a < 3; ++a) edge = edge || (n[a] > 1 && lag[a] == -n[a] / 2);
        if (!edge) {
          const bool mirrored = lag[0] < 0 || (lag[0] == 0 && (lag[1] < 0 || (lag[1] == 0 && lag[2] < 0)));
          if (mirrored)
            for (std::int64_t& l : lag) l = -l;
          const std::int64_t column = (lag[0] + n[0] / 2) * n[1] + lag[1] + n[1] / 2;
          value = half[(column - grid.first_column) * n[2] + lag[2] + n[2] / 2];
          if (mirrored) value = std::conj(value);
          if (row == 0 && x == 0) value.imag(0);
        }
        q[row * n[2] + x] = value;
      }
  });
}

}  // namespace echotrain::numerics::cpu
