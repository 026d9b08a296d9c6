#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/dense/complex_tiles_cuda.cuh"
#include "gadgets/numerics/core/dense/hermitian_batch_cuda.cuh"
#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

using GramTile = ComplexTile<4>;

constexpr std::int64_t kPlacesOfPart = 1024;    // places that a block of threads sums over
constexpr std::int64_t kMostParts = 16;         // parts that are summed up at a time
constexpr std::int64_t kPartBytes = 128 << 20;  // bytes of their sums
constexpr std::int64_t kBatchBytes = 256 << 20;
constexpr std::size_t kMostSystems = 1024;  // systems of a batch

/// The numbers of float64 that are copied back to the host. After these come, for each right-hand side of each group,
/// its energy and the part of it that is predicted.
enum Report { kReportNotFinite, kReportNoSignal, kReportSingular, kReportSums };

/// Puts coils fastest in the reference lines, so that the elements of a kernel's column lie together.
__global__ void coils_last(const float2* from, float2* to, std::int64_t coils, std::int64_t points, double* report) {
  ECHOTRAIN_GRID_STRIDE(i, coils * points) {
    const float2 value = from[i % coils * points + i / coils];
    if (!isfinite(value.x) || !isfinite(value.y)) report[kReportNotFinite] = 1;
    to[i] = value;
  }
}

/// The places of the elements of A and T (calibration_gram.h).
struct Elements {
  const float2* block;          // [z, y, x, coil]
  const std::int64_t* offsets;  // offsets of each row of A, then of T, from the place's first sample
  int unknowns, rows;           // rows: including those of T
  std::uint32_t width, lines;   // places along x and y
  std::int64_t step_x, step_y, step_z, places;

  __device__ double2 at(int row, std::int64_t place) const {
    const auto p = static_cast<std::uint32_t>(place), line = p / width;
    const float2 value = block[offsets[row] + p % width * step_x + line % lines * step_y + line / lines * step_z];
    return make_double2(value.x, value.y);
  }
};

/// One block of threads per tile of A A^H and T A^H and per part of the places. parts: [part, column, row]
__global__ void __launch_bounds__(kTileThreads, 2) gram_parts(Elements e, std::int64_t first, double2* parts) {
  const int row = blockIdx.x * GramTile::kSide, column = blockIdx.y * GramTile::kSide;
  if (blockIdx.x < blockIdx.y) return;
  const std::int64_t begin = first + blockIdx.z * kPlacesOfPart;
  const auto depth =
      static_cast<int>(min(static_cast<long long>(kPlacesOfPart), static_cast<long long>(e.places - begin)));
  GramTile tile;
  tile.add([&](int i, int k) { return row + i < e.rows ? e.at(row + i, begin + k) : make_double2(0.0, 0.0); },
           [&](int j, int k) {
             return column + j < e.unknowns ? conjugate(e.at(column + j, begin + k)) : make_double2(0.0, 0.0);
           },
           depth);
  double2* to = parts + static_cast<std::int64_t>(blockIdx.z) * e.unknowns * e.rows;
  tile.each([&](int i, int j, double2 sum) {
    if (row + i < e.rows && column + j < e.unknowns) to[static_cast<std::int64_t>(column + j) * e.rows + row + i] = sum;
  });
}

/// gram (+)= the sum of parts, in their order, where gram_parts() makes them.
__global__ void join_parts(const double2* parts, std::int64_t count, int unknowns, int rows, bool further,
                           double2* gram) {
  const std::int64_t size = static_cast<std::int64_t>(unknowns) * rows;
  ECHOTRAIN_GRID_STRIDE(i, size) {
    if (i % rows / GramTile::kSide < i / rows / GramTile::kSide) continue;
    double2 sum = further ? gram[i] : make_double2(0.0, 0.0);
    for (std::int64_t p = 0; p < count; ++p)
      sum = make_double2(sum.x + parts[p * size + i].x, sum.y + parts[p * size + i].y);
    gram[i] = sum;
  }
}

/// *mean = the mean of the diagonal. One block of threads.
__global__ void diagonal_mean(const double2* gram, int unknowns, int rows, double* mean, double* report) {
  Sums<1> sum;
  for (int j = threadIdx.x; j < unknowns; j += kThreads) sum.of[0] += gram[static_cast<std::int64_t>(j) * rows + j].x;
  sum = block_join(sum);
  if (threadIdx.x != 0) return;
  *mean = sum.of[0] / unknowns;
  if (!(*mean > 0)) report[kReportNoSignal] = 1;
}

