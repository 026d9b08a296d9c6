// Plans made on the device: footprints from coordinates, and the lists of tiles and bins by stable radix sorts, so that
// they are those of the host's counting sorts.
#include <algorithm>
#include <cmath>
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
#include "gadgets/numerics/nufft/nufft_plan.h"
#include "gadgets/numerics/nufft/nufft_window_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kStagedSamples = 1 << 19;  // of coordinates, on their way to the device
constexpr std::int64_t kFewSamples = 1 << 12;     // whose coordinates are read from host memory directly

/// `coordinates`: of `n` samples, component 0 = x. `weights`: or nullptr. One thread per sample.
__global__ void footprint_kernel(Tiling t, Windows windows, const double* coordinates, std::int64_t n,
                                 Footprint* footprints, float* weights) {
  ECHOTRAIN_GRID_STRIDE(s, n) {
    const double* k = coordinates + s * t.dims;
    bool finite = true;
    for (int a = 0; a < t.dims; ++a) finite = finite && isfinite(k[a]);
    Footprint footprint{};
    for (int a = 0; a < t.dims; ++a) {
      const int axis = 3 - t.dims + a;
      const double turns = finite ? k[t.dims - 1 - a] : 0;  // component 0 is x, the last axis
      const double u = (turns - floor(turns)) * t.grid[axis], edge = u - t.width / 2.0, start = ceil(edge);
      auto first = static_cast<std::int32_t>(start);
      if (first < 0) first += t.grid[axis];
      if (first >= t.grid[axis]) first -= t.grid[axis];
      footprint.start[a] = first;
      footprint.shift[a] = static_cast<float>(start - edge);
      if (weights == nullptr) continue;
      float* to = weights + (s * t.dims + a) * t.width;
      for (int j = 0; j < t.width; ++j)
        to[j] = finite ? window_at<>(windows.axis[axis], t.width, static_cast<float>(j), footprint.shift[a]) : 0.0f;
    }
    if (!finite) footprint = {{Footprint::kNowhere, 0, 0}, {0, 0, 0}, {0, 0}};
    footprints[s] = footprint;
  }
}

/// The tiles along an axis that a footprint touches: `first` .. `first` + `ahead` - 1, and 0 .. `around` - 1 around the
/// grid's end.
struct Touched {
  std::int32_t first, ahead, around;
  __device__ int count() const { return ahead + around; }
  __device__ std::int32_t tile(int i) const { return i < ahead ? first + i : i - ahead; }
};

__device__ Touched touched(const Tiling& t, int axis, const Footprint& footprint) {
  const int a = axis - (3 - t.dims);
  if (a < 0) return {0, 1, 0};
  const std::int32_t start = footprint.start[a], end = start + t.width, tile = t.tile[axis], first = start / tile;
  if (end <= t.grid[axis]) return {first, (end - 1) / tile - first + 1, 0};
  return {first, t.tiles[axis] - first, (end - t.grid[axis] - 1) / tile + 1};
}

__global__ void count_touched_kernel(Tiling t, const Footprint* footprints, std::int64_t n, std::int64_t* counts) {
  ECHOTRAIN_GRID_STRIDE(s, n) {
    const Footprint f = footprints[s];
    counts[s] = f.start[0] == Footprint::kNowhere
                    ? 0
                    : touched(t, 0, f).count() * touched(t, 1, f).count() * touched(t, 2, f).count();
  }
}

__global__ void list_touched_kernel(Tiling t, const Footprint* footprints, std::int64_t n, const std::int64_t* offsets,
                                    std::uint32_t* tiles, std::int32_t* samples) {
  ECHOTRAIN_GRID_STRIDE(s, n) {
    const Footprint f = footprints[s];
    if (f.start[0] == Footprint::kNowhere) continue;
    const Touched z = touched(t, 0, f), y = touched(t, 1, f), x = touched(t, 2, f);
    std::int64_t at = offsets[s];
    for (int k = 0; k < z.count(); ++k)
      for (int j = 0; j < y.count(); ++j)
        for (int i = 0; i < x.count(); ++i, ++at) {
          tiles[at] = static_cast<std::uint32_t>((z.tile(k) * t.tiles[1] + y.tile(j)) * t.tiles[2] + x.tile(i));
          samples[at] = static_cast<std::int32_t>(s);
        }
  }
}

