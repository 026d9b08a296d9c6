// Checksums of files: what is right passes, and nothing that has changed does.
#include "protocol/files/checksums.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/crc.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "protocol/files/crc32c.h"

namespace echotrain::protocol {
namespace {

using State = Verdict::State;
using testing::HasSubstr;
using testing::StartsWith;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string random_text(std::mt19937& random, std::size_t n) {
  std::string text(n, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);  // the check value of CRC catalogues
  EXPECT_EQ(crc32c({}), 0U);
  // RFC 3720, appendix B.4, whose bytes come in the order of the wire.
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62A8AB43U);
  std::string rising(32, '\0');
  for (int i = 0; i < 32; ++i) rising[static_cast<std::size_t>(i)] = static_cast<char>(i);
  EXPECT_EQ(crc32c(bytes_of(rising)), 0x46DD794EU);
}

TEST(Crc32c, AgreesWithBoostHoweverTheBytesAreCut) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(random, random() % (i < 100 ? 300 : 60000));
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> expected;
    expected.process_bytes(text.data(), text.size());
    const std::size_t cut = random() % (text.size() + 1);
    EXPECT_EQ(crc32c(bytes_of(text)), expected.checksum());
    EXPECT_EQ(crc32c(bytes_of(text).subspan(cut), crc32c(bytes_of(text).first(cut))), expected.checksum());
  }
}

/// A file and its checksums, in memory.
struct Pair {
  std::string file, lines;

  Verdict verdict() const {
    return verify(lines, file.size(), [this](std::uint64_t offset, std::span<std::byte> room) {
      if (offset + room.size() > file.size()) return false;
      std::memcpy(room.data(), file.data() + offset, room.size());
      return true;
    });
  }
};

Pair make_pair(std::size_t size, std::size_t block, bool ended = true) {
  std::mt19937 random(static_cast<unsigned>(size));
  Pair pair{random_text(random, size), {}};
  ChecksumWriter writer(block);
  for (std::size_t at = 0; at < size;) {
    const std::size_t n = std::min<std::size_t>(size - at, 1 + random() % (3 * block));
    pair.lines += writer.add(bytes_of(pair.file).subspan(at, n));
    at += n;
  }
  if (ended) pair.lines += writer.end();
  return pair;
}

TEST(Checksums, OfAWholeFileAreRight) {
  for (const std::size_t size : {1UL, 99UL, 100UL, 101UL, 1000UL, 5555UL}) {
    const Verdict verdict = make_pair(size, 100).verdict();
    EXPECT_EQ(verdict.state, State::right) << verdict.text;
    EXPECT_EQ(verdict.text, fmt::format("right: all {} bytes, by {} checksums", size, (size + 99) / 100));
  }
  EXPECT_EQ(Pair({"", ChecksumWriter().end()}).verdict().state, State::right);
}

// The format, by hand: others may read it.
TEST(Checksums, AreLinesOfText) {
  ChecksumWriter writer(9);
  std::string lines = writer.add(bytes_of("1234567891234"));
  lines += writer.add(bytes_of("56789123"));
  EXPECT_THAT(lines, StartsWith("echotrain crc32c 1\n"
                                "0000000000000000 00000009 e3069283 "));
  EXPECT_THAT(lines, HasSubstr("\n0000000000000009 00000009 e3069283 "));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_THAT(writer.end(), HasSubstr("\nend 0000000000000015 "));
}

TEST(Checksums, EveryOneOfAHundredThousandFlippedBitsIsFound) {
  Pair pair = make_pair(20000, 1 << 10);
  std::mt19937 random(6);
  int in_lines = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::size_t bit = random() % (8 * (pair.file.size() + pair.lines.size()));
    const bool in_file = bit / 8 < pair.file.size();
    char& byte = in_file ? pair.file[bit / 8] : pair.lines[bit / 8 - pair.file.size()];
    in_lines += in_file ? 0 : 1;
    const char before = byte;
    byte = static_cast<char>(byte ^ (1 << bit % 8));
    const Verdict verdict = pair.verdict();
    ASSERT_EQ(verdict.state, State::damaged) << "bit " << bit << ": " << verdict.text;
    if (in_file)
      ASSERT_THAT(verdict.text, HasSubstr("damaged: MiB 0 of 1 (the first is 0) has changed since it was written"));
    else
      ASSERT_THAT(verdict.text, HasSubstr("of its lines of checksums"));
    byte = before;
  }
  EXPECT_GT(in_lines, 3000);
  EXPECT_EQ(pair.verdict().state, State::right);
}

