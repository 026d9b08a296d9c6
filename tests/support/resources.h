// The resources that a test uses are made for it, whatever the machine.
#pragma once

#include <memory>

#include "gadgets/shared/program/resources_from_options.h"

namespace echotrain {

/// Nothing is tuned to this machine and nothing is kept on disk. ECHOTRAIN_THREADS, _HOPPER and _GRAPHS count.
inline numerics::ResourceOptions test_resource_options() {
  numerics::ResourceOptions options = resource_options_from_environment();
  options.cache_folder.clear();
  return options;
}

/// Resources of one test. threads: of the CPU; 0: one per core.
inline std::shared_ptr<numerics::Resources> test_resources(int threads = 0) {
  numerics::ResourceOptions options = test_resource_options();
  if (threads > 0) options.threads = threads;
  return std::make_shared<numerics::Resources>(options);
}

}  // namespace echotrain
