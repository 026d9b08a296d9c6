// Makes NUFFT plans on the device. Samples are sorted once, by the tile that holds the first point of their footprint
// (a stable radix sort: the same order in every run). A tile's list then consists of stretches of that order: those of
// the tile itself, and of the tiles before it whose samples reach it (nufft_homes_cuda.cuh).
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/transforms/nufft/nufft_homes_cuda.cuh"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kFewSamples = 1 << 12;     // samples up to which coordinates are read from host memory directly
constexpr std::int64_t kStagedSamples = 1 << 20;  // samples up to which coordinates are copied to the device at once
constexpr std::int64_t kLeastStaged = 1 << 12;    // samples that are worth a thread
constexpr int kPieceOfHome = 512;                 // samples of a home tile that a warp lists at a time
constexpr unsigned kWholeWarp = 0xffffffffu;

/// The place of a footprint along an axis: `start` before it is wrapped to the grid, and `shift`.
struct Placed {
  std::int64_t start;
  float shift;
};
__device__ Placed placed(double k, int width, int extent) {
  const double u = (k - floor(k)) * extent, edge = u - width / 2.0, start = ceil(edge);
  return {static_cast<std::int64_t>(start), static_cast<float>(start - edge)};
}
__device__ Placed placed(std::uint32_t turns, int width, int extent) {
  // The product is exact in parts of 2^-32 cells.
  const std::int64_t edge = static_cast<std::int64_t>(turns) * extent - (static_cast<std::int64_t>(width) << 31);
  const std::int64_t start = (edge + 0xffffffffll) >> 32;
  return {start, static_cast<float>(static_cast<std::uint32_t>((start << 32) - edge)) * 0x1p-32f};
}
__device__ bool is_somewhere(double k) { return isfinite(k); }
__device__ bool is_somewhere(std::uint32_t turns) { return turns != kNoTurns; }

/// Places the samples `first` .. first + n - 1 with these `coordinates`: component 0 = x, double or turns. One thread
/// per sample. `homes`, `samples`, `touches`: the sort's input, or nullptr.
template <int Dims, class T>
__global__ void footprint_kernel(Tiling t, Homes h, const T* coordinates, std::int64_t first, std::int64_t n,
                                 Footprint* footprints, std::uint32_t* homes, std::int32_t* samples,
                                 std::uint16_t* touches) {
  ECHOTRAIN_GRID_STRIDE(s, n) {
    T k[Dims];
    bool finite = true;
#pragma unroll
    for (int a = 0; a < Dims; ++a) {
      k[a] = coordinates[s * Dims + Dims - 1 - a];  // component 0 is x, the last axis
      finite = finite && is_somewhere(k[a]);
    }
    Footprint footprint{{Footprint::kNowhere, 0, 0}, {0, 0, 0}, {0, 0}};
    std::int32_t start[3] = {0, 0, 0};
    if (finite) {
#pragma unroll
      for (int a = 0; a < Dims; ++a) {
        const int axis = 3 - Dims + a;
        const Placed at = placed(k[a], t.width, t.grid[axis]);
        auto begin = static_cast<std::int32_t>(at.start);
        if (begin < 0) begin += t.grid[axis];
        if (begin >= t.grid[axis]) begin -= t.grid[axis];
        footprint.start[a] = start[axis] = begin;
        footprint.shift[a] = at.shift;
      }
    }
    const std::int64_t sample = first + s;
    footprints[sample] = footprint;
    if (homes == nullptr) continue;
    const std::int32_t home[3] = {start[0] / t.tile[0], start[1] / t.tile[1], start[2] / t.tile[2]};
    homes[sample] = static_cast<std::uint32_t>(finite ? h.number(home) : h.count());
    samples[sample] = static_cast<std::int32_t>(sample);
    touches[sample] = finite ? touched(t, start) : std::uint16_t{0};
  }
}

/// Puts `touched` in the samples' new order.
__global__ void reorder_kernel(const std::uint16_t* touched, const std::int32_t* order, std::int64_t n,
                               std::uint16_t* in_order) {
  ECHOTRAIN_GRID_STRIDE(i, n) in_order[i] = touched[order[i]];
}

