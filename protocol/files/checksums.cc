#include "protocol/files/checksums.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "protocol/files/crc32c.h"

namespace echotrain::protocol {

namespace {

// The lines are text of fixed widths, so that a damaged one does not hide those behind it. Numbers are hexadecimal, and
// each line ends with the CRC of what stands before in it:
//   offset, length and CRC of a block:  0000000000300000 00100000 1a2b3c4d 5e6f7a8b
//   size of the file:                   end 0000000000345678 9a8b7c6d
constexpr std::string_view kHead = "echotrain crc32c 1\n";
constexpr std::string_view kEnd = "end ";
constexpr std::size_t kLineBytes = 16 + 1 + 8 + 1 + 8 + 1 + 8 + 1;
constexpr std::size_t kEndBytes = 4 + 16 + 1 + 8 + 1;

std::string with_own_crc(std::string line) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(line)));
  return line + fmt::format("{:08x}\n", crc);
}

std::string block_line(std::uint64_t offset, std::size_t length, std::uint32_t crc) {
  return with_own_crc(fmt::format("{:016x} {:08x} {:08x} ", offset, length, crc));
}

std::string end_line(std::uint64_t size) { return with_own_crc(fmt::format("{}{:016x} ", kEnd, size)); }

// Reads a number of digits only; other characters give any number, and the line made of it differs.
std::uint64_t hexadecimal(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) number = number << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10) % 16;
  return number;
}

struct Block {
  std::uint64_t offset, length;
  std::uint32_t crc;
  std::uint64_t end() const { return offset + length; }
};

/// False when a bit of the line is not as it was written.
bool parse(std::string_view line, Block& block) {
  block = {hexadecimal(line.substr(0, 16)), hexadecimal(line.substr(17, 8)),
           static_cast<std::uint32_t>(hexadecimal(line.substr(26, 8)))};
  return block.offset <= INT64_MAX && block.length > 0 && block.length <= ChecksumWriter::kBlockBytes &&
         line == block_line(block.offset, block.length, block.crc);
}

/// Numbers in rising order, as people write them: "1, 3 to 5".
class Ranges {
 public:
  void add(std::uint64_t number) {
    if (count_++ > 0 && number == last_ + 1) {
      last_ = number;
    } else {
      flush();
      first_ = last_ = number;
    }
  }
  std::uint64_t count() const { return count_; }
  std::string text() {
    flush();
    return ranges_ > kMost ? fmt::format("{} and {} more ranges", text_, ranges_ - kMost) : text_;
  }

 private:
  static constexpr std::size_t kMost = 16;
  void flush() {
    if (count_ == 0 || first_ > last_) return;
    if (ranges_++ < kMost)
      text_ +=
          fmt::format("{}{}{}", text_.empty() ? "" : ", ", first_, last_ > first_ ? fmt::format(" to {}", last_) : "");
    first_ = last_ + 1;
  }
  std::uint64_t first_ = 1, last_ = 0, count_ = 0;
  std::size_t ranges_ = 0;
  std::string text_;
};

class Check {
 public:
  Check(std::string_view lines, std::uint64_t size, const ReadAt& read) : lines_(lines), size_(size), read_(read) {}

  Verdict verdict() {
    read_lines();
    if (ended_ && !gap_ && end_ != covered_) ++bad_lines_;
    const bool whole = ended_ && bad_lines_ == 0;
    const std::uint64_t size_then = whole ? end_ : covered_;
    const bool longer = whole && size_ > size_then;
    if (bad_lines_ > 0 || changed_.count() > 0 || size_ < size_then || longer)
      return {Verdict::State::damaged, "damaged: " + troubles(size_then, longer)};
    if (!whole) return {Verdict::State::unfinished, unfinished()};
    return {Verdict::State::right, fmt::format("right: all {} bytes, by {} checksums", size_, blocks_)};
  }

 private:
  void read_lines() {
    if (lines_.size() < kHead.size() && kHead.starts_with(lines_)) return;  // the first write was cut off
    if (!lines_.starts_with(kHead)) ++bad_lines_;
    for (std::size_t at = kHead.size(); at < lines_.size(); at += kLineBytes) {
      const std::string_view line = lines_.substr(at, kLineBytes);
      if (line.size() < kLineBytes) return read_rest(line);
      Block block{};
      if (!parse(line, block)) {
        ++bad_lines_;
        gap_ = true;
      } else {
        check(block);
      }
    }
  }

  // The last line, or what a write that was cut off has left.
  void read_rest(std::string_view line) {
    const bool may_be_end = line.starts_with(kEnd) || (line.size() == kEndBytes && line.back() == '\n');
    if (line.size() < kEndBytes || !may_be_end) return;
    end_ = hexadecimal(line.substr(kEnd.size(), 16));
    ended_ = line == end_line(end_);
    if (!ended_) ++bad_lines_;
  }

