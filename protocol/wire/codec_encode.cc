// This part of the codec turns messages into bytes.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "protocol/data/layout.h"
#include "protocol/data/pixels.h"
#include "protocol/wire/codec.h"

namespace echotrain::protocol {
namespace {

// Makes room for `more` bytes at once, yet grows geometrically when many messages are appended to one buffer.
void make_room(Buffer& out, std::size_t more) {
  if (out.capacity() - out.size() < more) out.reserve(std::max(out.size() + more, 2 * out.capacity()));
}

void put_bytes(Buffer& out, const void* from, std::size_t n) {
  const auto* first = static_cast<const std::byte*>(from);
  out.insert(out.end(), first, first + n);
}

template <class T>
void put(Buffer& out, T value) {
  put_bytes(out, &value, sizeof(value));
}

void put_id(Buffer& out, MessageId id) { put(out, static_cast<std::uint16_t>(id)); }

void put_text(Buffer& out, MessageId id, std::string_view text, bool with_nul) {
  const std::size_t n = text.size() + (with_nul ? 1 : 0);
  if (n > UINT32_MAX) throw std::length_error(fmt::format("a text of {} bytes does not fit a message", n));
  make_room(out, kIdBytes + 4 + n);
  put_id(out, id);
  put(out, static_cast<std::uint32_t>(n));
  put_bytes(out, text.data(), text.size());
  if (with_nul) out.push_back(std::byte{0});
}

// A payload that disagrees with its header would put the peer out of step for good.
void require_size(std::size_t have, std::uint64_t want, std::string_view what) {
  if (have != want) throw std::length_error(fmt::format("{} has {} bytes, its header says {}", what, have, want));
}

}  // namespace

void encode(const ConfigFile& message, Buffer& out) {
  if (message.name.size() >= kConfigNameBytes) {
    throw std::length_error(
        fmt::format("configuration name has {} characters; at most {} fit", message.name.size(), kConfigNameBytes - 1));
  }
  make_room(out, kIdBytes + kConfigNameBytes);
  put_id(out, MessageId::config_file);
  put_bytes(out, message.name.data(), message.name.size());
  out.resize(out.size() + kConfigNameBytes - message.name.size());
}

void encode(const ConfigText& message, Buffer& out) { put_text(out, MessageId::config_text, message.text, false); }

void encode(const HeaderText& message, Buffer& out) { put_text(out, MessageId::header, message.xml, false); }

void encode(const Close&, Buffer& out) { put_id(out, MessageId::close); }

void encode(const Text& message, Buffer& out) { put_text(out, MessageId::text, message.text, true); }

void encode(const Query& message, Buffer& out) {
  put_id(out, MessageId::query);
  put(out, std::uint64_t{0});
  put(out, message.correlation_id);
  put(out, std::uint64_t{message.name.size()});
  put_bytes(out, message.name.data(), message.name.size());
}

void encode(const Response& message, Buffer& out) {
  put_id(out, MessageId::response);
  put(out, message.correlation_id);
  put(out, std::uint64_t{message.text.size()});
  put_bytes(out, message.text.data(), message.text.size());
}

void encode(const Acquisition& message, Buffer& out) {
  AcquisitionHeader head = message.head;
  const std::uint64_t samples = head.number_of_samples;
  require_size(message.trajectory.bytes.size(), 4 * samples * head.trajectory_dimensions, "readout trajectory");
  require_size(message.data.bytes.size(), 8 * samples * head.active_channels, "readout data");
  head.flags &= ~kCompressionFlags;  // the samples are plain
  make_room(out, kIdBytes + sizeof(head) + message.trajectory.bytes.size() + message.data.bytes.size());
  put_id(out, MessageId::acquisition);
  put_bytes(out, &head, sizeof(head));
  put_bytes(out, message.trajectory.bytes.data(), message.trajectory.bytes.size());
  put_bytes(out, message.data.bytes.data(), message.data.bytes.size());
}

void encode(const Waveform& message, Buffer& out) {
  const WaveformHeader& head = message.head;
  require_size(message.data.bytes.size(), std::uint64_t{4} * head.number_of_samples * head.channels, "waveform data");
  make_room(out, kIdBytes + kWaveformHeadBytes + message.data.bytes.size());
  put_id(out, MessageId::waveform);
  // Field by field, because the struct has padding whose content must not leave this process.
  put(out, head.version);
  out.resize(out.size() + 6);
  put(out, head.flags);
  put(out, head.measurement_uid);
  put(out, head.scan_counter);
  put(out, head.time_stamp);
  put(out, head.number_of_samples);
  put(out, head.channels);
  put(out, head.sample_time_us);
  put(out, head.waveform_id);
  out.resize(out.size() + 2);
  put_bytes(out, message.data.bytes.data(), message.data.bytes.size());
}

void encode_without_pixels(const Image& message, Buffer& out) {
  ImageHeader head = message.head;
  const auto pixels = pixel_bytes(head, UINT64_MAX);
  if (!pixels)
    throw std::length_error("image header has an invalid data_type, a size of zero, or sizes beyond 64 bits");
  require_size(message.pixels.bytes.size(), *pixels, "image data");
  head.version = 1;
  head.attribute_string_len = static_cast<std::uint32_t>(message.attributes.size());
  make_room(out, kIdBytes + sizeof(head) + kAttributeLengthBytes + message.attributes.size());
  put_id(out, MessageId::image);
  put_bytes(out, &head, sizeof(head));
  put(out, std::uint64_t{message.attributes.size()});
  put_bytes(out, message.attributes.data(), message.attributes.size());
}

void encode(const Image& message, Buffer& out) {
  make_room(out, kIdBytes + kImageHeadBytes + kAttributeLengthBytes + message.attributes.size() +
                     message.pixels.bytes.size());
  encode_without_pixels(message, out);
  put_bytes(out, message.pixels.bytes.data(), message.pixels.bytes.size());
}

}  // namespace echotrain::protocol
