#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/transforms/partial/unring.h"

namespace echotrain::numerics {

/// lines[item, other, along] = the part of a spectrum [item, y, x] in FFT order that is unringed along one axis.
struct UnringPart {
  const cfloat* spectrum;
  const float* one_plus_cosine;  // of all ky, then of all kx
  std::int64_t ny, nx;
  bool along_y;
  float scale;
  cfloat* lines;
  ECHOTRAIN_EACH void operator()(std::int64_t item, std::int64_t other, std::int64_t along) const {
    const std::int64_t y = along_y ? along : other, x = along_y ? other : along;
    const float of_y = one_plus_cosine[y], of_x = one_plus_cosine[ny + x], sum = of_x + of_y;
    const float part = sum > 0 ? (along_y ? of_x : of_y) / sum : 0.5f;
    store(scale * part * load(spectrum + (item * ny + y) * nx + x),
          lines + (item * ny * nx + other * (along_y ? ny : nx)) + along);
  }
};
ECHOTRAIN_MAP(UnringPart, 3)

/// moved[s, line, k] = spectra[line, k] turns[s, k].
struct UnringShifted {
  const cfloat *spectra, *turns;
  std::int64_t lines, n;
  cfloat* moved;
  ECHOTRAIN_EACH void operator()(std::int64_t s, std::int64_t line, std::int64_t k) const {
    store(load(turns + s * n + k) * load(spectra + line * n + k), moved + (s * lines + line) * n + k);
  }
};
ECHOTRAIN_MAP(UnringShifted, 3)

/// A voxel of a line: the shift with the least oscillation, and the value from there.
struct UnringChosen {
  static constexpr bool kClones = true;
  const cfloat* moved;        // [shift, line, x]
  std::int64_t first, lines;  // the first line among all, and the number of these
  int shifts;
  std::int64_t n, ny, nx;
  bool along_y;
  cfloat* to;  // [item, y, x]; the part along y is added

  ECHOTRAIN_EACH std::int64_t wrapped(std::int64_t x) const { return x < 0 ? x + n : x >= n ? x - n : x; }
  ECHOTRAIN_EACH float difference(const cfloat* line, std::int64_t x) const {
    return sqrtf(power(load(line + wrapped(x + 1)) - load(line + wrapped(x))));
  }
  ECHOTRAIN_EACH void operator()(std::int64_t l, std::int64_t x) const {
    int best = 0;
    float least = -1;
    for (int m = 0; m <= 2 * shifts; ++m) {  // 0, 1, -1, 2, -2, ... of 2 * shifts to a voxel
      const cfloat* line = moved + (m * lines + l) * n;
      float right = 0, left = 0;
      for (int i = 1; i <= kUnringWindow; ++i) {
        right += difference(line, x + i);
        left += difference(line, x - i - 1);
      }
      const float found = right < left ? right : left;
      if (least < 0 || found < least) {
        least = found;
        best = m;
      }
    }
    const cfloat* line = moved + (best * lines + l) * n;
    const int steps = (best + 1) / 2;
    const float away = static_cast<float>(steps) / static_cast<float>(2 * shifts);
    const std::int64_t beside = wrapped(best % 2 == 1 ? x - 1 : x + 1);
    const Complex value = (1 - away) * load(line + x) + away * load(line + beside);
    const std::int64_t whole = first + l, others = along_y ? nx : ny, item = whole / others, other = whole % others;
    cfloat* place = to + (along_y ? (item * ny + x) * nx + other : (item * ny + other) * nx + x);
    store(along_y ? load(place) + value : value, place);
  }
};
ECHOTRAIN_MAP(UnringChosen, 2)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kShiftedBytes = 32ll << 20;  // of lines that are shifted at a time

double frequency(std::int64_t k, std::int64_t n) { return static_cast<double>(k < (n + 1) / 2 ? k : k - n); }

/// exp(2 pi i k s / n) / n of shifts 0, 1, -1, ...
std::vector<cfloat> turns_of(int shifts, std::int64_t n) {
  std::vector<cfloat> out;
  for (int m = 0; m <= 2 * shifts; ++m) {
    const double s = (m % 2 == 1 ? 1 : -1) * static_cast<double>((m + 1) / 2) / (2 * shifts);
    for (std::int64_t k = 0; k < n; ++k) {
      const bool middle = 2 * k == n;
      const cdouble turn =
          std::polar(1 / static_cast<double>(n), 2 * std::numbers::pi * s * frequency(k, n) / static_cast<double>(n));
      out.emplace_back(middle ? cdouble(turn.real()) : turn);
    }
  }
  return out;
}

}  // namespace

