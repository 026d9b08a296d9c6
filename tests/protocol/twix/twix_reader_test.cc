#include "protocol/twix/twix_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "protocol/data/header.h"
#include "protocol/data/layout.h"
#include "protocol/twix/raid.h"
#include "tests/protocol/twix/twix_bytes.h"

namespace echotrain::protocol::twix::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Twix : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("echotrain_twix_" + std::to_string(::getpid()) + ".dat");
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void save(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  TwixReader read(const std::vector<std::string>& measurements, const TwixOptions& options = {}) const {
    save(raid(measurements));
    return TwixReader(path_, options);
  }
  std::string refusal(const std::string& bytes) const {
    save(bytes);
    try {
      TwixReader{path_};
    } catch (const DatasetError& error) {
      return error.what();
    }
    return "none";
  }
  std::vector<std::size_t> prepared(std::size_t measurement) const {
    refused_.clear();
    return TwixFile(path_).preparations(measurement, refused_);
  }
  static Header parsed(const TwixReader& reader) {
    auto header = parse_header(reader.header_xml(), {});
    EXPECT_TRUE(header) << (header ? "" : header.error().message) << reader.header_xml();
    return *header;
  }
  std::filesystem::path path_;
  mutable std::vector<std::string> refused_;
};

ScanHead line(std::uint16_t number, std::uint64_t mask = 0) {
  ScanHead head;
  head.line = number;
  head.scan_counter = number + 1u;
  head.mask = mask;
  head.samples = 32;
  head.channels = 2;
  head.center_sample = 16;
  head.center_line = 6;
  head.quaternion = {1, 0, 0, 0};
  return head;
}

std::string lines(int count, std::uint64_t mask = 0) {
  std::string out;
  for (int i = 0; i < count; ++i) out += readout(line(static_cast<std::uint16_t>(i), mask));
  return out;
}

std::vector<float> samples_of(const Acquisition& readout) {
  std::vector<float> out(readout.data.bytes.size() / sizeof(float));
  readout.data.copy_to(out.data());
  return out;
}

void expect_samples(const Acquisition& readout, const ScanHead& head) {
  const auto samples = samples_of(readout);
  ASSERT_EQ(samples.size(), std::size_t{2} * head.samples * head.channels);
  for (std::size_t c = 0, at = 0; c < head.channels; ++c)
    for (std::size_t i = 0; i < head.samples; ++i)
      for (const bool imaginary : {false, true}) ASSERT_EQ(samples[at++], sample(head, c, i, imaginary));
}

TEST_F(Twix, FieldsOfAHeadHaveTheirPlace) {
  ScanHead head = line(3);
  head.measurement_uid = 99;
  head.time_stamp = 1000;
  head.pmu_time_stamp = 2000;
  head.table_um = {1000, -2000, -1040015};
  head.average = 1;
  head.slice = 2;
  head.partition = 4;
  head.echo = 5;
  head.phase = 6;
  head.repetition = 7;
  head.set = 8;
  head.segment = 9;
  head.free_counters = {11, 12, 13, 14, 15};
  head.cut_before = 3;
  head.cut_after = 5;
  head.center_partition = 4;
  head.position_mm = {-2.5f, 53.25f, -54};
  for (std::uint16_t i = 0; i < 24; ++i) head.program[i] = static_cast<std::uint16_t>(100 + i);
  head.since_rf = 77;
  const TwixReader reader = read({header() + readout(head) + the_end()});
  const Acquisition got = reader.acquisition(0);
  const AcquisitionHeader h = got.head;
  expect_samples(got, head);
  EXPECT_EQ(h.version, 1);
  EXPECT_EQ(+h.measurement_uid, 99u);
  EXPECT_EQ(+h.scan_counter, 4u);
  EXPECT_EQ(+h.acquisition_time_stamp, 1000u);
  EXPECT_EQ(+h.physiology_time_stamp[0], 2000u);
  EXPECT_EQ(h.idx.kspace_encode_step_1, 3);
  EXPECT_EQ(h.idx.kspace_encode_step_2, 4);
  EXPECT_EQ(h.idx.average, 1);
  EXPECT_EQ(h.idx.slice, 2);
  EXPECT_EQ(h.idx.contrast, 5);
  EXPECT_EQ(h.idx.phase, 6);
  EXPECT_EQ(h.idx.repetition, 7);
  EXPECT_EQ(h.idx.set, 8);
  EXPECT_EQ(h.idx.segment, 9);
  EXPECT_THAT(h.idx.user, ElementsAre(11, 12, 13, 14, 15, 6, 4, 0));
  EXPECT_THAT(h.user_int, ElementsAre(100, 101, 102, 103, 104, 105, 106, 77));
  EXPECT_THAT(h.user_float, ElementsAre(108, 109, 110, 111, 112, 113, 114, 115));
  EXPECT_EQ(h.discard_pre, 3);
  EXPECT_EQ(h.discard_post, 5);
  EXPECT_EQ(h.center_sample, 16);
  EXPECT_EQ(h.number_of_samples, 32);
  EXPECT_EQ(h.active_channels, 2);
  EXPECT_EQ(h.available_channels, 2);
  EXPECT_EQ(+h.channel_mask[0], 3u);
  EXPECT_THAT((std::vector<float>{h.position[0], h.position[1], h.position[2]}), ElementsAre(-2.5f, 53.25f, -54));
  EXPECT_THAT(
      (std::vector<float>{h.patient_table_position[0], h.patient_table_position[1], h.patient_table_position[2]}),
      ElementsAre(1, -2, -1040.015f));
  EXPECT_FLOAT_EQ(+h.sample_time_us, 11.6f);
}

