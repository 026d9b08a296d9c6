#include "gadgets/shared/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/api/errors.h"
#include "gadgets/api/scan.h"

namespace echotrain {
namespace {
constexpr double kLargestGrid = 16384;  // points per axis
}

ImageGeometry image_geometry(const protocol::Encoding& encoding) {
  ImageGeometry out;
  out.dims = encoding.encoded.matrix[2] > 1 ? 3 : 2;
  std::array<std::int64_t, 3> padded{}, image{};
  for (std::size_t a = 0; a < 3; ++a) {
    const double encoded_voxels = encoding.encoded.matrix[a], recon_voxels = encoding.recon.matrix[a];
    if (encoded_voxels == 1 && recon_voxels == 1) {  // a slice: its two thicknesses need not agree
      padded[a] = image[a] = 1;
      continue;
    }
    // Transforming to n points over the encoded field of view gives voxels of encoded_fov / n.
    const double wanted = recon_voxels * encoding.encoded.fov_mm[a] / encoding.recon.fov_mm[a];
    image[a] = static_cast<std::int64_t>(encoding.recon.matrix[a]);
    padded[a] = std::max<std::int64_t>(std::llround(wanted), image[a]);
    // A per cent is the rounding of the header's fields of view; beyond that is another geometry. Voxels far finer than
    // the encoded ones would cost more memory than any image is worth.
    if (static_cast<double>(image[a]) > 1.01 * wanted + 0.5 || wanted > kLargestGrid)
      throw ClientError(
          fmt::format("the header's recon space does not fit its encoded space on axis {}: {} voxels over {} mm cannot "
                      "be cut from {} mm",
                      "xyz"[a], encoding.recon.matrix[a], encoding.recon.fov_mm[a], encoding.encoded.fov_mm[a]));
    out.voxel_ratio[a] = encoded_voxels / static_cast<double>(padded[a]);
  }
  out.padded = {padded[2], padded[1], padded[0]};
  out.image = {image[2], image[1], image[0]};
  return out;
}

FieldsOfView::FieldsOfView(const protocol::Header& header) {
  for (const auto& encoding : header.encodings) {
    std::array<float, 3> fov{};
    std::transform(encoding.recon.fov_mm.begin(), encoding.recon.fov_mm.end(), fov.begin(),
                   [](double v) { return static_cast<float>(v); });
    recon_.push_back(fov);
  }
}

std::array<float, 3> FieldsOfView::of(const Frame& frame) const {
  return frame.fov_mm ? *frame.fov_mm : recon_.at(frame.key.encoding);
}

std::int64_t row_offset(const std::optional<protocol::CounterLimit>& limit, std::int64_t n, const char* what,
                        Scan& scan) {
  if (!limit) return 0;
  const std::int64_t offset = n / 2 - limit->center;
  if (limit->minimum + offset >= 0 && limit->maximum + offset < n) return offset;
  if (limit->center == 0 && limit->maximum < n) {
    scan.warn(fmt::format("the header leaves the centre of {} at 0; {} is taken", what, n / 2));
    return 0;
  }
  throw ClientError(fmt::format("the header's limits of {} ({}..{}, centre {}) do not fit its encoded matrix of {}",
                                what, limit->minimum, limit->maximum, limit->center, n));
}

void note_unused_calibration(const Readouts& readouts, Scan& scan) {
  if (readouts.kind == protocol::ReadoutKind::calibration) scan.info(kUnusedCalibration);
}

std::array<double, 3> to_cycles_per_pixel(const protocol::Encoding& encoding, config::TrajectoryUnit unit) {
  std::array<double, 3> out{1, 1, 1};
  for (std::size_t a = 0; a < 3; ++a) {
    const double n = encoding.encoded.matrix[a];
    switch (unit) {
      case config::TrajectoryUnit::cycles_per_pixel:
        break;
      case config::TrajectoryUnit::cycles_per_fov:
        out[a] = 1 / n;
        break;
      case config::TrajectoryUnit::radians_per_pixel:
        out[a] = 0.5 / std::numbers::pi;
        break;
      case config::TrajectoryUnit::cycles_per_m:
        out[a] = encoding.encoded.fov_mm[a] / n / 1000;
        break;
    }
  }
  return out;
}

}  // namespace echotrain
