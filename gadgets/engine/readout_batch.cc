#include "gadgets/engine/readout_batch.h"

#include "gadgets/numerics/core/layout/host_rows.h"

namespace echotrain {

using protocol::Acquisition;
using protocol::AcquisitionHeader;

FrameKey key_of(const AcquisitionHeader& head) {
  return {head.encoding_space_ref, head.idx.slice,      head.idx.contrast,
          head.idx.phase,          head.idx.repetition, head.idx.set};
}

void note_arrival(Frame& frame, const Acquisition& last) {
  frame.arrival.received = last.arrival;
  frame.arrival.readout = last.number;
}

Readouts make_batch(numerics::Context& compute, const std::vector<Acquisition>& acquisitions, bool to_device) {
  Readouts out;
  if (acquisitions.empty()) return out;
  const AcquisitionHeader& head = acquisitions.front().head;
  const auto count = static_cast<std::int64_t>(acquisitions.size());
  const std::int64_t channels = head.active_channels, samples = head.number_of_samples,
                     dims = head.trajectory_dimensions;

  std::vector<numerics::HostRow> rows;
  if (to_device)
    rows.reserve(acquisitions.size());
  else
    out.host_data = compute.allocate_host<cfloat>({count, channels, samples});
  out.heads.reserve(acquisitions.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const Acquisition& acquisition = acquisitions[static_cast<std::size_t>(i)];
    out.heads.push_back(acquisition.head);
    if (to_device)
      rows.push_back({acquisition.data.bytes, &acquisition.data.owner});
    else
      acquisition.data.copy_to(out.host_data.data() + i * channels * samples);
  }
  // The samples come first, so that they are copied meanwhile.
  if (to_device) out.data = numerics::collect_rows(compute, rows, {count, channels, samples});
  if (dims == 0) return out;
  const std::int64_t row = samples * dims;
  const auto row_bytes = row * static_cast<std::int64_t>(sizeof(float));
  out.trajectory = compute.allocate_host<float>({count, samples, dims});
  compute.threads().parallel_for(
      count, numerics::rows_at_once(count, row_bytes), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          acquisitions[static_cast<std::size_t>(i)].trajectory.copy_to(out.trajectory.data() + i * row);
      });
  return out;
}

}  // namespace echotrain