// A rotation by 90 degrees about z takes (phase, read, slice) = (x, y, z) to (y, -x, z); an image's axes run against
// the gradients' (docs/conventions.md has the sign of the transform).
TEST_F(Twix, DirectionsAreThoseOfTheImage) {
  ScanHead head = line(0);
  head.quaternion = {std::sqrt(0.5f), 0, 0, std::sqrt(0.5f)};
  const AcquisitionHeader h = acquisition_header(head);
  const float read[] = {1, 0, 0}, phase[] = {0, -1, 0}, slice[] = {0, 0, -1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(h.read_dir[i], read[i], 1e-6);
    EXPECT_NEAR(h.phase_dir[i], phase[i], 1e-6);
    EXPECT_NEAR(h.slice_dir[i], slice[i], 1e-6);
  }
}

TEST_F(Twix, BitsBecomeFlags) {
  const auto flags = [](std::initializer_list<int> bits) {
    ScanHead head;
    for (const int each : bits) head.mask |= bit(each);
    return acquisition_header(head).flags;
  };
  const auto of = [](std::initializer_list<int> values) {
    std::uint64_t out = 0;
    for (const int value : values) out |= acquisition_flag(value);
    return out;
  };
  EXPECT_EQ(flags({25}), of({19}));
  EXPECT_EQ(flags({28}), of({7}));
  EXPECT_EQ(flags({29}), of({8}));
  EXPECT_EQ(flags({11}), of({14, 25}));
  EXPECT_EQ(flags({46}), of({25}));
  EXPECT_EQ(flags({22}), of({20}));
  EXPECT_EQ(flags({23}), of({21}));
  EXPECT_EQ(flags({22, 23}), of({21}));
  EXPECT_EQ(flags({24}), of({22}));
  EXPECT_EQ(flags({21}), of({24}));
  EXPECT_EQ(flags({1}), of({23, 28}));
  EXPECT_EQ(flags({2}), of({26}));
  EXPECT_EQ(flags({51}), of({27}));
  EXPECT_EQ(flags({35}), of({29}));
  EXPECT_EQ(flags({14}), of({30}));
  EXPECT_EQ(flags({15}), of({31}));
  // A correction factor for each channel is asked for on image lines; other bits have no flag.
  EXPECT_EQ(flags({3, 4, 8, 10, 16, 18, 26, 27}), 0u);
}

