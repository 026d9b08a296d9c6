#include "gadgets/shared/incoming/image_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "gadgets/api/errors.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/incoming/meta_notes.h"
#include "protocol/data/pixels.h"

namespace echotrain {
namespace {

using numerics::PixelType;

/// The part of k-space that the limits of steps 1 and 2 name, as in Frame::acquired; no value without limits.
std::optional<std::array<float, 6>> acquired_of(const protocol::Encoding& encoding) {
  std::array<float, 6> out{};
  const auto axis = [&](std::size_t a, const std::optional<protocol::CounterLimit>& limit) {
    const auto n = static_cast<float>(encoding.encoded.matrix[a]);
    const bool known = limit && limit->maximum > limit->minimum && limit->center > 0;
    const auto half = static_cast<float>(encoding.encoded.matrix[a] / 2);
    out[2 * a] = known ? static_cast<float>(limit->minimum - limit->center) / n : -half / n;
    out[2 * a + 1] = known ? static_cast<float>(limit->maximum - limit->center) / n : (n - 1 - half) / n;
    return known;
  };
  axis(0, std::nullopt);
  const bool step_1 = axis(1, encoding.kspace_encoding_step_1), step_2 = axis(2, encoding.kspace_encoding_step_2);
  if (!step_1 && !step_2) return std::nullopt;
  return out;
}

/// A readout's head with the facts of the image's header.
protocol::AcquisitionHeader reference_of(const protocol::ImageHeader& head) {
  protocol::AcquisitionHeader out{};
  out.version = 1;
  out.measurement_uid = head.measurement_uid;
  out.acquisition_time_stamp = head.acquisition_time_stamp;
  out.active_channels = out.available_channels = head.channels;
  for (std::size_t a = 0; a < 3; ++a) {
    out.physiology_time_stamp[a] = head.physiology_time_stamp[a];
    out.position[a] = head.position[a];
    out.read_dir[a] = head.read_dir[a];
    out.phase_dir[a] = head.phase_dir[a];
    out.slice_dir[a] = head.slice_dir[a];
    out.patient_table_position[a] = head.patient_table_position[a];
  }
  out.idx.average = head.average;
  out.idx.slice = head.slice;
  out.idx.contrast = head.contrast;
  out.idx.phase = head.phase;
  out.idx.repetition = head.repetition;
  out.idx.set = head.set;
  for (std::size_t i = 0; i < 8; ++i) {
    out.user_int[i] = head.user_int[i];
    out.user_float[i] = head.user_float[i];
  }
  return out;
}

}  // namespace

void ImageInput::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (header.encodings.size() != 1) return;
  const protocol::Encoding& encoding = header.encodings.front();
  header_fov_mm_.emplace();
  std::transform(encoding.recon.fov_mm.begin(), encoding.recon.fov_mm.end(), header_fov_mm_->begin(),
                 [](double mm) { return static_cast<float>(mm); });
  acquired_ = acquired_of(encoding);
}

/// The image's field of view; where it has none, the header's; else that of voxels of 1 mm.
std::array<float, 3> ImageInput::field_of_view(const protocol::ImageHeader& head) {
  std::array<float, 3> out{};
  bool given = true;
  for (std::size_t a = 0; a < 3; ++a) {
    out[a] = head.field_of_view[a];
    given = given && std::isfinite(out[a]) && out[a] > 0;
  }
  if (given) return out;
  scan_->warn(fmt::format("images have no field of view; {} taken",
                          header_fov_mm_ ? "that of the header is" : "voxels of 1 mm are"));
  if (header_fov_mm_) return *header_fov_mm_;
  for (std::size_t a = 0; a < 3; ++a) out[a] = head.matrix_size[a];
  return out;
}

CoilImages ImageInput::take(protocol::Image&& image) {
  const protocol::ImageHeader head = image.head;
  const std::span<const std::byte> bytes = image.pixels.bytes;
  if (protocol::pixel_bytes(head, bytes.size()) != bytes.size())
    throw ClientError(fmt::format("image {} of series {} has {} bytes of pixels, which do not fit its header",
                                  +head.image_index, +head.image_series_index, bytes.size()));
  constexpr int kMostChannels = 1024;  // the bound of readouts, too: protocol::Limits::channels
  if (head.channels > kMostChannels)
    throw ClientError(fmt::format("image {} of series {} has {} channels; at most {} are taken", +head.image_index,
                                  +head.image_series_index, +head.channels, kMostChannels));
  numerics::Context& compute = scan_->compute;
  CoilImages out;
  out.data = compute.allocate<cfloat>({head.channels, head.matrix_size[2], head.matrix_size[1], head.matrix_size[0]});
  HostArray<std::byte> raw = compute.allocate_host<std::byte>({static_cast<std::int64_t>(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), raw.data());
  numerics::from_pixels(compute, compute.place(raw).cview(), static_cast<PixelType>(head.data_type), out.data.view());

  if (series_.size() > UINT16_MAX) throw ClientError("the images are of more than 65,536 series and types");
  const auto frame = std::make_shared<Frame>();
  frame->id = frames_++;
  frame->reference = reference_of(head);
  const std::pair<std::uint16_t, std::uint16_t> kind(head.image_series_index, head.image_type);
  frame->key = {0,
                head.slice,
                head.contrast,
                head.phase,
                head.repetition,
                head.set,
                series_.try_emplace(kind, static_cast<std::uint16_t>(series_.size())).first->second};
  frame->fov_mm = field_of_view(head);
  if (numerics::is_complex(static_cast<PixelType>(head.data_type))) frame->acquired = acquired_;
  frame->notes = notes_of(image.attributes);
  image.pixels = {};
  image.attributes = std::string(image.attributes);  // a copy that the scan pays for: gadgets may hold the frame back
  frame->source = std::make_shared<protocol::Image>(std::move(image));
  out.frame = frame;
  return out;
}

}  // namespace echotrain
