#include "server/console/live/kspace_picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace echotrain::server {

namespace {

std::uint64_t range(const std::optional<protocol::CounterLimit>& limit, std::uint64_t otherwise = 1) {
  return limit ? std::uint64_t{limit->maximum} - limit->minimum + 1 : otherwise;
}

/// Cycles/pixel of one unit of a trajectory along an axis.
double cycles_per_pixel(config::TrajectoryUnit unit, const protocol::EncodingSpace& space, std::size_t axis) {
  const double pixels = space.matrix[axis];
  switch (unit) {
    case config::TrajectoryUnit::cycles_per_pixel:
      return 1;
    case config::TrajectoryUnit::cycles_per_fov:
      return 1 / pixels;
    case config::TrajectoryUnit::radians_per_pixel:
      return 0.5 / std::numbers::pi;
    case config::TrajectoryUnit::cycles_per_m:
      return space.fov_mm[axis] * 1e-3 / pixels;
  }
  return 1;
}

}  // namespace

KspacePicture::KspacePicture(const protocol::Header& header, config::TrajectoryUnit unit) {
  if (header.images_only || header.encodings.empty()) return;
  const protocol::Encoding& encoding = header.encodings.front();
  lines_ = encoding.trajectory == protocol::Trajectory::cartesian || encoding.trajectory == protocol::Trajectory::epi;
  if (lines_) {
    const auto matrix = encoding.encoded.matrix;
    rows_ = static_cast<int>(encoding.kspace_encoding_step_1 ? encoding.kspace_encoding_step_1->maximum + 1U
                                                             : std::max(1U, matrix[1]));
    slices_ = matrix[2] <= 1;
    columns_ = static_cast<int>(slices_                           ? (encoding.slice ? encoding.slice->maximum + 1U : 1U)
                                : encoding.kspace_encoding_step_2 ? encoding.kspace_encoding_step_2->maximum + 1U
                                                                  : matrix[2]);
    height_ = std::min(rows_, kMost);
    width_ = std::min(columns_, kMost);
  } else {
    for (std::size_t a = 0; a < 2; ++a) scale_[a] = static_cast<float>(cycles_per_pixel(unit, encoding.recon, a));
    height_ = width_ = rows_ = columns_ = kMost;
    path_.reserve(2 * kPath);
  }
  cells_.assign(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_), '0');
}

void KspacePicture::add(const protocol::Acquisition& readout) {
  if (height_ == 0 || readout.head.encoding_space_ref != 0) return;
  if (readout.head.idx.repetition != repetition_) {
    repetition_ = readout.head.idx.repetition;
    std::replace(cells_.begin(), cells_.end(), '2', '1');
    filled_ = 0;
  }
  if (lines_) {
    const int row = readout.head.idx.kspace_encode_step_1,
              column = slices_ ? readout.head.idx.slice : readout.head.idx.kspace_encode_step_2;
    // A picture of fewer cells than lines shows a cell as soon as one of its lines has come.
    if (row < rows_ && column < columns_) mark(row * height_ / rows_, column * width_ / columns_);
  } else {
    add_positions(readout);
  }
}

void KspacePicture::mark(int row, int column) {
  char& cell =
      cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(column)];
  if (cell == '2') return;
  cell = '2';
  ++filled_;
}

void KspacePicture::add_positions(const protocol::Acquisition& readout) {
  const int dimensions = readout.head.trajectory_dimensions, samples = readout.head.number_of_samples;
  const std::size_t bytes = static_cast<std::size_t>(dimensions) * static_cast<std::size_t>(samples) * sizeof(float);
  if (dimensions < 2 || samples == 0 || readout.trajectory.bytes.size() < bytes) return;
  path_.clear();
  const int points = std::min(samples, kPath);
  for (int i = 0; i < points; ++i) {
    const int sample = points == 1 ? 0 : i * (samples - 1) / (points - 1);
    std::array<float, 2> k{};
    std::memcpy(k.data(),
                readout.trajectory.bytes.data() + static_cast<std::size_t>(sample * dimensions) * sizeof(float),
                sizeof(k));
    const auto cell = [](float position, int cells) {  // what lies outside +-0.5 cycles/pixel stands at the edge
      return std::clamp(
          static_cast<int>(std::floor((std::clamp(position, -1.0f, 1.0f) + 0.5f) * static_cast<float>(cells))), 0,
          cells - 1);
    };
    for (std::size_t a = 0; a < 2; ++a) k[a] *= scale_[a];
    if (!std::isfinite(k[0]) || !std::isfinite(k[1])) continue;
    path_.insert(path_.end(), k.begin(), k.end());
    mark(cell(k[1], height_), cell(k[0], width_));
  }
}

std::uint64_t lines_announced(const protocol::Header& header) {
  if (header.images_only) return 0;
  std::uint64_t all = 0;
  for (const protocol::Encoding& e : header.encodings) {
    const auto steps = [](std::uint64_t lines, std::uint16_t acceleration) {
      const std::uint64_t r = std::max<std::uint16_t>(1, acceleration);
      return (lines + r - 1) / r;
    };
    const std::uint64_t counters[] = {steps(range(e.kspace_encoding_step_1, e.encoded.matrix[1]), e.acceleration[0]),
                                      steps(range(e.kspace_encoding_step_2, e.encoded.matrix[2]), e.acceleration[1]),
                                      range(e.average),
                                      range(e.slice),
                                      range(e.contrast),
                                      range(e.phase),
                                      range(e.repetition),
                                      range(e.set)};
    constexpr std::uint64_t kMostLines = std::uint64_t{1} << 53;  // a number that JSON keeps
    std::uint64_t lines = 1;
    for (const std::uint64_t n : counters) lines = lines > kMostLines / n ? kMostLines : lines * n;
    all = std::min(kMostLines, all + lines);
  }
  return all;
}

}  // namespace echotrain::server
