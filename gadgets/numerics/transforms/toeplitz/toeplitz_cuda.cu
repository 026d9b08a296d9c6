#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_line_passes.cuh"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// Bytes of items transformed together.
constexpr std::int64_t kWorkBytes = 512ll << 20;

std::int64_t fast_extent(std::int64_t n) {
  for (std::int64_t m = n;; ++m) {
    std::int64_t rest = m;
    for (const int factor : {2, 3, 5})
      while (rest % factor == 0) rest /= factor;
    if (rest == 1) return m;
  }
}

constexpr int kLineExtents[] = {
#define ECHOTRAIN_EXTENT(m) m,
    ECHOTRAIN_TOEPLITZ_LINES(ECHOTRAIN_EXTENT)
#undef ECHOTRAIN_EXTENT
};

/// Finds the kernels for an extent. Returns false if there are none.
bool find_kernels(std::int64_t m, LineKernels& kernels) {
  switch (m) {
#define ECHOTRAIN_CASE(extent)        \
  case extent:                        \
    kernels = line_kernels<extent>(); \
    return true;
    ECHOTRAIN_TOEPLITZ_LINES(ECHOTRAIN_CASE)
#undef ECHOTRAIN_CASE
    default:
      return false;
  }
}

/// Finds the kernels for planes of M x M with an axis of `across` before them. Returns false if there are none. Short
/// axes give too few planes to keep a device busy.
bool find_plane_kernels(std::int64_t across, std::int64_t m, PlaneKernels& planes, AcrossKernels& kernels) {
  switch (across) {
#define ECHOTRAIN_CASE(extent)          \
  case extent:                          \
    kernels = across_kernels<extent>(); \
    break;
    ECHOTRAIN_TOEPLITZ_ACROSS(ECHOTRAIN_CASE)
#undef ECHOTRAIN_CASE
    default:
      return false;
  }
  switch (m) {
#define ECHOTRAIN_CASE(extent)        \
  case extent:                        \
    planes = plane_kernels<extent>(); \
    return true;
    ECHOTRAIN_TOEPLITZ_PLANES(ECHOTRAIN_CASE)
#undef ECHOTRAIN_CASE
    default:
      return false;
  }
}

/// The plan for applying an operator axis by axis. There is no such plan if an axis has no kernels; cuFFT does the work
/// then.
struct LinePlan {
  struct Axis {
    LineKernels kernels;
    std::int64_t n, m;
    Array<cfloat> roots;
  };
  Axis axes[3];
  int dims;
  PlaneKernels in_planes;  ///< kernels where planes fit into shared memory
  AcrossKernels across;

  bool by_planes() const { return in_planes.around != nullptr; }
  /// Blocks that take both parities of a plane keep a device busy only if there are at least as many.
  static constexpr std::int64_t kEnoughPlanes = 192;
  std::int64_t parts(std::int64_t items) const { return 2 * axes[0].m * items < kEnoughPlanes ? 2 : 1; }
  /// The elements of an item whose planes are transformed along z.
  std::int64_t across_size() const { return 2 * axes[0].m * axes[1].n * axes[2].n; }
  /// The elements of working memory of an item.
  std::int64_t work() const {
    return by_planes() ? (1 + parts(1)) * across_size() : rows_size() + (dims == 3 ? full_size() : 0);
  }
  std::int64_t planes() const { return axes[0].n; }
  /// The elements of an item after its rows, and after the axes but the last were transformed. The same in 2D.
  std::int64_t rows_size() const { return planes() * axes[1].n * 2 * axes[2].m; }
  std::int64_t full_size() const { return dims == 3 ? planes() * 4 * axes[1].m * axes[2].m : rows_size(); }
};

/// The shared memory that a block may have: 227 KiB at compute capability 9.0, 163 KiB at 8.0, 99 KiB at 8.6, 8.9 and
/// 12.0.
int shared_bytes_of(Context& context) {
  int shared = 0;
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device()),
        "asking for the size of shared memory");
  return shared;
}

