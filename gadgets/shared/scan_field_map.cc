#include "gadgets/shared/scan_field_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace echotrain {
namespace {

constexpr std::size_t kMostKept = 256;

/// The place of voxel `i` of `n` among `of` voxels of the same field of view: the two neighbours and the second's
/// share.
struct Between {
  std::int64_t first, second;
  float share;
};
Between between(std::int64_t i, std::int64_t n, std::int64_t of) {
  const double at =
      static_cast<double>(i - n / 2) / static_cast<double>(n) * static_cast<double>(of) + static_cast<double>(of / 2);
  const double inside = std::clamp(at, 0.0, static_cast<double>(of - 1));
  const auto first = static_cast<std::int64_t>(std::floor(inside));
  return {first, std::min(first + 1, of - 1), static_cast<float>(inside - std::floor(inside))};
}

[[noreturn]] void refuse_other_times() {
  throw ClientError(
      "off-resonance: readouts of one frame differ in sample_time_us or center_sample; send them as frames of their "
      "own (another contrast or set)");
}

}  // namespace

Parameters<FieldOptions> field_parameters() {
  using F = FieldOptions;
  return Parameters<F>()
      .text(
          "file", &F::file,
          "a file of the server's assets: an ISMRMRD file whose images are field maps in Hz, one per slice, positive "
          "where the phase of images grows with time. Empty: the client sends them, or a branch makes them, as images "
          "of role field_map before the readouts that need them")
      .number("accuracy", &F::accuracy, numerics::kLeastSegmentError, 0.1,
              "relative RMS error of time segmentation; chooses the number of segments")
      .choice("time_zero", &F::time_zero, {"center_sample", "first_sample"},
              "the sample of a readout at which the field has added no phase that the image should lose: the "
              "readout's center_sample, or its first")
      .number(
          "start_us", &F::start_us, -1e6, 1e6,
          "added to the time of all samples: the echo time, where the image is to lose the phase that it has by then")
      .unit("us")
      .integer("shot_readouts", &F::shot_readouts, 1, 4096,
               "readouts that follow one excitation, in the order in which they come; a frame begins with a shot")
      .number("shot_interval_us", &F::shot_interval_us, 0, 1e6,
              "from one readout of a shot to the next; needed where shot_readouts is above 1")
      .unit("us");
}

HostArray<float> field_map_of(Scan& scan, std::uint16_t slice, const numerics::Shape& image) {
  const SideImages::Voxels& given = scan.side_images.find(kFieldMapRole, slice);
  const numerics::Shape& n = given.shape();  // [channel, z, y, x]
  if (n[0] != 1)
    throw ClientError(
        fmt::format("{}: the image of slice {} has {} channels; a field map has one", kFieldMapRole, slice, n[0]));
  const std::size_t rank = image.rank();
  const numerics::Shape full{rank == 3 ? image[0] : 1, image[rank - 2], image[rank - 1]};
  if ((n[1] == 1) != (full[0] == 1))
    throw ClientError(
        fmt::format("{}: the map of slice {} has {} planes, the image {}", kFieldMapRole, slice, n[1], full[0]));
  const HostArray<cfloat> map = scan.compute.download<cfloat>(given.view());
  HostArray<float> out = scan.compute.allocate_host<float>(image);
  scan.compute.threads().parallel_for(full[0] * full[1], 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Between z = between(row / full[1], full[0], n[1]), y = between(row % full[1], full[1], n[2]);
      const auto at = [&](std::int64_t plane, std::int64_t line, const Between& x) {
        const cfloat* from = map.data() + (plane * n[2] + line) * n[3];
        return (1 - x.share) * from[x.first].real() + x.share * from[x.second].real();
      };
      for (std::int64_t i = 0; i < full[2]; ++i) {
        const Between x = between(i, full[2], n[3]);
        const auto in_plane = [&](std::int64_t plane) {
          return (1 - y.share) * at(plane, y.first, x) + y.share * at(plane, y.second, x);
        };
        out.data()[row * full[2] + i] = (1 - z.share) * in_plane(z.first) + z.share * in_plane(z.second);
      }
    }
  });
  return out;
}

