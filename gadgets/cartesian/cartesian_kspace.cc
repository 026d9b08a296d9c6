#include "gadgets/cartesian/cartesian_kspace.h"

#include <algorithm>
#include <utility>

namespace echotrain {
namespace {

/// Which rows came, and the samples that all of them have. The rows' lattice is not looked for.
std::shared_ptr<const SampledLines> sampled_lines(const CartesianSpace& space, const std::vector<std::int32_t>& hits,
                                                  std::int64_t first_x, std::int64_t last_x) {
  const std::int64_t ny = space.matrix[1], nz = space.matrix[2];
  auto lines = std::make_shared<SampledLines>();
  lines->extents = {nz, ny};
  lines->first_x = first_x;
  lines->last_x = std::min(last_x, space.matrix[0]);
  lines->first = {ny, nz};
  lines->last = {-1, -1};
  for (std::int64_t row = 0; row < nz * ny; ++row) {
    const bool came = hits[static_cast<std::size_t>(row)] > 0;
    lines->came.push_back(came ? 1 : 0);
    if (!came) continue;
    const std::array<std::int64_t, 2> at{row % ny, row / ny};
    for (std::size_t a = 0; a < 2; ++a) {
      lines->first[a] = std::min(lines->first[a], at[a]);
      lines->last[a] = std::max(lines->last[a], at[a]);
    }
  }
  return lines;
}

}  // namespace

Parameters<CartesianKSpace::Options> CartesianKSpace::parameters() { return {}; }

void CartesianKSpace::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  spaces_ = cartesian_spaces(header, scan);
}

void CartesianKSpace::process(Readouts&& readouts, const Emit<KSpace>& emit) {
  refuse_reversed(readouts);
  note_unused_calibration(readouts, *scan_);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const CartesianSpace& space = spaces_.at(readouts.frame->key.encoding);
  Buffer& buffer = open_[readouts.frame->id];
  if (!readouts.heads.empty()) add(buffer, space, readouts);
  if (!readouts.last) return;
  Buffer whole = std::move(buffer);
  open_.erase(readouts.frame->id);
  if (whole.data) emit(complete(std::move(whole), space, readouts));
}

void CartesianKSpace::add(Buffer& buffer, const CartesianSpace& space, const Readouts& readouts) {
  const std::int64_t coils = readouts.data.shape()[1], samples = readouts.data.shape()[2];
  if (!buffer.data) {
    buffer.paid = std::make_unique<numerics::MemoryShare>(scan_->compute.account());
    buffer.paid->grow_to(static_cast<std::uint64_t>(space.rows()) * sizeof(std::int32_t));
    buffer.hits.assign(static_cast<std::size_t>(space.rows()), 0);
    buffer.data = scan_->compute.zeros<cfloat>({coils, space.rows(), space.matrix[0]});
  }
  const std::vector<std::int32_t> rows = rows_of(readouts, space, buffer.hits, *scan_);
  for_placements(readouts, space, [&](std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement) {
    numerics::add_lines(scan_->compute,
                        readouts.data.view().part(begin * coils * samples, {end - begin, coils, samples}),
                        {rows.data() + begin, {end - begin}}, placement, buffer.data.view());
    buffer.first_x = std::max(buffer.first_x, placement.first_x);
    buffer.last_x = std::min(buffer.last_x, placement.first_x + placement.last_sample - placement.first_sample);
  });
}

KSpace CartesianKSpace::complete(Buffer buffer, const CartesianSpace& space, const Readouts& readouts) {
  const auto [frame, factors] = close_lines(*readouts.frame, space, buffer.hits);
  if (!factors.empty())
    numerics::scale_lines(scan_->compute, {factors.data(), {static_cast<std::int64_t>(factors.size())}},
                          buffer.data.view());
  const auto [nx, ny, nz] = space.matrix;
  return {frame,
          buffer.data.reshaped({buffer.data.shape()[0], nz, ny, nx}),
          space.geometry.padded,
          space.geometry.image,
          sampled_lines(space, buffer.hits, buffer.first_x, buffer.last_x),
          nullptr};
}

}  // namespace echotrain
