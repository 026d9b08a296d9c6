#include "gadgets/numerics/mri/parallel/noise_gain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kGainLanes = kHybridLanes;

std::vector<TouchedRow> touched_rows(Context& context, const LineCorrections* corrections, const RowPlan& rows,
                                     const LineGeometry& geometry) {
  if (corrections == nullptr) return {};
  std::map<std::int32_t, TouchedRow> touched;
  const auto own = context.place_on_host<std::int32_t>(corrections->own);
  const auto first = context.place_on_host<std::int32_t>(corrections->first);
  const auto terms = context.place_on_host<LineCorrections::Term>(corrections->terms);
  context.synchronize();
  for (std::int64_t i = 0; i < corrections->count(); ++i) {
    const std::int64_t row = corrections->rows[static_cast<std::size_t>(i)];
    const std::int64_t ky = row % geometry.padded[1] - geometry.padded[1] / 2;
    const std::int64_t kz = row / geometry.padded[1] - geometry.padded[0] / 2;
    const auto add = [&](std::int32_t acquired, std::int32_t source, float sign) {
      TouchedRow& to = touched[acquired];
      to.ky = acquired % rows.ny - rows.ny / 2;
      to.kz = acquired / rows.ny - rows.nz / 2;
      to.on_lattice = rows.kind[static_cast<std::size_t>(acquired)] == RowPlan::on_lattice;
      to.parts.push_back({ky, kz, source, sign});
    };
    if (own.data()[i] >= 0) add(own.data()[i], -1, 1);
    for (std::int32_t t = first.data()[i]; t < first.data()[i + 1]; ++t)
      add(terms.data()[t].row, terms.data()[t].source, terms.data()[t].sign);
  }
  std::vector<TouchedRow> list;
  for (auto& [row, found] : touched) list.push_back(std::move(found));
  return list;
}

/// to[source, c'] = sum_c conj(S_c) g[c, c'](source), for kGainLanes columns, real parts before imaginary ones.
ECHOTRAIN_CLONES void combine_kernels(const float* kernels, const float* maps, std::int64_t sources, std::int64_t coils,
                                      float* to) {
  constexpr std::int64_t n = kGainLanes;
  std::fill_n(to, sources * coils * 2 * n, 0.0f);
  for (std::int64_t s = 0; s < sources; ++s)
    for (std::int64_t c = 0; c < coils; ++c) {
      const float* map = maps + c * 2 * n;
      for (std::int64_t from = 0; from < coils; ++from, kernels += 2 * n) {
        float* sum = to + (s * coils + from) * 2 * n;
        for (std::int64_t i = 0; i < n; ++i) {
          sum[i] += map[i] * kernels[i] + map[n + i] * kernels[n + i];
          sum[n + i] += map[i] * kernels[n + i] - map[n + i] * kernels[i];
        }
      }
    }
}

/// to += (re + i im) * from, or the conjugate of `from`.
ECHOTRAIN_CLONES void add_turned(const float* from, float re, float im, bool conjugate, float* to) {
  constexpr std::int64_t n = kGainLanes;
  const float sign = conjugate ? -1.0f : 1.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    const float b = sign * from[n + i];
    to[i] += re * from[i] - im * b;
    to[n + i] += re * b + im * from[i];
  }
}

/// sum += the squares of `coils` values of kGainLanes columns.
ECHOTRAIN_CLONES void add_squares(const float* from, std::int64_t coils, double times, double* sum) {
  constexpr std::int64_t n = kGainLanes;
  for (std::int64_t c = 0; c < coils; ++c, from += 2 * n)
    for (std::int64_t i = 0; i < n; ++i)
      sum[i] += times * (static_cast<double>(from[i]) * from[i] + static_cast<double>(from[n + i]) * from[n + i]);
}

}  // namespace

