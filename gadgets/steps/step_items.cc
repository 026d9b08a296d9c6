#include "gadgets/steps/step_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace echotrain {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 18;  // small enough for a processor's cache

/// Encoded readouts, in parts.
class ReadoutParts {
 public:
  explicit ReadoutParts(const EachBytes& each) : each_(each) {}
  void add(const protocol::Acquisition& readout) {
    const std::size_t bytes = sizeof readout.head + readout.data.bytes.size() + readout.trajectory.bytes.size() + 2;
    if (part_.head.size() + bytes > kPartBytes) give();
    if (part_.head.empty()) part_.head.reserve(std::max(bytes, kPartBytes));
    protocol::encode(readout, part_.head);
  }
  void give() {
    if (!part_.head.empty()) each_(std::exchange(part_, {}));
  }

 private:
  const EachBytes& each_;
  StepBytes part_;
};

protocol::Payload view_of(const void* data, std::size_t bytes) {
  return {nullptr, {static_cast<const std::byte*>(data), bytes}};
}

}  // namespace

void to_bytes(numerics::Context& /*compute*/, const RawBatch& batch, const EachBytes& each) {
  ReadoutParts parts(each);
  for (const protocol::Acquisition& readout : batch.acquisitions) parts.add(readout);
  parts.give();
}

void to_bytes(numerics::Context& compute, const Readouts& readouts, const EachBytes& each) {
  const HostArray<cfloat> data = readouts.data ? compute.place_on_host(readouts.data) : readouts.host_data;
  if (compute.cuda()) compute.synchronize();
  if (readouts.heads.empty()) return;
  const auto channels = static_cast<std::size_t>(data.shape()[1]), samples = static_cast<std::size_t>(data.shape()[2]);
  const std::size_t dims = readouts.trajectory ? static_cast<std::size_t>(readouts.trajectory.shape()[2]) : 0;
  ReadoutParts parts(each);
  for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
    protocol::Acquisition message;
    message.head = readouts.heads[i];
    message.head.active_channels = static_cast<std::uint16_t>(channels);
    message.head.number_of_samples = static_cast<std::uint16_t>(samples);
    message.head.trajectory_dimensions = static_cast<std::uint16_t>(dims);
    message.data = view_of(data.data() + i * channels * samples, channels * samples * sizeof(cfloat));
    if (dims > 0)
      message.trajectory = view_of(readouts.trajectory.data() + i * samples * dims, samples * dims * sizeof(float));
    parts.add(message);
  }
  parts.give();
}

void to_bytes(numerics::Context& compute, const Image& image, const EachBytes& each) {
  if (image.frame && compute.cuda()) compute.synchronize();
  StepBytes bytes;
  protocol::encode_without_pixels(image.message, bytes.head);
  bytes.pixels = image.message.pixels;
  each(std::move(bytes));
}

StepBytes to_bytes(const protocol::Waveform& waveform) {
  StepBytes bytes;
  protocol::encode(waveform, bytes.head);
  return bytes;
}

void ImageResults::take(protocol::Message&& message, const Emit<Image>& emit) {
  if (std::holds_alternative<protocol::Acquisition>(message))
    throw std::runtime_error(
        "a step that gives images has got a readout back; to go on with readouts, say gives: readouts");
  auto* image = std::get_if<protocol::Image>(&message);
  if (image == nullptr) return scan_->warn("a step has given waveforms, which no step may; they are left out");
  if (const auto reason = protocol::check_attributes(*image, {})) {
    image->attributes.clear();
    image->head.attribute_string_len = 0;
    scan_->warn(fmt::format("a step has given an image with bad attributes ({}); the image is kept without them",
                            reason->message));
  }
  emit(Image{nullptr, std::move(*image), nullptr, {}});
}

void ReadoutResults::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  check_.emplace(header);
}

void ReadoutResults::expect(Readouts&& readouts, const Emit<Readouts>& emit) {
  Awaited batch;
  batch.count = readouts.heads.size();
  batch.on_host = !readouts.data && readouts.host_data;
  given_ += batch.count;
  readouts.white = false;
  if (batch.count > 0) {
    readouts.data = {};
    readouts.host_data = {};
    readouts.trajectory = {};
    readouts.heads.clear();
  }
  batch.readouts = std::move(readouts);
  awaited_.push_back(std::move(batch));
  give_whole(emit);
}

void ReadoutResults::take(protocol::Message&& message, const Emit<Readouts>& emit) {
  auto* readout = std::get_if<protocol::Acquisition>(&message);
  if (readout == nullptr)
    throw std::runtime_error(
        "a step with gives: readouts has got something else back; it must give one readout for each");
  ++came_;
  if (awaited_.empty())
    throw std::runtime_error(
        fmt::format("a step has given {} readouts back for {} that it took; it must give one for each, "
                    "in the same order",
                    came_, given_));
  if (const auto reason = check_->check(*readout))
    throw std::runtime_error(
        fmt::format("readout {} that a step has given back cannot be used: {}", came_, reason->message));
  awaited_.front().came.push_back(std::move(*readout));
  give_whole(emit);
}

void ReadoutResults::give_whole(const Emit<Readouts>& emit) {
  while (!awaited_.empty() && awaited_.front().came.size() == awaited_.front().count) {
    Awaited batch = std::move(awaited_.front());
    awaited_.pop_front();
    emit(batch.count == 0 ? std::move(batch.readouts) : assemble(std::move(batch)));
  }
}

Readouts ReadoutResults::assemble(Awaited&& batch) const {
  const protocol::AcquisitionHeader& like = batch.came.front().head;
  const auto count = static_cast<std::int64_t>(batch.count);
  const std::int64_t channels = like.active_channels, samples = like.number_of_samples,
                     dims = like.trajectory_dimensions;
  Readouts out = std::move(batch.readouts);
  HostArray<cfloat> data = scan_->compute.allocate_host<cfloat>({count, channels, samples});
  if (dims > 0) out.trajectory = scan_->compute.allocate_host<float>({count, samples, dims});
  for (std::int64_t i = 0; i < count; ++i) {
    const protocol::Acquisition& readout = batch.came[static_cast<std::size_t>(i)];
    if (readout.head.active_channels != channels || readout.head.number_of_samples != samples ||
        readout.head.trajectory_dimensions != dims)
      throw std::runtime_error(fmt::format(
          "a step has given readouts of different sizes back for one frame: {} channels of {} samples, then {} of {}",
          channels, samples, readout.head.active_channels, readout.head.number_of_samples));
    out.heads.push_back(readout.head);
    readout.data.copy_to(data.data() + i * channels * samples);
    if (dims > 0) readout.trajectory.copy_to(out.trajectory.data() + i * samples * dims);
  }
  if (batch.on_host)
    out.host_data = std::move(data);
  else
    out.data = scan_->compute.place(data);
  return out;
}

void ReadoutResults::finish() const {
  if (!awaited_.empty())
    throw std::runtime_error(
        fmt::format("a step has given {} readouts back for {} that it took; it must give one for each", came_, given_));
}

}  // namespace echotrain
