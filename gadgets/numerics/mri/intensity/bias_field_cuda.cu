// An iteration of the fit is three launches: a histogram and its sharpening, sums over the voxels that each spline
// meets, and the field at voxels with the range of what is left. Sums have a fixed order, histograms count integers.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/mri/intensity/bias_field_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kLine = 512;        // bins with zeros around them
constexpr int kGathering = 1024;  // threads for a coefficient
constexpr double kUnit = 0x1p32;  // a voxel in the histogram
constexpr int kAhead = 8;         // iterations between two looks of the host

/// The thinned image, and the lattice of coefficients over it. Axes: z, y, x.
struct Lattice {
  int n[3], spans[3];
  ECHOTRAIN_HOST_DEVICE int size(int axis) const { return spans[axis] == 0 ? 1 : spans[axis] + 3; }
  ECHOTRAIN_HOST_DEVICE int size() const { return size(0) * size(1) * size(2); }
};

/// What the iterations share.
struct FitState {
  double low, step;       // of the histogram's bins; a step of 0: all values are equal
  double mean, relative;  // of the field where there is signal; its standard deviation over the mean
  int done, iterations;   // of a level; of all
  std::int32_t arrived;
};

struct Voxels {
  const double* logarithm;  // [z, y, x], NaN where there is no signal
  double* field;            // likewise, its logarithm
  std::int64_t count, signal;
};

/// The splines that a place meets on an axis: taps from coefficient `first` on.
struct Taps {
  int first, count;
  double weight[4];
};

__device__ Taps taps_at(double place, int spans) {
  if (spans == 0) return {0, 1, {1, 0, 0, 0}};
  const double u = fmin(fmax(place, 0.0), 1.0) * spans;
  const int span = min(static_cast<int>(u), spans - 1);
  const double t = u - span, s = 1 - t;
  return {span,
          4,
          {s * s * s / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * s * s * s - 6 * s * s + 4) / 6, t * t * t / 6}};
}
/// The splines of point i of the thinned image.
__device__ Taps taps_of(const Lattice& lattice, int axis, int i) {
  const int n = lattice.n[axis];
  return taps_at(n > 1 ? static_cast<double>(i) / (n - 1) : 0.0, lattice.spans[axis]);
}

__device__ double value_at(const Lattice& lattice, const double* coefficients, const Taps& z, const Taps& y,
                           const Taps& x) {
  double sum = 0;
  for (int k = 0; k < z.count; ++k)
    for (int j = 0; j < y.count; ++j) {
      const double* const row =
          coefficients + ((z.first + k) * lattice.size(1) + y.first + j) * lattice.size(2) + x.first;
      double of_row = 0;
      for (int i = 0; i < x.count; ++i) of_row += x.weight[i] * row[i];
      sum += z.weight[k] * y.weight[j] * of_row;
    }
  return sum;
}

/// Sums of a ratio and its square, and the range of what the field leaves.
struct VoxelSums {
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
  __device__ void join(const VoxelSums& other) {
    sum += other.sum;
    squares += other.squares;
    least = fmin(least, other.least);
    most = fmax(most, other.most);
  }
};

enum class Look { first, change, last };

/// Evaluates the field at voxels; the last block finds the bins of the next histogram and whether the field still
/// changes. last: the field stays, and the ratio is the field itself.
template <Look kLook>
__global__ void look_at_voxels_kernel(Lattice lattice, const double* coefficients, Voxels voxels, double least_change,
                                      VoxelSums* parts, FitState* state) {
  if (kLook == Look::change && state->done != 0) return;
  VoxelSums mine;
  ECHOTRAIN_GRID_STRIDE(v, voxels.count) {
    const double logarithm = voxels.logarithm[v];
    if (isnan(logarithm)) continue;
    double now = kLook == Look::last ? voxels.field[v] : 0;
    double ratio = exp(now);
    if (kLook == Look::change) {
      const int x = static_cast<int>(v % lattice.n[2]), row = static_cast<int>(v / lattice.n[2]);
      now = value_at(lattice, coefficients, taps_of(lattice, 0, row / lattice.n[1]),
                     taps_of(lattice, 1, row % lattice.n[1]), taps_of(lattice, 2, x));
      ratio = exp(voxels.field[v] - now);
      voxels.field[v] = now;
    }
    VoxelSums one;
    one.sum = ratio;
    one.squares = ratio * ratio;
    one.least = one.most = logarithm - now;
    mine.join(one);
  }
  VoxelSums all = block_join(mine);
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
  if (!is_last_block(&state->arrived, gridDim.x)) return;
  VoxelSums some;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) some.join(parts[i]);
  all = block_join(some);
  if (threadIdx.x != 0) return;
  const double signal = static_cast<double>(voxels.signal);
  const double mean = all.sum / signal, relative = sqrt(fmax(0.0, all.squares / signal - mean * mean)) / mean;
  state->low = all.least;
  state->step = (all.most - all.least) / (kBiasBins - 1);
  state->mean = mean;
  state->relative = relative;
  if (kLook != Look::change) return;
  ++state->iterations;
  if (!(relative > least_change)) state->done = 1;
}

