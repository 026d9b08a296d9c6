// The settings with which a program allows gadgets to run other programs: `python` and `mrd_server`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/step_options.h"

namespace echotrain {

/// One of a program's Resources. Set before the first scan, and read-only from then on.
struct StepSettings {
  std::string python = "python3";  ///< interpreter: a path, or a name that is looked up in PATH
  std::filesystem::path modules;   ///< folder of the modules that pipelines may name; empty: there are none
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< memory of one step's process; the memory budget counts all
                                                        ///< of it
  std::int64_t files = 256;                             ///< files that one step's process may have open
  std::int64_t cpu_s = 3600;                            ///< CPU time of one step's process [s]
  std::int64_t warm = 0;                                ///< processes that have loaded their modules and wait for scans
  std::vector<std::string> servers;                     ///< "host:port" of the MRD servers that pipelines may name
  std::string sandbox = "auto";                         ///< or "require", "off"
  bool network = false;                                 ///< whether a step may use the network
  std::vector<std::string> read, write;                 ///< folders beside those that every step has
  std::int64_t tasks = 512;                             ///< processes and threads of a step
  std::int64_t file_mib = 1024;                         ///< longest file that a step may write
  std::int64_t most_threads = 1024;                     ///< bounds what a pipeline asks for
  double most_timeout_s = 86400;                        ///< likewise [s]
};

/// The default of the gadget `python`'s parameter `shared_mib`.
inline constexpr std::int64_t kSharedMib = 64;

/// Takes the settings from a program's options.
inline StepSettings step_settings(const config::StepOptions& from) {
  return {from.python,          from.python_modules, static_cast<std::uint64_t>(from.python_memory_mib) << 20,
          from.python_files,    from.python_cpu_s,   0,
          from.mrd_servers,     from.python_sandbox, from.python_network,
          from.python_read,     from.python_write,   from.python_tasks,
          from.python_file_mib, from.python_threads, from.python_timeout_s};
}

}  // namespace echotrain
