#include "server/health/device_check.h"

#include <unistd.h>

#include <cmath>
#include <exception>
#include <memory>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "server/health/canary.h"

namespace echotrain::server {

namespace {

using numerics::cfloat;

// A point has the same magnitude at every frequency.
bool transforms_a_point(int device) {
  constexpr std::int64_t kSize = 64;
  const auto resources = std::make_shared<numerics::Resources>(numerics::ResourceOptions{.threads = 1});
  numerics::Context compute(numerics::Backend::cuda, resources, {.device = device, .memory_budget = 64 << 20});
  auto point = compute.allocate_host<cfloat>({kSize, kSize});
  for (std::int64_t i = 0; i < point.size(); ++i) point.data()[i] = i == kSize + 1 ? 1.0f : 0.0f;
  auto values = compute.upload<cfloat>(point.view());
  numerics::fft(compute, values.view(), 2, numerics::Direction::forward);
  const auto back = compute.download<cfloat>(values.view());
  const float first = std::abs(back.data()[0]);
  for (std::int64_t i = 0; i < back.size(); ++i)
    if (!(std::abs(std::abs(back.data()[i]) - first) < 1e-3f * first)) return false;
  return first > 0;
}

}  // namespace

int device_status(int cuda_error) {
  if (cuda_error == 0) return Canary::kWorks;
  if (numerics::fault_of(cuda_error) == numerics::CudaFault::memory) return Canary::kUnknown;
  switch (cuda_error) {
    case 35:   // cudaErrorInsufficientDriver
    case 46:   // cudaErrorDevicesUnavailable
    case 304:  // cudaErrorOperatingSystem
    case 803:  // cudaErrorSystemDriverMismatch
    case 805:  // cudaErrorMpsConnectionFailed
    case 806:  // cudaErrorMpsRpcFailure
    case 807:  // cudaErrorMpsServerNotReady
    case 808:  // cudaErrorMpsMaxClientsReached
    case 809:  // cudaErrorMpsMaxConnectionsReached
      return Canary::kUnknown;
    default:
      return Canary::kBroken;
  }
}

int check_device(int device, unsigned most_s) {
  ::alarm(most_s);
  if (const int status = device_status(numerics::try_device(device)); status != Canary::kWorks) return status;
  try {
    return transforms_a_point(device) ? Canary::kWorks : Canary::kBroken;
  } catch (const numerics::DeviceLost&) {
    return Canary::kBroken;
  } catch (const numerics::DeviceFailed& error) {
    return device_status(error.code);
  } catch (const std::exception&) {
    return Canary::kUnknown;
  }
}

}  // namespace echotrain::server