struct BinGrid {
  std::int32_t edge[3], bins[3];
};

__global__ void bin_kernel(Tiling t, BinGrid grid, const Footprint* footprints, std::int64_t n, std::uint32_t* bins,
                           std::int32_t* samples) {
  ECHOTRAIN_GRID_STRIDE(s, n) {
    const Footprint f = footprints[s];
    std::int32_t bin = 0;
    if (f.start[0] != Footprint::kNowhere)
      for (int a = 3 - t.dims, i = 0; a < 3; ++a, ++i) bin = bin * grid.bins[a] + f.start[i] / grid.edge[a];
    bins[s] = static_cast<std::uint32_t>(bin);
    samples[s] = static_cast<std::int32_t>(s);
  }
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

/// How lists are cut: the number of pieces, of pieces in lists that have several, and of such lists.
struct Cut {
  std::int32_t pieces, slots, split;
};
struct AddCuts {
  __host__ __device__ Cut operator()(const Cut& a, const Cut& b) const {
    return {a.pieces + b.pieces, a.slots + b.slots, a.split + b.split};
  }
};

/// `least`: pieces of an empty list.
__global__ void cut_kernel(const std::int64_t* offsets, std::int64_t lists, std::int64_t most, std::int32_t least,
                           Cut* cuts) {
  ECHOTRAIN_GRID_STRIDE(i, lists) {
    const std::int64_t count = offsets[i + 1] - offsets[i], needed = (count + most - 1) / most;
    const std::int32_t pieces = needed < least ? least : static_cast<std::int32_t>(needed);
    cuts[i] = {pieces, pieces > 1 ? pieces : 0, pieces > 1 ? 1 : 0};
  }
}

__global__ void tile_pieces_kernel(const std::int64_t* offsets, std::int64_t tiles, const Cut* cuts, const Cut* before,
                                   Piece* pieces, SplitTile* split_tiles) {
  ECHOTRAIN_GRID_STRIDE(i, tiles) {
    const std::int64_t begin = offsets[i], count = offsets[i + 1] - begin;
    const Cut cut = cuts[i], first = before[i];
    const auto tile = static_cast<std::int32_t>(i);
    for (std::int32_t p = 0; p < cut.pieces; ++p) {
      const std::int64_t from = p * count / cut.pieces, to = (p + 1) * count / cut.pieces;
      pieces[first.pieces + p] = {begin + from, static_cast<std::int32_t>(to - from), tile,
                                  cut.pieces > 1 ? first.slots + p : -1, 0};
    }
    if (cut.split > 0) split_tiles[first.split] = {tile, first.slots, cut.pieces};
  }
}

__global__ void bin_pieces_kernel(BinGrid grid, const std::int64_t* offsets, std::int64_t bins, const Cut* cuts,
                                  const Cut* before, BinPiece* pieces) {
  ECHOTRAIN_GRID_STRIDE(i, bins) {
    const std::int64_t begin = offsets[i], count = offsets[i + 1] - begin;
    for (std::int32_t p = 0; p < cuts[i].pieces; ++p) {
      const std::int64_t from = begin + p * count / cuts[i].pieces, to = begin + (p + 1) * count / cuts[i].pieces;
      BinPiece piece{static_cast<std::int32_t>(from), static_cast<std::int32_t>(to - from), {}};
      auto rest = static_cast<std::int32_t>(i);
      for (int a = 2; a >= 0; --a) {
        piece.origin[a] = rest % grid.bins[a] * grid.edge[a];
        rest /= grid.bins[a];
      }
      pieces[before[i].pieces + p] = piece;
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

int bits_for(std::int64_t keys) {
  int bits = 1;
  while ((1ll << bits) < keys) ++bits;
  return bits;
}

/// Sorts (key, sample) by key, samples of a key in order; returns the sorted samples and where each key's begin.
struct Sorted {
  Array<std::int32_t> samples;
  Array<std::int64_t> offsets;  ///< [keys + 1]
};
Sorted sort(Context& context, Array<std::uint32_t> keys, Array<std::int32_t> samples, std::int64_t count_of_keys) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t n = samples.size();
  Sorted sorted{context.allocate<std::int32_t>({n}), context.allocate<std::int64_t>({count_of_keys + 1})};
  Array<std::uint32_t> sorted_keys = context.allocate<std::uint32_t>({n});
  with_temporary(context, "sorting samples", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, keys.data(), sorted_keys.data(), samples.data(),
                                           sorted.samples.data(), n, 0, bits_for(count_of_keys), stream);
  });
  offsets_kernel<<<blocks_for(n + 1), kThreads, 0, stream>>>(sorted_keys.data(), n, count_of_keys,
                                                             sorted.offsets.data());
  check_launch("offsets");
  return sorted;
}

/// Cuts lists into pieces; returns how many of each there are in all.
Cut cut_lists(Context& context, const Array<std::int64_t>& offsets, std::int64_t most, std::int32_t least,
              Array<Cut>& cuts, Array<Cut>& before) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t lists = offsets.size() - 1;
  cuts = context.allocate<Cut>({lists});
  before = context.allocate<Cut>({lists});
  cut_kernel<<<blocks_for(lists), kThreads, 0, stream>>>(offsets.data(), lists, most, least, cuts.data());
  check_launch("cut");
  with_temporary(context, "counting pieces", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(memory, bytes, cuts.data(), before.data(), AddCuts{}, Cut{0, 0, 0}, lists,
                                          stream);
  });
  HostArray<Cut> last = context.allocate_host<Cut>({2});
  context.copy<Cut>(cuts.view().part(lists - 1, {1}), last.view().part(0, {1}));
  context.copy<Cut>(before.view().part(lists - 1, {1}), last.view().part(1, {1}));
  context.synchronize();
  return AddCuts{}(last.data()[0], last.data()[1]);
}

