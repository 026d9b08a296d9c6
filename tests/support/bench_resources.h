// The bench resources are those of the machine that benchmarks use.
#pragma once

#include <memory>

#include "gadgets/shared/program/resources_from_options.h"

namespace echotrain {

/// Resources that all cases of a program share, as scans of a server do; ECHOTRAIN_* variables set them.
inline const std::shared_ptr<numerics::Resources>& bench_resources() {
  // Never destroyed: CUDA may end before.
  static const auto& resources = *new std::shared_ptr<numerics::Resources>(
      std::make_shared<numerics::Resources>(resource_options_from_environment()));
  return resources;
}

}  // namespace echotrain