/// offsets[k] = first of the sorted keys that is k or more, for k = 0 .. keys_end. One thread per key and one more.
__global__ void offsets_kernel(const std::uint32_t* keys, std::int64_t n, std::int64_t keys_end,
                               std::int64_t* offsets) {
  ECHOTRAIN_GRID_STRIDE(i, n + 1) {
    const std::int64_t from = i == 0 ? 0 : static_cast<std::int64_t>(keys[i - 1]) + 1;
    const std::int64_t to = i == n ? keys_end : static_cast<std::int64_t>(keys[i]);
    for (std::int64_t k = from; k <= to; ++k) offsets[k] = i;
  }
}

/// The result of cutting lists: the number of pieces, of pieces in lists that have several, and of such lists.
struct Cut {
  std::int32_t pieces, slots, split;
};
struct AddCuts {
  __host__ __device__ Cut operator()(const Cut& a, const Cut& b) const {
    return {a.pieces + b.pieces, a.slots + b.slots, a.split + b.split};
  }
};

/// Consecutive lists: list i begins at the first key of i * keys.
struct Lists {
  const std::int64_t* offsets;  ///< offsets of keys
  std::int64_t count, keys, last;
  __device__ std::int64_t begin(std::int64_t i) const { return offsets[min(i * keys, last)]; }
};

/// `least`: pieces of an empty list. cuts: [lists + 1]; the last is empty.
__global__ void cut_kernel(Lists lists, std::int64_t most, std::int32_t least, Cut* cuts) {
  ECHOTRAIN_GRID_STRIDE(i, lists.count + 1) {
    const std::int64_t size = i < lists.count ? lists.begin(i + 1) - lists.begin(i) : 0;
    const std::int64_t needed = i < lists.count ? max((size + most - 1) / most, static_cast<std::int64_t>(least)) : 0;
    const auto pieces = static_cast<std::int32_t>(needed);
    cuts[i] = {pieces, pieces > 1 ? pieces : 0, pieces > 1 ? 1 : 0};
  }
}

__global__ void tile_pieces_kernel(Lists tiles, const Cut* before, Piece* pieces, SplitTile* split_tiles) {
  ECHOTRAIN_GRID_STRIDE(i, tiles.count) {
    const std::int64_t begin = tiles.begin(i), size = tiles.begin(i + 1) - begin;
    const Cut first = before[i];
    const std::int32_t count = before[i + 1].pieces - first.pieces;
    const auto tile = static_cast<std::int32_t>(i);
    for (std::int32_t p = 0; p < count; ++p) {
      const std::int64_t from = p * size / count, to = (p + 1) * size / count;
      pieces[first.pieces + p] = {begin + from, static_cast<std::int32_t>(to - from), tile,
                                  count > 1 ? first.slots + p : -1, 0};
    }
    if (count > 1) split_tiles[first.split] = {tile, first.slots, count};
  }
}

/// The last list holds the samples that lie nowhere, which belong to no bin.
__global__ void bin_pieces_kernel(Tiling t, Homes h, Lists bins, const Cut* before, BinPiece* pieces) {
  ECHOTRAIN_GRID_STRIDE(i, bins.count) {
    const std::int64_t begin = bins.begin(i), size = bins.begin(i + 1) - begin;
    const std::int32_t first = before[i].pieces, count = before[i + 1].pieces - first;
    std::int32_t home[3] = {0, 0, 0};
    if (i + 1 < bins.count) h.find(static_cast<std::int32_t>(i) * h.of_bin(), home);
    for (std::int32_t p = 0; p < count; ++p) {
      const std::int64_t from = begin + p * size / count, to = begin + (p + 1) * size / count;
      pieces[first + p] = {static_cast<std::int32_t>(from),
                           static_cast<std::int32_t>(to - from),
                           {home[0] * t.tile[0], home[1] * t.tile[1], home[2] * t.tile[2]}};
    }
  }
}

/// A stretch of a home's samples, in their order.
struct HomePiece {
  std::int32_t begin, count, home;
};
__global__ void home_pieces_kernel(Lists homes, const Cut* before, HomePiece* pieces) {
  ECHOTRAIN_GRID_STRIDE(i, homes.count) {
    const std::int64_t begin = homes.begin(i), size = homes.begin(i + 1) - begin;
    const std::int32_t first = before[i].pieces, count = before[i + 1].pieces - first;
    for (std::int32_t p = 0; p < count; ++p) {
      const std::int64_t from = begin + p * size / count, to = begin + (p + 1) * size / count;
      pieces[first + p] = {static_cast<std::int32_t>(from), static_cast<std::int32_t>(to - from),
                           static_cast<std::int32_t>(i)};
    }
  }
}

__device__ std::int64_t warp_of_launch() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
}

