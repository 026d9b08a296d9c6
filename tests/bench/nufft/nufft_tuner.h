// What the tuner's choice brings over default_tuning().
#pragma once

#include <benchmark/benchmark.h>

#include <vector>

#include "tests/bench/nufft/nufft_cases.h"

namespace echotrain::bench {

/// Trajectories, sizes, coils and kernels of which most are of no other benchmark.
const std::vector<NufftCase>& tuner_cases();

/// Adjoint transforms with the default, with what a new tuner finds in one trial, and with the default in a plan of its
/// own, by turns; three tuners. By processor time of all threads on the CPU, by the host's clock on a GPU: the row's
/// time is the default's median; gain_low, gain, gain_high: the tuners' least, median and largest gain in percent;
/// control: that of the default over itself whose absolute value is largest. Label: what each tuner chose.
void run_tuner(benchmark::State& state, const NufftCase& c, numerics::Backend backend);

}  // namespace echotrain::bench