std::shared_ptr<const LinePlan> make_line_plan(Context& context, const ToeplitzOperator::Impl& impl) {
  auto plan = std::make_shared<LinePlan>();
  plan->dims = impl.dims;
  for (int a = 0; a < 3; ++a) {
    LinePlan::Axis& axis = plan->axes[a];
    axis.n = impl.n[a];
    axis.m = impl.padded[a] / 2;
    if (a < 3 - impl.dims) continue;
    if (!find_kernels(axis.m, axis.kernels)) return nullptr;
    std::vector<cfloat> roots;
    for (std::int64_t j = 0; j < 2 * axis.m; ++j)
      roots.emplace_back(std::polar(1.0, -std::numbers::pi * static_cast<double>(j) / static_cast<double>(axis.m)));
    axis.roots = context.upload<cfloat>({roots.data(), {2 * axis.m}});
  }
  if (plan->dims == 3 && plan->axes[1].m == plan->axes[2].m &&
      (!find_plane_kernels(plan->axes[0].m, plan->axes[2].m, plan->in_planes, plan->across) ||
       plan->in_planes.shared_bytes > shared_bytes_of(context)))
    plan->in_planes = {};
  return plan;
}

/// The order of the numbers of a spectrum.
struct SpectrumOrder {
  Extents padded;
  bool by_parity;    ///< true: the even frequencies of each axis, then the odd ones; false: FFT order
  PlaneOrder plane;  ///< order of the last two axes

  std::int64_t size() const { return plane.m > 0 ? padded[0] * plane.size() : volume(padded); }
  /// The place in FFT order of element i; -1: the element is unused.
  __device__ std::int64_t source(std::int64_t i) const {
    const std::int64_t of_plane = plane.m > 0 ? plane.size() : padded[1] * padded[2];
    std::int64_t at[3] = {i / of_plane, i % of_plane / padded[2], i % of_plane % padded[2]};
    for (int a = 0; a < (plane.m > 0 ? 1 : 3); ++a) {
      const std::int64_t m = padded[a] / 2;
      if (by_parity && padded[a] > 1) at[a] = at[a] < m ? 2 * at[a] : 2 * (at[a] - m) + 1;
    }
    if (plane.m > 0 && !plane.frequency(i % of_plane, at[1], at[2])) return -1;
    return (at[0] * padded[1] + at[1]) * padded[2] + at[2];
  }
};

SpectrumOrder order_of(const ToeplitzOperator::Impl& impl) {
  const auto* const plan = static_cast<const LinePlan*>(impl.axes.get());
  return {impl.padded, plan != nullptr, plan != nullptr && plan->by_planes() ? plan->in_planes.order : PlaneOrder{}};
}

__global__ void reorder_kernel(const float* natural, SpectrumOrder order, std::int64_t n, float* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const std::int64_t source = order.source(i);
    to[i] = source < 0 ? 0.0f : natural[source];
  }
}

/// Refills a spectrum from a transform, with the largest of its real parts.
__global__ void refill_kernel(ToeplitzRefill refill, SpectrumOrder order, std::int64_t n, float* to) {
  const float2* const from = reinterpret_cast<const float2*>(refill.transformed);
  Largest most{-INFINITY};
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const std::int64_t source = order.source(i);
    if (source < 0) continue;
    const float value = from[source].x;
    to[i] = refill.scale * value;
    most.join({value});
  }
  most = block_join(most);
  if (threadIdx.x == 0) refill.partial[blockIdx.x] = most.most;
  if (!is_last_block(refill.arrived, gridDim.x)) return;
  const volatile float* const partial = refill.partial;
  most = {-INFINITY};
  for (unsigned b = threadIdx.x; b < gridDim.x; b += kThreads) most.join({partial[b]});
  most = block_join(most);
  if (threadIdx.x == 0) *refill.largest = most.most;
}

