#include "clients/cpp/scans/message_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "clients/cpp/scans/message_input.h"
#include "protocol/data/layout.h"
#include "protocol/data/message_id.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/dataset.h"
#include "protocol/files/stream_file.h"
#include "protocol/mrd2/mrd2_stream.h"

namespace echotrain::client {
namespace {

using namespace protocol;

class DatasetOutput final : public MessageOutput {
 public:
  DatasetOutput(const std::filesystem::path& file, const std::string& group) : file_(file, group) {}
  void finish() override { file_.flush(); }
  std::string_view format() const override { return "ISMRMRD HDF5"; }
  std::string left_out() const override { return counts_.others_text(); }

 private:
  void write(const Message& message) override {
    if (const auto* header = std::get_if<HeaderText>(&message); header != nullptr && header->xml != kNoHeader)
      file_.header_xml(header->xml);
    if (const auto* readout = std::get_if<Acquisition>(&message)) file_.append(*readout);
    if (const auto* waveform = std::get_if<Waveform>(&message)) file_.append(*waveform);
    if (const auto* image = std::get_if<Image>(&message)) file_.append(*image);
  }
  DatasetWriter file_;
};

class Mrd2Output final : public MessageOutput {
 public:
  explicit Mrd2Output(mrd2::Mrd2Writer writer) : writer_(std::move(writer)) {}
  void finish() override { writer_.finish(); }
  std::string_view format() const override { return "MRD 2"; }
  std::string left_out() const override {
    const std::string others = counts_.others_text(), more = in_words(writer_.left_out());
    return others + (others.empty() || more.empty() ? "" : "; ") + more;
  }

 private:
  void write(const Message& message) override {
    if (const Status done = writer_.write(message); !done)
      throw std::runtime_error(fmt::format("MRD 2 cannot hold it: {}", done.error().message));
  }
  mrd2::Mrd2Writer writer_;
};

class StreamOutput final : public MessageOutput {
 public:
  explicit StreamOutput(FileHandle file) : file_(std::move(file)) {}
  void take(ScanChunk&& chunk) override {
    for (std::size_t i = 0, begin = 0; i < chunk.pieces.size(); begin = chunk.pieces[i++].end) count(chunk, begin);
    bytes(chunk.bytes);
  }
  void bytes(const Buffer& message) override {
    if (std::fwrite(message.data(), 1, message.size(), file_.get()) != message.size()) fail();
  }
  void finish() override {
    if (std::fflush(file_.get()) != 0) fail();
  }
  std::string_view format() const override { return "a stream"; }
  std::string left_out() const override { return ""; }

 private:
  void count(const ScanChunk& chunk, std::size_t begin) {
    switch (static_cast<MessageId>(load<std::uint16_t>(chunk.bytes, begin))) {
      case MessageId::acquisition:
        ++counts_.readouts;
        break;
      case MessageId::waveform:
        ++counts_.waveforms;
        break;
      default:
        ++counts_.images;
    }
  }
  void write(const Message& message) override {
    buffer_.clear();
    std::visit([this](const auto& content) { encode(content, buffer_); }, message);
    bytes(buffer_);
  }
  [[noreturn]] static void fail() {
    throw std::system_error(errno, std::generic_category(), "cannot write the stream");
  }
  FileHandle file_;
  Buffer buffer_;
};

}  // namespace

void MessageCounts::count(const Message& message) {
  if (std::holds_alternative<Acquisition>(message)) ++readouts;
  if (std::holds_alternative<Waveform>(message)) ++waveforms;
  if (std::holds_alternative<Image>(message)) ++images;
  if (std::holds_alternative<ConfigFile>(message) || std::holds_alternative<ConfigText>(message)) ++configurations;
  if (std::holds_alternative<Text>(message)) ++texts;
  if (std::holds_alternative<Query>(message) || std::holds_alternative<Response>(message)) ++queries;
}

std::string MessageCounts::text() const {
  return fmt::format("{}, {}, {}", pluralized(readouts, "readout"), pluralized(waveforms, "waveform"),
                     pluralized(images, "image"));
}

std::string MessageCounts::others_text() const {
  std::string all;
  const auto add = [&](std::size_t n, const char* what) {
    if (n > 0) all += fmt::format("{}{} {}{}", all.empty() ? "" : ", ", n, what, n == 1 ? "" : "s");
  };
  add(configurations, "configuration");
  add(texts, "text");
  add(queries, "query or response message");
  return all;
}

void MessageOutput::take(const Message& message) {
  counts_.count(message);
  write(message);
}

void MessageOutput::take(ScanChunk&& chunk) {
  const auto bytes = std::make_shared<const Buffer>(std::move(chunk.bytes));
  std::size_t begin = 0;
  for (const auto& piece : chunk.pieces) {
    auto message = decode(std::span(*bytes).subspan(begin, piece.end - begin), bytes, Limits{});
    if (!message) throw std::runtime_error(message.error().message);
    take(*message);
    begin = piece.end;
  }
}

void MessageOutput::bytes(const Buffer& /*message*/) { throw std::logic_error("no stream of messages"); }

std::unique_ptr<MessageOutput> dataset_output(const std::filesystem::path& file, const std::string& group) {
  return std::make_unique<DatasetOutput>(file, group);
}

std::unique_ptr<MessageOutput> stream_output(const std::filesystem::path& file) {
  FileHandle handle(std::fopen(file.c_str(), "wb"), FileCloser{true});
  if (!handle) throw std::system_error(errno, std::generic_category(), "cannot make " + file.string());
  return std::make_unique<StreamOutput>(std::move(handle));
}

std::unique_ptr<MessageOutput> stream_output(std::FILE* file) {
  return std::make_unique<StreamOutput>(FileHandle(file, FileCloser{false}));
}

std::unique_ptr<MessageOutput> mrd2_output(const std::filesystem::path& file) {
  return std::make_unique<Mrd2Output>(mrd2::Mrd2Writer(file));
}

std::unique_ptr<MessageOutput> mrd2_output(std::FILE* file) {
  return std::make_unique<Mrd2Output>(mrd2::Mrd2Writer(file));
}

}  // namespace echotrain::client
