// The machine is named in a benchmark's JSON, for the captions of tables.
#pragma once

#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

#include "gadgets/numerics/core/context.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {

/// Returns the name that Linux has for the processor.
inline std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

/// The processor with its instructions, and the GPU where one works, as `cpu` and `gpu`. After Initialize().
inline void add_machine() {
  benchmark::AddCustomContext("cpu", processor() + ", " + describe(numerics::Backend::cpu, *bench_resources()));
  if (available(numerics::Backend::cuda))
    benchmark::AddCustomContext("gpu", describe(numerics::Backend::cuda, *bench_resources()));
}

}  // namespace echotrain::bench
