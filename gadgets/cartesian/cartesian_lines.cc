#include "gadgets/cartesian/cartesian_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "gadgets/shared/epi_lines.h"
#include "gadgets/shared/sampled_lines.h"

namespace echotrain {

void refuse_reversed(const Readouts& readouts) {
  constexpr std::uint64_t kIsReverse = 1ull << 21;
  for (const auto& head : readouts.heads)
    if ((head.flags & kIsReverse) != 0 && readouts.kind != protocol::ReadoutKind::noise)
      throw ClientError(
          "the scan has reversed readouts (EPI), which need phase correction; this pipeline takes plain Cartesian "
          "lines only. Use epi_2d, with 'epi' as the header's trajectory");
}

void warn_of_aliasing(const protocol::Header& header, Scan& scan) {
  for (const auto& encoding : header.encodings) {
    const std::int64_t acceleration = std::int64_t{encoding.acceleration[0]} * encoding.acceleration[1];
    if (acceleration > 1)
      scan.warn(fmt::format("R={}: image will alias, this pipeline fills no missing lines", acceleration));
  }
}

std::vector<CartesianSpace> cartesian_spaces(const protocol::Header& header, Scan& scan) {
  std::vector<CartesianSpace> spaces;
  for (const auto& encoding : header.encodings) {
    if (encoding.trajectory == protocol::Trajectory::epi && !EpiLines::promised(scan))
      throw ClientError(
          "this pipeline reconstructs plain Cartesian lines, but the header's trajectory is 'epi'; use epi_2d, or put "
          "ramp_regrid and epi_phase_correction first");
    if (encoding.trajectory != protocol::Trajectory::cartesian && encoding.trajectory != protocol::Trajectory::epi)
      throw ClientError(
          fmt::format("this pipeline reconstructs Cartesian data, but the header's trajectory is '{}'; use a gridding "
                      "pipeline (radial_2d, spiral_2d, kooshball_3d)",
                      protocol::to_string(encoding.trajectory)));
    CartesianSpace space;
    space.geometry = image_geometry(encoding);
    space.acceleration = encoding.acceleration;
    for (std::size_t a = 0; a < 3; ++a) space.matrix[a] = encoding.encoded.matrix[a];
    const auto& y = encoding.kspace_encoding_step_1;
    const auto& z = encoding.kspace_encoding_step_2;
    space.offset_y = row_offset(y, space.matrix[1], "kspace_encoding_step_1", scan);
    space.offset_z = row_offset(z, space.matrix[2], "kspace_encoding_step_2", scan);
    space.first_y = y ? y->minimum + space.offset_y : 0;
    space.last_y = y ? y->maximum + space.offset_y : space.matrix[1] - 1;
    space.first_z = z ? z->minimum + space.offset_z : 0;
    space.last_z = z ? z->maximum + space.offset_z : space.matrix[2] - 1;
    spaces.push_back(space);
  }
  return spaces;
}

FrameKey frame_of(const protocol::AcquisitionHeader& head) {
  return {head.encoding_space_ref, head.idx.slice,      head.idx.contrast,
          head.idx.phase,          head.idx.repetition, head.idx.set};
}

std::int32_t row_of(const protocol::AcquisitionHeader& head, const CartesianSpace& space) {
  const std::int64_t ny = space.matrix[1], nz = space.matrix[2];
  const std::int64_t y = head.idx.kspace_encode_step_1 + space.offset_y,
                     z = head.idx.kspace_encode_step_2 + space.offset_z;
  const bool inside = y >= 0 && y < ny && z >= 0 && z < nz;
  return inside ? static_cast<std::int32_t>(z * ny + y) : -1;
}

std::vector<std::int32_t> rows_of(const Readouts& readouts, const CartesianSpace& space,
                                  std::vector<std::int32_t>& hits, Scan& scan) {
  std::vector<std::int32_t> rows;
  rows.reserve(readouts.heads.size());
  for (const auto& head : readouts.heads) {
    rows.push_back(row_of(head, space));
    if (rows.back() < 0)
      scan.warn("some encoding steps are outside the encoded matrix; their readouts are left out");
    else
      ++hits[static_cast<std::size_t>(rows.back())];
  }
  return rows;
}

void for_placements(const Readouts& readouts, const CartesianSpace& space,
                    const std::function<void(std::int64_t, std::int64_t, const numerics::LinePlacement&)>& run) {
  const std::int64_t nx = space.matrix[0];
  // All readouts of a batch have one shape; those whose echoes are at the same place are added together.
  std::size_t begin = 0;
  while (begin < readouts.heads.size()) {
    const auto& head = readouts.heads[begin];
    std::size_t end = begin + 1;
    while (end < readouts.heads.size() && readouts.heads[end].center_sample == head.center_sample &&
           readouts.heads[end].discard_pre == head.discard_pre && readouts.heads[end].discard_post == head.discard_post)
      ++end;
    numerics::LinePlacement placement;
    placement.first_sample = head.discard_pre;
    placement.last_sample = static_cast<std::int64_t>(head.number_of_samples) - head.discard_post;
    const std::int64_t used = placement.last_sample - placement.first_sample;
    // A full line has one place. A shorter one is an asymmetric echo: its centre_sample belongs at floor(n/2).
    placement.first_x = used == nx ? 0 : nx / 2 - head.center_sample + head.discard_pre;
    if (placement.first_x < 0 || placement.first_x + used > nx)
      throw ClientError(
          fmt::format("a readout of {} samples with its centre at sample {} does not fit an encoded matrix of {}", used,
                      +head.center_sample, nx));
    run(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), placement);
    begin = end;
  }
}

