#include <algorithm>

#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kStretch = 16384;
constexpr int kMostStretches = 16;

}  // namespace

SampleBins bin_samples(ThreadPool& threads, const Tiling& t, HostView<const std::int32_t> starts) {
  std::int32_t edge[3], bins[3];
  for (int a = 0; a < 3; ++a) {
    edge[a] = bin_edge(a, t.dims, t.width);
    bins[a] = (t.grid[a] + edge[a] - 1) / edge[a];
  }
  const auto bin_of = [&](std::int64_t s) {
    std::int32_t bin = 0;
    for (int a = 3 - t.dims, i = 0; a < 3; ++a, ++i) bin = bin * bins[a] + starts[s * t.dims + i] / edge[a];
    return static_cast<std::size_t>(bin);
  };

  // This is a counting sort. Samples are cut into stretches; a stretch writes its part of a bin after those before it,
  // so the order within a bin is that of the samples.
  const auto samples = starts.size() / t.dims;
  const auto count_of_bins = static_cast<std::size_t>(bins[0]) * bins[1] * bins[2];
  const std::int64_t stretches =
      std::clamp<std::int64_t>(samples / kStretch, 1, std::min(threads.size(), kMostStretches));
  std::vector<std::vector<std::int32_t>> next(stretches, std::vector<std::int32_t>(count_of_bins, 0));
  const auto for_stretches = [&](const auto& visit) {
    threads.parallel_for(stretches, 1, [&](std::int64_t begin, std::int64_t end) {
      StopCheck check_stop(threads);
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t s = i * samples / stretches; s < (i + 1) * samples / stretches; ++s) {
          check_stop();
          visit(next[i], s);
        }
    });
  };
  for_stretches([&](std::vector<std::int32_t>& counts, std::int64_t s) { ++counts[bin_of(s)]; });

  SampleBins result;
  std::int64_t begin = 0;
  for (std::size_t bin = 0; bin < count_of_bins; ++bin) {
    std::int64_t end = begin;
    for (auto& counts : next) {
      const std::int32_t here = counts[bin];
      counts[bin] = static_cast<std::int32_t>(end);
      end += here;
    }
    const std::int64_t count = end - begin, pieces = (count + kPieceOfBin - 1) / kPieceOfBin;
    for (std::int64_t p = 0; p < pieces; ++p) {
      const std::int64_t from = begin + p * count / pieces, to = begin + (p + 1) * count / pieces;
      BinPiece piece{.begin = static_cast<std::int32_t>(from), .count = static_cast<std::int32_t>(to - from)};
      auto rest = static_cast<std::int32_t>(bin);
      for (int a = 2; a >= 0; --a, rest /= bins[a + 1]) piece.origin[a] = rest % bins[a] * edge[a];
      result.pieces.push_back(piece);
    }
    begin = end;
  }
  result.order.resize(static_cast<std::size_t>(samples));
  for_stretches([&](std::vector<std::int32_t>& places, std::int64_t s) {
    result.order[static_cast<std::size_t>(places[bin_of(s)]++)] = static_cast<std::int32_t>(s);
  });
  return result;
}

}  // namespace echotrain::numerics
