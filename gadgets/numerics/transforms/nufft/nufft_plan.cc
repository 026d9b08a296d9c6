#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

#include <fmt/format.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kGrain = 4096;

/// The numbers of the tiles along an axis that a footprint touches, each once.
struct Touched {
  std::int32_t tiles[FootprintWeights::kWidest];
  int count = 0;
  Touched(const Tiling& t, int axis, std::int32_t start, std::int32_t width) {
    const std::int32_t end = start + width;
    std::int32_t tile = start / t.tile[axis];
    for (std::int32_t next = (tile + 1) * t.tile[axis];; next += t.tile[axis]) {
      tiles[count++] = tile;
      next = std::min(next, t.grid[axis]);  // the last tile may be cut
      if (end <= next) return;
      if (next == t.grid[axis]) break;
      ++tile;
    }
    const std::int32_t rest = end - t.grid[axis];  // points around the grid's end
    for (tile = 0; tile * t.tile[axis] < rest; ++tile) tiles[count++] = tile;
  }
};

/// True if a sample touches the grid at all: the middle weight of a footprint on the grid is never 0.
bool is_somewhere(const Tiling& t, const float* weights, std::int64_t sample) {
  return weights[sample * t.dims * t.width + t.width / 2] != 0;
}

template <class Visit>
void for_touched_tiles(const Tiling& t, const std::int32_t* starts, const Visit& visit) {
  static constexpr std::int32_t kZero = 0;
  const Touched z(t, 0, t.dims > 2 ? starts[t.dims - 3] : kZero, t.dims > 2 ? t.width : 1);
  const Touched y(t, 1, t.dims > 1 ? starts[t.dims - 2] : kZero, t.dims > 1 ? t.width : 1);
  const Touched x(t, 2, starts[t.dims - 1], t.width);
  for (int k = 0; k < z.count; ++k)
    for (int j = 0; j < y.count; ++j)
      for (int i = 0; i < x.count; ++i) visit((z.tiles[k] * t.tiles[1] + y.tiles[j]) * t.tiles[2] + x.tiles[i]);
}

/// Cuts tiles with many samples (the dense centre) into several pieces, whose sums are then added in order.
void cut_pieces(const std::vector<std::int64_t>& offsets, std::int64_t most, HostLists& lists) {
  for (std::size_t tile = 0; tile + 1 < offsets.size(); ++tile) {
    const std::int64_t begin = offsets[tile], count = offsets[tile + 1] - begin;
    const auto number = static_cast<std::int32_t>(tile);
    const std::int64_t pieces = std::max<std::int64_t>(1, (count + most - 1) / most);
    if (pieces > 1) lists.split_tiles.push_back({number, lists.slots, static_cast<std::int32_t>(pieces)});
    for (std::int64_t p = 0; p < pieces; ++p) {
      const std::int64_t from = p * count / pieces, to = (p + 1) * count / pieces;
      lists.pieces.push_back(
          {begin + from, static_cast<std::int32_t>(to - from), number, pieces > 1 ? lists.slots++ : -1, 0});
    }
  }
}

constexpr double kTurn = 4294967296.0;       // 2^32
constexpr double kWholeParts = 0x1.8p52;     // adding this rounds away the fraction, to the nearest even number
constexpr double kMostTurns = 0x1p19;        // the sum keeps the last 32 bits before the point of numbers up to this
constexpr std::int64_t kTurnsAtOnce = 1536;  // a multiple of all dimensions: whole samples

ECHOTRAIN_INLINE std::uint32_t part_of_turn(double k) {
  const auto part = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(k * kTurn + kWholeParts));
  return part - (part == kNoTurns ? 1 : 0);
}

/// Returns false where a coordinate is large or not finite; its part is then of no use.
ECHOTRAIN_CLONES bool parts_of_turns(const double* k, std::int64_t n, std::uint32_t* parts) {
  std::uint64_t bad = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    parts[i] = part_of_turn(k[i]);
    bad |= std::abs(k[i]) < kMostTurns ? 0u : 1u;
  }
  return bad == 0;
}

#if defined(__SSE2__)
/// Writes past the caches: a device that copies lines which many cores have just written has to ask those cores for
/// them.
void store(const std::uint32_t* from, std::int64_t n, std::uint32_t* to) {
  std::int64_t i = 0;
  for (; i < n && reinterpret_cast<std::uintptr_t>(to + i) % sizeof(__m128i) != 0; ++i) to[i] = from[i];
  for (; i + 4 <= n; i += 4)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  std::copy(from + i, from + n, to + i);
}
void finish_stores() { _mm_sfence(); }
#else
void store(const std::uint32_t* from, std::int64_t n, std::uint32_t* to) { std::copy_n(from, n, to); }
void finish_stores() {}
#endif

}  // namespace