/// One block of threads per right-hand side.
__global__ void energies(Elements e, double* to) {
  Sums<1> sum;
  for (std::int64_t p = threadIdx.x; p < e.places; p += kThreads) {
    const double2 value = e.at(e.unknowns + static_cast<int>(blockIdx.x), p);
    sum.of[0] += value.x * value.x + value.y * value.y;
  }
  sum = block_join(sum);
  if (threadIdx.x == 0) to[blockIdx.x] = sum.of[0];
}

/// The part of a group's sums that the systems of a batch take. Unknowns and right-hand sides lie in one row, as in the
/// batch.
struct Choice {
  const std::int32_t* rows;  // [system, unknown or right-hand side]: the group's row, -1 for none
  const double* shares;      // [system]: lambda
};

__global__ void choose_sums(HermitianBatch::View to, Choice choice, const double2* gram, int rows, const double* mean,
                            std::int64_t size) {
  ECHOTRAIN_GRID_STRIDE(n, size) {
    const std::int64_t i = n % to.rows, j = n / to.rows % to.columns, system = n / to.rows / to.columns;
    const std::int32_t *of = choice.rows + system * to.rows, row = of[i], column = of[j];
    double2 value = make_double2(i == j && row < 0 ? 1.0 : 0.0, 0.0);
    if (row >= 0 && column >= 0 && i >= j) value = gram[static_cast<std::int64_t>(column) * rows + row];
    if (i == j && row >= 0) value.x += choice.shares[system] * *mean;
    to.elements[n] = value;
  }
}

/// Computes the energy that W A predicts of T for W (A A^H + lambda) = T A^H, so that |T - W A|^2 is the energy less
/// that. One block of threads per right-hand side of the first system, which is that of all sources and targets.
__global__ void predicted(HermitianBatch::View solved, const double2* gram, int unknowns, int rows, double share,
                          const double* mean, double* to) {
  const std::int64_t r = blockIdx.x;
  Sums<1> sum;
  for (int j = threadIdx.x; j < unknowns; j += kThreads) {
    const double2 w = solved.at(0, solved.columns + r, j), b = gram[static_cast<std::int64_t>(j) * rows + unknowns + r];
    sum.of[0] += w.x * b.x + w.y * b.y + share * *mean * (w.x * w.x + w.y * w.y);
  }
  sum = block_join(sum);
  if (threadIdx.x == 0) to[r] = sum.of[0];
}

/// to: [system, right-hand side], the first weight of each, -1 for none.
__global__ void take_solutions(HermitianBatch::View solved, const std::int64_t* to, std::int64_t right_sides,
                               std::int64_t systems, float2* weights) {
  ECHOTRAIN_GRID_STRIDE(n, systems * solved.columns * right_sides) {
    const std::int64_t r = n % right_sides, j = n / right_sides % solved.columns,
                       system = n / right_sides / solved.columns;
    const std::int64_t first = to[system * right_sides + r];
    if (first < 0 || j >= solved.unknowns[system]) continue;
    const double2 value = solved.at(system, solved.columns + r, j);
    weights[first + j] = make_float2(static_cast<float>(value.x), static_cast<float>(value.y));
  }
}

template <class T>
Array<T> there(Context& context, const std::vector<T>& values) {
  HostArray<T> host = context.allocate_host<T>({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), host.data());
  return context.place<T>(host);
}

double2* numbers(Array<cdouble>& array) { return reinterpret_cast<double2*>(array.data()); }

