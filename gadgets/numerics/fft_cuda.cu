#include <cufft.h>

#include <map>
#include <tuple>

#include "gadgets/numerics/cuda_support.cuh"
#include "gadgets/numerics/fft_ops.h"

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

/// A cuFFT plan with its work area.
class Plan {
 public:
  Plan(const Extents& extents, std::int64_t batch, int dims, cudaStream_t stream) {
    check_fft(cufftCreate(&handle_), "making a plan");
    long long n[3];
    for (int a = 0; a < dims; ++a) n[a] = extents[3 - dims + a];
    const long long item = volume(extents);
    std::size_t work_bytes = 0;
    cufftResult status = cufftSetStream(handle_, stream);
    if (status == CUFFT_SUCCESS)
      status = cufftMakePlanMany64(handle_, dims, n, n, 1, item, n, 1, item, CUFFT_C2C, batch, &work_bytes);
    if (status != CUFFT_SUCCESS) {
      cufftDestroy(handle_);
      check_fft(status, "planning");
    }
  }
  ~Plan() { cufftDestroy(handle_); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  cufftHandle handle() const { return handle_; }

 private:
  cufftHandle handle_ = 0;
};

/// The plans of a context.
struct Plans {
  static constexpr std::size_t kMost = 16;
  std::map<std::tuple<Extents, std::int64_t, int>, std::unique_ptr<Plan>> plans;
};

const Plan& plan_for(Context& context, const Extents& extents, std::int64_t batch, int dims) {
  const cudaStream_t stream = stream_of(context);
  auto& plans = context.cache<Plans>().plans;
  const auto found = plans.find({extents, batch, dims});
  if (found != plans.end()) return *found->second;
  if (plans.size() >= Plans::kMost) {
    context.synchronize();  // their work areas may be in use
    plans.clear();
  }
  auto plan = std::make_unique<Plan>(extents, batch, dims, stream);
  return *plans.emplace(std::tuple{extents, batch, dims}, std::move(plan)).first->second;
}

/// Element of the transform that holds index i of a centred axis.
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
      // Frequencies 0.. come first, the negative ones from the end: ceil(padded/2) of the former.
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
  const Plan& plan = plan_for(context, extents, batch, dims);
  auto* values = reinterpret_cast<cufftComplex*>(data);
  const int sign = direction == Direction::forward ? CUFFT_FORWARD : CUFFT_INVERSE;
  check_fft(cufftExecC2C(plan.handle(), values, values, sign), "running");
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