void to_turns(const double* coordinates, std::int64_t samples, int dims, std::uint32_t* turns) {
  const std::int64_t values = samples * dims;
  std::uint32_t parts[kTurnsAtOnce];
  for (std::int64_t first = 0; first < values; first += kTurnsAtOnce) {
    const std::int64_t n = std::min(kTurnsAtOnce, values - first);
    const double* const k = coordinates + first;
    if (!parts_of_turns(k, n, parts))
      for (std::int64_t s = 0; s < n; s += dims) {
        const bool finite = std::all_of(k + s, k + s + dims, [](double each) { return std::isfinite(each); });
        for (std::int64_t i = s; i < s + dims; ++i)
          parts[i] = !finite ? kNoTurns : part_of_turn(std::abs(k[i]) < kMostTurns ? k[i] : k[i] - std::floor(k[i]));
      }
    store(parts, n, turns + first);
  }
  finish_stores();
}

Tiling make_tiling(const Shape& image, const NufftOptions& options, const NufftTuning& tuning) {
  Tiling t{.grid = {1, 1, 1}, .tile = {1, 1, 1}, .tiles = {1, 1, 1}, .image = {1, 1, 1}, .dims = 0, .width = 0};
  t.dims = static_cast<std::int32_t>(image.rank());
  t.width = options.kernel_width;
  std::copy_n(tuning.tile, 3, t.tile);
  for (int a = 3 - t.dims, i = 0; a < 3; ++a, ++i) {
    t.image[a] = static_cast<std::int32_t>(image[i]);
    const auto wanted =
        static_cast<std::int64_t>(std::ceil(options.oversampling * static_cast<double>(image[i]) - 1e-9));
    t.grid[a] = static_cast<std::int32_t>(fast_even_size(std::max<std::int64_t>(wanted, t.width)));
    // No footprint may leave a tile and reach it again around the grid's end.
    t.tile[a] = std::min(t.tile[a], t.grid[a] - t.width + 1);
    t.tiles[a] = (t.grid[a] + t.tile[a] - 1) / t.tile[a];
  }
  return t;
}

std::vector<float> deapodization_factors(const Tiling& t) {
  std::vector<float> factors;
  for (int a = 3 - t.dims; a < 3; ++a) {
    const KaiserBessel window(t.width, static_cast<double>(t.grid[a]) / t.image[a]);
    for (std::int32_t i = 0; i < t.image[a]; ++i)
      factors.push_back(static_cast<float>(1 / window.transform(static_cast<double>(i - t.image[a] / 2) / t.grid[a])));
  }
  return factors;
}

std::int64_t most_of_piece(const NufftTuning& tuning, std::int64_t slot_points) {
  // Small grids have smaller tiles. Adding a partial sum must still cost little beside gathering it.
  const std::int64_t most = tuning.most_piece;
  if (slot_points >= 1ll * tuning.tile[0] * tuning.tile[1] * tuning.tile[2]) return most;
  return std::clamp<std::int64_t>(8 * slot_points, std::min<std::int64_t>(512, most), most);
}

/// Lists the tiles by a counting sort. Samples are cut into stretches; a stretch writes its part of a tile's list after
/// those of the stretches before it.
TileLists list_tiles(ThreadPool& threads, const Tiling& t, const std::int32_t* starts, const float* weights,
                     std::int64_t count) {
  const auto tiles = static_cast<std::size_t>(t.tiles[0]) * t.tiles[1] * t.tiles[2];
  const std::int64_t stretches = std::clamp<std::int64_t>(count / kGrain, 1, std::min(threads.size(), 16));
  std::vector<std::vector<std::uint32_t>> counts(stretches, std::vector<std::uint32_t>(tiles, 0));
  const auto for_stretches = [&](const auto& visit) {
    threads.parallel_for(stretches, 1, [&](std::int64_t begin, std::int64_t end) {
      StopCheck check_stop(threads);
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t s = i * count / stretches; s < (i + 1) * count / stretches; ++s) {
          check_stop();
          if (is_somewhere(t, weights, s))
            for_touched_tiles(t, starts + s * t.dims, [&](std::int32_t tile) { visit(i, tile, s); });
        }
    });
  };
  for_stretches([&](std::int64_t i, std::int32_t tile, std::int64_t) { ++counts[i][tile]; });

  TileLists result;
  std::vector<std::int64_t>& offsets = result.offsets;
  offsets.assign(tiles + 1, 0);
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    std::uint32_t before = 0;
    for (auto& c : counts) {
      const std::uint32_t here = c[tile];
      c[tile] = before;
      before += here;
    }
    offsets[tile + 1] = offsets[tile] + before;
  }
  result.list.resize(static_cast<std::size_t>(offsets[tiles]));
  for_stretches([&](std::int64_t i, std::int32_t tile, std::int64_t s) {
    result.list[static_cast<std::size_t>(offsets[tile] + counts[i][tile]++)] = static_cast<std::int32_t>(s);
  });
  return result;
}