TEST_F(Twix, OtherDataAndReadoutsWithoutSamplesAreCounted) {
  ScanHead nothing = line(9);
  nothing.samples = 0;
  const TwixReader reader = read({header() + other(kSyncData, 500) + readout(line(0)) + readout(nothing) +
                                  other(kSyncData, kScanHeadBytes) + readout(line(1)) + the_end() + readout(line(2))});
  ASSERT_EQ(reader.acquisitions(), 2u);
  expect_samples(reader.acquisition(0), line(0));
  expect_samples(reader.acquisition(1), line(1));
  expect_samples(reader.acquisition(0), line(0));  // back again
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("2 blocks of other devices, such as physiology (692 bytes)"),
                                          HasSubstr("1 readout without samples")));
  EXPECT_THROW(static_cast<void>(reader.acquisition(2)), DatasetError);
}

TEST_F(Twix, AFileThatEndsEarlyGivesTheReadoutsBefore) {
  const std::string whole = raid({header() + lines(3)});
  save(whole);
  EXPECT_THAT(TwixReader(path_).notes(), ElementsAre(HasSubstr("ends early, at byte")));
  save(whole.substr(0, 10240 + header().size() + 2 * readout(line(0)).size() + 200));
  const TwixReader reader(path_);
  EXPECT_EQ(reader.acquisitions(), 2u);
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("(the directory announces more)")));
  expect_samples(reader.acquisition(1), line(1));
}

TEST_F(Twix, TheLastMeasurementIsTheScanAndNamesTheNoiseBeforeIt) {
  const std::string noise = header() + lines(2, bit(kNoise)) + lines(1) + the_end();
  const std::string prescan = header() + lines(4) + the_end(), scan = header() + lines(12) + the_end();
  const TwixReader reader = read({noise, prescan, scan});
  EXPECT_EQ(TwixFile(path_).measurements(), 3u);
  EXPECT_EQ(reader.measurement(), 3u);
  EXPECT_EQ(reader.name(), "measurement 3 (gre)");
  EXPECT_EQ(reader.acquisitions(), 12u);
  EXPECT_EQ(parsed(reader).measurement_id, "45385_6.0.66_13");
  EXPECT_EQ(parsed(reader).noise_dependency, "45385_6.0.66_11");
  EXPECT_THAT(prepared(0), ElementsAre(1));
  EXPECT_TRUE(prepared(1).empty());

  const TwixReader first(path_, {.measurement = 1, .preparation_for = 0});
  EXPECT_EQ(first.acquisitions(), 2u);
  EXPECT_EQ(parsed(first).measurement_id, "45385_6.0.66_11");
  EXPECT_EQ(parsed(first).noise_dependency, "");
  EXPECT_EQ(+first.acquisition(0).head.flags, acquisition_flag(19));
  EXPECT_FLOAT_EQ(+first.acquisition(1).head.sample_time_us, 240);  // 7680 us of 32 samples
  EXPECT_EQ(TwixReader(path_, {.measurement = 1}).acquisitions(), 3u);
  EXPECT_THROW(TwixReader(path_, {.measurement = 4}), DatasetError);
}

TEST_F(Twix, AScanThatNamesItsNoiseIsBelieved) {
  const std::string named = xprotocol("<ParamLong.\"ReconMeasDependencies\"> { <Comment> \"uids\" 0 0 1234 0 }\n");
  const std::string noise = header() + lines(2, bit(kNoise)) + the_end();
  EXPECT_EQ(parsed(read({noise, header(ascconv(), named) + lines(2) + the_end()})).noise_dependency,
            "45385_6.0.66_1234");
  // Noise of its own needs none.
  EXPECT_EQ(parsed(read({noise, header() + lines(1, bit(kNoise)) + lines(2) + the_end()})).noise_dependency, "");
}

