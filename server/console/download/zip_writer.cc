#include "server/console/download/zip_writer.h"

#include <zlib.h>

#include <stdexcept>

namespace echotrain::server {

namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kDescriptor = 0x08074b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint16_t kVersion = 20, kUnix = 3 << 8, kLengthsFollow = 1 << 3, kStored = 0;
constexpr std::uint16_t kTime = 0, kDate = 0x21;  // 1980-01-01: the same images make the same file
constexpr std::uint32_t kMode = 0100644U << 16;   // a file, rw-r--r--

void put2(std::string& to, std::uint16_t value) {
  to += static_cast<char>(value & 0xff);
  to += static_cast<char>(value >> 8);
}

void put4(std::string& to, std::uint32_t value) {
  put2(to, static_cast<std::uint16_t>(value & 0xffff));
  put2(to, static_cast<std::uint16_t>(value >> 16));
}

std::uint32_t crc_of(std::uint32_t before, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

/// Puts the facts that the local header and the directory say alike.
void put_facts(std::string& to, bool in_pieces, std::uint32_t crc, std::uint32_t size, std::size_t name_bytes) {
  put2(to, kVersion);
  put2(to, in_pieces ? kLengthsFollow : 0);
  put2(to, kStored);
  put2(to, kTime);
  put2(to, kDate);
  put4(to, crc);
  put4(to, size);  // compressed
  put4(to, size);
  put2(to, static_cast<std::uint16_t>(name_bytes));
  put2(to, 0);  // extra field
}

}  // namespace

ZipWriter::Entry& ZipWriter::add_entry(std::string_view name, bool in_pieces) {
  if (entries_.size() >= kMostFiles) throw std::length_error("a ZIP file holds at most 65535 files");
  return entries_.emplace_back(Entry{std::string(name), 0, 0, static_cast<std::uint32_t>(offset_), in_pieces});
}

void ZipWriter::count(std::uint64_t bytes) {
  offset_ += bytes;
  if (offset_ > kMostBytes) throw std::length_error("a ZIP file holds at most 4 GiB");
}

std::string ZipWriter::file(std::string_view name, std::string_view bytes) {
  Entry& entry = add_entry(name, false);
  count(bytes.size());
  entry.crc = crc_of(0, bytes);
  entry.size = static_cast<std::uint32_t>(bytes.size());
  std::string out;
  out.reserve(30 + name.size() + bytes.size());
  put4(out, kLocal);
  put_facts(out, false, entry.crc, entry.size, name.size());
  out += name;
  count(out.size());
  out += bytes;
  return out;
}

std::string ZipWriter::begin(std::string_view name) {
  add_entry(name, true);
  std::string out;
  put4(out, kLocal);
  put_facts(out, true, 0, 0, name.size());
  out += name;
  count(out.size());
  return out;
}

void ZipWriter::add(std::string_view bytes) {
  Entry& entry = entries_.back();
  count(bytes.size());
  entry.crc = crc_of(entry.crc, bytes);
  entry.size += static_cast<std::uint32_t>(bytes.size());
}

std::string ZipWriter::end() {
  const Entry& entry = entries_.back();
  std::string out;
  put4(out, kDescriptor);
  put4(out, entry.crc);
  put4(out, entry.size);
  put4(out, entry.size);
  count(out.size());
  return out;
}

std::string ZipWriter::finish() {
  std::string out;
  for (const Entry& entry : entries_) {
    put4(out, kCentral);
    put2(out, kUnix | kVersion);
    put_facts(out, entry.in_pieces, entry.crc, entry.size, entry.name.size());
    put2(out, 0);  // comment
    put2(out, 0);  // disk
    put2(out, 0);  // internal attributes
    put4(out, kMode);
    put4(out, entry.offset);
    out += entry.name;
  }
  const auto length = static_cast<std::uint32_t>(out.size());
  const auto files = static_cast<std::uint16_t>(entries_.size());
  put4(out, kEnd);
  put2(out, 0);  // this disk
  put2(out, 0);  // the directory's
  put2(out, files);
  put2(out, files);
  put4(out, length);
  put4(out, static_cast<std::uint32_t>(offset_));
  put2(out, 0);  // comment
  return out;
}

}  // namespace echotrain::server
