#include "server/console/live/kspace_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace echotrain::server {
namespace {

protocol::Header header(std::uint32_t lines, std::uint32_t partitions = 1,
                        protocol::Trajectory trajectory = protocol::Trajectory::cartesian) {
  protocol::Header header;
  protocol::Encoding& encoding = header.encodings.emplace_back();
  encoding.encoded = encoding.recon = {{lines, lines, partitions}, {200, 200, 5}};
  encoding.trajectory = trajectory;
  return header;
}

protocol::Acquisition line(int step_1, int repetition = 0, int step_2 = 0, int slice = 0) {
  protocol::Acquisition readout;
  readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(step_1);
  readout.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(step_2);
  readout.head.idx.slice = static_cast<std::uint16_t>(slice);
  readout.head.idx.repetition = static_cast<std::uint16_t>(repetition);
  return readout;
}

protocol::Acquisition path(const std::vector<float>& k) {
  protocol::Acquisition readout;
  readout.head.trajectory_dimensions = 2;
  readout.head.number_of_samples = static_cast<std::uint16_t>(k.size() / 2);
  readout.trajectory = protocol::Payload::take(k);
  return readout;
}

TEST(KspacePicture, FillsWithLinesAndFadesWithRepetitions) {
  KspacePicture picture(header(4), config::TrajectoryUnit::cycles_per_pixel);
  ASSERT_TRUE(picture.lines());
  EXPECT_EQ(picture.height(), 4);
  EXPECT_EQ(picture.width(), 1);
  picture.add(line(1));
  picture.add(line(1));
  picture.add(line(3));
  EXPECT_EQ(picture.cells(), "0202");
  EXPECT_EQ(picture.filled(), 2);
  picture.add(line(0, 1));
  EXPECT_EQ(picture.cells(), "2101");
  EXPECT_EQ(picture.filled(), 1);
  picture.add(line(4, 1));  // beyond the matrix
  EXPECT_EQ(picture.cells(), "2101");
}

TEST(KspacePicture, HasAColumnPerPartitionOrSlice) {
  KspacePicture volume(header(2, 3), config::TrajectoryUnit::cycles_per_pixel);
  volume.add(line(1, 0, 2, 0));
  EXPECT_EQ(volume.cells(), "000002");
  protocol::Header slices = header(2);
  slices.encodings[0].slice = {0, 2, 0};
  KspacePicture stack(slices, config::TrajectoryUnit::cycles_per_pixel);
  stack.add(line(0, 0, 0, 1));
  EXPECT_EQ(stack.cells(), "020000");
}

TEST(KspacePicture, HoldsMoreLinesThanCells) {
  constexpr int kLines = 3 * KspacePicture::kMost;
  KspacePicture picture(header(kLines), config::TrajectoryUnit::cycles_per_pixel);
  EXPECT_EQ(picture.height(), KspacePicture::kMost);
  for (int i = 0; i < kLines; i += 3) picture.add(line(i));
  EXPECT_EQ(picture.filled(), KspacePicture::kMost);
}

TEST(KspacePicture, ShowsWhereSamplesLie) {
  KspacePicture picture(header(10, 1, protocol::Trajectory::radial), config::TrajectoryUnit::cycles_per_fov);
  ASSERT_FALSE(picture.lines());
  const int n = KspacePicture::kMost;
  picture.add(path({-5, -5, 0, 0, 4.99f, 0}));  // of -5..5 cycles/FOV at 10 pixels
  const auto at = [&](int row, int column) { return picture.cells()[static_cast<std::size_t>(row * n + column)]; };
  EXPECT_EQ(at(0, 0), '2');
  EXPECT_EQ(at(n / 2, n / 2), '2');
  EXPECT_EQ(at(n / 2, n - 1), '2');
  EXPECT_EQ(picture.filled(), 3);
  ASSERT_EQ(picture.path().size(), 6U);
  EXPECT_FLOAT_EQ(picture.path()[0], -0.5f);
}

TEST(KspacePicture, SurvivesWhatSendersMayWrite) {
  KspacePicture picture(header(10, 1, protocol::Trajectory::spiral), config::TrajectoryUnit::cycles_per_pixel);
  const float nan = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::max();
  picture.add(path({nan, 0, 0, nan, most, -most, -most, most}));
  EXPECT_EQ(picture.filled(), 2);  // the two finite ones, at the corners
  protocol::Acquisition without;   // no trajectory
  without.head.number_of_samples = 5;
  picture.add(without);
  protocol::Acquisition lying = path({0, 0});
  lying.head.number_of_samples = 500;
  picture.add(lying);
  EXPECT_EQ(picture.filled(), 2);
  protocol::Header none;
  none.images_only = true;
  KspacePicture empty(none, config::TrajectoryUnit::cycles_per_pixel);
  empty.add(line(0));
  EXPECT_EQ(empty.height(), 0);
}

TEST(LinesAnnounced, IsTheProductOfTheLimits) {
  protocol::Header one = header(64);
  EXPECT_EQ(lines_announced(one), 64U);
  protocol::Encoding& encoding = one.encodings[0];
  encoding.kspace_encoding_step_1 = {0, 62, 32};  // 63 lines
  encoding.slice = {0, 4, 0};
  encoding.repetition = {0, 9, 0};
  EXPECT_EQ(lines_announced(one), 63U * 5 * 10);
  encoding.acceleration = {2, 1};
  EXPECT_EQ(lines_announced(one), 32U * 5 * 10);
  one.encodings.push_back(header(8, 4).encodings[0]);
  EXPECT_EQ(lines_announced(one), 32U * 5 * 10 + 32);
  constexpr std::uint16_t kMost = std::numeric_limits<std::uint16_t>::max();
  for (auto* limit : {&one.encodings[0].average, &one.encodings[0].slice, &one.encodings[0].contrast,
                      &one.encodings[0].phase, &one.encodings[0].repetition, &one.encodings[0].set})
    *limit = {0, kMost, 0};
  EXPECT_EQ(lines_announced(one), std::uint64_t{1} << 53);  // no overflow
}

}  // namespace
}  // namespace echotrain::server
