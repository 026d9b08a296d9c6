// The "skip" rows of docs/protocol.md, "Validation and answers".
#include "protocol/data/acquisition_check.h"

#include <gtest/gtest.h>

#include <limits>

namespace echotrain::protocol::test {
namespace {

Header cartesian_header() {
  Encoding encoding;
  encoding.encoded.matrix = {8, 6, 4};
  encoding.recon = encoding.encoded;
  Header header;
  header.encodings = {encoding, encoding};
  return header;
}

// `count` floats, each `value`.
Payload floats(std::size_t count, float value = 1) { return Payload::take(std::vector<float>(count, value)); }

Acquisition readout(std::uint16_t samples = 8, std::uint16_t channels = 2, std::uint16_t dimensions = 0) {
  Acquisition acquisition;
  acquisition.head.version = 1;
  acquisition.head.number_of_samples = samples;
  acquisition.head.active_channels = channels;
  acquisition.head.trajectory_dimensions = dimensions;
  acquisition.head.center_sample = samples / 2;
  acquisition.trajectory = floats(std::size_t{samples} * dimensions);
  acquisition.data = floats(std::size_t{2} * samples * channels);
  return acquisition;
}

constexpr std::uint64_t flag(int value) { return 1ull << (value - 1); }

// The kind of the reason, or "" when the readout passes.
std::string verdict(const Acquisition& acquisition, const Header& header = cartesian_header()) {
  AcquisitionCheck check(header);
  const auto reason = check.check(acquisition);
  if (!reason) return "";
  EXPECT_FALSE(reason->message.empty());
  return std::string(reason->kind);
}

TEST(AcquisitionCheckTest, GoodReadoutPasses) { EXPECT_EQ(verdict(readout()), ""); }

TEST(AcquisitionCheckTest, ReadoutWithoutSamples) {
  EXPECT_EQ(verdict(readout(0, 2)), "readout without samples");
  EXPECT_EQ(verdict(readout(8, 0)), "readout without samples");
}

TEST(AcquisitionCheckTest, EncodingSpace) {
  Acquisition acquisition = readout();
  acquisition.head.encoding_space_ref = 1;
  EXPECT_EQ(verdict(acquisition), "");
  for (const std::uint16_t space : {2, 65535}) {
    acquisition.head.encoding_space_ref = space;
    EXPECT_EQ(verdict(acquisition), "encoding space not in the header");
  }
  acquisition.head.encoding_space_ref = 0;
  Header images_only;
  images_only.images_only = true;
  EXPECT_EQ(verdict(acquisition, images_only), "encoding space not in the header");
}

TEST(AcquisitionCheckTest, Discard) {
  Acquisition acquisition = readout();
  acquisition.head.discard_pre = 5;
  acquisition.head.discard_post = 3;
  EXPECT_EQ(verdict(acquisition), "");
  acquisition.head.discard_post = 4;
  EXPECT_EQ(verdict(acquisition), "more samples to discard than there are");
  acquisition.head.discard_pre = acquisition.head.discard_post = 32768;  // sums to 0 in 16 bits
  EXPECT_EQ(verdict(acquisition), "more samples to discard than there are");
}

TEST(AcquisitionCheckTest, CenterSampleMattersForImageLinesOnly) {
  Acquisition acquisition = readout();
  acquisition.head.center_sample = 7;
  EXPECT_EQ(verdict(acquisition), "");
  acquisition.head.center_sample = 8;
  EXPECT_EQ(verdict(acquisition), "center_sample outside the readout");
  acquisition.head.flags = flag(19);
  EXPECT_EQ(verdict(acquisition), "");
}

TEST(AcquisitionCheckTest, CartesianStepsLieInTheMatrix) {
  Acquisition acquisition = readout();
  acquisition.head.idx.kspace_encode_step_1 = 5;
  acquisition.head.idx.kspace_encode_step_2 = 3;
  EXPECT_EQ(verdict(acquisition), "");
  acquisition.head.idx.kspace_encode_step_1 = 6;
  EXPECT_EQ(verdict(acquisition), "counter kspace_encode_step_1 outside the matrix");
  acquisition.head.flags = flag(20);  // calibration lines are placed in k-space too
  EXPECT_EQ(verdict(acquisition), "counter kspace_encode_step_1 outside the matrix");
  acquisition.head.flags = flag(19);
  EXPECT_EQ(verdict(acquisition), "");
  acquisition.head.flags = 0;
  acquisition.head.idx.kspace_encode_step_1 = 0;
  acquisition.head.idx.kspace_encode_step_2 = 4;
  EXPECT_EQ(verdict(acquisition), "counter kspace_encode_step_2 outside the matrix");
}

TEST(AcquisitionCheckTest, LimitsAreChecked) {
  Header header = cartesian_header();
  Encoding& encoding = header.encodings[0];
  const CounterLimit limit{1, 2, 1};
  encoding.kspace_encoding_step_1 = encoding.kspace_encoding_step_2 = limit;
  encoding.average = encoding.slice = encoding.contrast = encoding.phase = limit;
  encoding.repetition = encoding.set = encoding.segment = limit;
  struct Row {
    const char* name;
    std::uint16_t ISMRMRD::ISMRMRD_EncodingCounters::*counter;
  };
  using Counters = ISMRMRD::ISMRMRD_EncodingCounters;
  const Row rows[] = {{"kspace_encode_step_1", &Counters::kspace_encode_step_1},
                      {"kspace_encode_step_2", &Counters::kspace_encode_step_2},
                      {"average", &Counters::average},
                      {"slice", &Counters::slice},
                      {"contrast", &Counters::contrast},
                      {"phase", &Counters::phase},
                      {"repetition", &Counters::repetition},
                      {"set", &Counters::set},
                      {"segment", &Counters::segment}};
  Counters inside{};
  for (const Row& row : rows) inside.*row.counter = 2;
  for (const Row& row : rows) {
    for (const std::uint16_t value : {0, 1, 2, 3}) {
      Acquisition acquisition = readout();
      Counters idx = inside;
      idx.*row.counter = value;
      acquisition.head.idx = idx;
      const std::string expected =
          value == 1 || value == 2 ? "" : std::string("counter ") + row.name + " outside its limits";
      EXPECT_EQ(verdict(acquisition, header), expected) << row.name << " = " << value;
    }
  }
}

/// siemens_to_ismrmrd says that there is one segment; Siemens' EPI counts its directions there.
TEST(AcquisitionCheckTest, SegmentsOfEpiAreFree) {
  Header header = cartesian_header();
  header.encodings[0].segment = CounterLimit{0, 0, 0};
  Acquisition acquisition = readout();
  acquisition.head.idx.segment = 1;
  EXPECT_EQ(verdict(acquisition, header), "counter segment outside its limits");
  header.encodings[0].trajectory = Trajectory::epi;
  EXPECT_EQ(verdict(acquisition, header), "");
}

TEST(AcquisitionCheckTest, CountersWithoutLimitsAreFree) {
  Acquisition acquisition = readout();
  acquisition.head.idx.repetition = 65535;
  acquisition.head.idx.slice = 65535;
  EXPECT_EQ(verdict(acquisition), "");
}

TEST(AcquisitionCheckTest, NonCartesianStepsHaveNoMatrixBound) {
  Header header = cartesian_header();
  Acquisition acquisition = readout(8, 2, 2);
  acquisition.head.idx.kspace_encode_step_1 = 60000;
  for (const Trajectory kind : {Trajectory::radial, Trajectory::golden_angle, Trajectory::spiral, Trajectory::other}) {
    header.encodings[0].trajectory = kind;
    EXPECT_EQ(verdict(acquisition, header), "");
  }
  header.encodings[0].trajectory = Trajectory::epi;
  EXPECT_EQ(verdict(acquisition, header), "counter kspace_encode_step_1 outside the matrix");
  header.encodings[0].trajectory = Trajectory::spiral;
  header.encodings[0].kspace_encoding_step_1 = CounterLimit{0, 59, 30};
  EXPECT_EQ(verdict(acquisition, header), "counter kspace_encode_step_1 outside its limits");
}

TEST(AcquisitionCheckTest, NonFiniteNumbersAnywhere) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    for (const std::size_t at : {0u, 511u, 512u, 1023u, 1999u}) {  // around the ends of blocks
      std::vector<float> data(2000, std::numeric_limits<float>::max());
      data[at] = value;
      Acquisition acquisition = readout(500, 2);
      acquisition.data = Payload::take(data);
      EXPECT_EQ(verdict(acquisition), "non-finite samples") << value << " at " << at;
      acquisition = readout(1000, 1, 2);
      acquisition.trajectory = Payload::take(std::move(data));
      EXPECT_EQ(verdict(acquisition), "non-finite trajectory") << value << " at " << at;
    }
  }
  // Each place counts, also those that fill no block; so do the signs.
  const Payload good = floats(2 * 29, -std::numeric_limits<float>::max());
  for (std::size_t at = 0; at < 2 * 29; ++at) {
    Acquisition acquisition = readout(29, 1);
    acquisition.data = good;
    ASSERT_EQ(verdict(acquisition), "");
    std::vector<float> data(2 * 29);
    data[at] = bad[at % 3];
    acquisition.data = Payload::take(std::move(data));
    EXPECT_EQ(verdict(acquisition), "non-finite samples") << at;
  }
  Acquisition acquisition = readout(500, 2);
  acquisition.data = floats(2000, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(verdict(acquisition), "");
}

TEST(AcquisitionCheckTest, NumbersThatSomebodyHasLookedAtAreNotLookedAtAgain) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Acquisition acquisition = readout(500, 2, 2);
  EXPECT_TRUE(all_finite(acquisition));
  acquisition.trajectory = floats(1000, nan);
  EXPECT_FALSE(all_finite(acquisition));
  EXPECT_EQ(verdict(acquisition), "non-finite trajectory");
  acquisition.trajectory = readout(500, 2, 2).trajectory;
  acquisition.data = floats(2000, nan);
  EXPECT_FALSE(all_finite(acquisition));
  EXPECT_EQ(verdict(acquisition), "non-finite samples");
  acquisition.known_finite = true;
  EXPECT_EQ(verdict(acquisition), "");
}