HostLists list_samples(ThreadPool& threads, const NufftPlan::Impl& plan, const std::int32_t* starts,
                       const float* weights) {
  HostLists lists;
  if (plan.options.use != NufftUse::accumulate) {
    TileLists tiles = list_tiles(threads, plan.tiling, starts, weights, plan.samples);
    lists.list = std::move(tiles.list);
    cut_pieces(tiles.offsets, most_of_piece(plan.tuning, plan.slot_points), lists);
  }
  if (plan.options.use == NufftUse::all)
    lists.bins = bin_samples(threads, plan.tiling, {starts, {plan.samples * plan.tiling.dims}});
  return lists;
}

void place_samples(ThreadPool& threads, const NufftPlan::Impl& plan, HostView<const double> coordinates,
                   std::int32_t* starts, float* weights) {
  const Tiling& t = plan.tiling;
  const int dims = t.dims, width = t.width;
  std::vector<FootprintWeights> windows;  // one per axis, slowest first
  for (int a = 3 - dims; a < 3; ++a)
    windows.emplace_back(KaiserBessel(width, static_cast<double>(t.grid[a]) / t.image[a]));
  threads.parallel_for(plan.samples, kGrain, [&](std::int64_t begin, std::int64_t end) {
    float footprint[FootprintWeights::kWidest];
    for (std::int64_t s = begin; s < end; ++s) {
      bool finite = true;
      for (int a = 0; a < dims; ++a) finite = finite && std::isfinite(coordinates[s * dims + a]);
      for (int a = 0; a < dims; ++a) {
        const std::int64_t at = s * dims + a;
        if (!finite) {  // it lies nowhere
          starts[at] = 0;
          std::fill_n(weights + at * width, width, 0.0f);
          continue;
        }
        const int axis = 3 - dims + a;
        const double k = coordinates[s * dims + (dims - 1 - a)];  // component 0 is x, the last axis
        const double u = (k - std::floor(k)) * t.grid[axis], edge = u - width / 2.0, start = std::ceil(edge);
        auto first = static_cast<std::int32_t>(start);
        if (first < 0) first += t.grid[axis];
        if (first >= t.grid[axis]) first -= t.grid[axis];
        starts[at] = first;
        windows[static_cast<std::size_t>(a)].evaluate(start - edge, footprint);
        std::copy_n(footprint, width, weights + at * width);
      }
    }
  });
}

void keep_lists(Context& context, const HostLists& lists, NufftPlan::Impl& plan) {
  const auto keep = [&context]<class T>(const std::vector<T>& values) {
    return context.upload<T>({values.data(), {static_cast<std::int64_t>(values.size())}});
  };
  plan.slots = lists.slots;
  plan.list = keep(lists.list);
  plan.pieces = keep(lists.pieces);
  plan.split_tiles = keep(lists.split_tiles);
  plan.order = keep(lists.bins.order);
  plan.bins = keep(lists.bins.pieces);
}

namespace cpu {

void fill_plan(Context& context, HostView<const double> coordinates, NufftPlan::Impl& plan) {
  const Tiling& t = plan.tiling;
  const std::int64_t places = plan.samples * t.dims, floats = places * t.width;
  plan.slot_points = t.tile[0] * t.tile[1] * t.tile[2];
  plan.starts = context.allocate<std::int32_t>({places});
  plan.weights = context.allocate<float>({floats + kWeightPadding});
  std::fill_n(plan.weights.data() + floats, kWeightPadding, 0.0f);
  place_samples(context.threads(), plan, coordinates, plan.starts.data(), plan.weights.data());
  keep_lists(context, list_samples(context.threads(), plan, plan.starts.data(), plan.weights.data()), plan);
}

}  // namespace cpu

}  // namespace echotrain::numerics
