// A message of the wire is plain data. Struct layouts are libismrmrd's (docs/protocol.md, "Layouts").
#pragma once

#include <ismrmrd/ismrmrd.h>
#include <ismrmrd/waveform.h>

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "protocol/data/message_id.h"

namespace echotrain::protocol {

using AcquisitionHeader = ISMRMRD::ISMRMRD_AcquisitionHeader;
using ImageHeader = ISMRMRD::ISMRMRD_ImageHeader;
using WaveformHeader = ISMRMRD::ISMRMRD_WaveformHeader;
static_assert(sizeof(AcquisitionHeader) == 340 && sizeof(ImageHeader) == 198 && sizeof(WaveformHeader) == 40);

/// Bytes inside a buffer that is kept alive by `owner`: a message refers to the slab it arrived in, nothing is copied.
/// The bytes may lie at any alignment; read them with copy_to().
struct Payload {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;

  /// Takes the bytes of a vector as a payload.
  template <class T>
  static Payload take(std::vector<T> values) {
    auto held = std::make_shared<const std::vector<T>>(std::move(values));
    return {held, std::as_bytes(std::span(*held))};
  }
  /// Copies bytes.size() / sizeof(T) elements to `to`.
  template <class T>
  void copy_to(T* to) const {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size() / sizeof(T) * sizeof(T));
  }
};

struct ConfigFile {
  std::string name;
};
struct ConfigText {
  std::string text;
};
struct HeaderText {
  std::string xml;
};
struct Close {};
struct Text {
  std::string text;
};
struct Query {
  std::uint64_t correlation_id = 0;
  std::string name;
};
struct Response {
  std::uint64_t correlation_id = 0;
  std::string text;
};

/// One readout. trajectory: float [sample, dimension] (dimension fastest); data: complex float [channel, sample].
/// After decoding, the COMPRESSION flags are cleared and data is always plain samples.
struct Acquisition {
  AcquisitionHeader head{};
  Payload trajectory;
  Payload data;
  std::chrono::steady_clock::time_point arrival{};  ///< when its last byte had arrived; zero when read from a file
  std::uint64_t number = 0;                         ///< counts a connection's readouts from 1; 0 when read from a file
  bool known_finite = false;                        ///< a check has found no NaN and no infinity in its numbers
};

/// A physiological waveform. data: uint32 [channel, sample].
struct Waveform {
  WaveformHeader head{};
  Payload data;
};

/// An image. pixels: [channel, z, y, x], of head.data_type; attributes: ismrmrdMeta XML or empty.
struct Image {
  ImageHeader head{};
  std::string attributes;
  Payload pixels;
};

using Message =
    std::variant<ConfigFile, ConfigText, HeaderText, Close, Text, Query, Response, Acquisition, Waveform, Image>;

}  // namespace echotrain::protocol
