// The GIF writer makes files of grey animations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <vector>

namespace echotrain::client {

/// Writes frames of 8-bit grey pixels [y, x] as a GIF89a that repeats forever: one global palette of 256 greys, each
/// frame whole, in LZW codes of 3 to 12 bits. Source: CompuServe's GIF89a specification of 1990, appendix F.
class GifWriter {
 public:
  /// `delay`: hundredths of a second between frames. Throws std::invalid_argument for a side of 0 or above 65535
  /// pixels; std::runtime_error, naming the file, when it cannot be written (also from add() and finish()).
  GifWriter(const std::filesystem::path& file, std::size_t width, std::size_t height, int delay);
  void add(std::span<const std::uint8_t> pixels);
  void finish();  ///< call it after the last frame

 private:
  void put(std::initializer_list<int> bytes);
  void put16(std::size_t value);
  void check();

  std::filesystem::path file_;
  std::ofstream out_;
  std::size_t width_, height_;
  int delay_;
};

}  // namespace echotrain::client
