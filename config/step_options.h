// The step options limit gadgets that run other programs: options of the server and of `echotrain recon`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/option.h"

namespace echotrain::config {

struct StepOptions {
  std::string python = "python3";
  std::string python_modules;  ///< folder; empty: no module can be run
  std::int64_t python_memory_mib = 1024;
  std::int64_t python_files = 256;
  std::int64_t python_cpu_s = 3600;
  std::string python_sandbox = "auto";  ///< auto, require, off
  bool python_network = false;
  std::vector<std::string> python_read, python_write;  ///< folders beside those that every step has
  std::int64_t python_tasks = 512;
  std::int64_t python_file_mib = 1024;
  std::int64_t python_threads = 1024;
  double python_timeout_s = 86400;
  std::vector<std::string> mrd_servers;  ///< "host:port"; empty: none can be used
};

OptionTable<StepOptions> step_option_table();

}  // namespace echotrain::config
