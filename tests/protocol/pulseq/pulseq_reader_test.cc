#include "protocol/pulseq/pulseq_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "protocol/data/header.h"
#include "protocol/data/layout.h"
#include "protocol/pulseq/layout.h"
#include "tests/protocol/pulseq/sequence_text.h"

namespace echotrain::protocol::pulseq::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A scan of so many readouts of 4 samples, the first ones noise.
class Readouts final : public ScanReader {
 public:
  explicit Readouts(std::size_t readouts, std::size_t noise = 0, std::size_t in_average = SIZE_MAX)
      : readouts_(readouts), noise_(noise), in_average_(in_average) {}
  std::string header_xml() const override { return {}; }
  std::size_t acquisitions() const override { return readouts_; }
  Acquisition acquisition(std::size_t index) const override {
    Acquisition out;
    out.head.number_of_samples = 4;
    out.head.active_channels = 1;
    out.head.idx.kspace_encode_step_1 = 99;
    out.head.idx.repetition = 5;
    out.head.idx.average = static_cast<std::uint16_t>(index / in_average_);
    if (index < noise_) out.head.flags = acquisition_flag(ISMRMRD::ISMRMRD_ACQ_IS_NOISE_MEASUREMENT);
    out.data = Payload::take(std::vector<float>{static_cast<float>(index), 1, 2, 3, 4, 5, 6, 7});
    return out;
  }
  std::size_t waveforms() const override { return 0; }
  Waveform waveform(std::size_t /*index*/) const override { return {}; }
  std::vector<std::string> image_series() const override { return {}; }
  std::size_t images(const std::string& /*series*/) const override { return 0; }
  Image image(const std::string& /*series*/, std::size_t /*index*/) const override { return {}; }

 private:
  std::size_t readouts_, noise_, in_average_;
};

class Pulseq : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("echotrain_pulseq_" + std::to_string(::getpid()) + ".seq");
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path saved(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  KSpace kspace(const std::string& text) const { return KSpace(read_sequence(saved(text))); }
  PulseqReader reader(const std::string& text, std::size_t readouts, std::size_t noise = 0) const {
    return PulseqReader(std::make_unique<Readouts>(readouts, noise), saved(text));
  }
  std::string refusal(const std::string& text, std::size_t readouts = 2) const {
    try {
      const PulseqReader made = reader(text, readouts);
      for (std::size_t i = 0; i < readouts; ++i) static_cast<void>(made.acquisition(i));
    } catch (const DatasetError& error) {
      return error.what();
    }
    return "none";
  }
  std::filesystem::path path_;
};

TEST_F(Pulseq, PlacesAreTheAreasSinceTheExcitation) {
  for (const int minor : {4, 5}) {
    const KSpace k = kspace(lines(minor));
    ASSERT_EQ(k.readouts(), 2u);
    for (std::size_t n = 0; n < 4; ++n) {
      // -25 of the prephaser, 2.5 of the ramp, 5 to the middle of the first sample, 10 for each further one.
      EXPECT_NEAR(k.place(0, n)[0], -17.5 + 10.0 * static_cast<double>(n), 1e-9);
      EXPECT_NEAR(k.place(0, n)[1], -5, 1e-9);
      EXPECT_NEAR(k.place(1, n)[0], -17.5 + 10.0 * static_cast<double>(n), 1e-9);
      EXPECT_NEAR(k.place(1, n)[1], 0, 1e-9);  // the excitation has forgotten the first line
    }
  }
}

TEST_F(Pulseq, ARefocusingPulseTurnsTheSign) {
  // In block 2, when both prephasers are over; before it, the sign of block 3's would be the other one.
  const std::string text =
      with(with(lines(5), "2 100 0 1 2 0 0 0", "2 100 2 1 2 0 0 0"), "[TRAP]", "2 100 1 2 0 100 500 0 0 0 0 r\n[TRAP]");
  const KSpace k = kspace(text);
  EXPECT_NEAR(k.place(0, 0)[0], 25 + 7.5, 1e-9);
  EXPECT_NEAR(k.place(0, 0)[1], 5, 1e-9);
  EXPECT_NEAR(k.place(1, 0)[1], 0, 1e-9);
  // An inversion does nothing.
  EXPECT_NEAR(kspace(with(text, "500 0 0 0 0 r", "500 0 0 0 0 i")).place(0, 0)[0], -17.5, 1e-9);
}

TEST_F(Pulseq, BeforeVersion15APulseOfMoreThan90DegreesRefocuses) {
  // 100 Hz for 199 us are 7.2 degrees; 2500 Hz are 179 degrees. Its centre, at 100 us, is before the gradients' ends.
  const std::string text =
      with(with(lines(4), "2 100 0 1 2 0 0 0", "2 100 2 1 2 0 0 0"), "[TRAP]", "2 2500 1 2 0 500 0 0\n[TRAP]");
  EXPECT_NEAR(kspace(text).place(0, 0)[0], 25 + 7.5, 1e-9);
}