void cpu::noise_gain(Context& context, const NoiseWork& w) {
  const std::int64_t coils = w.coils, nz = w.image[0], ny = w.image[1], nx = w.image[2], n = kGainLanes;
  const std::int64_t sources = w.sources, blocks = (nx + n - 1) / n;
  context.threads().parallel_for(blocks * nz * ny, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::size_t>(coils * 2 * n);
    std::vector<float> map(size), weight(size), combined(static_cast<std::size_t>(sources) * size), coefficient(size);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / (nz * ny), line = i % (nz * ny), width = std::min(n, nx - block * n);
      const std::int64_t y = line % ny - ny / 2, z = line / ny - nz / 2;
      std::fill(map.begin(), map.end(), 0.0f);
      std::fill(weight.begin(), weight.end(), 0.0f);
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t x = 0; x < width; ++x) {
          const std::int64_t at = (c * nz * ny + line) * nx + block * n + x;
          const auto to = static_cast<std::size_t>(c * 2 * n + x), imaginary = to + static_cast<std::size_t>(n);
          map[to] = w.maps[at].real(), map[imaginary] = w.maps[at].imag();
          weight[to] = w.conjugate[at].real(), weight[imaginary] = w.conjugate[at].imag();
        }
      if (!w.touched.empty())
        combine_kernels(w.kernels + block * sources * coils * coils * 2 * n, map.data(), sources, coils,
                        combined.data());
      double sum[kGainLanes] = {}, full[kGainLanes] = {};
      add_squares(weight.data(), coils, w.untouched, sum);
      add_squares(map.data(), coils, w.all_rows, full);
      for (const TouchedRow& row : w.touched) {
        std::fill(coefficient.begin(), coefficient.end(), 0.0f);
        const auto add = [&](const float* from, bool conjugated, std::int64_t ky, std::int64_t kz, float sign) {
          const double turns = static_cast<double>(ky * y) / static_cast<double>(w.padded_y) +
                               static_cast<double>(kz * z) / static_cast<double>(w.padded_z);
          const float re = sign * static_cast<float>(std::cos(2 * std::numbers::pi * turns));
          const float im = sign * static_cast<float>(std::sin(2 * std::numbers::pi * turns));
          for (std::int64_t c = 0; c < coils; ++c)
            add_turned(from + c * 2 * n, re, im, conjugated, coefficient.data() + c * 2 * n);
        };
        if (row.on_lattice) add(weight.data(), true, row.ky, row.kz, 1);
        for (const TouchedRow::Part& part : row.parts)
          if (part.source < 0)
            add(map.data(), true, part.ky, part.kz, part.sign);
          else
            add(combined.data() + part.source * coils * 2 * n, false, part.ky, part.kz, part.sign);
        add_squares(coefficient.data(), coils, 1, sum);
      }
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t at = line * nx + block * n + x;
        w.deviation[at] = static_cast<float>(std::sqrt(w.samples * sum[x]) / w.points);
        w.g[at] = full[x] > 0 ? static_cast<float>(std::sqrt(sum[x] / full[x] * w.on_lattice / w.all_rows)) : 0.0f;
      }
    }
  });
}

NoiseGain noise_gain(Context& context, DeviceView<const cfloat> conjugate, DeviceView<const cfloat> maps,
                     const HybridKernels* hybrid, const LineCorrections* corrections, const RowPlan& rows,
                     const LineGeometry& geometry, std::int64_t samples) {
  const Shape& shape = maps.shape();
  const bool fits = shape.rank() == 4 && conjugate.shape() == shape &&
                    Shape{shape[1], shape[2], shape[3]} == geometry.image && rows.nz == geometry.encoded[0] &&
                    rows.ny == geometry.encoded[1];
  if (!fits || (hybrid == nullptr) != (corrections == nullptr) ||
      (hybrid != nullptr && (hybrid->coils != shape[0] || hybrid->columns != shape[3])))
    throw std::invalid_argument(
        fmt::format("noise_gain: maps {}, weights {}, {} x {} rows and an image of {} do not fit", shape.text(),
                    conjugate.shape().text(), rows.nz, rows.ny, geometry.image.text()));
  if (geometry.direction != Direction::inverse || geometry.padded[0] < rows.nz || geometry.padded[1] < rows.ny)
    throw std::invalid_argument("noise_gain: the noise of an inverse transform over all rows is known, of others not");
  if (samples < 1) throw std::invalid_argument("noise_gain: a row has at least one sample");
  context.check_stop();
  const std::vector<TouchedRow> touched = touched_rows(context, corrections, rows, geometry);
  const auto on_lattice = static_cast<double>(std::count(rows.kind.begin(), rows.kind.end(), RowPlan::on_lattice));
  double untouched = on_lattice;
  for (const TouchedRow& row : touched) untouched -= row.on_lattice ? 1 : 0;
  const auto all_rows = static_cast<double>(rows.ny * rows.nz);
  const Shape image{shape[1], shape[2], shape[3]};
  Array<float> deviation = context.allocate<float>(image), g = context.allocate<float>(image);
  const NoiseWork work{.conjugate = conjugate.data(),
                       .maps = maps.data(),
                       .kernels = hybrid == nullptr ? nullptr : hybrid->values.data(),
                       .sources = hybrid == nullptr ? 0 : hybrid->sources(),
                       .coils = shape[0],
                       .image = last_axes(shape, 3),
                       .padded_y = geometry.padded[1],
                       .padded_z = geometry.padded[0],
                       .touched = touched,
                       .untouched = untouched,
                       .all_rows = all_rows,
                       .on_lattice = on_lattice,
                       .samples = static_cast<double>(samples),
                       .points = static_cast<double>(geometry.encoded.size()),
                       .deviation = deviation.data(),
                       .g = g.data()};
  if (maps.size() > 0) ECHOTRAIN_DISPATCH(context, noise_gain(context, work));
  NoiseGain made{context.place_on_host<float>(deviation), context.place_on_host<float>(g)};
  context.synchronize();
  return made;
}

}  // namespace echotrain::numerics