void launch_footprints(Context& context, NufftPlan::Impl& plan, const Windows& windows, const double* coordinates,
                       std::int64_t first, std::int64_t n) {
  const Tiling& t = plan.tiling;
  footprint_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(
      t, windows, coordinates, n, plan.footprints.data() + first,
      plan.weights.size() == 0 ? nullptr : plan.weights.data() + first * t.dims * t.width);
  check_launch("footprint");
}

/// Copies coordinates to the device in parts, the next while this one is worked on.
void make_footprints(Context& context, HostView<const double> coordinates, NufftPlan::Impl& plan) {
  const cudaStream_t stream = stream_of(context);
  const Tiling& t = plan.tiling;
  Windows windows;
  std::copy_n(plan.windows, 3, windows.axis);
  if (plan.samples == 0) return;
  if (plan.samples <= kFewSamples) {
    HostArray<double> few = context.allocate_host<double>({plan.samples * t.dims});
    std::copy_n(coordinates.data(), few.size(), few.data());
    return launch_footprints(context, plan, windows, few.data(), 0, plan.samples);
  }
  const std::int64_t part = std::min(plan.samples, kStagedSamples);
  struct Stage {
    HostArray<double> host;
    Array<double> device;
    Event copied;
  };
  Stage stages[2];
  for (std::int64_t first = 0, i = 0; first < plan.samples; first += part, ++i) {
    Stage& stage = stages[i % 2];
    if (!stage.host) {
      stage.host = context.allocate_host<double>({part * t.dims});
      stage.device = context.allocate<double>({part * t.dims});
    }
    const std::int64_t n = std::min(part, plan.samples - first), values = n * t.dims;
    if (i >= 2) check(cudaEventSynchronize(stage.copied.get()), "waiting for a copy");
    const double* from = coordinates.data() + first * t.dims;
    context.threads().parallel_for(values, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from + begin, from + end, stage.host.data() + begin);
    });
    check(cudaMemcpyAsync(stage.device.data(), stage.host.data(), static_cast<std::size_t>(values) * sizeof(double),
                          cudaMemcpyHostToDevice, stream),
          "copying coordinates");
    check(cudaEventRecord(stage.copied.get(), stream), "recording an event");
    launch_footprints(context, plan, windows, stage.device.data(), first, n);
  }
}

