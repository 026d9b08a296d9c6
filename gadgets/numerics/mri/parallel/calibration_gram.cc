#include "gadgets/numerics/mri/parallel/calibration_gram.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/mri/parallel/parallel_ops.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/fft/line_plan_float64.h"

namespace echotrain::numerics {
namespace {

using cpu::kTileColumns;
using cpu::kTileRows;
using cpu::Planes;
using cpu::Tile;

/// The coils and dx of a row of k-space that A or T takes, paired with those of one of A.
struct Pair {
  std::int64_t row;     // row of the system for coil 0 at dx 0 of a source, or for coil 0 of a target
  std::int64_t column;  // the column likewise, for a source
  RowStep to, from;     // rows of k-space, the row's and the column's
  bool of_target;       // true: there is one place along x, the target's
};

std::vector<Pair> all_pairs(const KernelRows& rows, std::int64_t coils, std::int64_t first_target) {
  std::vector<Pair> pairs;
  const auto at = [&](std::size_t source) { return static_cast<std::int64_t>(source) * rows.kernel_x * coils; };
  for (std::size_t j = 0; j < rows.sources.size(); ++j) {
    for (std::size_t i = j; i < rows.sources.size(); ++i)
      pairs.push_back({at(i), at(j), rows.sources[i], rows.sources[j], false});
    for (std::size_t t = 0; t < rows.targets.size(); ++t)
      pairs.push_back(
          {first_target + static_cast<std::int64_t>(t) * coils, at(j), rows.targets[t], rows.sources[j], true});
  }
  return pairs;
}

/// exp(2 pi i k lag / n) / n
struct Phase {
  double re, im;
};

/// All sums of a pair.
struct PairWork {
  const CalibrationBlock* block;
  const Pair* pair;
  KernelPlaces places;
  std::int64_t first_lag, last_lag;  // distance along x of the row's sample from the column's
  const Phase* phases;               // [frequency, lag]
  Tile* sums;                        // [tile, lag]
  Planes<double> to;
  std::int64_t step;

