#include "server/capture/capture_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "protocol/wire/codec.h"
#include "server/capture/capture_files.h"

namespace echotrain::server {

namespace {
// The bytes that are looked at first, and at most, to learn a message's length. The trajectory of a compressed readout
// may be long.
constexpr std::uint64_t kLook = 64 << 10, kMostLook = 16 << 20;
}  // namespace

CaptureStream::CaptureStream(int descriptor, std::uint64_t bytes, const protocol::Limits& limits, std::uint64_t begin)
    : descriptor_(descriptor), size_(bytes), limits_(limits), window_(kWindow), position_(begin) {}

std::span<const std::byte> CaptureStream::bytes(std::uint64_t offset, std::uint64_t most) {
  most = std::min(most, size_ - std::min(size_, offset));
  const bool there = offset >= begin_ && offset + most <= begin_ + filled_;
  if (!there) {
    if (most > window_.size()) window_.resize(most);
    begin_ = offset;
    filled_ = 0;
    const std::size_t wanted = std::min<std::uint64_t>(window_.size(), size_ - std::min(size_, offset));
    while (filled_ < wanted) {
      const ssize_t n =
          ::pread(descriptor_, window_.data() + filled_, wanted - filled_, static_cast<off_t>(offset + filled_));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        read_failed_ = true;
        problem_ = n == 0 ? "the file has become shorter" : "the file cannot be read: " + system_text(errno);
        break;
      }
      filled_ += static_cast<std::size_t>(n);
    }
  }
  const std::size_t from = offset - begin_;
  return std::span(window_).subspan(from, std::min<std::uint64_t>(most, filled_ - from));
}

std::optional<CaptureStream::Message> CaptureStream::next() {
  for (std::uint64_t look = kLook; position_ < size_;) {
    const auto head = bytes(position_, look);
    if (!problem_.empty()) return std::nullopt;
    const auto extent = protocol::measure(head, limits_);
    if (!extent) {
      problem_ = fmt::format("no message begins at byte {}: {}", position_, extent.error().message);
      return std::nullopt;
    }
    if (extent->exact && position_ + extent->size <= size_) {
      const Message message{extent->id, position_, extent->size};
      position_ += extent->size;
      return message;
    }
    if (extent->exact || head.size() < look || extent->size > kMostLook) {
      cut_off_ = true;
      problem_ = fmt::format("it ends inside the message that begins at byte {}", position_);
      return std::nullopt;
    }
    look = extent->size;
  }
  return std::nullopt;
}

}  // namespace echotrain::server
