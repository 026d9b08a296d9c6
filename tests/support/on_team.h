// Whether several devices can work together here: threads on the CPU can, GPUs where there are two and NCCL.
#pragma once

#include <string>

#include "gadgets/numerics/team/team.h"

namespace echotrain::testing {

/// Why there is no team of two on this backend; empty when there is one.
inline std::string no_team(numerics::Backend backend) {
  std::string reason;
  if (!numerics::available(backend, &reason)) return "no usable CUDA device: " + reason;
  if (backend == numerics::Backend::cpu) return "";
  if (numerics::device_count() < 2) return "there is one GPU only; this test needs two";
  return numerics::can_connect_devices(&reason) ? "" : reason;
}

}  // namespace echotrain::testing