// A pipeline for the scan need not take the encoding of the measurement that brought the noise.
TEST_F(Twix, NoiseComesWithTheEncodingOfItsScan) {
  const std::string other = header(ascconv("sKSpace.ucTrajectory = 2\n"));
  read({other + lines(2, bit(kNoise)) + the_end(),
        other + lines(2, bit(kNoise)) + lines(1, bit(kNormalise)) + the_end(), header() + lines(12) + the_end()});
  EXPECT_EQ(parsed(TwixReader(path_, {.measurement = 1})).encodings.at(0).trajectory, Trajectory::radial);
  const Header with = parsed(TwixReader(path_, {.measurement = 1, .preparation_for = 0}));
  EXPECT_EQ(with.encodings.at(0).trajectory, Trajectory::cartesian);
  EXPECT_EQ(with.encodings.at(0).encoded.matrix[1], 12u);
  EXPECT_EQ(with.measurement_id, "45385_6.0.66_11");
  // Lines for a receive field have places of their own.
  EXPECT_EQ(parsed(TwixReader(path_, {.measurement = 2, .preparation_for = 0})).encodings.at(0).trajectory,
            Trajectory::radial);
}

TEST_F(Twix, ADamagedMeasurementSpoilsNoOther) {
  const std::string noise = header() + lines(2, bit(kNoise)) + the_end(), scan = header() + lines(12) + the_end();
  const TwixReader reader = read({noise, header("") + the_end(), scan});
  EXPECT_EQ(reader.acquisitions(), 12u);
  EXPECT_EQ(parsed(reader).noise_dependency, "45385_6.0.66_11");
  EXPECT_THAT(prepared(0), ElementsAre(1));
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("the header of measurement 2")));
  EXPECT_THROW(TwixReader(path_, {.measurement = 2}), DatasetError);
}

/// Noise with the scan's encoding needs no space of its own; lines for a receive field do, and say where they lack it.
TEST_F(Twix, APreparationsOwnSpaceIsReadWhereItIsUsed) {
  const std::string none = ascconv("sSliceArray.asSlice[0].dThickness = 0\n");
  const std::string noise = header(none) + lines(2, bit(kNoise)) + the_end(),
                    field = header(none) + lines(2, bit(kNormalise)) + the_end();
  save(raid({noise, field, header() + lines(12) + the_end()}));
  const TwixReader reader(path_, {.measurement = 1, .preparation_for = 0});
  EXPECT_THAT(parsed(reader).encodings.at(0).encoded.matrix, ElementsAre(32, 12, 1));
  EXPECT_THAT(reader.notes(), ElementsAre());
  try {
    TwixReader(path_, {.measurement = 2, .preparation_for = 0});
    FAIL();
  } catch (const DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path_.string() + ": measurement 2: the protocol's sSliceArray"));
  }
}

/// The scan's heads, which have changed since, are not read again for a preparation's header.
TEST_F(Twix, ReadersOfAFileShareWhatAPassHasFound) {
  const std::string noise = header() + lines(2, bit(kNoise)) + the_end(), scan = header() + lines(12) + the_end();
  const TwixReader first = read({noise, scan});
  const TwixFile file(path_);
  EXPECT_EQ(TwixReader(file).acquisitions(), 12u);
  save(raid({noise, header() + other(kSyncData, 8) + std::string(scan.size(), '\0')}));
  const TwixReader reader(file, {.measurement = 1, .preparation_for = 0});
  EXPECT_EQ(reader.acquisitions(), 2u);
  EXPECT_THAT(parsed(reader).encodings.at(0).encoded.matrix, ElementsAre(32, 12, 1));
}

TEST_F(Twix, LinesForAReceiveFieldAreAPreparation) {
  const TwixReader reader =
      read({header() + lines(3, bit(kNormalise)) + lines(2) + the_end(), header() + lines(2) + the_end()});
  EXPECT_THAT(prepared(0), ElementsAre(1));
  EXPECT_EQ(TwixReader(path_, {.measurement = 1, .preparation_for = 0}).acquisitions(), 3u);
  EXPECT_EQ(parsed(reader).noise_dependency, "");
}

TEST_F(Twix, ThePatientIsNamedOnlyWhenAskedFor) {
  const std::string body = header() + lines(2) + the_end();
  const std::string without = read({body}).header_xml();
  for (const char* each : {"Doe", "id-7", "1970", "81.5", "subjectInformation"})
    EXPECT_THAT(without, Not(HasSubstr(each)));
  const std::string with = read({body}, {.patient = true}).header_xml();
  for (const char* each : {"<patientName>Doe^J\xc3\xbc<", "<patientID>id-7<", "<patientBirthdate>1970-01-31<",
                           "<patientWeight_kg>81.5<", "<patientGender>F<"})
    EXPECT_THAT(with, HasSubstr(each));
}