/// counts[piece, way]: samples of the piece that take that way. One warp per piece, of `*pieces_end`; a lane keeps a
/// way's count.
__global__ void count_ways_kernel(Homes h, const HomePiece* pieces, const Cut* pieces_end, const std::uint16_t* touched,
                                  std::int32_t* counts) {
  const std::int64_t p = warp_of_launch();
  if (p >= pieces_end->pieces) return;
  const int lane = threadIdx.x % 32, ways = h.ways();
  const HomePiece piece = pieces[p];
  for (int first = 0; first < ways; first += 32) {
    const Way first_way = way_of(h, first);
    const int end = min(ways - first, 32);
    std::int32_t mine = 0;
    for (int i = lane; i - lane < piece.count; i += 32) {
      const std::uint16_t reaches = i < piece.count ? touched[piece.begin + i] : std::uint16_t{0};
      Way way = first_way;
      for (int w = 0; w < end; ++w, way.advance(h)) {
        const int count = __popc(__ballot_sync(kWholeWarp, way.taken(reaches)));
        if (lane == w) mine += count;
      }
    }
    if (lane < end) counts[p * ways + first + lane] = mine;
  }
}

/// Joins a tile's list: the samples that come to it, way after way, a home's pieces in order. Turns counts[piece, way]
/// into their begins in the list. sizes: those of the lists. One thread per way of a tile; a tile's `lanes`, a power of
/// 2 up to 32, are next to each other.
__global__ void join_ways_kernel(Tiling t, Homes h, int lanes, const Cut* pieces_before, std::int32_t* counts,
                                 std::int64_t* sizes) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto number = static_cast<std::int32_t>(thread / lanes);
  const std::int32_t at[3] = {number / t.tiles[2] / t.tiles[1], number / t.tiles[2] % t.tiles[1], number % t.tiles[2]};
  const bool there = at[0] < t.tiles[0];
  const int lane = static_cast<int>(thread % lanes), ways = h.ways();
  std::int32_t size = 0;
  for (int w = lane; w - lane < ways; w += lanes) {
    std::int32_t first = 0, end = 0, sum = 0;
    if (there && w < ways) {
      const std::int32_t home = begin_of(t, h, at, way_of(h, w));
      first = pieces_before[home].pieces, end = pieces_before[home + 1].pieces;
    }
    for (std::int64_t p = first; p < end; ++p) sum += counts[p * ways + w];
    std::int32_t to = sum;
    for (int ahead = 1; ahead < lanes; ahead *= 2) {
      const std::int32_t before = __shfl_up_sync(kWholeWarp, to, ahead, lanes);
      if (lane >= ahead) to += before;
    }
    const std::int32_t all = __shfl_sync(kWholeWarp, to, lanes - 1, lanes);
    to += size - sum;
    for (std::int64_t p = first; p < end; ++p) {
      const std::int32_t count = counts[p * ways + w];
      counts[p * ways + w] = to;
      to += count;
    }
    size += all;
  }
  if (there && lane == 0) sizes[number] = size;
}

/// `begins`: [piece, way] of join_ways_kernel(). One warp per piece; a lane keeps the place of a way's next sample.
__global__ void list_kernel(Tiling t, Homes h, const HomePiece* pieces, const Cut* pieces_end,
                            const std::int32_t* order, const std::uint16_t* touched, const std::int32_t* begins,
                            const std::int64_t* offsets, std::int32_t* list) {
  const std::int64_t p = warp_of_launch();
  if (p >= pieces_end->pieces) return;
  const int lane = threadIdx.x % 32, ways = h.ways();
  const unsigned before = (1u << lane) - 1;
  const HomePiece piece = pieces[p];
  std::int32_t home[3];
  h.find(piece.home, home);
  for (int first = 0; first < ways; first += 32) {
    const Way first_way = way_of(h, first);
    const int end = min(ways - first, 32);
    std::int64_t next = 0;
    if (lane < end) next = offsets[end_of(t, home, way_of(h, first + lane))] + begins[p * ways + first + lane];
    for (int i = lane; i - lane < piece.count; i += 32) {
      const bool there = i < piece.count;
      const std::uint16_t reaches = there ? touched[piece.begin + i] : std::uint16_t{0};
      const std::int32_t sample = there ? order[piece.begin + i] : 0;
      Way way = first_way;
      for (int w = 0; w < end; ++w, way.advance(h)) {
        const bool here = way.taken(reaches);
        const unsigned all = __ballot_sync(kWholeWarp, here);
        const std::int64_t to = __shfl_sync(kWholeWarp, next, w);
        if (here) list[to + __popc(all & before)] = sample;
        if (lane == w) next += __popc(all);
      }
    }
  }
}