/// One thread per element of the grid: the lag that belongs there, or zero.
__global__ void place_kernel(const float2* q, Extents n, Extents padded, int dims, float2* grid) {
  ECHOTRAIN_GRID_STRIDE(i, padded[0] * padded[1] * padded[2]) {
    const std::int64_t at[3] = {i / (padded[1] * padded[2]), i / padded[2] % padded[1], i % padded[2]};
    std::int64_t source = 0;
    bool inside = true;
    for (int a = 3 - dims; a < 3; ++a) {
      const std::int64_t lag = at[a] < n[a] ? at[a] : at[a] - padded[a];
      inside = inside && lag > -n[a];
      source = source * 2 * n[a] + (lag < 0 ? lag + 2 * n[a] : lag);
    }
    grid[i] = inside ? q[source] : make_float2(0.0f, 0.0f);
  }
}

__global__ void circulant_kernel(const float2* q, Extents n, int dims, float2* column) {
  ECHOTRAIN_GRID_STRIDE(i, n[0] * n[1] * n[2]) {
    const std::int64_t at[3] = {i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
    float2 sum = make_float2(0.0f, 0.0f);
    for (int corner = 0; corner < 1 << dims; ++corner) {
      float weight = 1;
      std::int64_t source = 0;
      for (int a = 3 - dims; a < 3; ++a) {
        const bool negative = (corner >> (2 - a) & 1) != 0;
        const float share = static_cast<float>(at[a]) / static_cast<float>(n[a]);
        weight *= negative ? share : 1 - share;
        source = source * 2 * n[a] + at[a] + (negative ? n[a] : 0);  // lag at - n, wrapped
      }
      if (weight > 0) {
        sum.x += weight * q[source].x;
        sum.y += weight * q[source].y;
      }
    }
    column[i] = sum;
  }
}

__global__ void real_kernel(const float2* from, std::int64_t n, float scale, float* to, SpectrumRange* ranges) {
  SpectrumRange range;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float2 v = from[i];
    to[i] = scale * v.x;
    range.take(v.x, v.y);
  }
  range = block_join(range);
  if (threadIdx.x == 0) ranges[blockIdx.x] = range;
}

/// grid = the images, times their maps where there are some, padded with zeros.
__global__ void pad_kernel(const float2* x, const float2* maps, std::int64_t batch, Extents n, Extents padded,
                           float2* grid) {
  const std::int64_t item = padded[0] * padded[1] * padded[2], image = n[0] * n[1] * n[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * item) {
    const std::int64_t rest = i % item, c = i / item;
    const std::int64_t at[3] = {rest / (padded[1] * padded[2]), rest / padded[2] % padded[1], rest % padded[2]};
    float2 value = make_float2(0.0f, 0.0f);
    if (at[0] < n[0] && at[1] < n[1] && at[2] < n[2]) {
      const std::int64_t v = (at[0] * n[1] + at[1]) * n[2] + at[2];
      value = x[maps == nullptr ? c * image + v : v];
      if (maps != nullptr) {
        const float2 m = maps[c * image + v];
        value = make_float2(value.x * m.x - value.y * m.y, value.x * m.y + value.y * m.x);
      }
    }
    grid[i] = value;
  }
}

__global__ void multiply_kernel(const float* spectrum, std::int64_t batch, std::int64_t item, float2* grid) {
  ECHOTRAIN_GRID_STRIDE(i, batch * item) {
    const float factor = spectrum[i % item];
    grid[i].x *= factor;
    grid[i].y *= factor;
  }
}

/// Cuts the images out of the grids.
__global__ void cut_kernel(const float2* grid, std::int64_t batch, Extents n, Extents padded, float2* y) {
  const std::int64_t item = padded[0] * padded[1] * padded[2], image = n[0] * n[1] * n[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * image) {
    const std::int64_t v = i % image, z = v / (n[1] * n[2]), row = v / n[2] % n[1];
    y[i] = grid[i / image * item + (z * padded[1] + row) * padded[2] + v % n[2]];
  }
}