TEST_F(Twix, TheHeaderSaysWhatTheProtocolSays) {
  const TwixReader reader = read({header() + lines(12) + the_end()});
  const Header h = parsed(reader);
  const Encoding& e = h.encodings.at(0);
  EXPECT_THAT(e.encoded.matrix, ElementsAre(32, 12, 1));
  EXPECT_THAT(e.encoded.fov_mm, ElementsAre(400, 150, 5));
  EXPECT_THAT(e.recon.matrix, ElementsAre(16, 12, 1));
  EXPECT_THAT(e.recon.fov_mm, ElementsAre(200, 150, 5));
  EXPECT_EQ(e.trajectory, Trajectory::cartesian);
  EXPECT_EQ(e.kspace_encoding_step_1->maximum, 11);
  EXPECT_EQ(e.kspace_encoding_step_1->center, 6);
  EXPECT_EQ(h.receiver_channels, 2);
  const std::string xml = reader.header_xml();
  for (const char* each : {"<TR>10<", "<TE>3<", "<flipAngle_deg>15<", "<H1resonanceFrequency_Hz>123263034<",
                           "<patientPosition>FFS<", "<systemFieldStrength_T>2.89362001419<", "<protocolName>gre<"})
    EXPECT_THAT(xml, HasSubstr(each));
  // Values that other protocols left behind those in use.
  EXPECT_THAT(xml, Not(HasSubstr("<TE>7<")));
  EXPECT_THAT(xml, Not(HasSubstr("<TI>")));
  EXPECT_THAT(xml, Not(HasSubstr("parallelImaging")));
  EXPECT_TRUE(reader.notes().empty());
}

TEST_F(Twix, EchoesInversionAndAccelerationAreTold) {
  const std::string protocol = ascconv(
      "lContrasts = 2\nsPrepPulses.ucInversion = 1\nsPat.lAccelFactPE = 2\nsPat.lAccelFact3D = 3\nsPat.ucRefScanMode = "
      "2\n");
  const TwixReader reader = read({header(protocol) + lines(12) + the_end()});
  for (const char* each : {"<TE>3<", "<TE>7<", "<TI>300<"}) EXPECT_THAT(reader.header_xml(), HasSubstr(each));
  EXPECT_THAT(parsed(reader).encodings.at(0).acceleration, ElementsAre(2, 3));
  EXPECT_EQ(parsed(reader).encodings.at(0).calibration_mode, "embedded");
}

TEST_F(Twix, CoilsAreNamedInTheOrderOfTheirReceivers) {
  const auto coil = [](int i, int receiver, const char* name) {
    const std::string at = "sCoilSelectMeas.aRxCoilSelectData[0].asList[" + std::to_string(i) + "].";
    return at + "lADCChannelConnected = " + std::to_string(receiver) + "\n" + at + "lElementSelected = 1\n" + at +
           "sCoilElementID.tCoilID = \"Head\"\n" + at + "sCoilElementID.lCoilCopy = 1\n" + at +
           "sCoilElementID.tElement = \"" + name + "\"\n";
  };
  const std::string two = coil(0, 10, "H1") + coil(1, 2, "H2");
  EXPECT_THAT(parsed(read({header(ascconv(two)) + lines(2) + the_end()})).coil_labels,
              ElementsAre("Head:1:H2", "Head:1:H1"));
  // Three names for two rows name none of them.
  EXPECT_TRUE(parsed(read({header(ascconv(two + coil(2, 3, "H3"))) + lines(2) + the_end()})).coil_labels.empty());
}