struct Bin {
  int below;
  double above;
};
__device__ Bin bin_of(double value, double low, double per_step) {
  const double at = (value - low) * per_step;
  const int below = min(max(static_cast<int>(at), 0), kBiasBins - 2);
  return {below, at - below};
}

/// Transforms a line in shared memory: forward from the order of places to that of reversed bits, inverse, unscaled,
/// the other way round. turns[i] = exp(-2 pi i i / kLine), i < kLine / 2. All threads of the block call it.
__device__ void transform(double2* line, const double2* turns, bool inverse) {
  for (int stage = 1; stage < kLine; stage *= 2) {
    const int half = inverse ? stage : kLine / 2 / stage;  // a power of two, as stage is
    __syncthreads();
    for (int j = threadIdx.x; j < kLine / 2; j += blockDim.x) {
      const int within = j & (half - 1), at = 2 * j - within;
      const double2 turn = turns[within * (inverse ? kLine / 2 / stage : stage)], a = line[at], b = line[at + half];
      if (inverse) {
        const double2 turned = make_double2(b.x * turn.x + b.y * turn.y, b.y * turn.x - b.x * turn.y);
        line[at] = make_double2(a.x + turned.x, a.y + turned.y);
        line[at + half] = make_double2(a.x - turned.x, a.y - turned.y);
      } else {
        const double2 d = make_double2(a.x - b.x, a.y - b.y);
        line[at] = make_double2(a.x + b.x, a.y + b.y);
        line[at + half] = make_double2(d.x * turn.x - d.y * turn.y, d.x * turn.y + d.y * turn.x);
      }
    }
  }
  __syncthreads();
}
__device__ int reversed(int i) { return static_cast<int>(__brev(static_cast<unsigned>(i)) >> 23); }
static_assert(kLine == 1 << (32 - 23));

/// The table of sharpened values of bins, as HistogramSharpening makes it. All threads of one block call it.
__device__ void sharpen(const unsigned long long* histogram, double low, double step, double* table) {
  __shared__ double2 seen[kLine], line[kLine], turns[kLine / 2];
  __shared__ double blur[kLine];
  constexpr int kFirst = (kLine - kBiasBins) / 2;
  constexpr double kLn2 = 0.693147180559945309417, kPi = 3.14159265358979323846;
  const double width = kBiasWidth / step, peak = 2 * sqrt(kLn2 / kPi) / width;
  for (int i = threadIdx.x; i < kLine; i += blockDim.x) {
    const double distance = min(i, kLine - i);
    const int bin = i - kFirst;
    // The blur, which is even, rides as the imaginary part of the histogram, which is real.
    seen[i] = make_double2(bin >= 0 && bin < kBiasBins ? static_cast<double>(histogram[bin]) / kUnit : 0.0,
                           peak * exp(-4 * kLn2 * distance * distance / (width * width)));
    if (i < kLine / 2) sincospi(-2.0 * i / kLine, &turns[i].y, &turns[i].x);
  }
  transform(seen, turns, false);
  for (int i = threadIdx.x; i < kLine; i += blockDim.x) {
    const double2 z = seen[i], other = seen[reversed((kLine - reversed(i)) % kLine)];
    blur[i] = (z.y + other.y) / 2;
    const double wiener = blur[i] / (blur[i] * blur[i] + kBiasNoise);
    line[i] = make_double2(wiener * (z.x + other.x) / 2, wiener * (z.y - other.y) / 2);
  }
  transform(line, turns, true);
  for (int i = threadIdx.x; i < kLine; i += blockDim.x) {
    const double density = fmax(0.0, line[i].x / kLine);
    line[i] = make_double2(density, density * (low + (i - kFirst) * step));
  }
  transform(line, turns, false);
  for (int i = threadIdx.x; i < kLine; i += blockDim.x)
    line[i] = make_double2(blur[i] * line[i].x, blur[i] * line[i].y);
  transform(line, turns, true);
  for (int bin = threadIdx.x; bin < kBiasBins; bin += blockDim.x) {
    const double2 sums = line[kFirst + bin];
    table[bin] = sums.x != 0 ? sums.y / sums.x : 0;
  }
}

