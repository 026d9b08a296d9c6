// The time from the host is what a user waits for when a scan lies in the host's memory: not the transform alone.
#pragma once

#include <benchmark/benchmark.h>

#include <vector>

#include "tests/bench/nufft/nufft_cases.h"

namespace echotrain::bench {

/// Adds the row of `which`, an adjoint: readouts [readout, coil, sample] of one trajectory, known before, lie in pinned
/// memory; their upload, the change of layout to [sample, coil], density weights, gridding, transform, deapodization,
/// the coils' root sum of squares, magnitudes and their way to pinned memory. The upload is cut in 16 parts, and a part
/// is worked on while the next ones travel (a stream for copies, one for the work).
/// `as_they_come`: parts are gridded when they are there; otherwise only their layout is changed, and all are gridded
/// when the last is there. Counters: upload_ms, of the upload alone; in_turn_ms, with the work after the whole upload;
/// difference, relative L2, from the same steps with everything on the device.
void run_from_host(benchmark::State& state, const NufftCase& which, std::int64_t readouts, numerics::Backend backend,
                   bool as_they_come);

/// The same with some coils after others (`coils_of_parts`; they add up to those of `which`), on CUDA: a part's coils
/// of all readouts are copied out of the pinned memory, then rearranged, gridded and transformed while those of the
/// next parts travel. After the last byte only the last part's coils are left to do, and what joins the coils.
/// Counters: upload_ms, of all parts alone; difference, as above.
void run_from_host_by_coils(benchmark::State& state, const NufftCase& which, std::int64_t readouts,
                            const std::vector<std::int64_t>& coils_of_parts);

}  // namespace echotrain::bench
