#include "gadgets/cartesian_kspace.h"

#include <fmt/format.h>

#include <algorithm>

#include "gadgets/numerics/layout.h"

namespace echotrain {
namespace {

/// Without phase correction an image of forward and reversed lines would be wrong, and one of half of them too.
void refuse_reversed(const Readouts& readouts) {
  constexpr std::uint64_t kIsReverse = 1ull << 21;
  for (const auto& head : readouts.heads)
    if ((head.flags & kIsReverse) != 0 && readouts.kind != protocol::ReadoutKind::noise)
      throw ClientError(
          "the scan has reversed readouts (EPI), which need phase correction; this pipeline takes plain Cartesian "
          "lines only");
}

}  // namespace

Parameters<CartesianKSpace::Options> CartesianKSpace::parameters() { return {}; }

void CartesianKSpace::start(const protocol::Header& header, Session& session) {
  session_ = &session;
  for (const auto& encoding : header.encodings) {
    if (encoding.trajectory != protocol::Trajectory::cartesian)
      throw ClientError(
          fmt::format("this pipeline reconstructs Cartesian data, but the header's trajectory is '{}'; use a gridding "
                      "pipeline (radial_2d, spiral_2d, kooshball_3d)",
                      protocol::to_string(encoding.trajectory)));
    const std::int64_t acceleration = std::int64_t{encoding.acceleration[0]} * encoding.acceleration[1];
    if (acceleration > 1)
      session.warn(fmt::format("R={}: image will alias, this pipeline fills no missing lines", acceleration));

    Space space;
    space.geometry = image_geometry(encoding);
    for (std::size_t a = 0; a < 3; ++a) space.matrix[a] = encoding.encoded.matrix[a];
    const auto& y = encoding.kspace_encoding_step_1;
    const auto& z = encoding.kspace_encoding_step_2;
    space.offset_y = row_offset(y, space.matrix[1], "kspace_encoding_step_1", session);
    space.offset_z = row_offset(z, space.matrix[2], "kspace_encoding_step_2", session);
    space.first_y = y ? y->minimum + space.offset_y : 0;
    space.last_y = y ? y->maximum + space.offset_y : space.matrix[1] - 1;
    space.first_z = z ? z->minimum + space.offset_z : 0;
    space.last_z = z ? z->maximum + space.offset_z : space.matrix[2] - 1;
    spaces_.push_back(space);
  }
}

void CartesianKSpace::process(Readouts&& readouts, const Emit<KSpace>& emit) {
  refuse_reversed(readouts);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const Space& space = spaces_.at(readouts.frame->key.encoding);
  Buffer& buffer = open_[readouts.frame->id];
  if (!readouts.heads.empty()) add(buffer, space, readouts);
  if (!readouts.last) return;
  Buffer whole = std::move(buffer);
  open_.erase(readouts.frame->id);
  if (whole.data) emit(complete(std::move(whole), space, readouts));
}

void CartesianKSpace::add(Buffer& buffer, const Space& space, const Readouts& readouts) {
  const auto [nx, ny, nz] = space.matrix;
  const std::int64_t coils = readouts.data.shape()[1];
  if (!buffer.data) {
    buffer.data = session_->compute.zeros<cfloat>({coils, nz * ny, nx});
    buffer.hits.assign(static_cast<std::size_t>(nz * ny), 0);
  }

  std::vector<std::int32_t> lines;
  lines.reserve(readouts.heads.size());
  for (const auto& head : readouts.heads) {
    const std::int64_t y = head.idx.kspace_encode_step_1 + space.offset_y,
                       z = head.idx.kspace_encode_step_2 + space.offset_z;
    const bool inside = y >= 0 && y < ny && z >= 0 && z < nz;
    if (!inside) session_->warn("some encoding steps are outside the encoded matrix; their readouts are left out");
    lines.push_back(inside ? static_cast<std::int32_t>(z * ny + y) : -1);
    if (inside) ++buffer.hits[static_cast<std::size_t>(lines.back())];
  }

  // All readouts of a batch have one shape; the echo's place can still differ, so equal ones are added together.
  std::size_t begin = 0;
  while (begin < lines.size()) {
    const auto& head = readouts.heads[begin];
    std::size_t end = begin + 1;
    while (end < lines.size() && readouts.heads[end].center_sample == head.center_sample &&
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
    const auto count = static_cast<std::int64_t>(end - begin);
    const auto first = static_cast<std::int64_t>(begin);
    const numerics::View<const cfloat> data(
        readouts.data.data() + first * readouts.data.shape()[1] * readouts.data.shape()[2],
        {count, readouts.data.shape()[1], readouts.data.shape()[2]});
    numerics::add_lines(session_->compute, data, {lines.data() + begin, {count}}, placement, buffer.data.view());
    begin = end;
  }
}

KSpace CartesianKSpace::complete(Buffer buffer, const Space& space, const Readouts& readouts) {
  const auto [nx, ny, nz] = space.matrix;
  std::int64_t missing = 0;
  bool repeated = false;
  std::vector<float> factors(buffer.hits.size(), 1.0f);
  for (std::int64_t z = 0; z < nz; ++z)
    for (std::int64_t y = 0; y < ny; ++y) {
      const std::int32_t hits = buffer.hits[static_cast<std::size_t>(z * ny + y)];
      if (hits > 1) {
        repeated = true;
        factors[static_cast<std::size_t>(z * ny + y)] = 1.0f / static_cast<float>(hits);
      }
      const bool announced = y >= space.first_y && y <= space.last_y && z >= space.first_z && z <= space.last_z;
      if (announced && hits == 0) ++missing;
    }
  if (repeated)
    numerics::scale_lines(session_->compute, {factors.data(), {static_cast<std::int64_t>(factors.size())}},
                          buffer.data.view());
  readouts.frame->notes["missing_lines"] = std::to_string(missing);

  const std::int64_t coils = buffer.data.shape()[0];
  return {readouts.frame, buffer.data.reshaped({coils, nz, ny, nx}), space.geometry.padded, space.geometry.image};
}

}  // namespace echotrain