/// Counts what the field leaves; the last block makes the table, and clears the histogram for the next iteration.
__global__ void count_kernel(Voxels voxels, unsigned long long* histogram, double* table, FitState* state) {
  if (state->done != 0) return;
  const double low = state->low, step = state->step, per_step = 1 / step;
  __shared__ unsigned long long mine[kBiasBins];
  for (int bin = threadIdx.x; bin < kBiasBins; bin += blockDim.x) mine[bin] = 0;
  __syncthreads();
  if (step > 0) {
    ECHOTRAIN_GRID_STRIDE(v, voxels.count) {
      const double logarithm = voxels.logarithm[v];
      if (isnan(logarithm)) continue;
      const Bin at = bin_of(logarithm - voxels.field[v], low, per_step);
      const auto above = static_cast<unsigned long long>(__double2ll_rn(fmin(at.above, 1.0) * kUnit));
      atomicAdd(&mine[at.below], static_cast<unsigned long long>(kUnit) - above);
      atomicAdd(&mine[at.below + 1], above);
    }
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBiasBins; bin += blockDim.x)
    if (mine[bin] != 0) atomicAdd(&histogram[bin], mine[bin]);
  __syncthreads();
  if (!is_last_block(&state->arrived, gridDim.x)) return;
  for (int bin = threadIdx.x; bin < kBiasBins; bin += blockDim.x) {
    mine[bin] = histogram[bin];
    histogram[bin] = 0;
  }
  if (step > 0) {
    __syncthreads();
    sharpen(mine, low, step, table);
  }
}

/// Sums of a coefficient's approximation, and of the squares of its spline.
struct SplineSums {
  double sum = 0, squares = 0;
  __device__ void join(const SplineSums& other) {
    sum += other.sum;
    squares += other.squares;
  }
};

/// A spline's part at a point of an axis: its weight's square, and its cube over the sum of squares of all that meet
/// there.
struct Part {
  double square, cube;
};

/// Parts of each axis's splines, [coefficient, point] one axis after another.
struct PartTable {
  Part* parts;
  std::int64_t first[4];  // of each axis, and the end
};

PartTable part_table(const Lattice& lattice) {
  PartTable out{};
  for (int a = 0; a < 3; ++a)
    out.first[a + 1] = out.first[a] + static_cast<std::int64_t>(lattice.size(a)) * lattice.n[a];
  return out;
}

__global__ void parts_kernel(Lattice lattice, PartTable table) {
  ECHOTRAIN_GRID_STRIDE(p, table.first[3]) {
    const int axis = p < table.first[1] ? 0 : p < table.first[2] ? 1 : 2;
    const int at = static_cast<int>((p - table.first[axis]) / lattice.n[axis]);
    const Taps taps = taps_of(lattice, axis, static_cast<int>((p - table.first[axis]) % lattice.n[axis]));
    double squares = 0, weight = 0;
    for (int k = 0; k < taps.count; ++k) {
      squares += taps.weight[k] * taps.weight[k];
      if (taps.first + k == at) weight = taps.weight[k];
    }
    table.parts[p] = {weight * weight, weight * weight * weight / squares};
  }
}

