#include "gadgets/shared/sms/sms_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gadgets/shared/measurement.h"

namespace echotrain {

void SmsScan::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (std::size_t e = 0; e < header.encodings.size(); ++e) add_space(header, e);
}

void SmsScan::add_space(const protocol::Header& header, std::size_t e) {
  const protocol::Encoding& encoding = header.encodings[e];
  if (encoding.trajectory == protocol::Trajectory::cartesian || encoding.trajectory == protocol::Trajectory::epi)
    throw ClientError(
        fmt::format("{}: it takes radial and other non-Cartesian readouts, but the header's trajectory is 'cartesian' "
                    "or 'epi'; for "
                    "EPI there is slice_grappa",
                    gadget_));
  const ImageGeometry geometry = image_geometry(encoding);
  SmsSpace space;
  space.sms.slices = options_.slices;
  if (options_.slices == 0) {
    if (!encoding.multiband)
      throw ClientError(fmt::format(
          "{}: the header has no multiband, which says how many slices are excited at once; say it by `slices`",
          gadget_));
    space.sms.slices = encoding.multiband->factor;
  }
  const std::int64_t m = space.sms.slices;
  if (m < 1 || m > SmsOptions::kMostSlices)
    throw ClientError(fmt::format("{}: at most {} slices are told apart, not {}", gadget_, SmsOptions::kMostSlices, m));
  const std::int64_t planes = encoding.encoded.matrix[2];
  if (planes != 1 && planes != m)
    throw ClientError(
        fmt::format("{}: the header's encoded matrix has {} planes, but {} slices are excited at once; it has to have "
                    "one plane, or as many as slices",
                    gadget_, planes, m));
  space.sms.by_spoke = options_.number == "kspace_encode_step_1";
  space.sms.negative = options_.direction == "negative";
  space.samples.from_data = options_.weights == "from_data";
  const auto unit = to_cycles_per_pixel(encoding, scan_->trajectory_unit);
  for (std::size_t a = 0; a < 2; ++a) {
    space.samples.to_cycles_per_pixel[a] = unit[a];
    space.samples.voxel_ratio[a] = geometry.voxel_ratio[a];
  }
  space.image = {geometry.image[1], geometry.image[2]};
  constexpr std::int64_t kLongest = 2048;
  for (std::size_t a = 0; a < 2; ++a)
    if (space.image[a] > kLongest)
      throw ClientError(
          fmt::format("{}: an image has up to {} voxels an axis, not {}", gadget_, kLongest, space.image[a]));
  const std::int64_t numbers = encoding.slice ? encoding.slice->maximum + 1 : 1;
  space.sets = numbers % m == 0 ? numbers / m : numbers;
  constexpr std::int64_t kMostNumbers = 65536;  // counters have 16 bits
  if (space.sets * m > kMostNumbers)
    throw ClientError(fmt::format(
        "{}: the header's limits announce slices 0 to {}, which is no multiple of the {} that are excited at "
        "once; {} sets of {} slices are more than can be numbered",
        gadget_, numbers - 1, m, space.sets, m));
  space.distance_mm = options_.distance > 0
                          ? options_.distance
                          : static_cast<double>(encoding.encoded.fov_mm[2]) / static_cast<double>(planes);
  space.fov_mm = {static_cast<float>(encoding.recon.fov_mm[0]), static_cast<float>(encoding.recon.fov_mm[1]),
                  static_cast<float>(space.distance_mm)};
  most_ = std::max(most_, m);
  spaces_.push_back(std::move(space));
}

void SmsScan::process(Readouts&& readouts, const Whole& whole) {
  note_unused_calibration(readouts, *scan_);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const std::shared_ptr<const Frame> frame = readouts.frame;
  if (readouts.first) open_.erase(frame->id);
  SmsFrame& open = open_.try_emplace(frame->id, gadget_).first->second;
  const bool last = readouts.last;
  const SmsSpace& space = spaces_.at(frame->key.encoding);
  if (frame->key.slice >= space.sets)  // its images would have the numbers of another set's images
    throw ClientError(
        fmt::format("{}: readouts have the slice number {}, but the header's limits announce {} set(s) of {} slices "
                    "that are excited "
                    "at once, numbered from 0; give the limits of all slices that are to be made",
                    gadget_, frame->key.slice, space.sets, space.sms.slices));
  open.add(std::move(readouts), space.sms, space.samples.from_data, scan_->compute);
  if (!last) return;
  if (!open.empty()) whole(open, frame);
  open_.erase(frame->id);
}

/// Refuses a frame that gives no image, and warns of defects that images will have.
void SmsScan::judge(const SmsFrame& open, const SmsTally& tally, const SmsSpace& space) {
  if (2 * tally.beyond > tally.samples)
    throw ClientError(fmt::format(
        "{}: {} of {} samples lie beyond 0.5 cycles/pixel; the trajectory's unit is likely another: set the "
        "pipeline's trajectory_unit",
        gadget_, tally.beyond, tally.samples));
  if (tally.samples > 0 && !(std::abs(tally.weight) > 0))
    throw ClientError(fmt::format(
        "{}: the density weights sum to nothing: all samples lie at one point, or the weights sent with the data are "
        "zero",
        gadget_));
  if (tally.beyond > 0 && !std::exchange(warned_of_beyond_, true))
    scan_->warn(fmt::format("{}: {} of {} samples of a frame lie beyond 0.5 cycles/pixel and take no part", gadget_,
                            tally.beyond, tally.samples));
  const std::int64_t m = space.sms.slices;
  if (tally.numbers < m && !std::exchange(warned_of_missing_, true))
    scan_->warn(
        fmt::format("{}: a frame has readouts of {} of the {} numbers of phases ({}, modulo {}); slices that lack a "
                    "number are told apart by coils, and not well",
                    gadget_, tally.numbers, m, options_.number, m));
  if (!space.sms.by_spoke && open.largest_counter() >= m && !std::exchange(warned_of_counter_, true))
    scan_->warn(fmt::format(
        "{}: readouts have a kspace_encode_step_2 of up to {}, but {} slices have the numbers 0 to {}; it is "
        "taken modulo {}, and images are wrong if more slices were excited at once",
        gadget_, open.largest_counter(), m, m - 1, m));
}

SmsSorted SmsScan::sorted(const SmsFrame& frame, const SmsSpace& space) {
  SmsSorted out;
  out.of_number = frame.sorted(space.samples, space.sms.slices, scan_->compute, out.tally);
  judge(frame, out.tally, space);
  return out;
}

std::shared_ptr<const Frame> SmsScan::frame_of(const Frame& frame, std::int64_t slice) const {
  const SmsSpace& space = spaces_.at(frame.key.encoding);
  const std::int64_t m = space.sms.slices;
  Frame made = frame;
  made.id = frame.id * static_cast<std::uint64_t>(most_) + static_cast<std::uint64_t>(slice);
  made.key.slice = static_cast<std::uint16_t>(frame.key.slice + slice * space.sets);
  made.reference.idx.slice = made.key.slice;
  const double away = (static_cast<double>(slice) - static_cast<double>(m - 1) / 2) * space.distance_mm;
  for (int a = 0; a < 3; ++a)
    made.reference.position[a] += static_cast<float>(away * static_cast<double>(frame.reference.slice_dir[a]));
  made.fov_mm = space.fov_mm;
  made.notes["multiband"] = std::to_string(m);
  return std::make_shared<const Frame>(std::move(made));
}

}  // namespace echotrain