/// A group's sums and its kernels.
class GroupFit {
 public:
  /// block: [z, y, x, coil]. sums: the report's place for two numbers per right-hand side.
  GroupFit(Context& context, const KernelFit& fit, const KernelGroup& group, const float2* block, double* report,
           double* sums)
      : context_(context),
        fit_(fit),
        group_(group),
        coils_(fit.coils()),
        unknowns_(group.rows.elements() * coils_),
        targets_(static_cast<std::int64_t>(group.rows.targets.size()) * coils_),
        report_(report),
        mean_(context.allocate<double>({1})),
        gram_(context.allocate<cdouble>({unknowns_, unknowns_ + targets_})) {
    const Extents n = last_axes(fit.calibration.shape(), 3);
    const KernelPlaces places = places_of(n, group.rows);
    elements_ = {.block = block,
                 .unknowns = static_cast<int>(unknowns_),
                 .rows = static_cast<int>(unknowns_ + targets_),
                 .width = static_cast<std::uint32_t>(places.width),
                 .lines = static_cast<std::uint32_t>(places.along(0)),
                 .step_x = coils_,
                 .step_y = n[2] * coils_,
                 .step_z = n[1] * n[2] * coils_,
                 .places = places.count()};
    std::vector<std::int64_t> offsets;
    const auto add = [&](const RowStep& row, std::int64_t dx) {
      for (std::int64_t c = 0; c < coils_; ++c)
        offsets.push_back((((places.first[1] + row[1]) * n[1] + places.first[0] + row[0]) * n[2] + dx) * coils_ + c);
    };
    for (const RowStep& source : group.rows.sources)
      for (std::int64_t dx = 0; dx < group.rows.kernel_x; ++dx) add(source, dx);
    for (const RowStep& target : group.rows.targets) add(target, group.rows.kernel_x / 2);
    offsets_ = there(context, offsets);
    elements_.offsets = offsets_.data();
    make_gram();
    energies<<<static_cast<unsigned>(targets_), kThreads, 0, stream_of(context)>>>(elements_, sums);
    check_launch("energies");
    make_kernels(sums + targets_);
  }

 private:
  void make_gram() {
    const cudaStream_t stream = stream_of(context_);
    const std::int64_t parts = (elements_.places + kPlacesOfPart - 1) / kPlacesOfPart;
    const std::int64_t at_once =
        std::min(parts, std::clamp<std::int64_t>(
                            kPartBytes / (gram_.size() * static_cast<std::int64_t>(sizeof(cdouble))), 1, kMostParts));
    Array<cdouble> sums = context_.allocate<cdouble>({at_once, gram_.size()});
    const auto tiles = [](std::int64_t n) {
      return static_cast<unsigned>((n + GramTile::kSide - 1) / GramTile::kSide);
    };
    for (std::int64_t part = 0; part < parts; part += at_once) {
      const std::int64_t count = std::min(at_once, parts - part);
      gram_parts<<<dim3(tiles(unknowns_ + targets_), tiles(unknowns_), static_cast<unsigned>(count)), kTileThreads, 0,
                   stream>>>(elements_, part * kPlacesOfPart, numbers(sums));
      check_launch("gram_parts");
      join_parts<<<blocks_for(gram_.size()), kThreads, 0, stream>>>(numbers(sums), count, elements_.unknowns,
                                                                    elements_.rows, part > 0, numbers(gram_));
      check_launch("join_parts");
      if (part + count < parts) context_.cache<LaunchThrottle>().step(context_);
    }
    diagonal_mean<<<1, kThreads, 0, stream>>>(numbers(gram_), elements_.unknowns, elements_.rows, mean_.data(),
                                              report_);
    check_launch("diagonal_mean");
  }

  /// Makes the kernels of all systems, as many at a time as the memory of a batch holds.
  void make_kernels(double* sums) {
    const auto& systems = group_.systems;
    for (std::size_t first = 0; first < systems.size();) {
      std::size_t end = first, targets = 0;
      std::int64_t most = 0;
      for (; end < systems.size() && end - first < kMostSystems; ++end) {
        const std::size_t more = std::max(targets, systems[end].targets.size());
        const std::int64_t larger = std::max(most, unknowns_of(systems[end]));
        const std::uint64_t bytes = HermitianBatch::bytes_of(larger, static_cast<std::int64_t>(more) * coils_);
        if (end > first && bytes * (end + 1 - first) > static_cast<std::uint64_t>(kBatchBytes)) break;
        targets = more;
        most = larger;
      }
      solve(first, end, static_cast<std::int64_t>(targets) * coils_, sums);
      first = end;
      if (first < systems.size()) context_.cache<LaunchThrottle>().step(context_);
    }
  }

  std::int64_t unknowns_of(const KernelSystem& system) const {
    return static_cast<std::int64_t>(system.used.size()) * group_.rows.kernel_x * coils_;
  }

