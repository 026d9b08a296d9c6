#include "gadgets/cartesian/calibration_block.h"

#include <fmt/format.h>

namespace echotrain {
namespace {

const char* name_of(Calibration::Source source) {
  using Source = Calibration::Source;
  switch (source) {
    case Source::embedded:
      return "embedded";
    case Source::separate:
      return "separate";
    case Source::center:
      return "center";
    case Source::sliding:
      return "sliding";
    default:
      return "external";
  }
}

}  // namespace

std::optional<std::array<std::int64_t, 4>> full_box(const std::vector<std::int32_t>& hits, std::int64_t ny,
                                                    std::int64_t nz) {
  std::array<std::int64_t, 4> box = {ny / 2, nz / 2, ny / 2, nz / 2};
  const auto full = [&](std::int64_t y0, std::int64_t z0, std::int64_t y1, std::int64_t z1) {
    if (y0 < 0 || z0 < 0 || y1 >= ny || z1 >= nz) return false;
    for (std::int64_t z = z0; z <= z1; ++z)
      for (std::int64_t y = y0; y <= y1; ++y)
        if (hits[static_cast<std::size_t>(z * ny + y)] == 0) return false;
    return true;
  };
  if (!full(box[0], box[1], box[2], box[3])) return std::nullopt;
  for (bool grown = true; grown;) {
    grown = false;
    auto& [y0, z0, y1, z1] = box;
    if (full(y0 - 1, z0, y0 - 1, z1)) --y0, grown = true;
    if (full(y1 + 1, z0, y1 + 1, z1)) ++y1, grown = true;
    if (full(y0, z0 - 1, y1, z0 - 1)) --z0, grown = true;
    if (full(y0, z1 + 1, y1, z1 + 1)) ++z1, grown = true;
  }
  return box;
}

Array<cfloat> cut_block(numerics::Context& compute, numerics::DeviceView<const cfloat> from,
                        const std::array<std::int64_t, 3>& first, const std::array<std::int64_t, 3>& extent) {
  const auto& shape = from.shape();
  const auto [nz, ny, nx] = extent;
  Array<cfloat> to = compute.allocate<cfloat>({shape[0], nz, ny, nx});
  // Rows of a plane lie one behind another, unless samples are cut away.
  const bool whole = nx == shape[3];
  const std::int64_t runs = whole ? 1 : ny, length = whole ? ny * nx : nx;
  for (std::int64_t coil = 0; coil < shape[0]; ++coil)
    for (std::int64_t z = 0; z < nz; ++z)
      for (std::int64_t run = 0; run < runs; ++run)
        compute.copy<cfloat>(
            from.part((((coil * shape[1]) + first[0] + z) * shape[2] + first[1] + run) * shape[3] + first[2], {length}),
            to.view().part(((coil * nz + z) * ny + run) * nx, {length}));
  return to;
}

std::map<std::string, std::string> calibration_notes(const Calibration* block, const FrameKey& frame) {
  if (block == nullptr) return {{"calibration", "none"}};
  const auto& shape = block->data.shape();  // [coil, z, y, x]
  const std::string planes = block->matrix[2] > 1 ? fmt::format("{} x ", shape[1]) : "";
  std::map<std::string, std::string> notes{
      {"calibration", fmt::format("{} {}{} x {}", name_of(block->source), planes, shape[2], shape[3])},
      {"calibration_id", std::to_string(block->id)}};
  std::string of;
  if (block->key.encoding != frame.encoding) of = fmt::format("encoding {}, ", block->key.encoding);
  if (!of.empty() || block->key.contrast != frame.contrast || block->key.set != frame.set)
    notes["calibration_of"] = fmt::format("{}contrast {}, set {}", of, block->key.contrast, block->key.set);
  return notes;
}

void check_coils(const Calibration* block, const FrameKey& frame, std::int64_t coils) {
  if (block != nullptr && block->data.shape()[0] != coils)
    throw ClientError(
        fmt::format("the images' readouts of slice {} come with {} coils, the calibration readouts with {}; both must "
                    "come with the same coils, or choose `calibration: none`",
                    frame.slice, coils, block->data.shape()[0]));
}

}  // namespace echotrain
