// Beats and breaths of files, a chest that breathes, and scans that run freely through both.
#include "clients/cpp/simulate/subject/physiology.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "clients/cpp/base/usage_error.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

class PhysiologyFile : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    std::ofstream(folder_ / "beats.txt") << text;
    return (folder_ / "beats.txt").string();
  }
  std::string refused(const std::string& text) {
    try {
      read_physiology(file(text));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "(taken)";
  }
  TemporaryFolder folder_;
};

TEST_F(PhysiologyFile, HoldsBeatsAndBreaths) {
  const auto read = read_physiology(file("# a comment\nr 100.5\n\nb 0 0.25\nr 900 # another\nb 2000 1\nr 1e3\n"));
  EXPECT_EQ(read.beats_ms, (std::vector<double>{100.5, 900, 1000}));
  ASSERT_EQ(read.breathing.size(), 2u);
  EXPECT_EQ(read.breathing[1].ms, 2000);
  EXPECT_EQ(read.breathing[1].depth, 1);
}

TEST_F(PhysiologyFile, MistakesAreNamedWithTheirLine) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused("r 100\nr 900\n"), "2 R waves and 0 points of breathing");
  has(refused("r 1\nr 900\nr 1800\nb 1 0\n"), "1 points of breathing");
  has(refused("r 100\nr 900\nr 900\n"), "beats.txt:3: an R wave 0 ms after the one before");
  has(refused("r 100\nr 50\n"), ":2: an R wave -50 ms");
  has(refused("# x\nq 100\n"), ":2: 'q 100' is neither `r MS`");
  has(refused("r\n"), ":1: 'r' is neither");
  has(refused("r 1 2\n"), ":1: 'r 1 2' is neither");
  has(refused("b 1\n"), "`b MS DEPTH`");
  has(refused("r -1\n"), "0 or more");
  has(refused("b 0 1.5\n"), "between 0 (expiration) and 1");
  has(refused("b 5 1\nb 5 1\n"), "have to ascend");
  EXPECT_THROW(read_physiology(folder_ / "no_such_file"), UsageError);
}

TEST(BreathingTest, LingersAtExpirationAndFollowsItsRate) {
  Breathing breathing(15, 0, 1);
  EXPECT_NEAR(breathing.depth(2000), 1, 1e-12);
  EXPECT_NEAR(breathing.depth(4000), 0, 1e-12);
  EXPECT_NEAR(breathing.depth(5000), 0.25, 1e-12);  // sin^4 of 45 degrees
  EXPECT_EQ(breathing.since_ms(9000), 1000);
  Breathing irregular(15, 0.1, 1), again(15, 0.1, 1);
  EXPECT_NE(irregular.since_ms(90000), breathing.since_ms(90000));
  EXPECT_EQ(again.depth(90000), irregular.depth(90000));
}

TEST(BreathingTest, ATraceIsInterpolatedAndBeginsWhereItRises) {
  Breathing breathing({{1000, 0.2}, {2000, 0.6}, {3000, 0}, {4000, 1}});
  EXPECT_EQ(breathing.depth(0), 0.2);
  EXPECT_NEAR(breathing.depth(1500), 0.4, 1e-12);
  EXPECT_EQ(breathing.depth(9000), 1);
  EXPECT_EQ(breathing.since_ms(1700), -1);  // it rises through 0.5 at 1750
  EXPECT_NEAR(breathing.since_ms(2750), 1000, 1e-9);
  EXPECT_NEAR(breathing.since_ms(3600), 100, 1e-9);
}

TEST_F(PhysiologyFile, AFreeScanCarriesStampsOfItsBeatsAndBreaths) {
  const auto scan = (folder_ / "scan.h5").string();
  const std::string beats = file("r 33\nr 133\nr 333\nr 433\n");
  const std::vector<std::string> common = {"simulate",  "-o",
                                           scan,        "--trajectory",
                                           "cartesian", "--motion",
                                           "cardiac",   "--gating",
                                           "free",      "--matrix",
                                           "8",         "--coils",
                                           "1",         "--tr-ms",
                                           "5",         "--sweeps",
                                           "4",         "--breathing-mm",
                                           "20",        "--breathing-rate",
                                           "150",       "--jitter",
                                           "0",         "--centre-every",
                                           "4"};
  auto arguments = common;
  arguments.insert(arguments.end(), {"--physiology", beats});
  const auto made = command(arguments);
  ASSERT_EQ(made.code, 0) << made.err;
  {
    const protocol::DatasetReader reader(scan);
    ASSERT_EQ(reader.acquisitions(), 40u);  // 8 lines and 2 central ones, 4 times
    const int lines[] = {4, 0, 1, 2, 3, 4, 4, 5, 6, 7};
    for (std::size_t i = 0; i < 40; ++i) {
      const auto head = reader.acquisition(i).head;
      const double ms = 5 * (static_cast<double>(i) + 0.5);
      const double beat = ms < 33 ? ms : ms < 133 ? 33 : 133;
      EXPECT_EQ(+head.idx.kspace_encode_step_1, lines[i % 10]);
      EXPECT_EQ(+head.physiology_time_stamp[0], static_cast<std::uint32_t>((ms - beat) / 2.5)) << i;
      EXPECT_EQ(+head.physiology_time_stamp[1], static_cast<std::uint32_t>(ms / 2.5)) << i;  // a breath takes 400 ms
    }
  }
  arguments.insert(arguments.end(), {"--frames", "9"});
  EXPECT_NE(command(arguments).err.find("its last R wave is at 0.4 s, but the scan lasts 1.8 s"), std::string::npos);
  arguments = common;
  arguments.insert(arguments.end(), {"--physiology", beats, "--heart-rate", "70"});
  EXPECT_NE(command(arguments).err.find("leave one out"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::client