  std::int64_t lags() const { return last_lag - first_lag + 1; }
};

/// sum += by * tile
ECHOTRAIN_INLINE void add_multiple(const Tile& tile, const Phase& by, Tile& sum) {
  const double *re = tile.re[0], *im = tile.im[0];
  double *to_re = sum.re[0], *to_im = sum.im[0];
  for (std::int64_t i = 0; i < kTileRows * kTileColumns; ++i) {
    to_re[i] += by.re * re[i] - by.im * im[i];
    to_im[i] += by.re * im[i] + by.im * re[i];
  }
}

/// The sum over y and z of samples or of frequencies, for coils from `column` and `row` on.
template <int kVectorBytes>
ECHOTRAIN_INLINE void sum_rows(const PairWork& w, Planes<const double> a, Planes<const double> b, std::int64_t column,
                               std::int64_t row, Tile& sum) {
  const std::int64_t ny = w.block->extents()[1], step = w.block->step();
  const auto at = [&](const RowStep& of, std::int64_t z) {
    return ((z + of[1]) * ny + w.places.first[0] + of[0]) * step;
  };
  const std::int64_t first = w.places.first[1], last = w.places.last[1];
  for (std::int64_t z = first; z <= last; ++z) {
    Tile plane;
    cpu::tile_product<true, kVectorBytes>(a.at(at(w.pair->from, z) + column), b.at(at(w.pair->to, z) + row),
                                          w.places.along(0), {1, step, step}, z == first ? sum : plane);
    if (z == first) continue;
    add_multiple(plane, {1, 0}, sum);
  }
}

/// Adds the sums for coils from `column` and `row` on to the system, for one lag. `sum`: the sum over all x.
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_lag(const PairWork& w, std::int64_t lag, std::int64_t column, std::int64_t row, Tile& sum) {
  const CalibrationBlock& block = *w.block;
  const bool target = w.pair->of_target;
  const std::int64_t coils = block.coils(), n = block.kernel_x(), nx = block.extents()[2];
  const std::int64_t begin = target ? n / 2 - lag : std::max<std::int64_t>(0, -lag);
  const std::int64_t end = target ? begin + 1 : std::min(n, n - lag);
  const auto add_sample = [&](std::int64_t x, double sign) ECHOTRAIN_INLINE_LAMBDA {
    Tile sample;
    sum_rows<kVectorBytes>(w, block.end(x), block.end(x + lag), column, row, sample);
    add_multiple(sample, {sign, 0}, sum);
  };
  for (std::int64_t x = std::max<std::int64_t>(0, -lag); x < begin; ++x) add_sample(x, -1);
  for (std::int64_t x = begin + w.places.width; x < std::min(nx, nx - lag); ++x) add_sample(x, -1);
  for (std::int64_t dx = begin;; ++dx) {
    const std::int64_t to_row = w.pair->row + (target ? 0 : (dx + lag) * coils) + row;
    for (std::int64_t p = 0; p < std::min(kTileRows, coils - column); ++p) {
      const Planes<double> to = w.to.at((w.pair->column + dx * coils + column + p) * w.step + to_row);
      for (std::int64_t q = 0; q < std::min(kTileColumns, coils - row); ++q) {
        to.re[q] = sum.re[p][q];
        to.im[q] = sum.im[p][q];
      }
    }
    if (dx + 1 >= end) break;
    add_sample(dx, -1);
    add_sample(dx + w.places.width, 1);
  }
}

template <int kVectorBytes>
ECHOTRAIN_INLINE void add_pair_by(const PairWork& w) {
  const std::int64_t step = w.block->step(), coils = w.block->coils(), lags = w.lags();
  for (std::int64_t k = 0; k < w.block->frequencies(); ++k) {
    const Planes<const double> rows = w.block->frequency(k);
    Tile* sums = w.sums;
    for (std::int64_t column = 0; column < coils; column += kTileRows)
      for (std::int64_t row = 0; row < step; row += kTileColumns, sums += lags) {
        Tile product;
        sum_rows<kVectorBytes>(w, rows, rows, column, row, product);
        for (std::int64_t lag = 0; lag < lags; ++lag) add_multiple(product, w.phases[k * lags + lag], sums[lag]);
      }
  }
  Tile* sums = w.sums;
  for (std::int64_t column = 0; column < coils; column += kTileRows)
    for (std::int64_t row = 0; row < step; row += kTileColumns, sums += lags)
      for (std::int64_t lag = 0; lag < lags; ++lag) add_lag<kVectorBytes>(w, w.first_lag + lag, column, row, sums[lag]);
}

ECHOTRAIN_VECTOR_CLONES(void add_pair(const PairWork& w), add_pair_by<kVectorBytes>(w))

std::vector<Phase> phases_of(std::int64_t n, std::int64_t first_lag, std::int64_t last_lag) {
  std::vector<Phase> phases;
  for (std::int64_t k = 0; k < n; ++k)
    for (std::int64_t lag = first_lag; lag <= last_lag; ++lag) {
      const double turns = static_cast<double>((k * lag % n + n) % n) / static_cast<double>(n);
      const auto phase = std::polar(1 / static_cast<double>(n), 2 * std::numbers::pi * turns);
      phases.push_back({phase.real(), phase.imag()});
    }
  return phases;
}

double energy_of(const CalibrationBlock& block, const KernelPlaces& places, const RowStep& target) {
  double sum = 0;
  for (std::int64_t z = places.first[1]; z <= places.last[1]; ++z)
    for (std::int64_t y = places.first[0]; y <= places.last[0]; ++y)
      sum += block.energy((z + target[1]) * block.extents()[1] + y + target[0]);
  return sum;
}

}  // namespace

CalibrationBlock::CalibrationBlock(Context& context, DeviceView<const cfloat> calibration, std::int64_t kernel_x)
    : coils_(calibration.shape()[0]),
      padded_((coils_ + kTileColumns - 1) / kTileColumns * kTileColumns),
      kernel_x_(std::min(kernel_x, calibration.shape()[3])),
      n_(last_axes(calibration.shape(), 3)),
      points_(fast_even_size(n_[2] + kernel_x_ - 1)),
      memory_(context.allocate_host<double>({2, points_, n_[0] * n_[1], padded_})),
      ends_(context.allocate_host<double>({2, std::max<std::int64_t>(1, 2 * (kernel_x_ - 1)), n_[0] * n_[1], padded_})),
      energy_(static_cast<std::size_t>(n_[0] * n_[1])) {
  const HostArray<cfloat> host = context.download<cfloat>(calibration);
  const std::int64_t rows = n_[0] * n_[1], nx = n_[2], width = nx - kernel_x_ + 1, first_target = kernel_x_ / 2;
  const LinePlanFloat64 plan(points_);
  std::atomic<bool> finite = true;
  context.threads().parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> lines(static_cast<std::size_t>(2 * coils_ * points_));  // [coil, x, re and im]
    for (std::int64_t row = begin; row < end; ++row) {
      std::fill(lines.begin(), lines.end(), 0.0);
      double sum = 0;
      for (std::int64_t c = 0; c < coils_; ++c) {
        double* line = lines.data() + 2 * c * points_;
        const cfloat* from = host.data() + (c * rows + row) * nx;
        for (std::int64_t x = 0; x < nx; ++x) {
          line[2 * x] = static_cast<double>(from[x].real());
          line[2 * x + 1] = static_cast<double>(from[x].imag());
        }
        double all = 0;
        for (std::int64_t i = 0; i < 2 * nx; ++i) all += line[i] * line[i];
        if (!std::isfinite(all)) finite = false;  // squares of floats do not overflow
        for (std::int64_t i = 2 * first_target; i < 2 * (first_target + width); ++i) sum += line[i] * line[i];
      }
      energy_[static_cast<std::size_t>(row)] = sum;
      const auto put = [&](std::int64_t from, std::int64_t to, std::int64_t count, HostArray<double>& array) {
        double* re = array.data() + (to * rows + row) * padded_;
        double* im = re + count * rows * padded_;
        for (std::int64_t c = 0; c < padded_; ++c) {
          re[c] = c < coils_ ? lines[static_cast<std::size_t>(2 * (c * points_ + from))] : 0;
          im[c] = c < coils_ ? lines[static_cast<std::size_t>(2 * (c * points_ + from) + 1)] : 0;
        }
      };
      for (std::int64_t x = 0; x < kernel_x_ - 1; ++x) {
        put(x, x, 2 * (kernel_x_ - 1), ends_);
        put(width + x, kernel_x_ - 1 + x, 2 * (kernel_x_ - 1), ends_);
      }
      for (std::int64_t c = 0; c < coils_; ++c) plan.execute(lines.data() + 2 * c * points_);
      for (std::int64_t k = 0; k < points_; ++k) put(k, k, points_, memory_);
    }
  });
  if (!finite) throw std::invalid_argument(kNotFinite);
}

