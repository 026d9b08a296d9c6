#include <cufft.h>

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"

namespace echotrain::numerics::cuda {
namespace {

const char* reason(cufftResult status) {
  switch (status) {
    case CUFFT_ALLOC_FAILED:
      return "not enough device memory";
    case CUFFT_INVALID_SIZE:
      return "unsupported size";
    default:
      return "internal error";
  }
}

void check_fft(cufftResult status, const char* what) {
  if (status == CUFFT_SUCCESS) return;
  cudaGetLastError();
  throw ResourceError(std::string("cuFFT: ") + what + " failed: " + reason(status) + " (code " +
                      std::to_string(static_cast<int>(status)) + ")");
}

/// The problem that a cuFFT plan solves: `batch` transforms of `dims` axes, the elements of each `stride` apart,
/// `distance` from one transform to the next.
struct Problem {
  Extents extents{1, 1, 1};
  int dims = 1;
  std::int64_t stride = 1, distance = 0, batch = 1;
  auto operator<=>(const Problem&) const = default;
};

/// A cuFFT plan without its work area: cuFFT would allocate one by cudaMalloc and free it by cudaFree, which waits for
/// all work of the device and blocks the launches of all threads meanwhile.
class Plan {
 public:
  Plan(const Problem& problem, cudaStream_t stream) {
    check_fft(cufftCreate(&handle_), "making a plan");
    long long n[3];
    for (int a = 0; a < problem.dims; ++a) n[a] = problem.extents[3 - problem.dims + a];
    cufftResult status = cufftSetAutoAllocation(handle_, 0);
    if (status == CUFFT_SUCCESS) status = cufftSetStream(handle_, stream);
    if (status == CUFFT_SUCCESS)
      status = cufftMakePlanMany64(handle_, problem.dims, n, n, problem.stride, problem.distance, n, problem.stride,
                                   problem.distance, CUFFT_C2C, problem.batch, &work_bytes_);
    if (status != CUFFT_SUCCESS) {
      cufftDestroy(handle_);
      check_fft(status, "planning");
    }
  }
  ~Plan() { cufftDestroy(handle_); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  cufftHandle handle() const { return handle_; }
  std::size_t work_bytes() const { return work_bytes_; }

  /// Sets the work area; call it before the plan runs. `area` has work_bytes(), and no other stream uses it.
  void work_in(void* area) {
    if (work_bytes_ == 0 || area == area_) return;
    check_fft(cufftSetWorkArea(handle_, area), "choosing a work area");
    area_ = area;
  }

 private:
  cufftHandle handle_ = 0;
  std::size_t work_bytes_ = 0;
  void* area_ = nullptr;
};

/// Idle plans that no context uses, kept for the next one: making a plan takes milliseconds, and freeing its tables
/// stops the device.
class IdlePlans {
 public:
  std::unique_ptr<Plan> take(int device, const Problem& problem) {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find({device, problem});
    if (found == plans_.end()) return nullptr;
    std::unique_ptr<Plan> plan = std::move(found->second);
    plans_.erase(found);
    return plan;
  }
  /// Keeps a plan whose work is done, if there is room.
  void keep(int device, const Problem& problem, std::unique_ptr<Plan> plan) noexcept {
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMost) return;
    try {
      plans_.emplace(std::pair{device, problem}, std::move(plan));
    } catch (const std::bad_alloc&) {
      // The plan is destroyed, then.
    }
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::mutex mutex_;
  std::multimap<std::pair<int, Problem>, std::unique_ptr<Plan>> plans_;
};

/// The plans of a context. They are released when the stream has done their work.
struct Plans {
  static constexpr std::size_t kMost = 16;
  int device = 0;
  std::shared_ptr<IdlePlans> idle;  // set when the first plan is made
  std::map<Problem, std::unique_ptr<Plan>> plans;
  std::vector<Array<std::byte>> areas;  // the largest is last; recorded work goes on using the others

