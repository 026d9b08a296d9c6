#include "gadgets/numerics/parallel/calibration_gram.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "gadgets/numerics/parallel/parallel_ops.h"

namespace echotrain::numerics {
namespace {

using cpu::kTileColumns;
using cpu::kTileRows;
using cpu::Planes;
using cpu::Tile;

/// A row of A or of T, and a column of A, whose samples are `lag` apart.
struct Pair {
  std::int64_t row;  // of the system: that of coil 0 at dx 0 of a source, or of coil 0 of a target
  std::int64_t column;
  RowStep at;  // of the column's source
};

/// Products of the samples of a row with those of the row that is `lag` away.
struct Lag {
  RowStep lag;
  bool of_targets;  // then there is one place along x, the target's, for each of the column's
  std::vector<Pair> pairs;
};

std::vector<Lag> all_lags(const KernelRows& rows, std::int64_t coils, std::int64_t first_target) {
  using Key = std::pair<bool, RowStep>;
  std::map<Key, std::vector<Pair>> found;
  for (std::size_t j = 0; j < rows.sources.size(); ++j) {
    const RowStep& from = rows.sources[j];
    const std::int64_t column = static_cast<std::int64_t>(j) * rows.kernel_x * coils;
    const auto lag_of = [&](const RowStep& to) { return RowStep{to[0] - from[0], to[1] - from[1]}; };
    for (std::size_t i = j; i < rows.sources.size(); ++i)
      found[{false, lag_of(rows.sources[i])}].push_back(
          {static_cast<std::int64_t>(i) * rows.kernel_x * coils, column, from});
    for (std::size_t t = 0; t < rows.targets.size(); ++t)
      found[{true, lag_of(rows.targets[t])}].push_back(
          {first_target + static_cast<std::int64_t>(t) * coils, column, from});
  }
  std::vector<Lag> lags;
  for (auto& [key, pairs] : found) lags.push_back({key.second, key.first, std::move(pairs)});
  return lags;
}

/// One tile of coils of all sums with one lag.
struct LagTile {
  const CalibrationBlock* block;
  const Lag* lag;
  KernelPlaces places;
  std::int64_t kernel_x;
  std::int64_t first_row, last_row;  // coils, of rows of the system
  std::int64_t first_column;         // and of its columns
  std::int64_t last_column;
  Planes<double> to;
  std::int64_t step;
};

/// tile += sign * conj(a) b
ECHOTRAIN_INLINE void add_product(Planes<const double> a, Planes<const double> b, double sign, Tile& tile) {
  for (std::int64_t p = 0; p < kTileRows; ++p)
    for (std::int64_t q = 0; q < kTileColumns; ++q) {
      tile.re[p][q] += sign * (a.re[p] * b.re[q] + a.im[p] * b.im[q]);
      tile.im[p][q] += sign * (a.re[p] * b.im[q] - a.im[p] * b.re[q]);
    }
}

ECHOTRAIN_INLINE void add_tile(const LagTile& w, const Tile& tile, std::int64_t row, std::int64_t column) {
  for (std::int64_t p = 0; p < w.last_column - w.first_column; ++p) {
    const Planes<double> to = w.to.at((column + w.first_column + p) * w.step + row + w.first_row);
    for (std::int64_t q = 0; q < w.last_row - w.first_row; ++q) {
      to.re[q] += tile.re[p][q];
      to.im[q] += tile.im[p][q];
    }
  }
}

/// The samples of the row at y, z, which is the column's, with those of the row that is the lag away.
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_row_products(const LagTile& w, std::int64_t y, std::int64_t z) {
  const CalibrationBlock& block = *w.block;
  const Lag& lag = *w.lag;
  const std::int64_t ny = block.extents()[1], step = block.step();
  const Planes<const double> a = block.row(z * ny + y).at(w.first_column);
  const Planes<const double> b = block.row((z + lag.lag[1]) * ny + y + lag.lag[0]).at(w.first_row);
  const std::int64_t middle = w.kernel_x / 2, n = w.kernel_x;
  // dx of the column, and how much further the row's is.
  const auto add_all = [&](const Tile& tile, std::int64_t dx, std::int64_t further) ECHOTRAIN_INLINE_LAMBDA {
    for (const Pair& pair : lag.pairs)
      if (w.places.contains(y - pair.at[0], z - pair.at[1]))
        add_tile(w, tile, pair.row + (lag.of_targets ? 0 : (dx + further) * block.coils()),
                 pair.column + dx * block.coils());
  };
  const bool same = !lag.of_targets && lag.lag == RowStep{};
  for (std::int64_t further = lag.of_targets ? middle - n + 1
                              : same         ? 0
                                             : 1 - n;
       further <= (lag.of_targets ? middle : n - 1); ++further) {
    const std::int64_t begin = lag.of_targets ? middle - further : std::max<std::int64_t>(0, -further);
    const std::int64_t end = lag.of_targets ? begin + 1 : std::min(n, n - further);
    Tile tile;
    cpu::tile_product<true, kVectorBytes>(a.at(begin * step), b.at((begin + further) * step), w.places.width,
                                          {1, step, step}, tile);
    for (std::int64_t dx = begin;; ++dx) {
      add_all(tile, dx, further);
      if (dx + 1 >= end) break;
      add_product(a.at(dx * step), b.at((dx + further) * step), -1, tile);
      add_product(a.at((dx + w.places.width) * step), b.at((dx + further + w.places.width) * step), 1, tile);
    }
  }
}

ECHOTRAIN_VECTOR_CLONES(void add_row(const LagTile& w, std::int64_t y, std::int64_t z),
                        add_row_products<kVectorBytes>(w, y, z))

void add_lag(const LagTile& w) {
  const std::int64_t ny = w.block->extents()[1], nz = w.block->extents()[0];
  for (std::int64_t z = 0; z < nz; ++z)
    for (std::int64_t y = 0; y < ny; ++y)
      if (std::any_of(w.lag->pairs.begin(), w.lag->pairs.end(),
                      [&](const Pair& pair) { return w.places.contains(y - pair.at[0], z - pair.at[1]); }))
        add_row(w, y, z);
}

double energy_of(const CalibrationBlock& block, const KernelPlaces& places, const RowStep& target,
                 std::int64_t first_x) {
  double sum = 0;
  for (std::int64_t z = places.first[1]; z <= places.last[1]; ++z)
    for (std::int64_t y = places.first[0]; y <= places.last[0]; ++y) {
      const Planes<const double> row =
          block.row((z + target[1]) * block.extents()[1] + y + target[0]).at(first_x * block.step());
      for (std::int64_t i = 0; i < places.width * block.step(); ++i)
        sum += row.re[i] * row.re[i] + row.im[i] * row.im[i];
    }
  return sum;
}

}  // namespace

CalibrationBlock::CalibrationBlock(Context& context, DeviceView<const cfloat> calibration)
    : coils_(calibration.shape()[0]),
      padded_((coils_ + kTileColumns - 1) / kTileColumns * kTileColumns),
      n_(last_axes(calibration.shape(), 3)),
      memory_(context.allocate_host<double>({2, volume(n_), padded_})) {
  const HostArray<cfloat> host = context.download<cfloat>(calibration);
  std::fill_n(memory_.data(), memory_.size(), 0.0);
  const std::int64_t points = volume(n_);
  for (std::int64_t c = 0; c < coils_; ++c) {
    context.check_stop();
    for (std::int64_t i = 0; i < points; ++i) {
      const cfloat value = host.data()[c * points + i];
      if (!std::isfinite(value.real()) || !std::isfinite(value.imag())) throw std::invalid_argument(kNotFinite);
      memory_.data()[i * padded_ + c] = static_cast<double>(value.real());
      memory_.data()[(points + i) * padded_ + c] = static_cast<double>(value.imag());
    }
  }
}

CalibrationGram calibration_gram(Context& context, const CalibrationBlock& block, const KernelRows& rows) {
  const std::int64_t coils = block.coils();
  const KernelPlaces where = places_of(block.extents(), rows);
  if (where.count() == 0) throw std::invalid_argument("no kernel fits in the calibration lines");
  CalibrationGram gram{
      HermitianSystem(context, rows.elements() * coils, static_cast<std::int64_t>(rows.targets.size()) * coils), {}};
  for (const RowStep& target : rows.targets) gram.energy.push_back(energy_of(block, where, target, rows.kernel_x / 2));

  const std::vector<Lag> lags = all_lags(rows, coils, gram.system.first_right());
  const std::int64_t across = (coils + kTileColumns - 1) / kTileColumns, down = (coils + kTileRows - 1) / kTileRows;
  context.threads().parallel_for(
      static_cast<std::int64_t>(lags.size()) * across * down, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i % across * kTileColumns, column = i / across % down * kTileRows;
          add_lag({.block = &block,
                   .lag = &lags[static_cast<std::size_t>(i / across / down)],
                   .places = where,
                   .kernel_x = rows.kernel_x,
                   .first_row = row,
                   .last_row = std::min(coils, row + kTileColumns),
                   .first_column = column,
                   .last_column = std::min(coils, column + kTileRows),
                   .to = gram.system.column(0),
                   .step = gram.system.step()});
        }
      });
  return gram;
}

}  // namespace echotrain::numerics
