#include "config/resource_options.h"

#include <cstdlib>
#include <utility>
#include <vector>

namespace echotrain::config {

const OptionTable<ResourceOptions>& resource_option_table() {
  using R = ResourceOptions;
  constexpr std::int64_t kMostMib = 1 << 30;
  static const std::vector<std::pair<std::string, bool>> on_or_off{{"on", true}, {"off", false}};
  static const auto table =
      OptionTable<R>()
          .integer("threads", &R::threads, 0, R::kMostThreads, "CPU threads for reconstruction; 0 uses all")
          .variable("ECHOTRAIN_THREADS")
          .path("cache_folder", &R::cache_folder, "FOLDER",
                "folder for data worth keeping between runs; empty: $XDG_CACHE_HOME/echotrain or ~/.cache/echotrain")
          .variable("ECHOTRAIN_CACHE_DIR")
          .integer("plan_cache_mib", &R::plan_cache_mib, 0, kMostMib, "bound of gridding plans kept for later scans")
          .variable("ECHOTRAIN_PLAN_CACHE_MIB")
          .integer("operator_cache_mib", &R::operator_cache_mib, 0, kMostMib,
                   "bound of least squares' operators kept for later scans")
          .variable("ECHOTRAIN_OPERATOR_CACHE_MIB")
          .integer("trajectory_cache_mib", &R::trajectory_cache_mib, 0, kMostMib,
                   "bound of trajectories and their weights kept for later scans")
          .variable("ECHOTRAIN_TRAJECTORY_CACHE_MIB")
          .integer("disk_cache_mib", &R::disk_cache_mib, 0, kMostMib, "bound of operators kept in the cache folder")
          .variable("ECHOTRAIN_DISK_CACHE_MIB")
          .integer(
              "scan_store_mib", &R::scan_store_mib, 0, 1000000,
              "bound of what scans leave for later ones: noise, in memory and on disk each, and reference lines, in "
              "memory")
          .variable("ECHOTRAIN_SCAN_STORE_MIB")
          .integer("scan_store_hours", &R::scan_store_hours, 0, 8760, "how long that is kept")
          .variable("ECHOTRAIN_SCAN_STORE_HOURS")
          .choice_of("scan_store_disk", &R::scan_store_disk, on_or_off,
                     "off: it is kept in memory only, and lost when the program ends")
          .variable("ECHOTRAIN_SCAN_STORE_DISK")
          .choice_of("hopper", &R::hopper, on_or_off, "off: Hopper GPUs run the code of other GPUs (for tests)")
          .variable("ECHOTRAIN_HOPPER")
          .choice_of("graphs", &R::graphs, on_or_off,
                     "off: no work is recorded as a CUDA graph, for tools that cannot follow them")
          .variable("ECHOTRAIN_GRAPHS");
  return table;
}

ResourceOptions read_resource_variables() {
  ResourceOptions options;
  OptionTable<ResourceOptions>(resource_option_table())
      .naming_errors()
      .read_variables(options, [](const char* name) -> const char* { return std::getenv(name); });
  return options;
}

}  // namespace echotrain::config