TEST_F(Pulseq, ShapesHaveStraightPiecesBetweenTheMiddlesOfRasterTimes) {
  // Four raster times at 1, 2, 3, 4 times 1e5 Hz/m, packed as one step that comes again; ends at 0.5 and 4.5.
  const std::string shape = "\nshape_id 3\nnum_samples 4\n1\n1\n2\n";
  const std::string old = with(lines(4), "[TRAP]\n1 -62500 100 300 100 0\n", "[GRADIENTS]\n1 100000 3 0 0\n[TRAP]\n");
  const std::string told =
      with(lines(5), "[TRAP]\n1 -62500 100 300 100 0\n", "[GRADIENTS]\n1 100000 50000 450000 3 0 0\n[TRAP]\n");
  // Trapezoid rule: 10 us x (0.5 x (0.5 + 1)/2 + (1 + 2)/2 + (2 + 3)/2 + (3 + 4)/2 + 0.5 x (4 + 4.5)/2) x 1e5 = 10.
  EXPECT_NEAR(kspace(told + shape).place(0, 0)[0], 10 + 7.5, 1e-9);
  // Before version 1.5 it begins where the axis was, at 0: 10 us x 0.5 x 0.5/2 x 1e5 less.
  EXPECT_NEAR(kspace(old + shape).place(0, 0)[0], 10 - 0.125 + 7.5, 1e-9);
  // Times of its own, in raster times: corners at 0, 10, 20, 40.
  const std::string times = "\nshape_id 4\nnum_samples 4\n0\n1\n2\n4\n";
  const std::string at = with(old, "1 100000 3 0 0", "1 100000 3 4 0");
  EXPECT_NEAR(kspace(at + shape + times).place(0, 0)[0], 1.5 + 2.5 + 7 + 7.5, 1e-9);
}

TEST_F(Pulseq, ReadoutsGetCountersHeaderAndTimes) {
  const PulseqReader r = reader(lines(5), 2);
  const Acquisition first = r.acquisition(0), second = r.acquisition(1);
  EXPECT_EQ(+first.head.idx.kspace_encode_step_1, 7);
  EXPECT_EQ(+second.head.idx.kspace_encode_step_1, 8);
  EXPECT_EQ(+second.head.idx.repetition, 5);  // no label tells it
  EXPECT_EQ(+first.head.center_sample, 2);    // -17.5, -7.5, 2.5, 12.5
  EXPECT_FLOAT_EQ(+first.head.sample_time_us, 100);
  EXPECT_EQ(first.head.trajectory_dimensions, 0);
  const auto header = parse_header(r.header_xml(), {});
  ASSERT_TRUE(header) << r.header_xml();
  const Encoding& encoding = header->encodings.at(0);
  EXPECT_EQ(encoding.trajectory, Trajectory::cartesian);
  EXPECT_THAT(encoding.recon.fov_mm, ElementsAre(100, 200, 10));
  EXPECT_EQ(encoding.encoded.matrix[0], 4u);
  ASSERT_TRUE(encoding.kspace_encoding_step_1);
  EXPECT_EQ(encoding.kspace_encoding_step_1->maximum, 8);
  EXPECT_EQ(encoding.kspace_encoding_step_1->center, 8);
}

TEST_F(Pulseq, LinesWithoutLabelsAreCountedByTheirPlace) {
  const PulseqReader r = reader(with(with(lines(5), "0 3 0 0 1 2", "0 3 0 0 1 0"), "0 3 0 0 1 1", "0 3 0 0 1 0"), 2);
  // -5/m and 0/m in a field of view of 0.2 m, where a line is 5/m: lines 0 and 1 of 2.
  EXPECT_EQ(+r.acquisition(0).head.idx.kspace_encode_step_1, 0);
  EXPECT_EQ(+r.acquisition(1).head.idx.kspace_encode_step_1, 1);
}

TEST_F(Pulseq, NoiseBesideTheSequencePassesAndItMayBePlayedTwice) {
  const PulseqReader r = reader(lines(5), 5, 1);
  EXPECT_EQ(+r.acquisition(0).head.idx.kspace_encode_step_1, 99);
  EXPECT_EQ(+r.acquisition(1).head.idx.kspace_encode_step_1, 7);
  EXPECT_EQ(+r.acquisition(4).head.idx.kspace_encode_step_1, 8);
  EXPECT_EQ(+r.acquisition(2).head.idx.repetition, 0);
  EXPECT_EQ(+r.acquisition(3).head.idx.repetition, 1);
  EXPECT_EQ(parse_header(r.header_xml(), {})->encodings.at(0).repetition->maximum, 1);
  EXPECT_THAT(refusal(lines(5), 3), HasSubstr("has 2 ADC events, but the scan has 3 readouts"));
}