TEST(AcquisitionCheckTest, UnalignedPayloadIsRead) {
  std::vector<std::byte> bytes(1 + 2 * 8 * 2 * sizeof(float));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + 1 + 31 * sizeof(float), &nan, sizeof(nan));
  Acquisition acquisition = readout();
  acquisition.data.bytes = std::span<const std::byte>(bytes).subspan(1);
  EXPECT_EQ(verdict(acquisition), "non-finite samples");
}

TEST(AcquisitionCheckTest, FirstGoodReadoutFixesTheShapeOfItsGroup) {
  AcquisitionCheck check(cartesian_header());
  Acquisition odd = readout(4, 2);
  odd.head.idx.kspace_encode_step_1 = 999;
  EXPECT_TRUE(check.check(odd));  // skipped, so the next readout sets the group's size
  EXPECT_FALSE(check.check(readout(8, 2)));
  EXPECT_FALSE(check.check(readout(8, 2)));
  for (const Acquisition& other : {readout(9, 2), readout(8, 3), readout(8, 2, 1)}) {
    const auto reason = check.check(other);
    ASSERT_TRUE(reason);
    EXPECT_EQ(reason->kind, "readout shape differs from its group");
  }
  Acquisition noise = readout(64, 2);
  noise.head.flags = flag(19);
  EXPECT_FALSE(check.check(noise));  // another kind, another group
  Acquisition second = readout(16, 1);
  second.head.encoding_space_ref = 1;
  EXPECT_FALSE(check.check(second));  // another encoding space
  EXPECT_FALSE(check.check(readout(8, 2)));
}

