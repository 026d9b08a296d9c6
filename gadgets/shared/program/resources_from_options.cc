#include "gadgets/shared/program/resources_from_options.h"

namespace echotrain {

static_assert(config::ResourceOptions::kMostThreads == numerics::ResourceOptions::kMostThreads);

numerics::ResourceOptions resource_options(const config::ResourceOptions& from) {
  const auto bytes = [](std::int64_t mib) { return static_cast<std::uint64_t>(mib) << 20; };
  numerics::ResourceOptions to;
  to.threads = static_cast<int>(from.threads);
  if (from.cache_folder.empty())
    to.cache_folder = numerics::user_cache_folder();
  else
    to.cache_folder = from.cache_folder;
  to.plan_cache_bytes = bytes(from.plan_cache_mib);
  to.operator_cache_bytes = bytes(from.operator_cache_mib);
  to.trajectory_cache_bytes = bytes(from.trajectory_cache_mib);
  to.disk_cache_bytes = bytes(from.disk_cache_mib);
  to.scan_store_bytes = bytes(from.scan_store_mib);
  to.scan_store_hours = from.scan_store_hours;
  to.scan_store_disk = from.scan_store_disk;
  to.hopper = from.hopper;
  to.graphs = from.graphs;
  return to;
}

numerics::ResourceOptions resource_options_from_environment() {
  return resource_options(config::read_resource_variables());
}

}  // namespace echotrain
