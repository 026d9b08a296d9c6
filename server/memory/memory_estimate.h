// The memory estimate is the machine's memory that a scan will need, computed from its header.
#pragma once

#include <cstdint>

#include "config/server_options.h"
#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "protocol/data/header.h"

namespace echotrain::server {

/// Returns the bytes that a scan of `header` takes at the same time, by a rule of thumb for one frame at a time. With V
/// voxels of the largest space (encoded or reconstructed), C receiver channels (8 where the header does not say) and
/// complex numbers of 8 bytes:
/// - 2 MiB, 8 x the header's own length, and 512 bytes for each line of the encoded matrix;
/// - Cartesian, EPI: 3 x V x C numbers (samples, k-space, images);
/// - other trajectories: 6 x V x C numbers (samples, an oversampled grid, images);
/// - least squares (fhd) or pcg on top of that: 4 x V x 2^d numbers for the doubled grid of d dimensions;
/// - weights or maps of coils (grappa, sense, encoding) on top of that: 2 x V x C numbers;
/// - on a GPU, in the machine's memory: V x C numbers only.
/// Nothing is counted for local memory of kernels, which the driver keeps once for all sessions of a device (most for
/// fits of maps: gadgets/numerics/inverse/fit/voxel_fit_cuda.cu).
/// The result is what is reserved, not a bound: a scan that takes more borrows, while there is some left.
/// Of a pipeline with two chains, the one for this header counts. Each branch adds what its own chain takes: V x C
/// numbers where it begins with images, else as above.
std::uint64_t memory_estimate(const protocol::Header& header, const PipelinePlan& plan, numerics::Backend backend);

/// Returns the bytes that the processes of the plan's `python` steps may take beside that; their queues too.
std::uint64_t step_memory(const protocol::Header& header, const PipelinePlan& plan,
                          const config::ServerOptions& options);

/// Returns the bytes that one session may use: session_memory_mib, by default 8 GiB, or half of the budget where that
/// is less.
std::uint64_t session_memory(const config::ServerOptions& options, const numerics::MemoryBudget& budget);
/// Returns the bytes that one scan may use on its GPU: device_memory_mib, by default session_memory_mib, by default 8
/// GiB.
std::uint64_t device_memory(const config::ServerOptions& options);

}  // namespace echotrain::server