TEST(AcquisitionCheckTest, SaysWhyOncePerKind) {
  AcquisitionCheck check(cartesian_header());
  Acquisition odd = readout();
  for (const auto& [step, message] :
       {std::pair{900, "idx.kspace_encode_step_1 is 900; the encoded matrix has "}, {901, ""}}) {
    odd.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(step);
    const auto reason = check.check(odd);
    ASSERT_TRUE(reason);
    EXPECT_EQ(reason->kind, "counter kspace_encode_step_1 outside the matrix");
    EXPECT_EQ(reason->message.substr(0, std::string(message).size()), message);
    EXPECT_EQ(reason->message.empty(), step == 901);
  }
  EXPECT_FALSE(check.check(readout(0, 2))->message.empty()) << "another kind";
}

TEST(ReadoutKindTest, FollowsTheFlags) {
  const auto kind = [](std::uint64_t flags) {
    AcquisitionHeader head{};
    head.flags = flags;
    return readout_kind(head);
  };
  EXPECT_EQ(kind(0), ReadoutKind::imaging);
  EXPECT_EQ(kind(flag(1) | flag(8) | flag(25) | flag(40) | flag(64)), ReadoutKind::imaging);
  EXPECT_EQ(kind(flag(19)), ReadoutKind::noise);
  EXPECT_EQ(kind(flag(20)), ReadoutKind::calibration);
  EXPECT_EQ(kind(flag(21)), ReadoutKind::imaging);
  EXPECT_EQ(kind(flag(20) | flag(21)), ReadoutKind::imaging);
  EXPECT_EQ(kind(flag(22)), ReadoutKind::other);
  EXPECT_EQ(kind(flag(23)), ReadoutKind::navigator);
  EXPECT_EQ(kind(flag(24)), ReadoutKind::phase_correction);
  EXPECT_EQ(kind(flag(24) | flag(22)), ReadoutKind::phase_correction);
  for (const int value : {26, 27, 28, 29, 30, 31}) EXPECT_EQ(kind(flag(value)), ReadoutKind::other) << value;
}