bool placements_fit(const Readouts& readouts, const CartesianSpace& space, Scan& scan) {
  try {
    for_placements(readouts, space, [](std::int64_t, std::int64_t, const numerics::LinePlacement&) {});
    return true;
  } catch (const ClientError& error) {
    scan.warn(fmt::format("calibration readouts are left out: {}", error.what()));
    return false;
  }
}

SampledLines lines_that_came(const CartesianSpace& space, const std::vector<std::int32_t>& hits,
                             const SampleRange& samples) {
  std::vector<std::uint8_t> came(hits.size());
  std::transform(hits.begin(), hits.end(), came.begin(), [](std::int32_t n) { return n > 0 ? 1 : 0; });
  SampledLines lines = sampled_lines(std::move(came), space.matrix[1], space.matrix[2], space.acceleration);
  const auto [first_x, last_x] = samples.range();
  lines.first_x = first_x;
  lines.last_x = last_x;
  lines.rows_differ = samples.rows_differ();
  return lines;
}

ClosedLines close_lines(const Frame& frame, const CartesianSpace& space, const std::vector<std::int32_t>& hits,
                        const SampleRange& samples) {
  const auto [nx, ny, nz] = space.matrix;
  ClosedLines out;
  double power = 0;
  for (std::size_t row = 0; row < hits.size(); ++row) {
    if (hits[row] > 0) power += 1.0 / hits[row];
    if (hits[row] <= 1) continue;
    if (out.factors.empty()) out.factors.assign(hits.size(), 1.0f);
    out.factors[row] = 1.0f / static_cast<float>(hits[row]);
  }
  SampledLines lines = lines_that_came(space, hits, samples);
  const std::int64_t first_x = lines.first_x, last_x = lines.last_x;
  if (!lines.rows_differ)
    out.image_noise = std::sqrt(power * static_cast<double>(last_x - first_x)) / static_cast<double>(nx * ny * nz);

  const auto changed = std::make_shared<Frame>(frame);
  const std::size_t missing =
      missing_rows(lines, space.acceleration, {space.first_y, space.first_z}, {space.last_y, space.last_z}).size();
  changed->notes["missing_lines"] = std::to_string(missing);
  if (const std::int64_t rows = lines.count(); rows > 0) {
    const auto k = [](std::int64_t at, std::int64_t extent) {
      return static_cast<float>(at - extent / 2) / static_cast<float>(extent);
    };
    // Rows that a lattice leaves out between its outermost lines are not partial Fourier.
    const auto begin = [&](std::size_t a) {
      return lines.lattice && lines.first[a] < lines.step[a] ? 0 : lines.first[a];
    };
    const auto end = [&](std::size_t a, std::int64_t extent) {
      return lines.lattice && lines.last[a] + lines.step[a] >= extent ? extent - 1 : lines.last[a];
    };
    if (first_x < last_x)
      changed->acquired = {k(first_x, nx),    k(last_x - 1, nx), k(begin(0), ny),
                           k(end(0, ny), ny), k(begin(1), nz),   k(end(1, nz), nz)};
    if (const auto [ry, rz] = space.acceleration; space.accelerated()) {
      changed->notes["acceleration"] = fmt::format("{}x{}", ry, rz);
      changed->notes["acceleration_effective"] =
          fmt::format("{:.2f}", static_cast<double>(space.rows()) / static_cast<double>(rows));
      if (lines.shift != 0) changed->notes["acceleration_shift"] = std::to_string(lines.shift);
    }
  }
  out.frame = changed;
  out.lines = std::make_shared<const SampledLines>(std::move(lines));
  return out;
}

}  // namespace echotrain
