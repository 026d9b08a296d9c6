#include "protocol/twix/raid.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "protocol/data/layout.h"
#include "protocol/data/text.h"
#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::twix {
namespace {

// The directory: u32 size, u32 count, then 64 entries of u32 uid, u32 file, u64 offset, u64 length, 64 characters of
// the patient's name and 64 of the protocol's.
constexpr std::size_t kEntryBytes = 152, kDirectoryBytes = 8 + kMostMeasurements * kEntryBytes, kNameBytes = 64;
constexpr std::uint32_t kMostFirst = 10000;  // VB has the length of its header there, which is more

}  // namespace

FileKind file_kind(std::span<const std::byte> beginning) {
  if (beginning.size() < kBeginning) return FileKind::other;
  const auto first = load<std::uint32_t>(beginning, 0), count = load<std::uint32_t>(beginning, 4);
  const auto offset = load<std::uint64_t>(beginning, 16);
  if (count == 0 || count > kMostMeasurements) return FileKind::other;
  if (as_text(beginning).substr(8, 7) == std::string_view("Config\0", 7)) return FileKind::vb;
  return first < kMostFirst && offset >= kDirectoryBytes && offset < (std::uint64_t{1} << 48) ? FileKind::raid
                                                                                              : FileKind::other;
}

FileKind file_kind(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return FileKind::other;  // a pipe's bytes are read only once
  const FileHandle handle(std::fopen(file.c_str(), "rb"), FileCloser{true});
  std::array<std::byte, kBeginning> bytes{};
  if (!handle || std::fread(bytes.data(), 1, bytes.size(), handle.get()) != bytes.size()) return FileKind::other;
  return file_kind(bytes);
}

RaidFile::RaidFile(const std::filesystem::path& file)
    : name_(file.string()), file_(std::fopen(file.c_str(), "rb"), FileCloser{true}) {
  if (!file_) throw DatasetError(fmt::format("{}: cannot be opened: {}", name_, std::strerror(errno)));
  struct stat about {};
  if (::fstat(::fileno(file_.get()), &about) != 0)
    throw DatasetError(fmt::format("{}: cannot be read: {}", name_, std::strerror(errno)));
  const auto size = static_cast<std::uint64_t>(about.st_size);
  std::vector<std::byte> directory(kDirectoryBytes);
  const std::size_t have = read(0, directory);
  const FileKind kind = file_kind(std::span(directory).first(have));
  if (kind == FileKind::vb)
    throw DatasetError(fmt::format(
        "{}: Siemens raw data of VB, which is not read (VD and VE are); siemens_to_ismrmrd converts it", name_));
  if (kind != FileKind::raid || have < directory.size())
    throw DatasetError(fmt::format("{}: is not a Siemens raw data file of VD or VE", name_));

  const std::size_t count = load<std::uint32_t>(directory, 4);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = std::span(directory).subspan(8 + i * kEntryBytes, kEntryBytes);
    RaidEntry entry;
    entry.number = i + 1;
    entry.uid = load<std::uint32_t>(bytes, 0);
    entry.begin = load<std::uint64_t>(bytes, 8);
    const auto length = load<std::uint64_t>(bytes, 16);
    entry.protocol = printable(cut_at_nul(as_text(bytes.subspan(24 + kNameBytes))), kNameBytes);
    if (entry.begin < kDirectoryBytes || entry.begin >= size)
      throw DatasetError(fmt::format("{}: measurement {} begins at byte {}; the file has {}, the directory {}", name_,
                                     entry.number, entry.begin, size, kDirectoryBytes));
    const std::uint64_t left = size - entry.begin;
    entry.cut = length > left;
    // The scanner leaves the length of a measurement that it did not finish at 0.
    entry.end = entry.begin + (length == 0 && i + 1 == count ? left : std::min(length, left));
    entries_.push_back(std::move(entry));
  }
  // Measurements that overlap would let a small file ask for the work of a large one.
  auto sorted = entries_;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].begin < sorted[i - 1].end || sorted[i].begin == sorted[i - 1].begin)
      throw DatasetError(
          fmt::format("{}: measurements {} and {} overlap", name_, sorted[i - 1].number, sorted[i].number));
}

const RaidEntry& RaidFile::entry(std::size_t number) const {
  if (number > entries_.size())
    throw DatasetError(fmt::format("{}: has no measurement {}; it has {}", name_, number, entries_.size()));
  return number == 0 ? entries_.back() : entries_[number - 1];
}

std::size_t RaidFile::read(std::uint64_t position, std::span<std::byte> to) const {
  std::size_t have = 0;
  while (have < to.size()) {
    const ssize_t n =
        ::pread(::fileno(file_.get()), to.data() + have, to.size() - have, static_cast<off_t>(position + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw DatasetError(
          fmt::format("{}: cannot be read at byte {}: {}", name_, position + have, std::strerror(errno)));
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  return have;
}

}  // namespace echotrain::protocol::twix