TEST_F(Twix, MatricesHoldWhatReadoutsHave) {
  struct Case {
    const char* what;
    std::uint16_t samples, center, count, center_line;
    std::array<std::uint32_t, 2> matrix;
    double mm;
    int center_in_header;
  };
  const Case cases[] = {
      {"asymmetric echo", 20, 4, 12, 6, {32, 12}, 400, 6},
      {"partial Fourier", 32, 16, 8, 2, {32, 12}, 400, 2},
      {"Pulseq: no centre, more lines", 32, 16, 24, 0, {32, 24}, 400, 12},
      {"Pulseq: oversampled again", 64, 32, 12, 6, {64, 12}, 800, 6},
      {"a larger matrix than the protocol's", 40, 20, 12, 6, {40, 12}, 400, 6},
      {"an odd number of lines", 32, 16, 13, 6, {32, 13}, 400, 6},
      {"a centre off the middle", 32, 16, 12, 9, {32, 18}, 400, 9},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    std::string body = header();
    for (std::uint16_t i = 0; i < c.count; ++i) {
      ScanHead head = line(i);
      head.samples = c.samples;
      head.center_sample = c.center;
      head.center_line = c.center_line;
      body += readout(head);
    }
    const Encoding e = parsed(read({body + the_end()})).encodings.at(0);
    EXPECT_EQ(e.encoded.matrix[0], c.matrix[0]);
    EXPECT_EQ(e.encoded.matrix[1], c.matrix[1]);
    EXPECT_EQ(e.encoded.fov_mm[0], c.mm);
    EXPECT_EQ(e.kspace_encoding_step_1->center, c.center_in_header);
    // Every line has its place around the centre.
    const int half = static_cast<int>(e.encoded.matrix[1] / 2);
    EXPECT_GE(half, c.center_in_header);
    EXPECT_LT(c.count - 1 - c.center_in_header + half, static_cast<int>(e.encoded.matrix[1]));
  }
}

TEST_F(Twix, VolumesHavePartitionsAndTheirOversampling) {
  std::string body =
      header(ascconv("sKSpace.ucDimension = 4\nsKSpace.lImagesPerSlab = 4\n"
                     "sKSpace.dSliceOversamplingForDialog = 0.5\nsKSpace.dPhaseOversamplingForDialog = 0.2\n"),
             xprotocol("<ParamLong.\"i3DFTLength\"> { 6 }\n"));
  for (std::uint16_t i = 0; i < 6; ++i) {
    ScanHead head = line(i);
    head.partition = i;
    head.center_partition = 3;
    body += readout(head);
  }
  const Encoding e = parsed(read({body + the_end()})).encodings.at(0);
  EXPECT_THAT(e.encoded.matrix, ElementsAre(32, 12, 6));
  EXPECT_THAT(e.encoded.fov_mm, ElementsAre(400, 180, 7.5));
  EXPECT_THAT(e.recon.matrix, ElementsAre(16, 12, 4));
  EXPECT_THAT(e.recon.fov_mm, ElementsAre(200, 150, 5));
  EXPECT_EQ(e.kspace_encoding_step_2->maximum, 5);
  EXPECT_EQ(e.kspace_encoding_step_2->center, 3);
}

TEST_F(Twix, EpiIsDescribed) {
  const std::string programs = xprotocol(
      "<ParamLong.\"alRegridRampupTime\"> { 160 0 }\n<ParamLong.\"alRegridRampdownTime\"> { 150 0 }\n"
      "<ParamLong.\"alRegridFlattopTime\"> { 240 0 }\n<ParamLong.\"alRegridDelaySamplesTime\"> { 32 0 }\n"
      "<ParamLong.\"lEchoSpacing\"> { 560 }\n");
  const std::string navigators = readout(line(6, bit(kPhaseCorrection) | bit(kReflect) | bit(kRealTimeFeedback))) +
                                 readout(line(6, bit(kPhaseCorrection) | bit(kRealTimeFeedback)));
  std::string body = header(ascconv("sFastImaging.lEPIFactor = 12\n"), programs) + navigators;
  for (std::uint16_t i = 0; i < 12; ++i) body += readout(line(i, i % 2 == 1 ? bit(kReflect) : 0));
  const TwixReader reader = read({body + the_end()});
  const Encoding e = parsed(reader).encodings.at(0);
  EXPECT_EQ(e.trajectory, Trajectory::epi);
  ASSERT_TRUE(e.description);
  EXPECT_EQ(e.description->value("numberOfNavigators"), 2);
  EXPECT_EQ(e.description->value("rampUpTime"), 160);
  EXPECT_EQ(e.description->value("rampDownTime"), 150);
  EXPECT_EQ(e.description->value("flatTopTime"), 240);
  EXPECT_EQ(e.description->value("acqDelayTime"), 32);
  EXPECT_EQ(e.description->value("echoSpacing"), 560);
  EXPECT_EQ(e.description->value("numSamples"), 32);
  EXPECT_NEAR(e.description->value("dwellTime").value(), 11.6, 1e-5);
  EXPECT_EQ(e.kspace_encoding_step_1->maximum, 11);
}