CalibrationGram calibration_gram(Context& context, const CalibrationBlock& block, const KernelRows& rows) {
  const std::int64_t coils = block.coils(), n = rows.kernel_x;
  if (n != block.kernel_x()) throw std::invalid_argument("the block is for kernels of another extent along x");
  const KernelPlaces where = places_of(block.extents(), rows);
  if (where.count() == 0) throw std::invalid_argument("no kernel fits in the calibration lines");
  CalibrationGram gram{
      HermitianSystem(context, rows.elements() * coils, static_cast<std::int64_t>(rows.targets.size()) * coils), {}};
  for (const RowStep& target : rows.targets) gram.energy.push_back(energy_of(block, where, target));

  const std::vector<Pair> pairs = all_pairs(rows, coils, gram.system.first_right());
  const std::int64_t tiles = block.step() / kTileColumns * ((coils + kTileRows - 1) / kTileRows);
  const std::int64_t middle = n / 2, points = block.frequencies();
  // Phases for a row of k-space with itself, with another one, and with a target.
  const std::vector<Phase> itself = phases_of(points, 0, n - 1), others = phases_of(points, 1 - n, n - 1),
                           targets = phases_of(points, middle - n + 1, middle);
  context.threads().parallel_for(std::ssize(pairs), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Pair& pair = pairs[static_cast<std::size_t>(i)];
      const bool same = !pair.of_target && pair.row == pair.column;
      PairWork work{.block = &block,
                    .pair = &pair,
                    .places = where,
                    .first_lag = pair.of_target ? middle - n + 1
                                 : same         ? 0
                                                : 1 - n,
                    .last_lag = pair.of_target ? middle : n - 1,
                    .phases = (pair.of_target ? targets
                               : same         ? itself
                                              : others)
                                  .data(),
                    .sums = nullptr,
                    .to = gram.system.column(0),
                    .step = gram.system.step()};
      std::vector<Tile> sums(static_cast<std::size_t>(tiles * work.lags()), Tile{});
      work.sums = sums.data();
      add_pair(work);
    }
  });
  return gram;
}

}  // namespace echotrain::numerics
