// This part of the codec measures the message that starts here, and checks its length against the limits.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "protocol/data/layout.h"
#include "protocol/data/limits.h"
#include "protocol/data/pixels.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"

namespace echotrain::protocol {
namespace {

struct NamedId {
  std::uint16_t id;
  std::string_view name;
};

constexpr std::array<NamedId, 11> kSupported = {{{1, "CONFIG_FILE"},
                                                 {2, "CONFIG_TEXT"},
                                                 {3, "HEADER"},
                                                 {4, "CLOSE"},
                                                 {5, "TEXT"},
                                                 {6, "QUERY"},
                                                 {7, "RESPONSE"},
                                                 {8, "ERROR"},
                                                 {1008, "ACQUISITION"},
                                                 {1022, "IMAGE"},
                                                 {1026, "WAVEFORM"}}};

// Ids that some peer knows and this server does not take: newer containers first, then deprecated ones.
constexpr std::array<NamedId, 26> kRefused = {{{1018, "DICOM_WITHNAME"},
                                               {1019, "DEPENDENCY_QUERY"},
                                               {1023, "RECONDATA"},
                                               {1024, "IMAGE_ARRAY"},
                                               {1030, "NDARRAY"},
                                               {1050, "BUCKET"},
                                               {1051, "BUNDLE"},
                                               {1001, "deprecated ACQUISITION"},
                                               {1002, "deprecated NEW_MEASUREMENT"},
                                               {1003, "deprecated END_OF_SCAN"},
                                               {1004, "deprecated typed image"},
                                               {1005, "deprecated typed image"},
                                               {1006, "deprecated typed image"},
                                               {1007, "deprecated EMPTY"},
                                               {1009, "deprecated typed image"},
                                               {1010, "deprecated typed image"},
                                               {1011, "deprecated typed image"},
                                               {1012, "deprecated DICOM"},
                                               {1013, "deprecated cloud job"},
                                               {1014, "deprecated cloud job"},
                                               {1015, "deprecated typed image"},
                                               {1016, "deprecated typed image"},
                                               {1017, "deprecated typed image"},
                                               {1020, "deprecated typed image"},
                                               {1021, "deprecated typed image"},
                                               {0, "never sent"}}};

// The first two bytes where the peer speaks something else.
constexpr std::array<NamedId, 5> kForeign = {
    {{24953, "an MRD v2 (yardl) stream; `echotrain send` and `echotrain convert` read one"},
     {17735, "an HTTP request; this port takes ISMRMRD streams only"},
     {20304, "an HTTP request; this port takes ISMRMRD streams only"},
     {21576, "an HTTP answer, perhaps of a server's admin port (9004); scans go to its other port (9002)"},
     {790, "a TLS handshake; this port takes unencrypted streams"}}};

template <std::size_t N>
std::string_view find_name(const std::array<NamedId, N>& names, std::uint16_t id) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const NamedId& entry) { return entry.id == id; });
  return found == names.end() ? std::string_view() : found->name;
}

Error refuse_id(std::uint16_t id) {
  if (const auto protocol = find_name(kForeign, id); !protocol.empty()) {
    return {"unknown-message", fmt::format("the stream looks like {} (first two bytes read as id {})", protocol, id)};
  }
  if (const auto name = find_name(kRefused, id); !name.empty()) {
    return {"unknown-message", fmt::format("unsupported message {} ({})", id, name)};
  }
  return {"unknown-message", fmt::format("unknown message {}: not an ISMRMRD message id", id)};
}