// Samples of 1 us from 8 us after the beginning of a gradient that rises for 16 us, is flat for 16 and falls for 16:
// they see the flat part and three quarters of the area of either ramp (28 us), so that 32 samples lie 32/28 as far
// apart between the ramps as they do in the mean, and encode 28/32 of 400 mm.
/// A shot of the image has three; reference lines of two slices have theirs before.
TEST_F(Twix, NavigatorsAreThoseOfOneShotOfTheImage) {
  const auto of = [](std::uint16_t slice, std::uint64_t mask, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) {
      ScanHead head = line(static_cast<std::uint16_t>(i), mask);
      head.slice = slice;
      out += readout(head);
    }
    return out;
  };
  std::string body = header(ascconv("sFastImaging.lEPIFactor = 12\n"));
  for (const std::uint16_t slice : {0, 1}) body += of(slice, bit(kPhaseCorrection), 5) + of(slice, bit(kReference), 4);
  const std::string images = of(0, bit(kPhaseCorrection), 3) + of(0, 0, 12);
  EXPECT_EQ(parsed(read({body + images + the_end()})).encodings.at(0).description->value("numberOfNavigators"), 3);
  const std::string all_before = of(0, bit(kPhaseCorrection), 3) + of(1, bit(kPhaseCorrection), 3) + of(0, 0, 12);
  EXPECT_EQ(parsed(read({body + all_before + the_end()})).encodings.at(0).description->value("numberOfNavigators"), 3);
}

TEST_F(Twix, SamplesOnRampsEncodeLessThanTheyAre) {
  const std::string programs = xprotocol(
      "<ParamLong.\"alRegridRampupTime\"> { 16 0 }\n<ParamLong.\"alRegridRampdownTime\"> { 16 0 }\n"
      "<ParamLong.\"alRegridFlattopTime\"> { 16 0 }\n<ParamLong.\"alRegridDelaySamplesTime\"> { 8 0 }\n");
  const std::string protocol = ascconv("sFastImaging.lEPIFactor = 12\nsRXSPEC.alDwellTime[0] = 1000\n");
  const Encoding e = parsed(read({header(protocol, programs) + lines(12) + the_end()})).encodings.at(0);
  EXPECT_THAT(e.encoded.matrix, ElementsAre(28, 12, 1));
  EXPECT_THAT(e.encoded.fov_mm, ElementsAre(350, 150, 5));
  EXPECT_THAT(e.recon.matrix, ElementsAre(16, 12, 1));
  EXPECT_THAT(e.recon.fov_mm, ElementsAre(200, 150, 5));
}

TEST_F(Twix, SpokesAreReadAndSaidToLackTheirPlaces) {
  const TwixReader reader = read({header(ascconv("sKSpace.ucTrajectory = 2\n")) + lines(30) + the_end()});
  EXPECT_EQ(parsed(reader).encodings.at(0).trajectory, Trajectory::radial);
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("does not say where samples lie")));
}

TEST_F(Twix, AStackOfSpokesHasItsPartitions) {
  std::string body = header(ascconv("sKSpace.ucTrajectory = 2\nsKSpace.ucDimension = 4\n"));
  for (std::uint16_t i = 0; i < 8; ++i) {
    ScanHead head = line(i);
    head.partition = i;
    head.center_partition = 4;
    body += readout(head);
  }
  const Encoding e = parsed(read({body + the_end()})).encodings.at(0);
  EXPECT_THAT(e.encoded.matrix, ElementsAre(16, 16, 8));
  EXPECT_THAT(e.recon.matrix, ElementsAre(16, 16, 8));
  EXPECT_EQ(e.kspace_encoding_step_2->center, 4);
}