  void check(const Block& block) {
    ++blocks_;
    if (block.offset < covered_ || (block.offset > covered_ && !gap_)) ++bad_lines_;
    gap_ = false;
    covered_ = std::max(covered_, block.end());
    if (block.end() > size_) return;  // the file is too short, which is told as such
    bytes_.resize(block.length);
    if (!read_(block.offset, bytes_) || crc32c(bytes_) != block.crc) changed_.add(block.offset >> 20);
  }

  std::string troubles(std::uint64_t size_then, bool longer) {
    std::string all;
    const auto add = [&](const std::string& trouble) { all += (all.empty() ? "" : "; ") + trouble; };
    if (changed_.count() > 0)
      add(fmt::format("MiB {} of {} (the first is 0) {} changed since {} written", changed_.text(),
                      (size_then + (1 << 20) - 1) >> 20, changed_.count() == 1 ? "has" : "have",
                      changed_.count() == 1 ? "it was" : "they were"));
    if (size_ < size_then) add(fmt::format("the file ends at byte {} and had {}", size_, size_then));
    if (longer) add(fmt::format("the file has {} bytes and had {}", size_, size_then));
    if (bad_lines_ > 0)
      add(fmt::format("{} of its lines of checksums {} changed", bad_lines_, bad_lines_ == 1 ? "has" : "have"));
    return all;
  }

  std::string unfinished() const {
    return fmt::format(
        "not finished: bytes up to {} are right; {} after them have no checksum, because the server or the machine "
        "stopped while it wrote the file, or is writing it",
        covered_, size_ - covered_);
  }

  const std::string_view lines_;
  const std::uint64_t size_;
  const ReadAt& read_;
  std::vector<std::byte> bytes_;
  std::uint64_t covered_ = 0;  // bytes before this are those of blocks
  std::uint64_t end_ = 0, blocks_ = 0, bad_lines_ = 0;
  bool ended_ = false;
  bool gap_ = false;  // the line before was bad
  Ranges changed_;    // MiB
};

}  // namespace

std::filesystem::path checksum_file(const std::filesystem::path& file) {
  std::filesystem::path path = file;
  return path += ".crc32c";
}

std::string ChecksumWriter::add(std::span<const std::byte> bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), block_bytes_ - length_));
    crc_ = crc32c(part, crc_);
    length_ += part.size();
    bytes = bytes.subspan(part.size());
    if (length_ == block_bytes_) end_block(lines);
  }
  return lines;
}

std::string ChecksumWriter::end() {
  std::string lines;
  if (length_ > 0) end_block(lines);
  if (!std::exchange(begun_, true)) lines += kHead;
  return lines + end_line(offset_);
}

void ChecksumWriter::end_block(std::string& lines) {
  if (!std::exchange(begun_, true)) lines += kHead;
  lines += block_line(offset_, length_, crc_);
  offset_ += length_;
  length_ = 0;
  crc_ = 0;
}

namespace {

constexpr std::uint64_t kMostLines = 64 << 20;  // [bytes]; those of 1.5 TB

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path.string());
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Returns the size now; 0 where it is not a file.
  std::uint64_t size() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    return static_cast<std::uint64_t>(status.st_size);
  }
  bool read(std::uint64_t offset, std::span<std::byte> room) const {
    while (!room.empty()) {
      const ssize_t n = ::pread(descriptor_, room.data(), room.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      room = room.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
    return true;
  }

 private:
  int descriptor_;
};

}  // namespace

Verdict verify(const std::filesystem::path& path) {
  const OpenFile file(path);
  const std::filesystem::path sums = checksum_file(path);
  if (!std::filesystem::exists(sums))
    return {Verdict::State::unchecked,
            fmt::format("no checksums: {} is not beside it; an older server has made the file, or it was copied alone",
                        sums.filename().string())};
  const OpenFile lines_file(sums);
  std::string lines(std::min(lines_file.size(), kMostLines + 1), '\0');
  if (lines.size() > kMostLines || !lines_file.read(0, std::as_writable_bytes(std::span(lines))))
    return {Verdict::State::damaged, fmt::format("damaged: {} cannot be read as checksums", sums.filename().string())};
  // The lines are read first, then the size: a file that is being written has every byte of which there is a line.
  return verify(lines, file.size(),
                [&](std::uint64_t offset, std::span<std::byte> room) { return file.read(offset, room); });
}

Verdict verify(std::string_view lines, std::uint64_t size, const ReadAt& read) {
  return Check(lines, size, read).verdict();
}

}  // namespace echotrain::protocol
