// A team can work together here where there are threads on the CPU, or two GPUs and NCCL.
#pragma once

#include <string>

#include "gadgets/numerics/core/team/team.h"
#include "tests/support/expected_cuda.h"

namespace echotrain::testing {

/// Returns why there is no team of two on this backend; empty when there is one.
inline std::string no_team(numerics::Backend backend) {
  if (std::string reason = missing_backend(backend); !reason.empty() || backend == numerics::Backend::cpu)
    return reason;
  if (numerics::device_count() < 2) return "there is one GPU only; this test needs two";
  std::string reason;
  return numerics::can_connect_devices(&reason) ? "" : reason;
}

}  // namespace echotrain::testing
