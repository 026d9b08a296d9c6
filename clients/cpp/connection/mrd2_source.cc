#include "clients/cpp/connection/mrd2_source.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <variant>

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

Mrd2Source::Mrd2Source(const std::filesystem::path& file) : reader_(file) {
  mrd2::Mrd2Reader first(file);
  while (const auto message = next_of(first, file)) {
    if (const auto* header = std::get_if<HeaderText>(&*message)) header_xml_ = header->xml;
    readouts_ += std::holds_alternative<Acquisition>(*message);
    images_ += std::holds_alternative<Image>(*message);
  }
  left_out_ = first.left_out();
}

std::optional<ScanChunk> Mrd2Source::next() {
  ScanChunk chunk;
  while (chunk.bytes.size() < ScanChunk::kBytes) {
    const auto message = next_of(reader_, "the stream");
    if (!message) break;
    ScanChunk::Piece piece;
    if (const auto* readout = std::get_if<Acquisition>(&*message)) {
      piece.readout = true;
      piece.makes_image = readout_kind(readout->head) != ReadoutKind::noise;
      piece.key = counter_key(readout->head);
      encode(*readout, chunk.bytes);
    } else if (const auto* waveform = std::get_if<Waveform>(&*message)) {
      encode(*waveform, chunk.bytes);
    } else if (const auto* image = std::get_if<Image>(&*message); image != nullptr && readouts_ == 0) {
      encode(*image, chunk.bytes);
    } else {
      continue;
    }
    piece.end = chunk.bytes.size();
    chunk.pieces.push_back(piece);
  }
  if (chunk.pieces.empty()) return std::nullopt;
  return chunk;
}

std::unique_ptr<ScanSource> open_scan(const std::filesystem::path& file, const std::string& group, std::ostream& err) {
  std::array<char, mrd2::kMagic.size()> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  const auto tell_of_images = [&](const ScanSource& source) {
    if (source.images_left_out() > 0)
      err << fmt::format("{}: images beside readouts are not sent ({}); 'echotrain recon' takes them\n", file.string(),
                         protocol::pluralized(source.images_left_out(), "image"));
  };
  if (std::string_view(begin.data(), begin.size()) != mrd2::kMagic) {
    auto source = std::make_unique<DatasetSource>(file, group);
    tell_of_images(*source);
    return source;
  }
  auto source = std::make_unique<Mrd2Source>(file);
  for (const auto& [what, times] : source->left_out())
    err << fmt::format("{}: left out, as ISMRMRD has no place for it: {}{}\n", file.string(), what,
                       times == 1 ? "" : fmt::format(" ({} times)", times));
  tell_of_images(*source);
  return source;
}

}  // namespace echotrain::client
