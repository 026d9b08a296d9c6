// The ZIP writer makes ZIP files piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::server {

/// Files one after another, not compressed, then their directory. Each call gives the bytes that come next. Source:
/// PKWARE, .ZIP File Format Specification 6.3.10 (4.3.7 local header, 4.3.9 data descriptor, 4.3.12 central directory,
/// 4.3.16 its end), without ZIP64. std::length_error beyond kMostFiles or kMostBytes.
class ZipWriter {
 public:
  static constexpr std::uint64_t kMostFiles = 65535;
  static constexpr std::uint64_t kMostBytes = 0xF0000000;

  /// Adds a file that is known as a whole.
  std::string file(std::string_view name, std::string_view bytes);
  /// Begins a file that comes in pieces, until end().
  std::string begin(std::string_view name);
  void add(std::string_view bytes);  ///< gives nothing: the bytes themselves come next
  std::string end();
  /// Gives the directory. There are no further files.
  std::string finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0, size = 0, offset = 0;
    bool in_pieces = false;
  };
  Entry& add_entry(std::string_view name, bool in_pieces);
  void count(std::uint64_t bytes);

  std::vector<Entry> entries_;
  std::uint64_t offset_ = 0;
};

}  // namespace echotrain::server