/// Adds the approximation of what sharpening took away, a block for each coefficient (SplineLattice).
__global__ void __launch_bounds__(kGathering)
    approximate_kernel(Lattice lattice, PartTable parts, Voxels voxels, const double* table, const FitState* state,
                       double* coefficients) {
  if (state->done != 0 || !(state->step > 0)) return;
  const double low = state->low, per_step = 1 / state->step;
  const int own = static_cast<int>(blockIdx.x);
  const int at[3] = {own / lattice.size(2) / lattice.size(1), own / lattice.size(2) % lattice.size(1),
                     own % lattice.size(2)};
  int begin[3], extent[3];
  const Part* of_axis[3];
  for (int a = 0; a < 3; ++a) {  // points up to four spans from the spline's beginning, and no fewer
    const int n = lattice.n[a], spans = lattice.spans[a];
    begin[a] = spans == 0 ? 0 : max(0, static_cast<int>(static_cast<std::int64_t>(at[a] - 3) * (n - 1) / spans) - 1);
    const int end =
        spans == 0 ? n : min(n, static_cast<int>(static_cast<std::int64_t>(at[a] + 1) * (n - 1) / spans) + 2);
    extent[a] = max(0, end - begin[a]);
    of_axis[a] = parts.parts + parts.first[a] + static_cast<std::int64_t>(at[a]) * n + begin[a];
  }
  SplineSums mine;
  const int box = extent[0] * extent[1] * extent[2];  // fewer than the thinned image's voxels
#pragma unroll 4
  for (int i = threadIdx.x; i < box; i += kGathering) {
    const int row = i / extent[2], x = i - row * extent[2], z = row / extent[1], y = row - z * extent[1];
    const std::int64_t v =
        (static_cast<std::int64_t>(begin[0] + z) * lattice.n[1] + begin[1] + y) * lattice.n[2] + begin[2] + x;
    const double logarithm = voxels.logarithm[v], value = logarithm - voxels.field[v];
    const Part of_z = of_axis[0][z], of_y = of_axis[1][y], of_x = of_axis[2][x];
    const Bin bin = bin_of(value, low, per_step);
    const double below = table[bin.below], sharpened = below + bin.above * (table[bin.below + 1] - below);
    const bool seen = !isnan(logarithm);
    mine.sum += seen ? of_z.cube * of_y.cube * of_x.cube * (value - sharpened) : 0.0;
    mine.squares += seen ? of_z.square * of_y.square * of_x.square : 0.0;
  }
  const SplineSums all = block_join<kGathering>(mine);
  constexpr double kLeast = 1e-12;  // as SplineLattice
  if (threadIdx.x == 0 && all.squares > kLeast) coefficients[own] += all.sum / all.squares;
}

/// Coefficients of half the spans, of the same function; begins a level.
__global__ void refine_kernel(Lattice coarse, Lattice fine, const double* from, double* to, FitState* state) {
  if (blockIdx.x == 0 && threadIdx.x == 0) state->done = 0;
  ECHOTRAIN_GRID_STRIDE(i, fine.size()) {
    const int own = static_cast<int>(i);
    const int at[3] = {own / fine.size(2) / fine.size(1), own / fine.size(2) % fine.size(1), own % fine.size(2)};
    Taps taps[3];
    for (int a = 0; a < 3; ++a) {
      if (coarse.spans[a] == 0)
        taps[a] = {0, 1, {1, 0, 0, 0}};
      else if (at[a] % 2 == 0)
        taps[a] = {at[a] / 2, 2, {0.5, 0.5, 0, 0}};
      else
        taps[a] = {at[a] / 2, 3, {0.125, 0.75, 0.125, 0}};
    }
    to[i] = value_at(coarse, from, taps[0], taps[1], taps[2]);
  }
}

/// A voxel's place in the thinned image, from 0 to 1, is scale (i - first).
struct ImageGrid {
  std::int64_t n[3];
  double scale[3], first[3];
};

__global__ void write_field_kernel(Lattice lattice, ImageGrid image, const double* coefficients, const FitState* state,
                                   float* field) {
  const double mean = state->mean;
  ECHOTRAIN_GRID_STRIDE(v, image.n[0] * image.n[1] * image.n[2]) {
    const std::int64_t at[3] = {v / image.n[2] / image.n[1], v / image.n[2] % image.n[1], v % image.n[2]};
    Taps taps[3];
    for (int a = 0; a < 3; ++a)
      taps[a] = taps_at(image.scale[a] * (static_cast<double>(at[a]) - image.first[a]), lattice.spans[a]);
    field[v] = static_cast<float>(exp(value_at(lattice, coefficients, taps[0], taps[1], taps[2])) / mean);
  }
}

__global__ void ones_kernel(std::int64_t n, float* field) { ECHOTRAIN_GRID_STRIDE(i, n) field[i] = 1; }

}  // namespace