/// Calls work(memory, bytes) as CUB wants it: once for the bytes, once to do it.
template <class Work>
void with_temporary(Context& context, const char* what, const Work& work) {
  std::size_t bytes = 0;
  check(work(nullptr, bytes), what);
  Array<char> memory = context.allocate<char>({static_cast<std::int64_t>(bytes)});
  check(work(memory.data(), bytes), what);
}

/// The blocks for that many threads, without a loop.
unsigned blocks_of(std::int64_t threads) {
  return static_cast<unsigned>(std::max<std::int64_t>(1, (threads + kThreads - 1) / kThreads));
}

/// The keys that footprint_kernel() fills in beside footprints.
struct Keys {
  Array<std::uint32_t> homes;
  Array<std::int32_t> samples;
  Array<std::uint16_t> touched;
};

/// Samples sorted by their homes, in order within each, and the begin of each home.
struct Sorted {
  Array<std::int32_t> order;
  Array<std::uint16_t> touched;  ///< [sample], in the sorted order
  Array<std::int64_t> offsets;   ///< [homes + 2]: samples that lie nowhere are the last home's
};
Sorted sort(Context& context, const Homes& h, Keys keys) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t n = keys.homes.size(), keys_end = h.count() + 1;
  Sorted sorted{context.allocate<std::int32_t>({n}), context.allocate<std::uint16_t>({n}),
                context.allocate<std::int64_t>({keys_end + 1})};
  Array<std::uint32_t> homes = context.allocate<std::uint32_t>({n});
  with_temporary(context, "sorting samples", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, keys.homes.data(), homes.data(), keys.samples.data(),
                                           sorted.order.data(), n, 0,
                                           std::bit_width(static_cast<std::uint64_t>(keys_end - 1)), stream);
  });
  offsets_kernel<<<blocks_for(n + 1), kThreads, 0, stream>>>(homes.data(), n, keys_end, sorted.offsets.data());
  check_launch("offsets");
  reorder_kernel<<<blocks_for(n), kThreads, 0, stream>>>(keys.touched.data(), sorted.order.data(), n,
                                                         sorted.touched.data());
  check_launch("reorder");
  return sorted;
}

/// before[i]: the sum of the cuts of lists before list i; before[lists]: of all lists.
Array<Cut> cut_lists(Context& context, const Lists& lists, std::int64_t most, std::int32_t least) {
  const cudaStream_t stream = stream_of(context);
  Array<Cut> cuts = context.allocate<Cut>({lists.count + 1}), before = context.allocate<Cut>({lists.count + 1});
  cut_kernel<<<blocks_for(lists.count + 1), kThreads, 0, stream>>>(lists, most, least, cuts.data());
  check_launch("cut");
  with_temporary(context, "counting pieces", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(memory, bytes, cuts.data(), before.data(), AddCuts{}, Cut{0, 0, 0},
                                          lists.count + 1, stream);
  });
  return before;
}

template <class T>
void launch_footprints(Context& context, NufftPlan::Impl& plan, const Homes& h, Keys& keys, const T* coordinates,
                       std::int64_t first, std::int64_t n) {
  const auto kernel = plan.tiling.dims == 3   ? footprint_kernel<3, T>
                      : plan.tiling.dims == 2 ? footprint_kernel<2, T>
                                              : footprint_kernel<1, T>;
  kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(plan.tiling, h, coordinates, first, n,
                                                             plan.footprints.data(), keys.homes.data(),
                                                             keys.samples.data(), keys.touched.data());
  check_launch("footprint");
}