  void solve(std::size_t first, std::size_t end, std::int64_t right_sides, double* sums) {
    std::vector<std::int32_t> unknowns;
    for (std::size_t s = first; s < end; ++s)
      unknowns.push_back(static_cast<std::int32_t>(unknowns_of(group_.systems[s])));
    HermitianBatch batch(context_, unknowns, right_sides);
    const HermitianBatch::View view = batch.view();
    const std::int64_t block = group_.rows.kernel_x * coils_;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(batch.count() * view.rows), -1);
    std::vector<std::int64_t> to(static_cast<std::size_t>(batch.count() * right_sides), -1);
    std::vector<double> shares;
    for (std::size_t s = first; s < end; ++s) {
      const KernelSystem& system = group_.systems[s];
      auto row = rows.begin() + static_cast<std::ptrdiff_t>(s - first) * view.rows;
      auto right = row + view.columns;
      auto weight = to.begin() + static_cast<std::ptrdiff_t>(s - first) * right_sides;
      for (const std::size_t source : system.used)
        for (std::int64_t i = 0; i < block; ++i)
          *row++ = static_cast<std::int32_t>(static_cast<std::int64_t>(source) * block + i);
      for (std::size_t t = 0; t < system.targets.size(); ++t)
        for (std::int64_t c = 0; c < coils_; ++c) {
          *right++ = static_cast<std::int32_t>(unknowns_ + static_cast<std::int64_t>(system.targets[t]) * coils_ + c);
          *weight++ = fit_.first[system.kernels[t]] + c * unknowns_of(system);
        }
      shares.push_back(system.share);
    }
    const auto rows_there = there(context_, rows);
    const auto to_there = there(context_, to);
    const auto shares_there = there(context_, shares);
    const cudaStream_t stream = stream_of(context_);
    choose_sums<<<blocks_for(batch.size()), kThreads, 0, stream>>>(
        view, {rows_there.data(), shares_there.data()}, numbers(gram_), elements_.rows, mean_.data(), batch.size());
    check_launch("choose_sums");
    batch.solve(context_, report_ + kReportSingular);
    if (first == 0) {
      predicted<<<static_cast<unsigned>(targets_), kThreads, 0, stream>>>(
          view, numbers(gram_), elements_.unknowns, elements_.rows, shares.front(), mean_.data(), sums);
      check_launch("predicted");
    }
    take_solutions<<<blocks_for(batch.count() * view.columns * right_sides), kThreads, 0, stream>>>(
        view, to_there.data(), right_sides, batch.count(), device_view(fit_.weights.data()));
    check_launch("take_solutions");
  }

  Context& context_;
  const KernelFit& fit_;
  const KernelGroup& group_;
  std::int64_t coils_, unknowns_, targets_;
  double* report_;
  Array<double> mean_;
  Array<cdouble> gram_;  // [unknown, row]: A A^H, then T A^H
  Array<std::int64_t> offsets_;
  Elements elements_{};
};

}  // namespace

double solve_kernels(Context& context, const KernelFit& fit) {
  const std::int64_t coils = fit.coils(), points = fit.calibration.size() / coils;
  std::int64_t size = kReportSums;
  for (const KernelGroup& group : fit.groups) size += 2 * coils * static_cast<std::int64_t>(group.rows.targets.size());
  Array<double> report = context.zeros<double>({size});
  Array<cfloat> block = context.allocate<cfloat>({points, coils});
  coils_last<<<blocks_for(block.size()), kThreads, 0, stream_of(context)>>>(
      device_view(fit.calibration.data()), device_view(block.data()), coils, points, report.data());
  check_launch("coils_last");
  double* sums = report.data() + kReportSums;
  for (const KernelGroup& group : fit.groups) {
    const GroupFit one(context, fit, group, device_view(block.data()), report.data(), sums);
    sums += 2 * coils * static_cast<std::int64_t>(group.rows.targets.size());
  }

  const HostArray<double> host = context.download<double>(report.cview());
  if (host.data()[kReportNotFinite] != 0) throw std::invalid_argument(kNotFinite);
  if (host.data()[kReportNoSignal] != 0) throw std::invalid_argument(kNoSignal);
  if (host.data()[kReportSingular] != 0) throw std::invalid_argument(kNotDetermined);
  double energy = 0, left = 0;
  const double* next = host.data() + kReportSums;
  for (const KernelGroup& group : fit.groups) {
    const std::int64_t rows = coils * static_cast<std::int64_t>(group.rows.targets.size());
    double of_group = 0, predicted = 0;
    for (std::int64_t r = 0; r < rows; ++r, ++next) {
      of_group += next[0];
      predicted += next[rows];
    }
    next += rows;
    energy += of_group;
    left += std::max(0.0, of_group - predicted);
  }
  return energy > 0 ? std::sqrt(left / energy) : 0;
}

}  // namespace echotrain::numerics::cuda