TEST(Checksums, SeveralChangesAtOnceAreFound) {
  const Pair whole = make_pair(20000, 1 << 10);
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    Pair pair = whole;
    for (unsigned n = 1 + random() % 20; n > 0; --n) {
      std::string& where = random() % 2 == 0 ? pair.file : pair.lines;
      where[random() % where.size()] ^= static_cast<char>(1 + random() % 255);
    }
    if (pair.file == whole.file && pair.lines == whole.lines) continue;
    ASSERT_EQ(pair.verdict().state, State::damaged);
  }
}

TEST(Checksums, NothingIsRightThatWasCutOrGrew) {
  const Pair whole = make_pair(5000, 1000);
  for (std::size_t size = 0; size < whole.file.size(); size += 7) {
    Pair pair = whole;
    pair.file.resize(size);
    const Verdict verdict = pair.verdict();
    ASSERT_EQ(verdict.state, State::damaged);
    ASSERT_THAT(verdict.text, HasSubstr(fmt::format("the file ends at byte {} and had 5000", size)));
  }
  Pair longer = whole;
  longer.file += "x";
  EXPECT_THAT(longer.verdict().text, HasSubstr("damaged: the file has 5001 bytes and had 5000"));
  for (std::size_t size = 0; size < whole.lines.size(); ++size) {
    Pair pair = whole;
    pair.lines.resize(size);
    ASSERT_NE(pair.verdict().state, State::right) << size;
  }
}

TEST(Checksums, LinesInAnotherOrderTwiceOrMissingAreFound) {
  const Pair whole = make_pair(5000, 1000);
  constexpr std::size_t kHead = 19, kLine = 44;
  for (std::size_t i = 0; i < 5; ++i) {
    Pair pair = whole;
    pair.lines.erase(kHead + i * kLine, kLine);
    EXPECT_EQ(pair.verdict().state, State::damaged) << i;
    pair = whole;
    pair.lines.insert(kHead + i * kLine, whole.lines.substr(kHead + i * kLine, kLine));
    EXPECT_EQ(pair.verdict().state, State::damaged) << i;
  }
  Pair swapped = whole;
  std::swap_ranges(swapped.lines.begin() + kHead, swapped.lines.begin() + kHead + kLine,
                   swapped.lines.begin() + kHead + kLine);
  EXPECT_EQ(swapped.verdict().state, State::damaged);
  Pair after = whole;
  after.lines += "more";
  EXPECT_EQ(after.verdict().state, State::damaged);
}

TEST(Checksums, OfAFileThatWasNotFinishedSaySo) {
  Pair pair = make_pair(5500, 1000, /*ended=*/false);
  EXPECT_EQ(pair.verdict().state, State::unfinished);
  EXPECT_THAT(pair.verdict().text, HasSubstr("bytes up to 5000 are right; 500 after them have no checksum"));
  pair.lines.resize(pair.lines.size() - 10);  // the process was killed while it wrote a line
  EXPECT_THAT(pair.verdict().text, HasSubstr("bytes up to 4000 are right; 1500 after them"));
  pair.file[3999] ^= 1;
  EXPECT_EQ(pair.verdict().state, State::damaged);
  EXPECT_EQ(Pair({"abc", ""}).verdict().state, State::unfinished);
  for (Pair cut = make_pair(5500, 1000, /*ended=*/false); !cut.lines.empty(); cut.lines.pop_back())
    EXPECT_EQ(cut.verdict().state, State::unfinished) << cut.lines.size() << " bytes: " << cut.verdict().text;
  EXPECT_EQ(Pair({"abc", "echotrain cr"}).verdict().state, State::unfinished);
  EXPECT_EQ(Pair({"abc", "something else"}).verdict().state, State::damaged);
}