TEST_F(Twix, WhatCannotBeRightIsRefusedWithItsPlace) {
  const std::string good = raid({header() + lines(2) + the_end()});
  EXPECT_EQ(refusal(good), "none");
  EXPECT_THAT(refusal("no raw data"), HasSubstr("is not a Siemens raw data file"));
  EXPECT_THAT(refusal(good.substr(0, 9000)), HasSubstr("is not a Siemens raw data file"));
  std::string vb(20000, '\0');
  const std::uint32_t about[] = {15000, 6};
  std::memcpy(vb.data(), about, 8);
  std::memcpy(vb.data() + 8, "Config", 6);
  EXPECT_THAT(refusal(vb), HasSubstr("of VB, which is not read"));

  const auto changed = [&](std::size_t at, auto value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return bytes;
  };
  EXPECT_THAT(refusal(changed(16, std::uint64_t{1} << 40)), HasSubstr("begins at byte 1099511627776"));
  EXPECT_THAT(refusal(changed(10240, std::uint32_t{1} << 30)), HasSubstr("announces 1073741824 bytes"));
  EXPECT_THAT(refusal(changed(10244, std::uint32_t{0})), HasSubstr("0 texts"));
  EXPECT_THAT(refusal(changed(10255, std::uint32_t{1} << 30)), HasSubstr("'Config' is 1073741824 bytes long"));
  EXPECT_THAT(refusal(changed(10240 + header().size() + 50, std::uint16_t{2000})), HasSubstr("2000 channels"));
  EXPECT_THAT(refusal(raid({header() + other(kSyncData, 100)})), HasSubstr("announce less than their own head"));
  EXPECT_THAT(refusal(raid({header("")})), HasSubstr("ASCCONV"));
  EXPECT_THAT(refusal(raid({header(ascconv("sKSpace.lBaseResolution = 0\n"))})),
              HasSubstr("sKSpace.lBaseResolution is '0'"));
  // Two measurements that share their bytes.
  std::string twice = raid({header() + lines(2) + the_end(), header() + lines(2) + the_end()});
  std::memcpy(twice.data() + 8 + 152 + 8, twice.data() + 16, 8);
  EXPECT_THAT(refusal(twice), HasSubstr("overlap"));
  const std::uint64_t inside = 10240 + 512;
  std::memcpy(twice.data() + 8 + 152 + 8, &inside, 8);
  EXPECT_THAT(refusal(twice), HasSubstr("measurements 1 and 2 overlap"));
}

// Whatever the bytes, the reader gives readouts or a DatasetError, and reads on where a head's own length is wrong.
TEST_F(Twix, ChangedAndCutFilesAreReadOrRefused) {
  const std::string good =
      raid({header() + lines(1, bit(kNoise)) + the_end(), header() + other(kSyncData, 300) + lines(3) + the_end()});
  const auto try_it = [&](const std::string& bytes) {
    save(bytes);
    try {
      const TwixReader reader(path_);
      for (std::size_t i = 0; i < reader.acquisitions(); ++i) static_cast<void>(reader.acquisition(i));
      static_cast<void>(reader.notes());
      static_cast<void>(prepared(0));
      return true;
    } catch (const DatasetError&) {
      return false;
    }
  };
  ASSERT_TRUE(try_it(good));
  int read = 0;
  for (std::size_t at = 0; at < good.size(); at += at < 200 || at > 10200 ? 23 : 1009) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(~bytes[at]);
    read += try_it(bytes);
    read += try_it(good.substr(0, at));
  }
  EXPECT_GT(read, 50);
}

TEST_F(Twix, DeepNestingEndsTheTextsOfProgramsOnly) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<ParamMap.\"a\"> { ";
  const TwixReader reader = read({header(ascconv(), deep + xprotocol()) + lines(2) + the_end()});
  EXPECT_EQ(reader.acquisitions(), 2u);
  EXPECT_THAT(reader.header_xml(), HasSubstr("<patientPosition>HFS<"));  // what nobody told
}

}  // namespace
}  // namespace echotrain::protocol::twix::test