TEST_F(Pulseq, RepetitionsGoOnFromPlayToPlay) {
  // The first line is repetition 0, the second 1; three plays of both.
  const PulseqReader r = reader(with(lines(5), "1 1 LIN\n[SHAPES]", "1 1 REP\n[SHAPES]"), 6);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(+r.acquisition(i).head.idx.repetition, i);
  EXPECT_EQ(parse_header(r.header_xml(), {})->encodings.at(0).repetition->maximum, 5);
  EXPECT_THAT(refusal(lines(5), 2 * 65537), HasSubstr("1 repetition, played 65537 times"));
}

TEST_F(Pulseq, AveragesOfTheScanAreNoRepetitions) {
  const PulseqReader r(std::make_unique<Readouts>(4, 0, 2), saved(lines(5)));
  EXPECT_EQ(+r.acquisition(3).head.idx.repetition, 5);
  EXPECT_EQ(+r.acquisition(3).head.idx.average, 1);
  EXPECT_THAT(r.notes(), ::testing::Contains("played 2 times, which are the scan's averages"));
}

TEST_F(Pulseq, OnceIsForTheFirstOrTheLastPlay) {
  // The first line is measured in the first play only, then, with ONCE = 2, in the last only.
  for (const int once : {1, 2}) {
    const std::string text = with(with(lines(5), "1 2 1 0\n2 1 1 0", "1 1 3 0\n2 1 1 3\n3 1 2 0"), "1 7 LIN",
                                  "1 7 LIN\n2 " + std::to_string(once) + " ONCE\n3 0 ONCE");
    const PulseqReader r = reader(text, 4);
    std::vector<int> repetitions;
    for (std::size_t i = 0; i < 4; ++i) repetitions.push_back(r.acquisition(i).head.idx.repetition);
    EXPECT_THAT(repetitions, once == 1 ? ElementsAre(0, 0, 1, 2) : ElementsAre(0, 1, 2, 2));
    EXPECT_EQ(r.notes().at(1), "played 3 times, each a repetition");
  }
}

TEST_F(Pulseq, ARotationTurnsTheBlocksGradients) {
  // A quarter turn about z, of the prephasers' block: x becomes y, y becomes -x. The readout is not turned.
  const std::string text = with(with(lines(5), "2 100 0 1 2 0 0 0", "2 100 0 1 2 0 0 4"), "2 1 1 0\n",
                                "2 1 1 0\n4 7 3 0\nextension ROTATIONS 7\n3 0.7071068 0 0 0.7071068\n");
  const KSpace k = kspace(text);
  EXPECT_NEAR(k.place(0, 0)[0], 5 + 7.5, 1e-9);  // the quaternion is normalised
  EXPECT_NEAR(k.place(0, 0)[1], -25, 1e-9);
  EXPECT_NEAR(k.place(1, 0)[0], -17.5, 1e-9);
  EXPECT_THAT(refusal(with(text, "3 0.7071068 0 0 0.7", "3 0.7071068 0 0 0.8")), HasSubstr("quaternion of length 1"));
  EXPECT_THAT(refusal(with(text, "4 7 3 0", "4 7 4 0")), HasSubstr("block 2: there is no rotation 4"));
  EXPECT_THAT(refusal(with(text, "4 7 3 0", "4 7 3 5\n5 7 3 0")), HasSubstr("block 2: two rotations"));
  EXPECT_THAT(refusal(with(lines(4), "extension LABELSET 1", "extension ROTATIONS 3\nextension LABELSET 1")),
              HasSubstr("ROTATIONS is of version 1.5"));
}

TEST_F(Pulseq, NoiseIsFoundInAScanThatWasCutEarly) {
  const PulseqReader r = reader(lines(5), 2, 1);
  EXPECT_EQ(+r.acquisition(0).head.idx.kspace_encode_step_1, 99);
  EXPECT_EQ(+r.acquisition(1).head.idx.kspace_encode_step_1, 7);
}

TEST_F(Pulseq, ABlocksLabelsAreSetBeforeTheyAreAddedTo) {
  for (const char* const list : {"3 2 1 4\n4 1 1 0\n", "3 1 1 4\n4 2 1 0\n"}) {
    const std::string text = with(lines(5), "3 100 0 3 0 0 1 2", "3 100 0 3 0 0 1 3");
    EXPECT_EQ(kspace(with(text, "2 1 1 0\n", std::string("2 1 1 0\n") + list)).labels(0).counter(Counter::line), 8);
  }
}