/// Copies coordinates in parts. `stage`(first sample, samples, to) writes one part, by all threads, while the part
/// before it is copied.
template <class T, class Stage>
void make_footprints(Context& context, NufftPlan::Impl& plan, const Homes& h, Keys& keys, const Stage& stage) {
  const std::int64_t n = plan.samples, dims = plan.tiling.dims;
  if (n <= kFewSamples) {
    HostArray<T> few = context.allocate_host<T>({n * dims});
    stage(0, n, few.data());
    return launch_footprints<T>(context, plan, h, keys, few.data(), 0, n);
  }
  const std::int64_t part = std::min(n, kStagedSamples);
  Array<T> coordinates = context.allocate<T>({part * dims});
  struct {
    HostArray<T> memory;
    Event copied;
  } staged[2];
  for (std::int64_t first = 0, i = 0; first < n; first += part, ++i) {
    const std::int64_t count = std::min(part, n - first);
    auto& [memory, copied] = staged[i % 2];
    if (!memory) memory = context.allocate_host<T>({part * dims});
    if (i >= 2) check(cudaEventSynchronize(copied.get()), "waiting for a copy");
    context.threads().parallel_for(count, kLeastStaged, [&, to = memory.data()](std::int64_t begin, std::int64_t end) {
      stage(first + begin, end - begin, to + begin * dims);
    });
    context.copy<T>(memory.cview().part(0, {count * dims}), coordinates.view().part(0, {count * dims}));
    check(cudaEventRecord(copied.get(), stream_of(context)), "recording an event");
    launch_footprints<T>(context, plan, h, keys, coordinates.data(), first, count);
  }
}

void make_footprints(Context& context, HostView<const double> coordinates, NufftPlan::Impl& plan, const Homes& h,
                     Keys& keys) {
  const Tiling& t = plan.tiling;
  if (plan.samples == 0) return;
  if (*std::max_element(t.grid, t.grid + 3) <= kLongestInTurns)
    make_footprints<std::uint32_t>(context, plan, h, keys,
                                   [&](std::int64_t first, std::int64_t count, std::uint32_t* to) {
                                     to_turns(coordinates.data() + first * t.dims, count, t.dims, to);
                                   });
  else
    make_footprints<double>(context, plan, h, keys, [&](std::int64_t first, std::int64_t count, double* to) {
      std::copy_n(coordinates.data() + first * t.dims, count * t.dims, to);
    });
}

/// The sources of the tiles' lists: for each home, the places of its samples' stretches in the lists.
struct Ways {
  std::int64_t most_pieces = 0;
  Array<HomePiece> pieces;
  Array<Cut> before;
  Array<std::int32_t> begins;
  Array<std::int64_t> offsets;  ///< [tiles + 1]: begins of the tiles' lists
};
Ways find_ways(Context& context, const NufftPlan::Impl& plan, const Homes& h, const Sorted& sorted) {
  const cudaStream_t stream = stream_of(context);
  const Tiling& t = plan.tiling;
  const std::int64_t n = plan.samples, tiles = 1ll * t.tiles[0] * t.tiles[1] * t.tiles[2];
  const Lists homes{sorted.offsets.data(), h.count(), 1, h.count()};
  Ways ways;
  ways.most_pieces = std::min<std::int64_t>(n, h.count()) + n / kPieceOfHome;
  ways.before = cut_lists(context, homes, kPieceOfHome, 0);
  ways.pieces = context.allocate<HomePiece>({ways.most_pieces});
  ways.begins = context.allocate<std::int32_t>({ways.most_pieces * h.ways()});
  ways.offsets = context.zeros<std::int64_t>({tiles + 1});
  home_pieces_kernel<<<blocks_for(h.count()), kThreads, 0, stream>>>(homes, ways.before.data(), ways.pieces.data());
  check_launch("home_pieces");
  count_ways_kernel<<<blocks_of(32 * ways.most_pieces), kThreads, 0, stream>>>(
      h, ways.pieces.data(), ways.before.data() + h.count(), sorted.touched.data(), ways.begins.data());
  check_launch("count_ways");
  int lanes = 1;
  while (lanes < std::min(h.ways(), 32)) lanes *= 2;
  join_ways_kernel<<<blocks_of(tiles * lanes), kThreads, 0, stream>>>(t, h, lanes, ways.before.data(),
                                                                      ways.begins.data(), ways.offsets.data());
  check_launch("join_ways");
  with_temporary(context, "counting touched tiles", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(memory, bytes, ways.offsets.data(), tiles + 1, stream);
  });
  return ways;
}