TEST(ReadoutKindTest, ReversedLinesOfEpiAreLines) {
  const auto kind = [](std::uint64_t flags, Trajectory trajectory = Trajectory::epi) {
    AcquisitionHeader head{};
    head.flags = flags;
    return readout_kind(head, trajectory);
  };
  EXPECT_EQ(kind(flag(22)), ReadoutKind::imaging);
  EXPECT_EQ(kind(flag(22), Trajectory::cartesian), ReadoutKind::other);
  EXPECT_EQ(kind(flag(20) | flag(22)), ReadoutKind::calibration);
  EXPECT_EQ(kind(flag(24) | flag(22)), ReadoutKind::phase_correction);
  EXPECT_EQ(kind(flag(27) | flag(22)), ReadoutKind::other);  // a dummy scan
  EXPECT_EQ(kind(0), ReadoutKind::imaging);
}

TEST(ImageAttributes, AreDroppedWhenNotReadable) {
  const auto refused = [](std::string text) {
    Image image;
    image.attributes = std::move(text);
    return check_attributes(image, Limits{}).has_value();
  };
  EXPECT_FALSE(refused(""));
  EXPECT_FALSE(refused("<ismrmrdMeta><meta><name>a</name><value>b</value></meta></ismrmrdMeta>"));
  EXPECT_FALSE(refused("<?xml version=\"1.0\"?>\n<ismrmrdMeta/>"));
  EXPECT_TRUE(refused("<ismrmrdMeta>"));
  EXPECT_TRUE(refused("hello"));
  EXPECT_TRUE(refused("<other/>"));
  EXPECT_TRUE(refused("<!DOCTYPE a><ismrmrdMeta/>"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_TRUE(refused(deep));
}

}  // namespace
}  // namespace echotrain::protocol::test