void unring(Context& context, DeviceView<cfloat> data, int shifts) {
  const Shape& shape = data.shape();
  if (shape.rank() < 2) throw std::invalid_argument("unring: expected [..., y, x], got " + shape.text());
  if (shifts < 1 || shifts > kMostUnringShifts)
    throw std::invalid_argument(fmt::format("unring: expected 1..{} shifts, got {}", kMostUnringShifts, shifts));
  const std::int64_t ny = shape[shape.rank() - 2], nx = shape[shape.rank() - 1];
  if (std::min(ny, nx) < kFewestUnringPoints)
    throw std::invalid_argument(
        fmt::format("unring: lines of fewer than {} points: {}", kFewestUnringPoints, shape.text()));
  if (data.size() == 0) return;
  const std::int64_t items = data.size() / (ny * nx);
  std::vector<float> cosines;
  for (const std::int64_t n : {ny, nx})
    for (std::int64_t k = 0; k < n; ++k)
      cosines.push_back(2 * k == n ? 0.0f
                                   : static_cast<float>(1 + std::cos(2 * std::numbers::pi * frequency(k, n) /
                                                                     static_cast<double>(n))));
  const Array<float> one_plus_cosine = context.upload<float>({cosines.data(), {ny + nx}});

  Array<cfloat> spectrum = context.allocate<cfloat>({items, ny, nx});
  context.copy(DeviceView<const cfloat>(data.data(), spectrum.shape()), spectrum.view());
  fft(context, spectrum.view(), 2, Direction::forward);
  for (const bool along_y : {false, true}) {
    const std::int64_t n = along_y ? ny : nx, others = along_y ? nx : ny, lines = items * others;
    Array<cfloat> part = context.allocate<cfloat>({items, others, n});
    map(context, {items, others, n},
        UnringPart{spectrum.data(), one_plus_cosine.data(), ny, nx, along_y, 1 / static_cast<float>(ny * nx),
                   part.data()});
    // Back along the other axis alone would do, but its elements are not neighbours.
    fft(context, part.view(), 2, Direction::inverse);
    fft(context, part.view(), 1, Direction::forward);
    const std::vector<cfloat> by = turns_of(shifts, n);
    const std::int64_t count = 2 * shifts + 1;
    const Array<cfloat> turns = context.upload<cfloat>({by.data(), {count, n}});
    const std::int64_t at_once =
        std::clamp<std::int64_t>(kShiftedBytes / (count * n * std::int64_t{sizeof(cfloat)}), 1, lines);
    Array<cfloat> moved = context.allocate<cfloat>({count * at_once, n});
    for (std::int64_t first = 0; first < lines; first += at_once) {
      const std::int64_t some = std::min(at_once, lines - first);
      const DeviceView<cfloat> here(moved.data(), {count * some, n});
      map(context, {count, some, n}, UnringShifted{part.data() + first * n, turns.data(), some, n, here.data()});
      fft(context, here, 1, Direction::inverse);
      map(context, {some, n}, UnringChosen{here.data(), first, some, shifts, n, ny, nx, along_y, data.data()},
          std::max<std::int64_t>(1, kMapGrain / (8 * count)));
    }
  }
}

}  // namespace echotrain::numerics
#endif