/// Makes the lists of tiles for gridding, and with NufftUse::all the order and the bins of interpolation.
void list_samples_of(Context& context, NufftPlan::Impl& plan, const Homes& h, Keys keys) {
  const cudaStream_t stream = stream_of(context);
  const Tiling& t = plan.tiling;
  const std::int64_t tiles = 1ll * t.tiles[0] * t.tiles[1] * t.tiles[2];
  const bool binned = plan.options.use == NufftUse::all;
  Sorted sorted = sort(context, h, std::move(keys));
  const Ways ways = find_ways(context, plan, h, sorted);
  const Lists lists{ways.offsets.data(), tiles, 1, tiles};
  const Lists bins{sorted.offsets.data(), h.count() / h.of_bin() + 1, h.of_bin(), h.count() + 1};
  const Array<Cut> tiles_before = cut_lists(context, lists, most_of_piece(plan.tuning, plan.slot_points), 1);
  Array<Cut> bins_before;
  HostArray<std::int64_t> total = context.allocate_host<std::int64_t>({1});
  HostArray<Cut> cut = context.allocate_host<Cut>({2});
  context.copy<std::int64_t>(ways.offsets.view().part(tiles, {1}), total.view());
  context.copy<Cut>(tiles_before.view().part(tiles, {1}), cut.view().part(0, {1}));
  if (binned) {
    bins_before = cut_lists(context, bins, kPieceOfBin, 0);
    context.copy<Cut>(bins_before.view().part(bins.count, {1}), cut.view().part(1, {1}));
  }
  context.synchronize();
  plan.list = context.allocate<std::int32_t>({*total.data()});
  list_kernel<<<blocks_of(32 * ways.most_pieces), kThreads, 0, stream>>>(
      t, h, ways.pieces.data(), ways.before.data() + h.count(), sorted.order.data(), sorted.touched.data(),
      ways.begins.data(), ways.offsets.data(), plan.list.data());
  check_launch("list");
  plan.slots = cut.data()[0].slots;
  plan.pieces = context.allocate<Piece>({cut.data()[0].pieces});
  plan.split_tiles = context.allocate<SplitTile>({cut.data()[0].split});
  tile_pieces_kernel<<<blocks_for(tiles), kThreads, 0, stream>>>(lists, tiles_before.data(), plan.pieces.data(),
                                                                 plan.split_tiles.data());
  check_launch("tile_pieces");
  if (!binned) return find_reach(context, plan);
  plan.bins = context.allocate<BinPiece>({cut.data()[1].pieces});
  bin_pieces_kernel<<<blocks_for(bins.count), kThreads, 0, stream>>>(t, h, bins, bins_before.data(), plan.bins.data());
  check_launch("bin_pieces");
  plan.order = std::move(sorted.order);
  find_reach(context, plan);
}

/// A cache of the windows used so far: computing one takes longer than all the rest of a small plan.
class KnownWindows {
 public:
  WindowPolynomial get(int width, double ratio, double error) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find({width, ratio, error});
    if (found != known_.end()) return found->second;
    const std::vector<double> coefficients = KaiserBessel(width, ratio).polynomial(error);
    if (coefficients.size() > WindowPolynomial::kMostTerms) throw std::logic_error("nufft: a window of too many terms");
    WindowPolynomial window{};
    std::copy(coefficients.begin(), coefficients.end(), window.coefficients);
    if (known_.size() >= kMost) known_.clear();
    return known_[{width, ratio, error}] = window;
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::mutex mutex_;
  std::map<std::tuple<int, double, double>, WindowPolynomial> known_;
};

/// Chooses the precision of sums, and the windows for it.
void set_windows(Context& context, NufftPlan::Impl& plan) {
  const Tiling& t = plan.tiling;
  plan.sums = sums_within_slack(plan.options, plan.image);
  for (;; plan.sums = static_cast<Sums>(static_cast<int>(plan.sums) + 1)) {
    for (int a = 3 - t.dims; a < 3; ++a)
      plan.windows[a] = context.resources().get<KnownWindows>().get(
          t.width, static_cast<double>(t.grid[a]) / t.image[a], window_error(plan.sums));
    if (are_short(plan.windows, window_terms(plan.sums))) return;
  }
}

}  // namespace

void fill_plan(Context& context, HostView<const double> coordinates, NufftPlan::Impl& plan) {
  const Tiling& t = plan.tiling;
  plan.slot_points = kTilePoints;
  set_windows(context, plan);
  plan.footprints = context.allocate<Footprint>({plan.samples});
  const Homes h = homes_of(t);
  Keys keys;
  if (plan.options.use != NufftUse::accumulate)
    keys = {context.allocate<std::uint32_t>({plan.samples}), context.allocate<std::int32_t>({plan.samples}),
            context.allocate<std::uint16_t>({plan.samples})};
  make_footprints(context, coordinates, plan, h, keys);
  if (plan.options.use != NufftUse::accumulate) list_samples_of(context, plan, h, std::move(keys));
}

}  // namespace echotrain::numerics::cuda
