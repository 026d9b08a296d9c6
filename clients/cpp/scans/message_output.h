// A message output writes messages to a file of one of three formats.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "clients/cpp/connection/scan_source.h"
#include "protocol/data/messages.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

struct MessageCounts {
  std::size_t readouts = 0, waveforms = 0, images = 0, configurations = 0, texts = 0, queries = 0;
  void count(const protocol::Message& message);
  std::string text() const;         ///< "3 readouts, 0 waveforms, 1 images"
  std::string others_text() const;  ///< "1 configuration, 2 texts"; empty for none
};

/// Takes messages, and throws std::system_error (or DatasetError) when they cannot be written.
class MessageOutput {
 public:
  virtual ~MessageOutput() = default;
  /// Takes a message. Throws std::runtime_error where the format cannot hold what it must hold, such as a header that
  /// is none.
  void take(const protocol::Message& message);
  /// Takes messages as they are on the wire.
  virtual void take(ScanChunk&& chunk);
  /// Takes a message on the wire that is not counted. Throws std::logic_error where the output is no such stream.
  virtual void bytes(const protocol::Buffer& message);
  virtual void finish() = 0;
  virtual std::string_view format() const = 0;
  /// Returns what the format has no place for; empty for nothing.
  virtual std::string left_out() const = 0;
  const MessageCounts& counts() const { return counts_; }

 protected:
  virtual void write(const protocol::Message& message) = 0;
  MessageCounts counts_;
};

std::unique_ptr<MessageOutput> dataset_output(const std::filesystem::path& file, const std::string& group);
std::unique_ptr<MessageOutput> stream_output(const std::filesystem::path& file);
std::unique_ptr<MessageOutput> stream_output(std::FILE* file);  ///< not closed
std::unique_ptr<MessageOutput> mrd2_output(const std::filesystem::path& file);
std::unique_ptr<MessageOutput> mrd2_output(std::FILE* file);  ///< not closed

}  // namespace echotrain::client