/// The bytes at hand, with offsets counted from after the id as in docs/protocol.md, "Layouts".
class Body {
 public:
  explicit Body(std::span<const std::byte> bytes) : bytes_(bytes.subspan(kIdBytes)) {}
  template <class T>
  bool has(std::size_t offset) const {
    return bytes_.size() >= offset + sizeof(T);
  }
  template <class T>
  T get(std::size_t offset) const {
    return load<T>(bytes_, offset);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

Extent exact(MessageId id, std::uint64_t body_bytes) {
  return {static_cast<std::uint16_t>(id), kIdBytes + body_bytes, true};
}
Extent at_least(MessageId id, std::uint64_t body_bytes) {
  return {static_cast<std::uint16_t>(id), kIdBytes + body_bytes, false};
}

Result<Extent> measure_text(const Body& body, MessageId id, std::uint64_t limit, const char* code) {
  if (!body.has<std::uint32_t>(0)) return at_least(id, kTextFixedBytes);
  const std::uint64_t n = body.get<std::uint32_t>(0);
  if (n > limit) {
    return Error{code, fmt::format("{} claims {} bytes; at most {} are allowed{}",
                                   id_text(static_cast<std::uint16_t>(id)), n, limit,
                                   id == MessageId::config_text
                                       ? "; leave out comments, or name a pipeline that the server has ('use: NAME')"
                                       : "")};
  }
  if (id == MessageId::header && n == 0) return Error{code, "the header is empty"};
  return exact(id, kTextFixedBytes + n);
}

Result<Extent> measure_query(const Body& body, const Limits& limits) {
  if (!body.has<std::uint64_t>(0)) return at_least(MessageId::query, kQueryFixedBytes);
  if (const auto reserved = body.get<std::uint64_t>(0); reserved != 0) {
    return Error{"bad-query", fmt::format("reserved field of QUERY is {}; it must be 0", reserved)};
  }
  if (!body.has<std::uint64_t>(at::kQueryLength)) return at_least(MessageId::query, kQueryFixedBytes);
  const auto n = body.get<std::uint64_t>(at::kQueryLength);
  if (n > limits.query_bytes) {
    return Error{"bad-query", fmt::format("QUERY claims {} bytes; at most {} are allowed", n, limits.query_bytes)};
  }
  return exact(MessageId::query, kQueryFixedBytes + n);
}

Result<Extent> measure_response(const Body& body, const Limits& limits) {
  if (limits.response_bytes == 0) {
    return Error{"unknown-message", "unexpected message 7 (RESPONSE): nothing was asked of this peer"};
  }
  if (!body.has<std::uint64_t>(at::kResponseLength)) return at_least(MessageId::response, kResponseFixedBytes);
  const auto n = body.get<std::uint64_t>(at::kResponseLength);
  if (n > limits.response_bytes) {
    return Error{"too-large",
                 fmt::format("RESPONSE claims {} bytes; at most {} are allowed", n, limits.response_bytes)};
  }
  return exact(MessageId::response, kResponseFixedBytes + n);
}

// ERROR always ends the stream, but its text says why the peer gave up, so a reader waits for a short text.
Result<Extent> measure_error(const Body& body) {
  if (!body.has<std::uint64_t>(0)) return at_least(MessageId::error, kErrorFixedBytes);
  const auto n = body.get<std::uint64_t>(0);
  if (n > kMaxErrorText) {
    return Error{"unknown-message", fmt::format("the peer sent message 8 (ERROR) with a text of {} bytes", n)};
  }
  if (body.bytes().size() < kErrorFixedBytes + n) return at_least(MessageId::error, kErrorFixedBytes + n);
  const std::string text = quotable(cut_at_nul(as_text(body.bytes().subspan(kErrorFixedBytes, n))), kMaxErrorText);
  return Error{"unknown-message", fmt::format("the peer sent message 8 (ERROR): {}", text)};
}

// Version 0 comes from Python's zeroed headers and reads the same.
std::optional<Error> check_version(const Body& body, std::string_view what) {
  if (!body.has<std::uint16_t>(at::kVersion)) return std::nullopt;
  const auto version = body.get<std::uint16_t>(at::kVersion);
  if (version <= 1) return std::nullopt;
  return Error{"bad-version", fmt::format("{} header has version {}; only 1 is supported", what, version)};
}

std::optional<Error> check_compression_flags(std::uint64_t flags) {
  if ((flags & kCompression34) != 0) {
    return Error{"compression", "readout has flag COMPRESSION3 or COMPRESSION4, whose layout is not defined"};
  }
  if ((flags & kCompression1) != 0 && (flags & kCompression2) != 0) {
    return Error{"compression", "readout has both flags COMPRESSION1 and COMPRESSION2; one at most is allowed"};
  }
  return std::nullopt;
}

Result<Extent> measure_acquisition(const Body& body, const Limits& limits) {
  constexpr MessageId kId = MessageId::acquisition;
  if (auto error = check_version(body, "readout")) return *error;
  if (!body.has<std::uint64_t>(at::kAcquisitionFlags)) return at_least(kId, kAcquisitionHeadBytes);
  const auto flags = body.get<std::uint64_t>(at::kAcquisitionFlags);
  if (auto error = check_compression_flags(flags)) return *error;
  if (!body.has<std::uint16_t>(at::kAcquisitionChannels)) return at_least(kId, kAcquisitionHeadBytes);
  const std::uint64_t samples = body.get<std::uint16_t>(at::kAcquisitionSamples);
  const std::uint64_t channels = body.get<std::uint16_t>(at::kAcquisitionChannels);
  if (channels > limits.channels) {
    return Error{"too-large",
                 fmt::format("readout has {} channels; at most {} are allowed", channels, limits.channels)};
  }
  const std::uint64_t data = 8 * samples * channels;
  if (data > limits.acquisition_bytes) {
    return Error{"too-large", fmt::format("readout of {} samples x {} channels has {} bytes; at most {} are allowed",
                                          samples, channels, data, limits.acquisition_bytes)};
  }
  if (!body.has<std::uint16_t>(at::kTrajectoryDimensions)) return at_least(kId, kAcquisitionHeadBytes);
  const std::uint64_t dimensions = body.get<std::uint16_t>(at::kTrajectoryDimensions);
  if (dimensions > kMaxTrajectoryDimensions) {
    return Error{"bad-trajectory", fmt::format("trajectory has {} dimensions; at most {} are allowed", dimensions,
                                               kMaxTrajectoryDimensions)};
  }
  const std::uint64_t fixed = kAcquisitionHeadBytes + 4 * dimensions * samples;
  if ((flags & kCompressionFlags) == 0 || data == 0) return exact(kId, fixed + data);
  // The length of compressed samples comes after the trajectory.
  if (!body.has<std::uint32_t>(fixed)) return at_least(kId, fixed + 4);
  const std::uint64_t packed = body.get<std::uint32_t>(fixed);
  if (packed > max_compressed_bytes(data)) {
    return Error{"compression",
                 fmt::format("readout claims {} compressed bytes for {} plain ones; at most {} are allowed", packed,
                             data, max_compressed_bytes(data))};
  }
  return exact(kId, fixed + 4 + packed);
}

Result<Extent> measure_waveform(const Body& body, const Limits& limits) {
  constexpr MessageId kId = MessageId::waveform;
  if (auto error = check_version(body, "waveform")) return *error;
  if (!body.has<std::uint16_t>(at::kWaveformChannels)) return at_least(kId, kWaveformHeadBytes);
  const std::uint64_t samples = body.get<std::uint16_t>(at::kWaveformSamples);
  const std::uint64_t channels = body.get<std::uint16_t>(at::kWaveformChannels);
  const std::uint64_t data = 4 * samples * channels;
  if (data > limits.waveform_bytes) {
    return Error{"too-large", fmt::format("waveform of {} samples x {} channels has {} bytes; at most {} are allowed",
                                          samples, channels, data, limits.waveform_bytes)};
  }
  return exact(kId, kWaveformHeadBytes + data);
}

Result<Extent> measure_image(const Body& body, const Limits& limits) {
  constexpr MessageId kId = MessageId::image;
  if (auto error = check_version(body, "image")) return *error;
  if (!body.has<std::uint16_t>(at::kImageType)) return at_least(kId, kImageHeadBytes + kAttributeLengthBytes);
  const auto type = body.get<std::uint16_t>(at::kImageType);
  std::uint64_t pixels = bytes_per_pixel(type);
  if (pixels == 0) return Error{"bad-image", fmt::format("image has data_type {}; 1 to 8 are defined", type)};
  // Checks each factor as soon as it is here, before multiplying: four of them can exceed 64 bits.
  for (const std::size_t offset : {at::kImageMatrix, at::kImageMatrix + 2, at::kImageMatrix + 4, at::kImageChannels}) {
    if (!body.has<std::uint16_t>(offset)) return at_least(kId, kImageHeadBytes + kAttributeLengthBytes);
    const std::uint64_t size = body.get<std::uint16_t>(offset);
    if (size == 0) {
      return Error{"bad-image", offset == at::kImageChannels
                                    ? std::string("image has no channels")
                                    : fmt::format("image has matrix_size[{}] = 0", (offset - at::kImageMatrix) / 2)};
    }
    if (pixels > limits.image_bytes / size) {
      return Error{"too-large", fmt::format("image has more than {} bytes of pixels", limits.image_bytes)};
    }
    pixels *= size;
  }
  if (!body.has<std::uint64_t>(kImageHeadBytes)) return at_least(kId, kImageHeadBytes + kAttributeLengthBytes);
  const auto attributes = body.get<std::uint64_t>(kImageHeadBytes);
  if (attributes > limits.attribute_bytes) {
    return Error{"too-large", fmt::format("image claims {} bytes of attributes; at most {} are allowed", attributes,
                                          limits.attribute_bytes)};
  }
  return exact(kId, kImageHeadBytes + kAttributeLengthBytes + attributes + pixels);
}

}  // namespace

std::string id_text(std::uint16_t id) {
  const auto name = find_name(kSupported, id);
  return name.empty() ? fmt::format("{}", id) : fmt::format("{} ({})", id, name);
}

Result<Extent> measure(std::span<const std::byte> bytes, const Limits& limits) {
  if (bytes.size() < kIdBytes) return Extent{0, kIdBytes, false};
  const auto id = load<std::uint16_t>(bytes, 0);
  const Body body(bytes);
  switch (static_cast<MessageId>(id)) {
    case MessageId::config_file:
      return exact(MessageId::config_file, kConfigNameBytes);
    case MessageId::config_text:
      return measure_text(body, MessageId::config_text, limits.config_text_bytes, "bad-config");
    case MessageId::header:
      return measure_text(body, MessageId::header, limits.header_bytes, "bad-header");
    case MessageId::text:
      return measure_text(body, MessageId::text, limits.text_bytes, "too-large");
    case MessageId::close:
      return exact(MessageId::close, 0);
    case MessageId::query:
      return measure_query(body, limits);
    case MessageId::response:
      return measure_response(body, limits);
    case MessageId::error:
      return measure_error(body);
    case MessageId::acquisition:
      return measure_acquisition(body, limits);
    case MessageId::waveform:
      return measure_waveform(body, limits);
    case MessageId::image:
      return measure_image(body, limits);
  }
  return refuse_id(id);
}

}  // namespace echotrain::protocol
