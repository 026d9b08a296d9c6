// The fuzz targets share a check that stops the fuzzer, files, and limits that keep an input cheap.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "protocol/data/limits.h"

namespace echotrain::fuzz {

/// Stops the fuzzer, which then keeps the input, when `holds` is false.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FINDING: %s\n", what);
  std::abort();
}

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}
inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Reads an input from its front as numbers; zeros when it is used up.
class Source {
 public:
  explicit Source(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    auto* to = reinterpret_cast<std::byte*>(&value);
    for (std::size_t i = 0; i < sizeof(T) && !bytes_.empty(); ++i, bytes_ = bytes_.subspan(1)) to[i] = bytes_.front();
    return value;
  }
  std::uint32_t below(std::uint32_t n) { return number<std::uint16_t>() % n; }
  bool one_in(std::uint32_t n) { return below(n) == 1; }
  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// A temporary file of this process; run.sh puts the folder for temporary files into memory.
class ScratchFile {
 public:
  ScratchFile() {
    std::string path = (std::filesystem::temp_directory_path() / "echotrain-fuzz-XXXXXX").string();
    descriptor_ = ::mkstemp(path.data());
    require(descriptor_ >= 0, "no temporary file could be made");
    path_ = path;
  }
  ~ScratchFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void fill(std::span<const std::byte> bytes) {
    const auto size = static_cast<ssize_t>(bytes.size());
    require(::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == size,
            "the temporary file could not be written");
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
};

/// Limits under which a whole scan takes milliseconds.
inline protocol::Limits small_limits() {
  protocol::Limits limits;
  limits.config_text_bytes = 1 << 16;
  limits.header_bytes = 1 << 16;
  limits.text_bytes = 1 << 12;
  limits.response_bytes = 1 << 12;
  limits.acquisition_bytes = 1 << 13;
  limits.waveform_bytes = 1 << 13;
  limits.image_bytes = 1 << 14;
  limits.attribute_bytes = 1 << 12;
  limits.channels = 8;
  limits.matrix_size = 48;
  limits.matrix_voxels = 48 * 48;
  return limits;
}

}  // namespace echotrain::fuzz