TEST(Checksums, NonsenseIsDamage) {
  std::mt19937 random(8);
  for (int i = 0; i < 2000; ++i) {
    const Pair pair{random_text(random, random() % 2000),
                    "echotrain crc32c 1\n" + random_text(random, 44 + random() % 500)};
    EXPECT_EQ(pair.verdict().state, State::damaged);
  }
  // A line that is right in itself and claims too much.
  for (const std::string claim : {"0000000000000000 ffffffff 00000000 ", "ffffffffffffff00 00000100 00000000 ",
                                  "0000000000000000 00000000 00000000 "})
    EXPECT_EQ(Pair({"abc", "echotrain crc32c 1\n" + claim + fmt::format("{:08x}\n", crc32c(bytes_of(claim)))})
                  .verdict()
                  .state,
              State::damaged);
}

class ChecksumFile : public testing::Test {
 protected:
  ~ChecksumFile() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(checksum_file(path_));
  }
  void write(const std::filesystem::path& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Tests run beside each other, each in a process.
  const std::string stem_ = fmt::format("{}/checksums_{}", testing::TempDir(), ::getpid());
  const std::filesystem::path path_ = stem_ + ".mrd";
};

TEST_F(ChecksumFile, NamesTheMiBThatHaveChanged) {
  Pair pair = make_pair((10 << 20) + 7, ChecksumWriter::kBlockBytes);
  write(checksum_file(path_), pair.lines);
  write(path_, pair.file);
  EXPECT_EQ(verify(path_).text, "right: all 10485767 bytes, by 11 checksums");
  for (const std::size_t at : {(2UL << 20) + 5, 4UL << 20, 6UL << 20, (6UL << 20) - 1, (10UL << 20) + 6})
    pair.file[at] ^= 4;
  write(path_, pair.file);
  EXPECT_EQ(verify(path_).state, State::damaged);
  EXPECT_EQ(verify(path_).text,
            "damaged: MiB 2, 4 to 6, 10 of 11 (the first is 0) have changed since they were written");
}

TEST_F(ChecksumFile, OfAFileThatIsBeingWrittenIsNoDamage) {
  const std::string block(64, 'x');  // small, so that much of the time goes into opening the files
  for (int round = 0; round < 100; ++round) {
    const std::filesystem::path path = fmt::format("{}_growing_{}.mrd", stem_, round);
    std::ofstream file(path, std::ios::binary), lines(checksum_file(path), std::ios::binary);
    std::atomic<bool> over = false;
    std::thread writer([&] {
      ChecksumWriter sums(block.size());
      for (int i = 0; i < 300; ++i) {
        file << block << std::flush;  // and then its checksum, as the server does
        lines << sums.add(bytes_of(block)) << std::flush;
      }
      over = true;
    });
    Verdict verdict;
    while (!over && verdict.state != State::damaged) verdict = verify(path);
    writer.join();
    EXPECT_NE(verdict.state, State::damaged) << verdict.text;
    std::filesystem::remove(path);
    std::filesystem::remove(checksum_file(path));
  }
}

TEST_F(ChecksumFile, WithoutItNothingIsSaidOfTheFile) {
  write(path_, "abc");
  EXPECT_EQ(verify(path_).state, State::unchecked);
  EXPECT_THAT(verify(path_).text,
              HasSubstr("no checksums: " + checksum_file(path_).filename().string() + " is not beside it"));
  EXPECT_THROW(verify(path_.string() + "_not_there"), std::system_error);
  std::filesystem::create_directory(checksum_file(path_));
  EXPECT_NE(verify(path_).state, State::right);
  std::filesystem::remove(checksum_file(path_));
}

}  // namespace
}  // namespace echotrain::protocol
