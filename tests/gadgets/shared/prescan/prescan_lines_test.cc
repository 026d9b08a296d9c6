// A prescan's lines take bounded memory, whatever counters and channels a client sends them with.
#include "gadgets/shared/prescan/prescan_lines.h"

#include <gmock/gmock.h>

#include "tests/gadgets/images/intensity_scene.h"

namespace echotrain::testing {
namespace {

constexpr int kSize = 32;

protocol::Acquisition prescan_line(int channels, int row, float value, std::uint16_t set = 0, std::uint16_t slice = 0) {
  protocol::Acquisition out = readout(channels, std::vector<cfloat>(static_cast<std::size_t>(channels * kSize), value));
  set_flag(out, 29);
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(row);
  out.head.idx.set = set;
  out.head.idx.slice = slice;
  return out;
}

class PrescanLinesTest : public ::testing::Test {
 protected:
  void take(const protocol::Acquisition& line) { EXPECT_TRUE(lines_.take(line, header_.encodings[0])); }
  void take_all(int channels, float value, std::uint16_t set = 0) {
    for (int row = 0; row < kSize; ++row) take(prescan_line(channels, row, value, set));
  }
  const protocol::Header header_ = header({.encoded = {kSize, kSize, 1}, .limits = step_limit(kSize)});
  PrescanLines lines_;
};

/// Two coils are kept of all sets, contrasts, encoding spaces and numbers of channels, the array and the body coil,
/// with the least counters, in any order.
TEST_F(PrescanLinesTest, AFloodOfCountersKeepsTwoCoils) {
  take_all(8, 3, 7);
  take_all(2, 5, 9);
  const std::uint64_t of_two = lines_.bytes();
  EXPECT_EQ(of_two, (8 + 2) * kSize * kSize * 8 + 2 * kSize * 4);
  for (int i = 0; i < 3000; ++i) {
    protocol::Acquisition line = prescan_line(3 + i % 5, i % kSize, 9, static_cast<std::uint16_t>(10 + i));
    line.head.idx.contrast = static_cast<std::uint16_t>(i);
    line.head.encoding_space_ref = static_cast<std::uint16_t>(i % 4);
    take(line);
    take(prescan_line(8, 0, 9, static_cast<std::uint16_t>(8 + i)));
    ASSERT_EQ(lines_.bytes(), of_two);
  }
  take_all(8, 4, 1);  // less than set 7
  take_all(9, 6, 2);  // more channels than the array so far
  take_all(1, 7, 3);
  std::string why_not;
  const auto record = lines_.record({}, why_not);
  ASSERT_TRUE(record) << why_not;
  ASSERT_EQ(record->places.size(), 1u);
  EXPECT_EQ(record->places[0].array.coils, 9);
  EXPECT_EQ(record->places[0].array.kspace[5], cfloat(6));
  EXPECT_EQ(record->places[0].body.coils, 1);
  EXPECT_EQ(record->places[0].body.kspace[5], cfloat(7));
}

/// A line of each of 65536 slices would take 65536 places of 256 kB.
TEST_F(PrescanLinesTest, AFloodOfSlicesStaysInBounds) {
  take_all(2, 1);
  for (int slice = 0; slice < 65536; slice += 3) take(prescan_line(32, 0, 1, 0, static_cast<std::uint16_t>(slice)));
  EXPECT_LE(lines_.bytes(), PrescanLines::kMostBytes + (1 << 20));
  EXPECT_GT(lines_.bytes(), PrescanLines::kMostBytes / 2);
  std::string why_not;
  EXPECT_EQ(lines_.record({}, why_not), nullptr);
  EXPECT_EQ(why_not, "has more places than 512 MiB hold");
}

}  // namespace
}  // namespace echotrain::testing