/// One thread per voxel adds up the coils, in their order.
__global__ void combine_kernel(const float2* grid, const float2* maps, std::int64_t coils, Extents n, Extents padded,
                               bool add, float2* y) {
  const std::int64_t item = padded[0] * padded[1] * padded[2], image = n[0] * n[1] * n[2];
  ECHOTRAIN_GRID_STRIDE(v, image) {
    const std::int64_t z = v / (n[1] * n[2]), row = v / n[2] % n[1];
    const std::int64_t at = (z * padded[1] + row) * padded[2] + v % n[2];
    float2 sum = add ? y[v] : make_float2(0.0f, 0.0f);
    for (std::int64_t c = 0; c < coils; ++c) {
      const float2 a = grid[c * item + at], m = maps[c * image + v];
      sum.x += a.x * m.x + a.y * m.y;
      sum.y += a.y * m.x - a.x * m.y;
    }
    y[v] = sum;
  }
}

}  // namespace

std::int64_t toeplitz_extent(std::int64_t n) {
  // The next extent of our own kernels, where that is small or not much larger than cuFFT needs.
  const std::int64_t fast = fast_extent(n);
  for (const std::int64_t m : kLineExtents)
    if (m >= n) return 2 * (4 * m <= 5 * fast || m <= kLineExtents[1] ? m : fast);
  return 2 * fast;
}

void toeplitz_place(Context& context, const cfloat* q, const Extents& n, const Extents& padded, int dims,
                    cfloat* grid) {
  place_kernel<<<blocks_for(volume(padded)), kThreads, 0, stream_of(context)>>>(device_view(q), n, padded, dims,
                                                                                device_view(grid));
  check_launch("toeplitz_place");
}

void circulant_place(Context& context, const cfloat* q, const Extents& n, int dims, cfloat* column) {
  circulant_kernel<<<blocks_for(volume(n)), kThreads, 0, stream_of(context)>>>(device_view(q), n, dims,
                                                                               device_view(column));
  check_launch("circulant_place");
}

SpectrumRange real_part(Context& context, const cfloat* from, std::int64_t n, float scale, float* to) {
  const std::int64_t blocks = reduction_blocks(n);
  Array<SpectrumRange> ranges = context.allocate<SpectrumRange>({blocks});
  real_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(context)>>>(device_view(from), n, scale, to,
                                                                                  ranges.data());
  check_launch("real_part");
  const HostArray<SpectrumRange> host = context.download<SpectrumRange>(ranges.cview());
  SpectrumRange all;
  for (std::int64_t b = 0; b < blocks; ++b) all.join(host.data()[b]);
  return all;
}

void toeplitz_plan(Context& context, ToeplitzOperator::Impl& impl) {
  const auto plan = make_line_plan(context, impl);
  impl.axes = plan;
  impl.around_parts = plan && plan->by_planes() ? across_tiles(impl.n[1] * impl.n[2]) : 0;
}

void toeplitz_prepare(Context& context, Array<float> natural, ToeplitzOperator::Impl& impl) {
  toeplitz_plan(context, impl);
  if (!impl.axes) {
    impl.spectrum = std::move(natural);
    return;
  }
  const SpectrumOrder order = order_of(impl);
  impl.spectrum = context.allocate<float>({order.size()});
  reorder_kernel<<<blocks_for(order.size()), kThreads, 0, stream_of(context)>>>(natural.data(), order, order.size(),
                                                                                impl.spectrum.data());
  check_launch("toeplitz_prepare");
}

std::int64_t toeplitz_spectrum_size(const ToeplitzOperator::Impl& impl) { return order_of(impl).size(); }

std::int64_t toeplitz_work_size(const ToeplitzOperator::Impl& impl, std::int64_t coils) {
  const auto* const plan = static_cast<const LinePlan*>(impl.axes.get());
  const std::int64_t item = plan == nullptr ? volume(impl.padded) : plan->work();
  return std::clamp<std::int64_t>(kWorkBytes / (item * static_cast<std::int64_t>(sizeof(cfloat))), 1, coils) * item;
}

std::int64_t toeplitz_parts(const ToeplitzOperator::Impl& impl) { return reduction_blocks(volume(impl.padded)); }

void toeplitz_refill(Context& context, const ToeplitzRefill& refill, ToeplitzOperator::Impl& impl) {
  refill_kernel<<<static_cast<unsigned>(toeplitz_parts(impl)), kThreads, 0, stream_of(context)>>>(
      refill, order_of(impl), order_of(impl).size(), impl.spectrum.data());
  check_launch("toeplitz_refill");
}

