#include "clients/cpp/send/replay.h"

#include <fmt/format.h>

#include <cstring>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "clients/cpp/connection/config_message.h"
#include "clients/cpp/connection/raw_stream.h"
#include "clients/cpp/scans/verify.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {
namespace {

using protocol::MessageId;

void append(protocol::Buffer& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

/// A stream file in two parts: the messages that open the scan, and its data.
class StreamSource final : public ScanSource {
 public:
  /// With `other_config` the opening has no configuration messages, and no texts before the data, which may be
  /// configuration too.
  StreamSource(const std::filesystem::path& file, bool other_config) : stream_(file) {
    std::size_t data = 0;
    bool header = false;
    for (auto message = stream_.next(); message; message = stream_.next()) {
      const auto id = static_cast<MessageId>(message->id);
      const bool is_data = id == MessageId::acquisition || id == MessageId::image || id == MessageId::waveform;
      if (id == MessageId::acquisition) ++readouts_;
      if (is_data || data > 0) {
        if (data == 0) data = stream_.position() - message->bytes.size();
        continue;
      }
      if (id == MessageId::header) read_header(*message);
      header = header || id == MessageId::header;
      if (id != MessageId::query && (!other_config || id == MessageId::header)) append(opening_, message->bytes);
    }
    if (!header)
      throw std::runtime_error(fmt::format("{}: has no header, so there is no scan to replay{}", file.string(),
                                           stream_.problem().empty() ? "" : "; " + stream_.problem()));
    stream_.go_to(data > 0 ? data : stream_.position());
    problem_ = stream_.problem();
    closed_ = stream_.closed();
  }

  const std::string& header_xml() const override { return header_xml_; }
  std::size_t readouts() const override { return readouts_; }
  const protocol::Buffer& opening() const { return opening_; }
  const std::string& problem() const { return problem_; }
  bool complete() const override { return closed_; }

  std::optional<ScanChunk> next() override {
    ScanChunk chunk;
    while (chunk.bytes.size() < ScanChunk::kBytes) {
      const auto message = stream_.next();
      if (!message) break;
      if (static_cast<MessageId>(message->id) == MessageId::query) continue;
      append(chunk.bytes, message->bytes);
      ScanChunk::Piece piece;
      piece.end = chunk.bytes.size();
      if (static_cast<MessageId>(message->id) == MessageId::acquisition) {
        protocol::AcquisitionHeader head;
        std::memcpy(&head, message->bytes.data() + sizeof(message->id), sizeof head);
        piece.readout = true;
        piece.makes_image = protocol::readout_kind(head) != protocol::ReadoutKind::noise;
        piece.key = counter_key(head);
      }
      chunk.pieces.push_back(piece);
    }
    if (chunk.pieces.empty()) return std::nullopt;
    return chunk;
  }

 private:
  void read_header(const RawMessage& message) {
    auto header = protocol::decode(message.bytes, nullptr, {});
    if (header) header_xml_ = std::get<protocol::HeaderText>(*header).xml;
    if (header_xml_ == kNoHeader) header_xml_.clear();
  }

  RawStream stream_;
  protocol::Buffer opening_;
  std::string header_xml_, problem_;
  std::size_t readouts_ = 0;
  bool closed_ = false;
};

}  // namespace

int replay(const SendOptions& o, std::ostream& out, std::ostream& err) {
  StreamSource source(o.input, !o.config.empty());
  warn_of_damage(o.input, err);
  if (!source.problem().empty())
    err << fmt::format("warning: {}: {}; everything before is sent\n", o.input.string(), source.problem());
  else if (!source.complete())
    err << fmt::format("warning: {}: ends without CLOSE, so the scan was not over\n", o.input.string());
  protocol::Buffer opening;
  if (!o.config.empty()) opening = config_message(o.config, o.config_text, o.server.token());
  append(opening, source.opening());
  return send_scan(o, std::move(opening), source, out, err);
}

}  // namespace echotrain::client
