#include "clients/cpp/connection/mrd2_source.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <variant>

#include "clients/cpp/base/usage_error.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/pluralized.h"

namespace echotrain::client {
namespace {

using namespace protocol;

std::optional<Message> next_of(mrd2::Mrd2Reader& reader, const std::filesystem::path& file) {
  auto message = reader.next();
  if (!message)
    throw std::runtime_error(fmt::format("{}: cannot be read as MRD 2: {}", file.string(), message.error().message));
  return *std::move(message);
}

}  // namespace

Mrd2Source::Mrd2Source(const std::filesystem::path& file)
    : file_(file), reader_(std::make_unique<mrd2::Mrd2Reader>(file)) {
  mrd2::Mrd2Reader first(file);
  while (const auto message = next_of(first, file)) {
    if (const auto* header = std::get_if<HeaderText>(&*message)) header_xml_ = header->xml;
    readouts_ += std::holds_alternative<Acquisition>(*message);
    images_ += std::holds_alternative<Image>(*message);
  }
  left_out_ = first.left_out();
}

// Appends the next message that is sent; returns nothing where there is none.
std::optional<ScanChunk::Piece> Mrd2Source::next_into(Buffer& bytes) {
  while (const auto message = next_of(*reader_, file_)) {
    ScanChunk::Piece piece;
    if (const auto* readout = std::get_if<Acquisition>(&*message)) {
      piece.readout = true;
      piece.makes_image = readout_kind(readout->head) != ReadoutKind::noise;
      piece.key = counter_key(readout->head);
      encode(*readout, bytes);
    } else if (const auto* waveform = std::get_if<Waveform>(&*message)) {
      encode(*waveform, bytes);
    } else if (const auto* image = std::get_if<Image>(&*message); image != nullptr && readouts_ == 0) {
      encode(*image, bytes);
    } else {
      continue;
    }
    piece.end = bytes.size();
    return piece;
  }
  return std::nullopt;
}

std::optional<ScanChunk> Mrd2Source::next() {
  ScanChunk chunk;
  while (chunk.bytes.size() < ScanChunk::kBytes) {
    const auto piece = next_into(chunk.bytes);
    if (!piece) break;
    chunk.pieces.push_back(*piece);
  }
  if (chunk.pieces.empty()) return std::nullopt;
  return chunk;
}

ScanSource::Place Mrd2Source::go_to(std::uint64_t message) {
  reader_ = std::make_unique<mrd2::Mrd2Reader>(file_);
  Place place;
  Buffer passed;
  for (std::uint64_t i = 0; i < message; ++i) {
    passed.clear();
    const auto piece = next_into(passed);
    if (!piece) return {place.readouts, false};
    place.readouts += piece->readout ? 1 : 0;
  }
  return place;
}

std::unique_ptr<ScanSource> open_scan(const std::filesystem::path& file, const std::string& group,
                                      const MeasurementChoice& choice, std::ostream& err) {
  std::array<char, mrd2::kMagic.size()> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  const auto tell_of_images = [&](const ScanSource& source) {
    if (source.images_left_out() > 0)
      err << fmt::format("{}: images beside readouts are not sent ({}); 'echotrain recon' takes them\n", file.string(),
                         protocol::pluralized(source.images_left_out(), "image"));
  };
  if (std::string_view(begin.data(), begin.size()) != mrd2::kMagic) {
    auto source = std::make_unique<DatasetSource>(open_scan_file(file, group, choice, err));
    tell_of_images(*source);
    return source;
  }
  if (!choice.sequence.empty())
    throw UsageError("--seq takes an ISMRMRD file or raw data of a Siemens scanner: convert the stream first");
  refuse_choice(file, choice);
  auto source = std::make_unique<Mrd2Source>(file);
  for (const auto& [what, times] : source->left_out())
    err << fmt::format("{}: left out, as ISMRMRD has no place for it: {}{}\n", file.string(), what,
                       times == 1 ? "" : fmt::format(" ({} times)", times));
  tell_of_images(*source);
  return source;
}

}  // namespace echotrain::client
