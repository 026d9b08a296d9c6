// The other messages that an input puts among the readouts are images, waveforms and texts.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/data/header.h"
#include "protocol/data/messages.h"
#include "protocol/data/pixels.h"
#include "tests/fuzz/semantic/choices.h"

namespace echotrain::fuzz {

/// An image of coil maps, of a reference, or of another role, more or less of the size that the header asks for.
inline protocol::Image odd_image(Source& source, const protocol::Header& header) {
  protocol::Image out;
  auto& head = out.head;
  head.version = 1;
  head.data_type = static_cast<std::uint16_t>(1 + source.number<std::uint8_t>() % 8);
  head.channels = static_cast<std::uint16_t>(1 + source.below(4));
  head.slice = static_cast<std::uint16_t>(source.below(3));
  for (std::size_t a = 0; a < 3; ++a) {
    const std::uint32_t wanted = std::min(header.encodings.front().recon.matrix[a], 64u);
    head.matrix_size[a] = static_cast<std::uint16_t>(source.below(6) == 1 ? odd_size(source, 32) : wanted);
    head.field_of_view[a] = odd_float(source);
  }
  const std::string role = word_of(source, {"coil_maps", "reference", "coil_maps", "reference", "", "other"});
  if (!role.empty())
    out.attributes = "<ismrmrdMeta><meta><name>role</name><value>" + role + "</value></meta></ismrmrdMeta>";
  if (source.below(16) == 1) out.attributes = "<ismrmrdMeta";
  head.attribute_string_len = static_cast<std::uint32_t>(out.attributes.size());
  std::vector<float> pixels(static_cast<std::size_t>(*protocol::pixel_bytes(head, 1 << 24)) / sizeof(float) + 1);
  const float value = odd_float(source);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = i % 3 == 0 ? value : static_cast<float>(i % 7) - 3;
  out.pixels = protocol::Payload::take(std::move(pixels));
  out.pixels.bytes = out.pixels.bytes.first(static_cast<std::size_t>(*protocol::pixel_bytes(head, 1 << 24)));
  return out;
}

/// A piece of an ECG with beats in it, or another waveform.
inline protocol::Waveform odd_waveform(Source& source, std::uint32_t number) {
  protocol::Waveform out;
  auto& head = out.head;
  head.version = 1;
  head.scan_counter = number;
  head.time_stamp = source.below(4) == 1 ? source.number<std::uint32_t>() : 10 * number;
  head.number_of_samples = static_cast<std::uint16_t>(odd_size(source, 1021) * (source.one_in(2) ? 60 : 1));
  head.channels = static_cast<std::uint16_t>(1 + source.below(3));
  head.sample_time_us = source.below(4) == 1 ? odd_float(source) : 2500.0f;
  head.waveform_id = static_cast<std::uint16_t>(source.below(8) == 1 ? source.number<std::uint16_t>() : 0);
  const std::uint32_t apart = 1 + source.below(256), height = source.number<std::uint32_t>();
  std::vector<std::uint32_t> values(std::size_t{head.number_of_samples} * head.channels);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % apart == 0 ? height : static_cast<std::uint32_t>(i % 3);
  out.data = protocol::Payload::take(std::move(values));
  return out;
}

/// The ECG of a heart that beats evenly for ten seconds, from the scan's beginning on.
inline protocol::Waveform heartbeats(Source& source) {
  protocol::Waveform out;
  out.head.version = 1;
  out.head.number_of_samples = 4000;
  out.head.channels = 1;
  out.head.sample_time_us = 2500;
  const std::uint32_t apart = 30 + source.below(256);
  std::vector<std::uint32_t> values(out.head.number_of_samples);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % apart == 7 ? 900 : static_cast<std::uint32_t>(i % 3);
  out.data = protocol::Payload::take(std::move(values));
  return out;
}

/// A line for the server, which may name another pipeline.
inline protocol::Text odd_text(Source& source, const std::vector<std::string>& pipelines) {
  const std::string& name = pipelines[source.number<std::uint8_t>() % pipelines.size()];
  return {source.one_in(2) ? std::string("a line") : fmt::format(R"({{"parameters": {{"config": "{}"}}}})", name)};
}

}  // namespace echotrain::fuzz