  ~Plans() { give_up(); }
  void give_up() {
    for (auto& [problem, plan] : plans) idle->keep(device, problem, std::move(plan));
    plans.clear();
  }
};

/// The work area of all plans of the context, which run one after the other.
void* area_of(Context& context, Plans& cache, std::size_t bytes) {
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (cache.areas.empty() || cache.areas.back().size() < wanted)
    cache.areas.push_back(context.allocate<std::byte>({wanted}));
  return cache.areas.back().data();
}

std::unique_ptr<Plan> idle_or_new(IdlePlans& idle, int device, const Problem& problem, cudaStream_t stream) {
  auto plan = idle.take(device, problem);
  if (!plan) return std::make_unique<Plan>(problem, stream);
  check_fft(cufftSetStream(plan->handle(), stream), "choosing a stream");
  return plan;
}

void run(Context& context, const Problem& problem, cfloat* data, Direction direction) {
  const cudaStream_t stream = stream_of(context);
  auto& cache = context.cache<Plans>();
  cache.device = context.device();
  if (!cache.idle) cache.idle = context.resources().share<IdlePlans>();
  auto& plans = cache.plans;
  auto found = plans.find(problem);
  if (found == plans.end()) {
    if (plans.size() >= Plans::kMost) {
      context.synchronize();  // their work areas may be in use
      cache.give_up();
    }
    found = plans.emplace(problem, idle_or_new(*cache.idle, context.device(), problem, stream)).first;
  }
  Plan& plan = *found->second;
  if (plan.work_bytes() > 0) plan.work_in(area_of(context, cache, plan.work_bytes()));
  auto* values = reinterpret_cast<cufftComplex*>(data);
  const int sign = direction == Direction::forward ? CUFFT_FORWARD : CUFFT_INVERSE;
  check_fft(cufftExecC2C(plan.handle(), values, values, sign), "running");
}

/// The element of the transform that holds index i of a centred axis.
__device__ std::int64_t wrapped(std::int64_t i, std::int64_t n, std::int64_t padded) {
  const std::int64_t k = i - n / 2;
  return k < 0 ? k + padded : k;
}

/// One thread per element of the transform: the centred element that belongs there, or zero.
__global__ void place_kernel(const float2* from, float2* padded, std::int64_t batch, Centred c) {
  const std::int64_t item = c.padded[0] * c.padded[1] * c.padded[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * item) {
    const std::int64_t rest = i % item;
    std::int64_t source = 0;
    const std::int64_t at[3] = {rest / (c.padded[1] * c.padded[2]), rest / c.padded[2] % c.padded[1],
                                rest % c.padded[2]};
    bool inside = true;
    for (int a = 0; a < 3; ++a) {
      // Frequencies from 0 on come first, ceil(padded/2) of them; the negative ones are at the end.
      const std::int64_t k = at[a] < (c.padded[a] + 1) / 2 ? at[a] : at[a] - c.padded[a];
      const std::int64_t index = k + c.n[a] / 2;
      inside = inside && index >= 0 && index < c.n[a];
      source = source * c.n[a] + index;
    }
    padded[i] = inside ? from[i / item * (c.n[0] * c.n[1] * c.n[2]) + source] : make_float2(0.0f, 0.0f);
  }
}

/// One thread per element of the centred array.
__global__ void crop_kernel(const float2* padded, float2* to, std::int64_t batch, Centred c, float scale) {
  const std::int64_t item = c.n[0] * c.n[1] * c.n[2];
  ECHOTRAIN_GRID_STRIDE(i, batch * item) {
    const std::int64_t rest = i % item, z = rest / (c.n[1] * c.n[2]), y = rest / c.n[2] % c.n[1], x = rest % c.n[2];
    const float2 value = padded[((i / item * c.padded[0] + wrapped(z, c.n[0], c.padded[0])) * c.padded[1] +
                                 wrapped(y, c.n[1], c.padded[1])) *
                                    c.padded[2] +
                                wrapped(x, c.n[2], c.padded[2])];
    to[i] = make_float2(value.x * scale, value.y * scale);
  }
}

}  // namespace

void fft(Context& context, cfloat* data, std::int64_t batch, const Extents& extents, int dims, Direction direction) {
  run(context, {.extents = extents, .dims = dims, .stride = 1, .distance = volume(extents), .batch = batch}, data,
      direction);
}

void fft_columns(Context& context, cfloat* data, std::int64_t n, std::int64_t columns, Direction direction) {
  run(context, {.extents = {1, 1, n}, .dims = 1, .stride = columns, .distance = 1, .batch = columns}, data, direction);
}

void place(Context& context, const cfloat* from, cfloat* padded, std::int64_t batch, const Centred& c) {
  place_kernel<<<blocks_for(batch * volume(c.padded)), kThreads, 0, stream_of(context)>>>(
      device_view(from), device_view(padded), batch, c);
  check_launch("place");
}

void crop(Context& context, const cfloat* padded, cfloat* to, std::int64_t batch, const Centred& c, float scale) {
  crop_kernel<<<blocks_for(batch * volume(c.n)), kThreads, 0, stream_of(context)>>>(device_view(padded),
                                                                                    device_view(to), batch, c, scale);
  check_launch("crop");
}

}  // namespace echotrain::numerics::cuda
