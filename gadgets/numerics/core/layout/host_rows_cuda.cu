#include <algorithm>
#include <utility>

#include "gadgets/numerics/core/cuda/in_flight_owners.cuh"
#include "gadgets/numerics/core/cuda/receive_memory.h"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/layout/host_rows_ops.h"

namespace echotrain::numerics::cuda {
namespace {

// Below this size, the kernel that takes rows apart costs more than the copy on the host.
constexpr std::int64_t kWorthBytes = 128 << 10;
constexpr int kMostRuns = 8;

/// The places of the runs of rows in device memory.
struct Runs {
  struct Run {
    std::uint32_t first, at, stride;  // number of its first row, that row's first byte, bytes from row to row
  };
  Run run[kMostRuns];
  int count = 0;
};

/// Takes the rows out of words: a block's y is a row, its x a part of it. Rows begin at any byte: a number is put
/// together from the three words that it lies in, or from two where its row begins at a word, as the word behind the
/// last one may be unwritten then.
__global__ void take_rows_kernel(const std::uint32_t* words, Runs runs, std::uint32_t rows, std::uint32_t numbers,
                                 float2* to) {
  for (std::uint32_t row = blockIdx.y; row < rows; row += gridDim.y) {
    int r = 0;
    while (r + 1 < runs.count && runs.run[r + 1].first <= row) ++r;
    const std::uint32_t at = runs.run[r].at + (row - runs.run[r].first) * runs.run[r].stride, shift = 8 * (at % 4);
    const std::uint32_t* from = words + at / 4;
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < numbers; i += gridDim.x * blockDim.x) {
      const std::uint32_t a = from[2 * i], b = from[2 * i + 1], c = shift == 0 ? 0 : from[2 * i + 2];
      to[static_cast<std::uint64_t>(row) * numbers + i] =
          make_float2(__uint_as_float(__funnelshift_r(a, b, shift)), __uint_as_float(__funnelshift_r(b, c, shift)));
    }
  }
}

/// True if all rows lie in the memory where messages are received and the GPU reads.
bool are_received(Context& context, std::span<const HostRow> rows) {
  const ReceiveMemory& memory = context.resources().get<ReceiveMemory>();
  return std::all_of(rows.begin(), rows.end(), [&](const HostRow& row) { return memory.holds(row.bytes); });
}

/// Copies bytes to their place among words, with the foreign bytes in their first and last word, which the kernel
/// shifts out: received memory begins and ends at words, and a byte has the same place in its word on both sides.
void copy_words(std::uint32_t* words, std::uint32_t at, const std::byte* from, std::uint32_t bytes,
                cudaStream_t stream) {
  const std::uint32_t before = at % 4, whole = (before + bytes + 3) / 4 * 4;
  check(cudaMemcpyAsync(words + at / 4, from - before, whole, cudaMemcpyHostToDevice, stream), "copying received data");
}

/// Returns each owner once for consecutive rows of one owner.
std::vector<std::shared_ptr<const void>> owners_of(std::span<const HostRow> rows) {
  std::vector<std::shared_ptr<const void>> owners;
  for (const HostRow& row : rows)
    if (owners.empty() || owners.back() != *row.owner) owners.push_back(*row.owner);
  return owners;
}

}  // namespace

Array<cfloat> collect_rows(Context& context, std::span<const HostRow> rows, const Shape& shape) {
  const std::int64_t numbers = shape.size() / shape[0];
  const std::int64_t bytes = numbers * static_cast<std::int64_t>(sizeof(cfloat));
  const bool whole = shape[0] * bytes >= kWorthBytes && are_received(context, rows);
  const std::vector<RowRun> found = whole ? row_runs(rows, bytes, kMostRuns) : std::vector<RowRun>();
  if (found.empty()) return copy_rows(context, rows, shape);

  // Each run has the alignment of its source, so that the copy engine moves whole lines of memory. The sum is smaller
  // than the block, so 32 bits count it.
  constexpr std::uint32_t kLine = 128;
  Runs runs;
  std::uint32_t size = 0;
  const auto length = [&](const RowRun& run) {
    return static_cast<std::uint32_t>((run.count - 1) * run.stride + bytes);
  };
  const auto source = [&](const RowRun& run) { return rows[static_cast<std::size_t>(run.first)].bytes.data(); };
  for (const RowRun& run : found) {
    const auto at = (size + kLine - 1) / kLine * kLine +
                    static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source(run)) % kLine);
    runs.run[runs.count++] = {static_cast<std::uint32_t>(run.first), at, static_cast<std::uint32_t>(run.stride)};
    size = at + length(run);
  }
  Array<std::uint32_t> raw = context.allocate<std::uint32_t>({size / 4 + 2});
  Array<cfloat> to = context.allocate<cfloat>(shape);
  const cudaStream_t stream = stream_of(context);
  for (std::size_t i = 0; i < found.size(); ++i)
    copy_words(raw.data(), runs.run[i].at, source(found[i]), length(found[i]), stream);
  context.cache<InFlightOwners>().add(context, owners_of(rows));
  const dim3 grid(std::min(blocks_for(numbers), 64u), static_cast<unsigned>(std::min<std::int64_t>(shape[0], 65535)));
  take_rows_kernel<<<grid, kThreads, 0, stream>>>(raw.data(), runs, static_cast<std::uint32_t>(shape[0]),
                                                  static_cast<std::uint32_t>(numbers), device_view(to.data()));
  check_launch("collect_rows");
  return to;
}

}  // namespace echotrain::numerics::cuda