ScanFieldMap::ScanFieldMap(FieldOptions options) : options_(std::move(options)) {
  if (!options_.file.empty() && !SideImages::is_file_name(options_.file))
    throw std::invalid_argument("file is the name of a file of the server's assets, not a path");
  if ((options_.shot_readouts > 1) != (options_.shot_interval_us > 0))
    throw std::invalid_argument("shot_readouts and shot_interval_us belong together: give both or none");
}

void ScanFieldMap::start(Scan& scan) {
  scan_ = &scan;
  scan.side_images.want(kFieldMapRole, options_.file);
}

std::vector<double> ScanFieldMap::times_of(const SampleTiming& timing) const {
  const std::int64_t zero =
      options_.time_zero == "center_sample" ? std::clamp<std::int64_t>(timing.center, 0, timing.per_readout) : 0;
  std::vector<double> times;
  for (std::int64_t shot = 0; shot < options_.shot_readouts; ++shot)
    for (std::int64_t i = 0; i < timing.per_readout; ++i)
      times.push_back(1e-6 * (options_.start_us + static_cast<double>(shot) * options_.shot_interval_us) +
                      static_cast<double>(i - zero) * timing.interval_s);
  return times;
}

std::shared_ptr<const numerics::OffResonance> ScanFieldMap::of_frame(const Samples& samples,
                                                                     const numerics::Shape& image) {
  if (samples.part == Samples::Part::moved) {
    Window& window = windows_[samples.frame->window];
    if (window.made && window.timing != samples.timing) refuse_other_times();
    if (!window.made) window = {samples.timing, find(samples, image)};
    return window.made;
  }
  auto& kept = frames_[samples.frame->id];
  // Readouts of a frame that differ are refused by find(), at the first difference.
  if (!kept || samples.timing.interval_s < 0 || samples.first) kept = find(samples, image);
  const auto found = kept;
  if (samples.last) frames_.erase(samples.frame->id);
  return found;
}

std::shared_ptr<const numerics::OffResonance> ScanFieldMap::find(const Samples& samples, const numerics::Shape& image) {
  const SampleTiming& timing = samples.timing;
  const std::uint16_t slice = samples.frame->key.slice;
  if (timing.interval_s < 0) refuse_other_times();
  if (!(timing.interval_s > 0) || timing.interval_s > 1e-3 || timing.per_readout < 1)
    throw ClientError(
        fmt::format("off-resonance: sample_time_us of the readouts is {}, but the time from one sample to the next "
                    "must be known: above 0 and up to 1000",
                    1e6 * timing.interval_s));
  const std::shared_ptr<void> map = scan_->side_images.find(kFieldMapRole, slice).memory();
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
    return each.slice == slice && each.timing == timing && each.image == image && each.map == map;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return found->made;
  }
  constexpr std::int64_t kMostTimes = 1 << 17;
  if (timing.per_readout * options_.shot_readouts > kMostTimes)
    throw ClientError(
        fmt::format("off-resonance: {} readouts of {} samples make a shot; more than {} samples are not taken",
                    options_.shot_readouts, timing.per_readout, kMostTimes));
  const HostArray<float> field = field_map_of(*scan_, slice, image);
  kept_.remove_if([&](const Kept& each) { return each.slice == slice && each.map != map; });  // the map was replaced
                                                                                              // since
  try {
    kept_.push_front({slice, timing, image, map,
                      numerics::OffResonance::make(scan_->compute, field.view(), times_of(timing), options_.accuracy)});
  } catch (const std::invalid_argument& error) {
    throw ClientError(error.what());
  }
  if (kept_.size() > kMostKept) kept_.pop_back();
  scan_->info(fmt::format("off-resonance: slice {}: {} segments, expected error {:.1e}", slice,
                          kept_.front().made->segments(), kept_.front().made->error()));
  return kept_.front().made;
}

}  // namespace echotrain