void list_tiles_of(Context& context, NufftPlan::Impl& plan) {
  const cudaStream_t stream = stream_of(context);
  const Tiling& t = plan.tiling;
  const std::int64_t n = plan.samples, tiles = 1ll * t.tiles[0] * t.tiles[1] * t.tiles[2];
  Sorted sorted;
  {
    Array<std::int64_t> offsets = context.zeros<std::int64_t>({n + 1});
    count_touched_kernel<<<blocks_for(n), kThreads, 0, stream>>>(t, plan.footprints.data(), n, offsets.data());
    check_launch("count_touched");
    with_temporary(context, "counting touched tiles", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceScan::ExclusiveSum(memory, bytes, offsets.data(), n + 1, stream);
    });
    const std::int64_t total = *context.download<std::int64_t>(offsets.view().part(n, {1})).data();
    Array<std::uint32_t> keys = context.allocate<std::uint32_t>({total});
    Array<std::int32_t> samples = context.allocate<std::int32_t>({total});
    list_touched_kernel<<<blocks_for(n), kThreads, 0, stream>>>(t, plan.footprints.data(), n, offsets.data(),
                                                                keys.data(), samples.data());
    check_launch("list_touched");
    offsets = {};
    sorted = sort(context, std::move(keys), std::move(samples), tiles);
  }
  plan.list = std::move(sorted.samples);
  Array<Cut> cuts, before;
  const Cut all = cut_lists(context, sorted.offsets, most_of_piece(plan.tuning, plan.slot_points), 1, cuts, before);
  plan.slots = all.slots;
  plan.pieces = context.allocate<Piece>({all.pieces});
  plan.split_tiles = context.allocate<SplitTile>({all.split});
  tile_pieces_kernel<<<blocks_for(tiles), kThreads, 0, stream>>>(
      sorted.offsets.data(), tiles, cuts.data(), before.data(), plan.pieces.data(), plan.split_tiles.data());
  check_launch("tile_pieces");
}

void bin_samples_of(Context& context, NufftPlan::Impl& plan) {
  const cudaStream_t stream = stream_of(context);
  const Tiling& t = plan.tiling;
  const std::int64_t n = plan.samples;
  BinGrid grid;
  std::int64_t bins = 1;
  for (int a = 0; a < 3; ++a) {
    grid.edge[a] = bin_edge(a, t.dims, t.width);
    grid.bins[a] = (t.grid[a] + grid.edge[a] - 1) / grid.edge[a];
    bins *= grid.bins[a];
  }
  Array<std::uint32_t> keys = context.allocate<std::uint32_t>({n});
  Array<std::int32_t> samples = context.allocate<std::int32_t>({n});
  bin_kernel<<<blocks_for(n), kThreads, 0, stream>>>(t, grid, plan.footprints.data(), n, keys.data(), samples.data());
  check_launch("bin");
  Sorted sorted = sort(context, std::move(keys), std::move(samples), bins);
  plan.order = std::move(sorted.samples);
  Array<Cut> cuts, before;
  const Cut all = cut_lists(context, sorted.offsets, kPieceOfBin, 0, cuts, before);
  plan.bins = context.allocate<BinPiece>({all.pieces});
  bin_pieces_kernel<<<blocks_for(bins), kThreads, 0, stream>>>(grid, sorted.offsets.data(), bins, cuts.data(),
                                                               before.data(), plan.bins.data());
  check_launch("bin_pieces");
}

/// The same lists from the host, for a device without the memory to sort.
void list_on_host(Context& context, HostView<const double> coordinates, NufftPlan::Impl& plan) {
  const std::int64_t places = plan.samples * plan.tiling.dims;
  std::vector<std::int32_t> starts(static_cast<std::size_t>(places));
  std::vector<float> weights(static_cast<std::size_t>(places * plan.tiling.width));
  place_samples(context.threads(), plan, coordinates, starts.data(), weights.data());
  keep_lists(context, list_samples(context.threads(), plan, starts.data(), weights.data()), plan);
}

/// The windows used so far: computing one takes longer than all the rest of a small plan.
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

/// How exactly to sum, and the windows for it.
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
  if (plan.options.use == NufftUse::all) plan.weights = context.allocate<float>({plan.samples * t.dims * t.width});
  make_footprints(context, coordinates, plan);
  try {
    if (plan.options.use != NufftUse::accumulate) list_tiles_of(context, plan);
    if (plan.options.use == NufftUse::all) bin_samples_of(context, plan);
  } catch (const DeviceLost&) {
    throw;
  } catch (const ResourceError&) {
    list_on_host(context, coordinates, plan);
  }
}

}  // namespace echotrain::numerics::cuda
