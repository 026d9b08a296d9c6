#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/toeplitz/toeplitz_line_passes.cuh"
#include "gadgets/numerics/toeplitz/toeplitz_ops.h"

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

/// The kernels for an extent; none when there are none.
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

/// How an operator is applied axis by axis. There is no such plan if an axis has no kernels; cuFFT does the work then.
struct LinePlan {
  struct Axis {
    LineKernels kernels;
    std::int64_t n, m;
    Array<cfloat> roots;
  };
  Axis axes[3];
  int dims;

  std::int64_t planes() const { return axes[0].n; }
  /// Elements of an item after its rows, and after the axes but the last were transformed. The same in 2D.
  std::int64_t rows_size() const { return planes() * axes[1].n * 2 * axes[2].m; }
  std::int64_t full_size() const { return dims == 3 ? planes() * 4 * axes[1].m * axes[2].m : rows_size(); }
};

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
  return plan;
}

/// to: the even frequencies of each axis, then the odd ones.
__global__ void reorder_kernel(const float* natural, Extents padded, float* to) {
  ECHOTRAIN_GRID_STRIDE(i, padded[0] * padded[1] * padded[2]) {
    const std::int64_t at[3] = {i / (padded[1] * padded[2]), i / padded[2] % padded[1], i % padded[2]};
    std::int64_t source = 0;
    for (int a = 0; a < 3; ++a) {
      const std::int64_t m = padded[a] / 2;
      source = source * padded[a] + (padded[a] == 1 ? 0 : at[a] < m ? 2 * at[a] : 2 * (at[a] - m) + 1);
    }
    to[i] = natural[source];
  }
}

/// The same from a transform, with the largest of its real parts.
__global__ void refill_kernel(ToeplitzRefill refill, Extents padded, bool by_parity, float* to) {
  const float2* const from = reinterpret_cast<const float2*>(refill.transformed);
  Largest most{-INFINITY};
  ECHOTRAIN_GRID_STRIDE(i, padded[0] * padded[1] * padded[2]) {
    const std::int64_t at[3] = {i / (padded[1] * padded[2]), i / padded[2] % padded[1], i % padded[2]};
    std::int64_t source = 0;
    for (int a = 0; a < 3; ++a) {
      const std::int64_t m = padded[a] / 2;
      source = source * padded[a] + (padded[a] == 1 || !by_parity ? at[a]
                                     : at[a] < m                  ? 2 * at[a]
                                                                  : 2 * (at[a] - m) + 1);
    }
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

/// grid = the images, times their maps where there are some, filled up with zeros.
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

/// The images' part of the grids.
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

void toeplitz_plan(Context& context, ToeplitzOperator::Impl& impl) { impl.axes = make_line_plan(context, impl); }

void toeplitz_prepare(Context& context, Array<float> natural, ToeplitzOperator::Impl& impl) {
  toeplitz_plan(context, impl);
  if (!impl.axes) {
    impl.spectrum = std::move(natural);
    return;
  }
  impl.spectrum = context.allocate<float>(natural.shape());
  reorder_kernel<<<blocks_for(natural.size()), kThreads, 0, stream_of(context)>>>(natural.data(), impl.padded,
                                                                                  impl.spectrum.data());
  check_launch("toeplitz_prepare");
}

std::int64_t toeplitz_spectrum_size(const ToeplitzOperator::Impl& impl) { return volume(impl.padded); }

std::int64_t toeplitz_work_size(const ToeplitzOperator::Impl& impl, std::int64_t coils) {
  const auto* const plan = static_cast<const LinePlan*>(impl.axes.get());
  const std::int64_t item =
      plan == nullptr ? volume(impl.padded) : plan->rows_size() + (plan->dims == 3 ? plan->full_size() : 0);
  return std::clamp<std::int64_t>(kWorkBytes / (item * static_cast<std::int64_t>(sizeof(cfloat))), 1, coils) * item;
}

std::int64_t toeplitz_parts(const ToeplitzOperator::Impl& impl) { return reduction_blocks(volume(impl.padded)); }

void toeplitz_refill(Context& context, const ToeplitzRefill& refill, ToeplitzOperator::Impl& impl) {
  refill_kernel<<<static_cast<unsigned>(toeplitz_parts(impl)), kThreads, 0, stream_of(context)>>>(
      refill, impl.padded, static_cast<bool>(impl.axes), impl.spectrum.data());
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

void apply_by_lines(Context& context, const ToeplitzOperator::Impl& impl, const LinePlan& plan,
                    const ToeplitzJob& job) {
  const cudaStream_t stream = stream_of(context);
  const LinePlan::Axis &z = plan.axes[0], &y = plan.axes[1], &x = plan.axes[2];
  const std::int64_t rows = z.n * y.n, across = 2 * x.m;
  const bool solid = plan.dims == 3;
  const std::int64_t item = plan.rows_size() + (solid ? plan.full_size() : 0);
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
  if (impl.axes)
    apply_by_lines(context, impl, *static_cast<const LinePlan*>(impl.axes.get()), job);
  else
    apply_by_cufft(context, impl, job);
}

}  // namespace echotrain::numerics::cuda