BiasFieldFacts fit_bias_field(Context& context, const Thinning& thin, const BiasSignal& signal,
                              const BiasFieldOptions& options, DeviceView<float> field) {
  const cudaStream_t stream = stream_of(context);
  BiasFieldFacts facts;
  facts.voxels = static_cast<std::int64_t>(signal.at.size());
  if (signal.at.empty()) {
    ones_kernel<<<blocks_for(field.size()), kThreads, 0, stream>>>(field.size(), field.data());
    check_launch("bias_field");
    return facts;
  }
  const std::int64_t count = volume(thin.n);
  std::vector<double> values(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < signal.at.size(); ++i) values[signal.at[i]] = signal.logarithm[i];
  const Array<double> logarithm = context.upload<double>({values.data(), {count}});
  Array<double> log_field = context.zeros<double>({count}), table = context.zeros<double>({kBiasBins});
  Array<unsigned long long> histogram = context.zeros<unsigned long long>({kBiasBins});
  Array<FitState> state = context.zeros<FitState>({1});
  const unsigned blocks = static_cast<unsigned>(std::min<std::int64_t>((count + kThreads - 1) / kThreads, 256));
  Array<VoxelSums> parts = context.allocate<VoxelSums>({static_cast<std::int64_t>(blocks)});
  Lattice lattice{};
  for (int a = 0; a < 3; ++a) {
    lattice.n[a] = static_cast<int>(thin.n[static_cast<std::size_t>(a)]);
    lattice.spans[a] = lattice.n[a] > 1 ? 1 : 0;
  }
  Array<double> coefficients = context.zeros<double>({lattice.size()});
  const Voxels voxels{logarithm.data(), log_field.data(), count, facts.voxels};

  look_at_voxels_kernel<Look::first>
      <<<blocks, kThreads, 0, stream>>>(lattice, coefficients.data(), voxels, 0, parts.data(), state.data());
  check_launch("bias_field");
  for (int level = 0; level < options.levels; ++level) {
    if (level > 0) {
      Lattice fine = lattice;
      for (int& spans : fine.spans) spans *= 2;
      Array<double> refined = context.allocate<double>({fine.size()});
      refine_kernel<<<blocks_for(fine.size()), kThreads, 0, stream>>>(lattice, fine, coefficients.data(),
                                                                      refined.data(), state.data());
      check_launch("bias_field");
      lattice = fine;
      coefficients = std::move(refined);
    }
    PartTable parts_of = part_table(lattice);
    Array<Part> spline_parts = context.allocate<Part>({parts_of.first[3]});
    parts_of.parts = spline_parts.data();
    parts_kernel<<<blocks_for(parts_of.first[3]), kThreads, 0, stream>>>(lattice, parts_of);
    check_launch("bias_field");
    for (int i = 0; i < options.iterations;) {
      for (const int end = std::min(i + kAhead, options.iterations); i < end; ++i) {
        count_kernel<<<blocks, kThreads, 0, stream>>>(voxels, histogram.data(), table.data(), state.data());
        approximate_kernel<<<static_cast<unsigned>(lattice.size()), kGathering, 0, stream>>>(
            lattice, parts_of, voxels, table.data(), state.data(), coefficients.data());
        look_at_voxels_kernel<Look::change><<<blocks, kThreads, 0, stream>>>(
            lattice, coefficients.data(), voxels, options.least_change, parts.data(), state.data());
        check_launch("bias_field");
      }
      context.check_stop();
      if (context.download<FitState>(state.cview()).data()->done != 0) break;
    }
  }
  look_at_voxels_kernel<Look::last>
      <<<blocks, kThreads, 0, stream>>>(lattice, coefficients.data(), voxels, 0, parts.data(), state.data());
  check_launch("bias_field");
  ImageGrid image{};
  for (std::size_t a = 0; a < 3; ++a) {
    image.n[a] = field.shape()[a];
    image.first[a] = static_cast<double>(thin.first[a]);
    image.scale[a] = 1 / static_cast<double>(thin.step[a] * std::max<std::int64_t>(1, thin.n[a] - 1));
  }
  write_field_kernel<<<blocks_for(field.size()), kThreads, 0, stream>>>(lattice, image, coefficients.data(),
                                                                        state.data(), field.data());
  check_launch("bias_field");
  const HostArray<FitState> found = context.download<FitState>(state.cview());
  facts.iterations = found.data()->iterations;
  facts.spread = found.data()->relative;
  return facts;
}

}  // namespace echotrain::numerics::cuda
