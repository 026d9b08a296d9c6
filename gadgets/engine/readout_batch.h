// Batches of readouts, made from acquisitions at the entrance of a pipeline.
#pragma once

#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// The frame's key of a readout, by its counters.
FrameKey key_of(const protocol::AcquisitionHeader& head);

/// Records the arrival of `last`, the last readout of `frame` so far.
void note_arrival(Frame& frame, const protocol::Acquisition& last);

/// Makes a batch of acquisitions of one shape, without its frame. `to_device`: the data go to where the pipeline
/// computes; otherwise they stay on the host. Throws ResourceError when memory is exhausted.
Readouts make_batch(numerics::Context& compute, const std::vector<protocol::Acquisition>& acquisitions, bool to_device);

}  // namespace echotrain