TEST_F(Pulseq, AReadoutWithoutAGradientChangesNoTrajectory) {
  const PulseqReader r = reader(with(lines(5), "[RF]\n", "7 100 1 0 0 0 0 0\n8 100 0 0 0 0 1 0\n[RF]\n"), 3);
  const auto header = parse_header(r.header_xml(), {});
  ASSERT_TRUE(header) << r.header_xml();
  EXPECT_EQ(header->encodings.at(0).trajectory, Trajectory::cartesian);
  EXPECT_EQ(header->encodings.at(0).encoded.matrix[0], 4u);
}

TEST_F(Pulseq, FlagsFollowFromLabels) {
  const std::string text =
      with(with(lines(5), "1 2 1 0\n2 1 1 0", "1 1 3 2\n2 1 2 0"), "1 7 LIN", "1 7 LIN\n2 1 REF\n3 1 IMA\n4 1 REV");
  const std::uint64_t flags = reader(text, 2).acquisition(1).head.flags;
  EXPECT_NE(flags & acquisition_flag(ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION_AND_IMAGING), 0u);
  EXPECT_EQ(flags & acquisition_flag(ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION), 0u);
}

TEST_F(Pulseq, WhatCannotBeIsRefusedByItsLineOrBlock) {
  const std::string good = lines(5);
  EXPECT_EQ(refusal(good), "none");
  EXPECT_THAT(refusal("hello\n"), HasSubstr("line 1: text before the first section"));
  EXPECT_THAT(refusal(with(good, "minor 5", "minor 3")), HasSubstr("version 1.3 is not read, only 1.4 and 1.5"));
  EXPECT_THAT(refusal(with(good, "1 100 1 0 0 0 0 0", "1 100 1 0 0 0 0")), HasSubstr("line 11: 7 values in [BLOCKS]"));
  EXPECT_THAT(refusal(with(good, "-62500", "nan")), HasSubstr("'nan' should be a number"));
  EXPECT_THAT(refusal(with(good, "FOV 0.1 0.2 0.01", "FOV wide")), HasSubstr("no field of view"));
  EXPECT_THAT(refusal(with(good, "2 100 0 1 2 0 0 0", "2 100 0 1 9 0 0 0")),
              HasSubstr("block 2: there is no gradient 9"));
  EXPECT_THAT(refusal(with(good, "1 7 LIN", "1 70000 LIN")), HasSubstr("block 3: the label LIN is 70000"));
  EXPECT_THAT(refusal(with(good, "1 4 100000", "1 5 100000")), HasSubstr("has 5 samples, readout 0 has 4"));
  EXPECT_THAT(refusal(with(good, "num_samples 200\n1", "num_samples 9999999\n1")),
              HasSubstr("should be a number from 0"));
  // A list that comes back to its beginning, and a shape of three numbers that says it has four million samples.
  EXPECT_THAT(refusal(with(good, "2 1 1 0\n", "2 1 1 2\n")), HasSubstr("more than 256 extensions"));
  const std::string packed = with(lines(4), "num_samples 200\n1\n0\n0\n197\n", "num_samples 200\n1\n0\n0\n900\n");
  EXPECT_THAT(refusal(packed), HasSubstr("shape 1 does not unpack to its 200 samples"));
}

TEST_F(Pulseq, ShapesTogetherAreBounded) {
  std::string gradients = "[GRADIENTS]\n", blocks;
  for (int i = 0; i < 10; ++i) {
    gradients += std::to_string(10 + i) + " 1 0 0 3 0 0\n";
    blocks += std::to_string(7 + i) + " 100 0 " + std::to_string(10 + i) + " 0 0 0 0\n";
  }
  const std::string text =
      with(lines(5), "[RF]\n", blocks + gradients + "[RF]\n") + "\nshape_id 3\nnum_samples 4194304\n0\n0\n4194302\n";
  EXPECT_THAT(refusal(text), HasSubstr("have more than 16777216 samples"));
}

TEST_F(Pulseq, ShapesThatPulsesShareCountOnce) {
  std::string pulses = "[RF]\n", blocks;
  for (int i = 0; i < 20; ++i) {
    pulses += std::to_string(10 + i) + " 1 3 0 0 0 0 " + std::to_string(i) + "\n";
    blocks += std::to_string(7 + i) + " 100 " + std::to_string(10 + i) + " 0 0 0 0 0\n";
  }
  const std::string text =
      with(lines(4), "[RF]\n", blocks + pulses) + "\nshape_id 3\nnum_samples 4194304\n0\n0\n4194302\n";
  EXPECT_EQ(refusal(text), "none");
}

}  // namespace
}  // namespace echotrain::protocol::pulseq::test
