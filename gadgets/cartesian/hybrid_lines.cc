#include "gadgets/cartesian/hybrid_lines.h"

#include <string>
#include <utility>

#include "gadgets/numerics/core/layout/line_stretches.h"
#include "gadgets/shared/sampled_lines.h"

namespace echotrain {
namespace {

/// Tells for each readout whether its row had come before it. Looks at no other rows: batches may be small, and frames
/// may have millions of rows. `hits` counts all readouts, before and afterwards.
std::vector<std::uint8_t> came_before(const std::vector<std::int32_t>& rows, std::vector<std::int32_t>& hits) {
  std::vector<std::uint8_t> repeated(rows.size());
  for (std::size_t i = rows.size(); i-- > 0;)
    if (rows[i] >= 0) repeated[i] = --hits[static_cast<std::size_t>(rows[i])] > 0 ? 1 : 0;
  for (const std::int32_t row : rows)
    if (row >= 0) ++hits[static_cast<std::size_t>(row)];
  return repeated;
}

}  // namespace

void HybridLines::start(const protocol::Header& header, numerics::Direction direction, const ReferenceOptions& options,
                        Scan& scan) {
  scan_ = &scan;
  direction_ = direction;
  spaces_ = cartesian_spaces(header, scan);
  put_back_.start(header, spaces_, options, scan);
}

numerics::LineGeometry HybridLines::geometry(const CartesianSpace& space) const {
  const auto [nx, ny, nz] = space.matrix;
  return {{nz, ny, nx}, space.geometry.padded, space.geometry.image, direction_};
}

void HybridLines::add(const Readouts& readouts) {
  const CartesianSpace& space = spaces_.at(readouts.frame->key.encoding);
  Buffer& buffer = open_[readouts.frame->id];
  if (readouts.heads.empty()) return;
  const std::int64_t coils = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  if (!buffer.half) {
    buffer.hits.assign(static_cast<std::size_t>(space.rows()), 0);
    buffer.half = scan_->compute.allocate<cfloat>({coils, space.rows(), space.geometry.image[2]});
  }
  buffer.white = buffer.white && readouts.white;
  const std::vector<std::int32_t> rows = rows_of(readouts, space, buffer.hits, *scan_);
  buffer.readouts += std::ssize(rows);
  const std::vector<std::uint8_t> repeated = came_before(rows, buffer.hits);
  for_placements(readouts, space, [&](std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement) {
    buffer.samples.add(placement);
    const std::int64_t count = end - begin;
    transform(buffer, space, readouts.data.view().part(begin * coils * samples, {count, coils, samples}),
              {rows.data() + begin, {count}}, {repeated.data() + begin, {count}}, placement);
  });
}

/// Transforms in stretches, as no row may come twice in one.
void HybridLines::transform(Buffer& buffer, const CartesianSpace& space, numerics::DeviceView<const cfloat> readouts,
                            numerics::HostView<const std::int32_t> rows,
                            numerics::HostView<const std::uint8_t> repeated, const numerics::LinePlacement& placement) {
  const std::int64_t coils = readouts.shape()[1], samples = readouts.shape()[2];
  std::int64_t begin = 0;
  for (const std::int64_t end : numerics::line_stretches(rows)) {
    const std::int64_t count = end - begin;
    numerics::transform_lines(scan_->compute, geometry(space),
                              readouts.part(begin * coils * samples, {count, coils, samples}),
                              rows.part(begin, {count}), repeated.part(begin, {count}), placement, buffer.half.view());
    begin = end;
  }
}

HybridFrame HybridLines::end(const Frame& frame) {
  const CartesianSpace& space = spaces_.at(frame.key.encoding);
  Buffer buffer = std::move(open_[frame.id]);
  open_.erase(frame.id);
  HybridFrame out;
  if (!buffer.half) return out;
  const std::int64_t filled =
      put_back_.give(frame, space, buffer.half.shape()[0], buffer.samples, buffer.hits,
                     [&](const auto& data, const std::vector<std::int32_t>& rows, const auto& placement) {
                       const std::vector<std::uint8_t> repeated = came_before(rows, buffer.hits);
                       const std::int64_t count = data.shape()[0];
                       transform(buffer, space, data, {rows.data(), {count}}, {repeated.data(), {count}}, placement);
                     });
  auto [closed, factors, image_noise, lines] = close_lines(frame, space, buffer.hits, buffer.samples);
  out.frame =
      puts_back(frame.key.encoding) ? with_notes(*closed, {{"put_back_lines", std::to_string(filled)}}) : closed;
  out.lines = lines;
  out.image_noise = buffer.white && filled == 0 ? image_noise : 0;
  out.geometry = geometry(space);
  if (!factors.empty())
    numerics::scale_lines(scan_->compute, {factors.data(), {static_cast<std::int64_t>(factors.size())}},
                          buffer.half.view());
  out.half = std::move(buffer.half);
  return out;
}

HybridFrame HybridLines::expected(const Frame& frame) {
  HybridFrame out;
  const auto at = open_.find(frame.id);
  if (at == open_.end() || !at->second.half || at->second.foretold) return out;
  Buffer& buffer = at->second;
  const CartesianSpace& space = spaces_.at(frame.key.encoding);
  const std::int64_t rows = (space.last_y - space.first_y + 1) * (space.last_z - space.first_z + 1);
  if (space.matrix[2] > 1 && 2 * buffer.readouts * space.acceleration[0] * space.acceleration[1] < rows) return out;
  buffer.foretold = true;
  std::vector<std::int32_t> hits = buffer.hits;
  put_back_.count(frame, space, buffer.samples, hits);
  const SampledLines here = lines_that_came(space, hits, buffer.samples);
  for (const std::int64_t row :
       missing_rows(here, space.acceleration, {space.first_y, space.first_z}, {space.last_y, space.last_z}))
    hits[static_cast<std::size_t>(row)] = 1;
  SampledLines lines = lines_that_came(space, hits, buffer.samples);
  if (!lines.lattice) return out;
  out.lines = std::make_shared<const SampledLines>(std::move(lines));
  out.geometry = geometry(space);
  return out;
}

}  // namespace echotrain
