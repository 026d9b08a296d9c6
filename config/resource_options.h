// The resource options say how much of the machine the library may use, and where it keeps results: every program that
// reconstructs has them.
#pragma once

#include <cstdint>
#include <string>

#include "config/option.h"

namespace echotrain::config {

/// Sizes are in MiB (2^20 bytes).
struct ResourceOptions {
  std::int64_t threads = 0;  ///< CPU threads, up to kMostThreads; 0: all
  std::string cache_folder;  ///< empty: the cache folder of the user who runs the program
  std::int64_t plan_cache_mib = 2048;
  std::int64_t operator_cache_mib = 2048;
  std::int64_t trajectory_cache_mib = 1024;
  std::int64_t disk_cache_mib = 4096;
  std::int64_t scan_store_mib = 64;
  std::int64_t scan_store_hours = 24;
  bool scan_store_disk = true;
  bool hopper = true;
  bool graphs = true;

  static constexpr std::int64_t kMostThreads = 4096;
};

/// Each option also has an environment variable.
const OptionTable<ResourceOptions>& resource_option_table();

/// Returns the defaults, changed by the variables that are set and not empty. ConfigError names the variable and says
/// what is allowed.
ResourceOptions read_resource_variables();

}  // namespace echotrain::config
