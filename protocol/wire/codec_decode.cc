// This part of the codec turns bytes into messages.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "protocol/data/layout.h"
#include "protocol/data/limits.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/sample_compression.h"

namespace echotrain::protocol {
namespace {

using Bytes = std::span<const std::byte>;
using Owner = std::shared_ptr<const void>;

Payload payload(Bytes bytes, const Owner& owner) {
  if (bytes.empty()) return {};
  return {owner, bytes};
}

Result<Message> decode_config_file(Bytes body) {
  const std::string_view name = cut_at_nul(as_text(body));
  if (name.size() == body.size()) {
    return Error{"bad-config", fmt::format("configuration name fills all {} bytes of its field", body.size())};
  }
  if (name.size() > kMaxConfigName) {
    return Error{"bad-config", fmt::format("configuration name has {} characters; at most {} are allowed", name.size(),
                                           kMaxConfigName)};
  }
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (!std::all_of(name.begin(), name.end(), allowed) || name.starts_with('.')) {
    return Error{"bad-config", fmt::format("configuration name '{}' is not allowed: use letters, digits, '.', '_' and "
                                           "'-', and do not start with '.'",
                                           quotable(name))};
  }
  return Message{ConfigFile{std::string(name)}};
}

Result<Message> decode_text(MessageId id, Bytes body) {
  const std::string_view text = cut_at_nul(as_text(body.subspan(kTextFixedBytes)));
  if (id == MessageId::text) return Message{Text{std::string(text)}};
  const bool header = id == MessageId::header;
  if (!is_utf8(text)) {
    return Error{header ? "bad-header" : "bad-config",
                 fmt::format("the {} is not valid UTF-8", header ? "header" : "configuration text")};
  }
  if (header && text.empty()) return Error{"bad-header", "the header is empty"};
  if (header) return Message{HeaderText{std::string(text)}};
  return Message{ConfigText{std::string(text)}};
}

Status read_acquisition(Bytes body, const Owner& owner, Acquisition& acquisition) {
  std::memcpy(&acquisition.head, body.data(), sizeof(acquisition.head));
  const std::uint64_t flags = acquisition.head.flags;
  const std::uint64_t samples = acquisition.head.number_of_samples;
  const std::size_t trajectory = 4 * samples * acquisition.head.trajectory_dimensions;
  acquisition.trajectory = payload(body.subspan(kAcquisitionHeadBytes, trajectory), owner);
  const Bytes data = body.subspan(kAcquisitionHeadBytes + trajectory);
  if ((flags & kCompressionFlags) == 0 || data.empty()) {
    acquisition.head.flags = flags & ~kCompressionFlags;
    acquisition.data = payload(data, owner);
  } else {
    const Bytes block = data.subspan(4);
    const std::uint64_t channels = acquisition.head.active_channels;
    acquisition.data = payload(block, owner);
    return (flags & kCompression1) != 0 ? check_zfp(block, samples, channels)
                                        : check_packed(block, 2 * samples * channels);
  }
  return {};
}

Result<Message> decode_waveform(Bytes body, const Owner& owner) {
  Waveform waveform;
  std::memcpy(&waveform.head, body.data(), sizeof(waveform.head));
  waveform.data = payload(body.subspan(kWaveformHeadBytes), owner);
  return Message{std::move(waveform)};
}

Result<Message> decode_image(Bytes body, const Owner& owner) {
  Image image;
  std::memcpy(&image.head, body.data(), sizeof(image.head));
  const auto length = load<std::uint64_t>(body, kImageHeadBytes);
  std::string_view attributes = as_text(body.subspan(kImageHeadBytes + kAttributeLengthBytes, length));
  while (attributes.ends_with('\0')) attributes.remove_suffix(1);
  image.attributes = attributes;
  // The length inside the struct is informative only, and some peers' lengths disagree.
  image.head.attribute_string_len = static_cast<std::uint32_t>(attributes.size());
  const std::span<const std::byte> pixels = body.subspan(kImageHeadBytes + kAttributeLengthBytes + length);
  // Attributes are copied: few pixels would keep the memory that long ones came in, too.
  image.pixels =
      pixels.size() < length ? Payload::take(std::vector(pixels.begin(), pixels.end())) : payload(pixels, owner);
  return Message{std::move(image)};
}

}  // namespace

Status decode_acquisition(Bytes bytes, const Owner& owner, Acquisition& to) {
  return read_acquisition(bytes.subspan(kIdBytes), owner, to);
}

bool is_compressed(const Acquisition& acquisition) { return (acquisition.head.flags & kCompressionFlags) != 0; }

std::uint64_t expanding_bytes(const Acquisition& acquisition) {
  const std::uint64_t samples = acquisition.head.number_of_samples, channels = acquisition.head.active_channels;
  if (!is_compressed(acquisition)) return 0;
  const bool zfp = (acquisition.head.flags & kCompression1) != 0;
  return 8 * samples * channels + (zfp ? zfp_scratch_bytes(acquisition.data.bytes, samples, channels) : 0);
}

Status expand(Acquisition& acquisition, Owner owner) {
  if (!is_compressed(acquisition)) return {};
  const std::uint64_t samples = acquisition.head.number_of_samples, channels = acquisition.head.active_channels;
  auto values = (acquisition.head.flags & kCompression1) != 0
                    ? expand_zfp(acquisition.data.bytes, samples, channels)
                    : expand_packed(acquisition.data.bytes, 2 * samples * channels);
  if (!values) return values.error();
  Payload plain = Payload::take(*std::move(values));
  // One owner for both: the samples, and whatever is to be kept beside them.
  plain.owner = std::make_shared<const std::pair<Owner, Owner>>(std::move(owner), plain.owner);
  acquisition.data = std::move(plain);
  acquisition.head.flags = acquisition.head.flags & ~kCompressionFlags;
  return {};
}

Result<Message> decode(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const Limits& limits) {
  const auto extent = measure(bytes, limits);
  if (!extent) return extent.error();
  if (!extent->exact || extent->size != bytes.size()) {
    return Error{"truncated", fmt::format("message {} needs {}{} bytes; {} were given", id_text(extent->id),
                                          extent->exact ? "" : "at least ", extent->size, bytes.size())};
  }
  const Bytes body = bytes.subspan(kIdBytes);
  switch (const auto id = static_cast<MessageId>(extent->id)) {
    case MessageId::config_file:
      return decode_config_file(body);
    case MessageId::config_text:
    case MessageId::header:
    case MessageId::text:
      return decode_text(id, body);
    case MessageId::close:
      return Message{Close{}};
    case MessageId::query:
      return Message{
          Query{load<std::uint64_t>(body, 8), std::string(cut_at_nul(as_text(body.subspan(kQueryFixedBytes))))}};
    case MessageId::response:
      return Message{
          Response{load<std::uint64_t>(body, 0), std::string(cut_at_nul(as_text(body.subspan(kResponseFixedBytes))))}};
    case MessageId::acquisition: {
      Message message{std::in_place_type<Acquisition>};
      auto& acquisition = std::get<Acquisition>(message);
      if (Status status = read_acquisition(body, owner, acquisition); !status) return status.error();
      if (Status status = expand(acquisition); !status) return status.error();
      return message;
    }
    case MessageId::waveform:
      return decode_waveform(body, owner);
    case MessageId::image:
      return decode_image(body, owner);
    case MessageId::error:
      break;  // measure() never lets it through
  }
  return Error{"unknown-message", fmt::format("unsupported message {}", id_text(extent->id))};
}

}  // namespace echotrain::protocol
