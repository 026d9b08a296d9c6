#include "clients/cpp/images/gif_writer.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace echotrain::client {
namespace {

constexpr int kColourBits = 8;
constexpr int kClear = 1 << kColourBits, kEnd = kClear + 1;
constexpr int kMostCodes = 4096;

/// Codes of varying width, lowest bit first, in blocks of at most 255 bytes, each after a byte with its length.
class CodeStream {
 public:
  void put(int code, int width) {
    bits_ |= static_cast<std::uint32_t>(code) << count_;
    for (count_ += width; count_ >= 8; count_ -= 8, bits_ >>= 8) put_byte(static_cast<std::uint8_t>(bits_ & 0xff));
  }
  std::vector<char> finish() {
    if (count_ > 0) put_byte(static_cast<std::uint8_t>(bits_ & 0xff));
    close_block();
    bytes_.push_back(0);
    return std::move(bytes_);
  }

 private:
  void put_byte(std::uint8_t byte) {
    block_.push_back(static_cast<char>(byte));
    if (block_.size() == 255) close_block();
  }
  void close_block() {
    if (block_.empty()) return;
    bytes_.push_back(static_cast<char>(block_.size()));
    bytes_.insert(bytes_.end(), block_.begin(), block_.end());
    block_.clear();
  }
  std::uint32_t bits_ = 0;
  int count_ = 0;
  std::vector<char> block_, bytes_;
};

/// LZW: writes the code of the longest known sequence at each place; that sequence and the next pixel get a new code.
std::vector<char> compress(std::span<const std::uint8_t> pixels) {
  CodeStream stream;
  // children[code * 256 + pixel]: the code of the sequence `code` followed by `pixel`; 0: none yet.
  std::vector<std::uint16_t> children(static_cast<std::size_t>(kMostCodes) << kColourBits);
  int next = kEnd + 1, width = kColourBits + 1;
  stream.put(kClear, width);
  int code = pixels[0];
  for (const std::uint8_t pixel : pixels.subspan(1)) {
    std::uint16_t& child = children[(static_cast<std::size_t>(code) << kColourBits) | pixel];
    if (child != 0) {
      code = child;
      continue;
    }
    stream.put(code, width);
    if (next < kMostCodes) {
      // A reader knows each code one step later, so the width grows with the first code that needs it.
      if (next == 1 << width) ++width;
      child = static_cast<std::uint16_t>(next++);
    } else {
      stream.put(kClear, width);
      std::fill(children.begin(), children.end(), std::uint16_t{0});
      next = kEnd + 1;
      width = kColourBits + 1;
    }
    code = pixel;
  }
  stream.put(code, width);
  if (next == 1 << width && next < kMostCodes) ++width;
  stream.put(kEnd, width);
  return stream.finish();
}

}  // namespace

GifWriter::GifWriter(const std::filesystem::path& file, std::size_t width, std::size_t height, int delay)
    : file_(file), out_(file, std::ios::binary), width_(width), height_(height), delay_(delay) {
  if (width == 0 || height == 0 || width > 65535 || height > 65535 || delay < 0 || delay > 65535)
    throw std::invalid_argument("a GIF has 1 to 65535 pixels per side");
  check();
  out_ << "GIF89a";
  put16(width);
  put16(height);
  put({0xf0 | (kColourBits - 1), 0, 0});  // a global palette of 256 colours; background; square pixels
  for (int grey = 0; grey < kClear; ++grey) put({grey, grey, grey});
  put({0x21, 0xff, 11});
  out_ << "NETSCAPE2.0";
  put({3, 1, 0, 0, 0});  // repeats forever
}

void GifWriter::add(std::span<const std::uint8_t> pixels) {
  if (pixels.size() != width_ * height_) throw std::invalid_argument("a frame does not fill the GIF");
  put({0x21, 0xf9, 4, 0});
  put16(static_cast<std::size_t>(delay_));
  put({0, 0, 0x2c});
  for (const std::size_t value : {std::size_t{0}, std::size_t{0}, width_, height_}) put16(value);
  put({0, kColourBits});
  const std::vector<char> data = compress(pixels);
  out_.write(data.data(), static_cast<std::streamsize>(data.size()));
  check();
}

void GifWriter::finish() {
  put({0x3b});
  out_.flush();
  check();
}

void GifWriter::put(std::initializer_list<int> bytes) {
  for (const int byte : bytes) out_.put(static_cast<char>(byte));
}

void GifWriter::put16(std::size_t value) { put({static_cast<int>(value & 0xff), static_cast<int>(value >> 8)}); }

void GifWriter::check() {
  if (!out_) throw std::runtime_error("cannot write " + file_.string());
}

}  // namespace echotrain::client
