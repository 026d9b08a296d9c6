#include "protocol/files/stream_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "protocol/data/layout.h"

namespace echotrain::protocol {
namespace {

FileHandle open_file(const std::filesystem::path& path, const char* mode) {
  std::FILE* file = std::fopen(path.c_str(), mode);
  if (file == nullptr) throw std::system_error(errno, std::generic_category(), "cannot open " + path.string());
  return FileHandle(file, FileCloser{true});
}

}  // namespace

void FileCloser::operator()(std::FILE* file) const {
  if (owned) std::fclose(file);
}

StreamReader::StreamReader(const std::filesystem::path& file, const Limits& limits)
    : file_(open_file(file, "rb")), buffer_(limits) {}

StreamReader::StreamReader(std::FILE* file, const Limits& limits, std::span<const std::byte> begun)
    : file_(file, FileCloser{false}), buffer_(limits) {
  while (!begun.empty()) {
    const auto room = buffer_.prepare();
    const std::size_t n = std::min(room.size(), begun.size());
    std::copy_n(begun.begin(), n, room.begin());
    buffer_.commit(n);
    begun = begun.subspan(n);
  }
}

Result<std::optional<Message>> StreamReader::next() {
  while (true) {
    auto message = buffer_.next();
    if (!message || *message) return message;
    const auto room = buffer_.prepare();
    // read() and not fread(), which would wait until the whole room is filled.
    const ssize_t n = ::read(::fileno(file_.get()), room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{"io", fmt::format("cannot read the stream: {}", std::generic_category().message(errno))};
    if (n == 0) break;
    buffer_.commit(static_cast<std::size_t>(n));
  }
  if (buffer_.pending_bytes() == 0) return std::optional<Message>();
  return Error{"truncated", fmt::format("the stream ends {} bytes into message {}", buffer_.pending_bytes(),
                                        id_text(buffer_.pending_id()))};
}

StreamWriter::StreamWriter(const std::filesystem::path& file) : file_(open_file(file, "wb")) {}

StreamWriter::StreamWriter(std::FILE* file) : file_(file, FileCloser{false}) {}

StreamWriter::~StreamWriter() {
  if (file_) std::fflush(file_.get());
}

void StreamWriter::write(const Message& message) {
  buffer_.clear();
  std::visit([this](const auto& content) { encode(content, buffer_); }, message);
  if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size()) {
    throw std::system_error(errno, std::generic_category(), "cannot write the stream");
  }
}

void StreamWriter::flush() {
  if (std::fflush(file_.get()) != 0) throw std::system_error(errno, std::generic_category(), "cannot write the stream");
}

}  // namespace echotrain::protocol