namespace {

/// Items first .. first + items - 1 of a job, which are coils where it has maps.
struct Part {
  std::int64_t first, items;
  const float2 *x, *maps;
  float2* y;
};

/// Calls work(part) for parts of the job of at most kWorkBytes at `bytes` an item.
template <class Work>
void for_parts(const ToeplitzOperator::Impl& impl, const ToeplitzJob& job, std::int64_t bytes, const Work& work) {
  const std::int64_t image = volume(impl.n), chunk = std::clamp<std::int64_t>(kWorkBytes / bytes, 1, job.batch);
  const bool sense = job.maps != nullptr;
  for (std::int64_t first = 0; first < job.batch; first += chunk) {
    const std::int64_t skipped = sense ? 0 : first * image;
    work(Part{first, std::min(chunk, job.batch - first), device_view(job.x) + skipped,
              sense ? device_view(job.maps) + first * image : nullptr, device_view(job.y) + skipped});
  }
}

void apply_by_planes(Context& context, const ToeplitzOperator::Impl& impl, const LinePlan& plan,
                     const ToeplitzJob& job) {
  const cudaStream_t stream = stream_of(context);
  const LinePlan::Axis &z = plan.axes[0], &y = plan.axes[1], &x = plan.axes[2];
  const bool sense = job.maps != nullptr;
  for_parts(impl, job, plan.work() * static_cast<std::int64_t>(sizeof(cfloat)), [&](const Part& part) {
    Array<cfloat> own;
    if (job.work == nullptr) own = context.allocate<cfloat>({part.items, plan.work()});
    float2* const before = device_view(job.work == nullptr ? own.data() : job.work);
    float2* const after = before + part.items * plan.across_size();
    const auto parts = static_cast<int>(plan.parts(part.items));
    LinePass pass{.from = part.x,
                  .to = before,
                  .roots = device_view(z.roots.data()),
                  .n = static_cast<int>(z.n),
                  .lines = y.n * x.n,
                  .items = part.items,
                  .maps = part.maps,
                  .coils = part.items};
    const AroundApply* const around = job.around;
    if (around != nullptr && around->r != nullptr) {
      pass.along = device_view(const_cast<cfloat*>(job.x)) + part.first * volume(impl.n);
      pass.before.r = device_view(around->r) + part.first * volume(impl.n);
      pass.before.factor = around->factor;
      pass.before.beta = around->beta + part.first * around->beta_stride;
      pass.before.beta_stride = around->beta_stride;
    }
    plan.across.forward(pass, stream);
    plan.in_planes.around({.from = before,
                           .to = after,
                           .roots = device_view(x.roots.data()),
                           .ny = static_cast<int>(y.n),
                           .nx = static_cast<int>(x.n),
                           .planes = static_cast<unsigned>(2 * z.m),
                           .items = static_cast<unsigned>(part.items),
                           .parts = static_cast<unsigned>(parts),
                           .spectrum = impl.spectrum.data()},
                          stream);
    pass.from = after;
    pass.to = part.y;
    pass.add = part.maps != nullptr && part.first > 0;
    pass.parts = parts;
    if (around != nullptr && around->product != nullptr && (sense ? part.first + part.items == job.batch : true)) {
      const std::int64_t item = sense ? 0 : part.first;
      pass.along = device_view(const_cast<cfloat*>(job.x)) + item * volume(impl.n);
      pass.after.shift = around->shift;
      pass.after.product = around->product + item;
      pass.after.partial = around->partial + item * impl.around_parts;
      pass.after.arrived = around->arrived + item;
    }
    plan.across.inverse(pass, stream);
    check_launch("toeplitz_apply");
  });
}

void apply_by_lines(Context& context, const ToeplitzOperator::Impl& impl, const LinePlan& plan,
                    const ToeplitzJob& job) {
  const cudaStream_t stream = stream_of(context);
  const LinePlan::Axis &z = plan.axes[0], &y = plan.axes[1], &x = plan.axes[2];
  const std::int64_t rows = z.n * y.n, across = 2 * x.m;
  const bool solid = plan.dims == 3;
  const std::int64_t item = plan.work();
  for_parts(impl, job, item * static_cast<std::int64_t>(sizeof(cfloat)), [&](const Part& part) {
    Array<cfloat> own;
    if (job.work == nullptr) own = context.allocate<cfloat>({part.items, item});
    float2* const planes_of = device_view(job.work == nullptr ? own.data() : job.work);
    const auto roots = [](const LinePlan::Axis& axis) { return device_view(axis.roots.data()); };
    x.kernels.rows_forward({.from = part.x,
                            .to = planes_of,
                            .roots = roots(x),
                            .n = static_cast<int>(x.n),
                            .lines = part.items * rows,
                            .maps = part.maps,
                            .image_rows = rows},
                           stream);
    if (solid) {
      float2* const full = planes_of + part.items * plan.rows_size();
      LinePass pass{.from = planes_of,
                    .to = full,
                    .roots = roots(y),
                    .n = static_cast<int>(y.n),
                    .lines = across,
                    .items = part.items * z.n};
      y.kernels.columns_forward(pass, stream);
      z.kernels.columns_around({.from = full,
                                .to = full,
                                .roots = roots(z),
                                .n = static_cast<int>(z.n),
                                .lines = 2 * y.m * across,
                                .items = part.items,
                                .spectrum = impl.spectrum.data()},
                               stream);
      pass.from = full;
      pass.to = planes_of;
      y.kernels.columns_inverse(pass, stream);
    } else {
      y.kernels.columns_around({.from = planes_of,
                                .to = planes_of,
                                .roots = roots(y),
                                .n = static_cast<int>(y.n),
                                .lines = across,
                                .items = part.items,
                                .spectrum = impl.spectrum.data()},
                               stream);
    }
    x.kernels.rows_inverse({.from = planes_of,
                            .to = part.y,
                            .roots = roots(x),
                            .n = static_cast<int>(x.n),
                            .lines = part.maps == nullptr ? part.items * rows : rows,
                            .maps = part.maps,
                            .coils = part.items,
                            .add = part.first > 0},
                           stream);
    check_launch("toeplitz_apply");
  });
}

void apply_by_cufft(Context& context, const ToeplitzOperator::Impl& impl, const ToeplitzJob& job) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t item = volume(impl.padded), image = volume(impl.n);
  for_parts(impl, job, item * static_cast<std::int64_t>(sizeof(cfloat)), [&](const Part& part) {
    Array<cfloat> own;
    if (job.work == nullptr) own = context.allocate<cfloat>({part.items, item});
    cfloat* const grid = job.work == nullptr ? own.data() : job.work;
    float2* const values = device_view(grid);
    pad_kernel<<<blocks_for(part.items * item), kThreads, 0, stream>>>(part.x, part.maps, part.items, impl.n,
                                                                       impl.padded, values);
    check_launch("toeplitz_apply");
    fft(context, grid, part.items, impl.padded, impl.dims, Direction::forward);
    multiply_kernel<<<blocks_for(part.items * item), kThreads, 0, stream>>>(impl.spectrum.data(), part.items, item,
                                                                            values);
    check_launch("toeplitz_apply");
    fft(context, grid, part.items, impl.padded, impl.dims, Direction::inverse);
    if (part.maps != nullptr)
      combine_kernel<<<blocks_for(image), kThreads, 0, stream>>>(values, part.maps, part.items, impl.n, impl.padded,
                                                                 part.first > 0, part.y);
    else
      cut_kernel<<<blocks_for(part.items * image), kThreads, 0, stream>>>(values, part.items, impl.n, impl.padded,
                                                                          part.y);
    check_launch("toeplitz_apply");
  });
}

}  // namespace

void toeplitz_apply(Context& context, const ToeplitzOperator::Impl& impl, const ToeplitzJob& job) {
  const auto* const plan = static_cast<const LinePlan*>(impl.axes.get());
  if (plan != nullptr)
    (plan->by_planes() ? apply_by_planes : apply_by_lines)(context, impl, *plan, job);
  else
    apply_by_cufft(context, impl, job);
}

}  // namespace echotrain::numerics::cuda
