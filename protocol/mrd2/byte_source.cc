#include "protocol/mrd2/byte_source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace echotrain::protocol::mrd2 {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;
constexpr std::size_t kStepBytes = 1 << 20;  // memory is taken in such steps

}  // namespace

void refuse(const char* code, std::uint64_t position, const std::string& why) {
  throw Refusal{Error{code, fmt::format("byte {}: {}", position, why)}};
}

ByteSource::ByteSource(FileHandle file, std::span<const std::byte> begun)
    : file_(std::move(file)), buffer_(std::max(kBufferBytes, begun.size())), end_(begun.size()) {
  std::copy(begun.begin(), begun.end(), buffer_.begin());
}

bool ByteSource::fill() {
  while (true) {
    // read() and not fread(), which would wait until the whole buffer is filled.
    const ssize_t n = ::read(::fileno(file_.get()), buffer_.data(), buffer_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      refuse("io", position_, fmt::format("cannot read the stream: {}", std::generic_category().message(errno)));
    next_ = 0;
    end_ = static_cast<std::size_t>(n);
    return n > 0;
  }
}

bool ByteSource::at_end() { return left() == 0 && !fill(); }

std::uint8_t ByteSource::byte() {
  if (at_end()) refuse("truncated", position_, "the stream ends here");
  ++position_;
  return std::to_integer<std::uint8_t>(buffer_[next_++]);
}

std::uint64_t ByteSource::natural() {
  const std::uint64_t begin = position_;
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t part = byte();
    if (shift == 63 && part > 1) refuse("malformed", begin, "a number that takes more than 64 bits");
    value |= std::uint64_t{part & 0x7fu} << shift;
    if (part < 0x80) return value;
  }
  refuse("malformed", begin, "a number that takes more than ten bytes");
}

std::int64_t ByteSource::integer() {
  const std::uint64_t coded = natural();
  return static_cast<std::int64_t>(coded >> 1) ^ -static_cast<std::int64_t>(coded & 1);
}

void ByteSource::read(std::span<std::byte> to) {
  while (!to.empty()) {
    if (at_end()) refuse("truncated", position_, "the stream ends here");
    const std::size_t n = std::min(left(), to.size());
    std::memcpy(to.data(), buffer_.data() + next_, n);
    next_ += n;
    position_ += n;
    to = to.subspan(n);
  }
}

std::vector<std::byte> ByteSource::bytes(std::uint64_t count) {
  std::vector<std::byte> all;
  while (all.size() < count) {
    const std::size_t before = all.size();
    all.resize(before +
               static_cast<std::size_t>(std::min<std::uint64_t>(count - before, std::max(kStepBytes, before))));
    read(std::span(all).subspan(before));
  }
  return all;
}

void ByteSource::skip(std::uint64_t count) {
  while (count > 0) {
    if (at_end()) refuse("truncated", position_, "the stream ends here");
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left(), count));
    next_ += n;
    position_ += n;
    count -= n;
  }
}

}  // namespace echotrain::protocol::mrd2
