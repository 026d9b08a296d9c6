#include "protocol/data/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/data/xml_check.h"

namespace echotrain::protocol::test {
namespace {

using ::testing::HasSubstr;

void replace(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

// A header as a scanner writes it. The first matrixSize and fieldOfView_mm are those of the encoded space.
std::string good_xml() {
  return R"(<?xml version="1.0" encoding="UTF-8"?>
<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
  <version>1</version>
  <measurementInformation>
    <measurementID>42_7</measurementID>
    <patientPosition>HFS</patientPosition>
    <measurementDependency><dependencyType>SenMap</dependencyType><measurementID>42_5</measurementID></measurementDependency>
    <measurementDependency><dependencyType>NOISE</dependencyType><measurementID>42_6</measurementID></measurementDependency>
  </measurementInformation>
  <acquisitionSystemInformation>
    <relativeReceiverNoiseBandwidth>0.79</relativeReceiverNoiseBandwidth>
    <receiverChannels>16</receiverChannels>
    <coilLabel><coilNumber>7</coilNumber><coilName>Head:1:H2</coilName></coilLabel>
    <coilLabel><coilNumber>3</coilNumber><coilName> Head:1:H1 </coilName></coilLabel>
    <coilLabel><coilNumber>12</coilNumber><coilName>Neck</coilName></coilLabel>
  </acquisitionSystemInformation>
  <experimentalConditions><H1resonanceFrequency_Hz>63500000</H1resonanceFrequency_Hz></experimentalConditions>
  <encoding>
    <encodedSpace>
      <matrixSize><x>256</x><y>140</y><z>80</z></matrixSize>
      <fieldOfView_mm><x>600</x><y>328.153125</y><z>160</z></fieldOfView_mm>
    </encodedSpace>
    <reconSpace>
      <matrixSize><x>128</x><y>116</y><z>64</z></matrixSize>
      <fieldOfView_mm><x>300</x><y>271.875</y><z>128</z></fieldOfView_mm>
    </reconSpace>
    <encodingLimits>
      <kspace_encoding_step_1><minimum>0</minimum><maximum>83</maximum><center>28</center></kspace_encoding_step_1>
      <kspace_encoding_step_2><minimum>2</minimum><maximum>45</maximum><center>20</center></kspace_encoding_step_2>
      <slice><minimum>0</minimum><maximum>3</maximum><center>0</center></slice>
    </encodingLimits>
    <trajectory>cartesian</trajectory>
    <parallelImaging>
      <accelerationFactor><kspace_encoding_step_1>2</kspace_encoding_step_1><kspace_encoding_step_2>3</kspace_encoding_step_2></accelerationFactor>
      <calibrationMode>embedded</calibrationMode>
      <interleavingDimension>repetition</interleavingDimension>
    </parallelImaging>
  </encoding>
</ismrmrdHeader>)";
}

Result<Header> parse_changed(std::string_view from, std::string_view to) {
  std::string xml = good_xml();
  replace(xml, from, to);
  return parse_header(xml, Limits{});
}

void expect_refused(const Result<Header>& result, const std::string& part) {
  ASSERT_FALSE(result) << "should mention " << part;
  EXPECT_EQ(result.error().code, "bad-header");
  EXPECT_THAT(result.error().message, HasSubstr(part));
}

TEST(HeaderXml, EveryFieldIsRead) {
  const auto header = parse_header(good_xml(), Limits{});
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_FALSE(header->images_only);
  EXPECT_EQ(header->xml, good_xml());
  EXPECT_EQ(header->measurement_id, "42_7");
  EXPECT_EQ(header->noise_dependency, "42_6");
  ASSERT_EQ(header->dependencies.size(), 2u);
  EXPECT_EQ(header->dependencies[0].type, "SenMap");
  EXPECT_EQ(header->dependencies[0].measurement_id, "42_5");
  EXPECT_EQ(header->dependencies[1].type, "NOISE");
  EXPECT_EQ(header->dependencies[1].measurement_id, "42_6");
  EXPECT_EQ(header->coil_labels, (std::vector<std::string>{"Head:1:H1", "Head:1:H2", "Neck"}));
  EXPECT_EQ(header->receiver_channels, 16u);
  EXPECT_EQ(header->relative_receiver_noise_bandwidth, 0.79);
  ASSERT_EQ(header->encodings.size(), 1u);
  const Encoding& encoding = header->encodings[0];
  EXPECT_EQ(encoding.encoded.matrix, (std::array<std::uint32_t, 3>{256, 140, 80}));
  EXPECT_EQ(encoding.encoded.fov_mm, (std::array<double, 3>{600, 328.153125, 160}));
  EXPECT_EQ(encoding.recon.matrix, (std::array<std::uint32_t, 3>{128, 116, 64}));
  EXPECT_EQ(encoding.recon.fov_mm, (std::array<double, 3>{300, 271.875, 128}));
  EXPECT_EQ(encoding.trajectory, Trajectory::cartesian);
  ASSERT_TRUE(encoding.kspace_encoding_step_1 && encoding.kspace_encoding_step_2 && encoding.slice);
  EXPECT_EQ(encoding.kspace_encoding_step_1->maximum, 83);
  EXPECT_EQ(encoding.kspace_encoding_step_1->center, 28);
  EXPECT_EQ(encoding.kspace_encoding_step_2->minimum, 2);
  EXPECT_EQ(encoding.slice->maximum, 3);
  EXPECT_FALSE(encoding.average || encoding.contrast || encoding.phase || encoding.repetition || encoding.set ||
               encoding.segment);
  EXPECT_EQ(encoding.acceleration, (std::array<std::uint16_t, 2>{2, 3}));
  EXPECT_EQ(encoding.calibration_mode, "embedded");
  EXPECT_EQ(encoding.interleaving, "repetition");
}

TEST(HeaderXml, CoilLabelsArePrintableAndBounded) {
  std::string xml = good_xml(), labels;
  for (int i = 0; i < 1100; ++i)
    labels += "<coilLabel><coilNumber>" + std::to_string(1100 - i) + "</coilNumber><coilName>" +
              (i == 1   ? std::string(100, 'x') + "</coilName>"
               : i == 2 ? "a\tb</coilName>"
                        : "c</coilName>") +
              "</coilLabel>";
  replace(xml, "<receiverChannels>", labels + "<receiverChannels>");
  const auto header = parse_header(xml, Limits{});
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->coil_labels.size(), 1024u);
  EXPECT_EQ(header->coil_labels[1021], "a?b");  // numbers 1098, 1099 and 1100 are the last
  EXPECT_LE(header->coil_labels[1022].size(), 64u);
  EXPECT_EQ(header->coil_labels[1022].substr(0, 50), std::string(50, 'x'));
  // A label without a number makes all of them unknown, and no more.
  for (const char* number : {"-1", "65536", "x", ""}) {
    const auto changed = parse_changed("<coilNumber>7<", std::string("<coilNumber>") + number + "<");
    ASSERT_TRUE(changed) << number;
    EXPECT_TRUE(changed->coil_labels.empty()) << number;
  }
}

TEST(HeaderXml, EveryLimitIsReadFromItsOwnElement) {
  std::string xml = good_xml();
  std::string limits = "<encodingLimits>";
  int value = 1;
  for (const char* name : {"average", "contrast", "phase", "repetition", "set", "segment"}) {
    const std::string n = std::to_string(value++);
    limits +=
        std::string("<") + name + "><minimum>0</minimum><maximum>" + n + "</maximum><center>0</center></" + name + ">";
  }
  replace(xml, "<encodingLimits>", limits);
  const auto header = parse_header(xml, Limits{});
  ASSERT_TRUE(header) << header.error().message;
  const Encoding& encoding = header->encodings[0];
  EXPECT_EQ(encoding.average->maximum, 1);
  EXPECT_EQ(encoding.contrast->maximum, 2);
  EXPECT_EQ(encoding.phase->maximum, 3);
  EXPECT_EQ(encoding.repetition->maximum, 4);
  EXPECT_EQ(encoding.set->maximum, 5);
  EXPECT_EQ(encoding.segment->maximum, 6);
}

// libismrmrd 1.8 reads -64 as 65472, 70000 as 4464, abc as 0 and 99999999999 as 59391.
TEST(HeaderXml, SizesThatTheLibraryWrapsAreRefused) {
  for (const char* value : {"-64", "70000", "abc", "99999999999", "99999999999999999999999", "0", "", "1.5", "0x10",
                            "4097", "+5", "12 13"}) {
    const auto header = parse_changed("<y>140</y>", std::string("<y>") + value + "</y>");
    expect_refused(header, "encoding[0]/encodedSpace/matrixSize/y is '" + std::string(value) + "'");
    expect_refused(parse_changed("<z>64</z>", std::string("<z>") + value + "</z>"), "reconSpace/matrixSize/z");
  }
  EXPECT_TRUE(parse_changed("<y>140</y>", "<y>4096</y>"));
  EXPECT_TRUE(parse_changed("<y>140</y>", "<y> 140\n</y>"));
}

// An XML declaration behind other text, which the library stops at. A fuzzer's finding.
TEST(HeaderXml, WhatOnlyTheLibraryCannotLoadIsRefused) {
  expect_refused(parse_header("a]..l/>a:./><a:./>:" + good_xml(), Limits{}), "libismrmrd cannot read the header");
}

TEST(HeaderXml, MatrixProductIsCapped) {
  std::string xml = good_xml();
  replace(xml, "<x>256</x><y>140</y><z>80</z>", "<x>4096</x><y>4096</y><z>64</z>");
  EXPECT_TRUE(parse_header(xml, Limits{}));
  replace(xml, "<z>64</z>", "<z>65</z>");
  expect_refused(parse_header(xml, Limits{}), "voxels");
}

TEST(HeaderXml, FieldOfViewMustBeFiniteAndPositive) {
  for (const char* value : {"nan", "NaN", "inf", "-1", "0", "", "abc", "1e999", "3 4"}) {
    expect_refused(parse_changed("<x>600</x>", std::string("<x>") + value + "</x>"), "encodedSpace/fieldOfView_mm/x");
  }
  EXPECT_TRUE(parse_changed("<x>600</x>", "<x>6e2</x>"));
}

TEST(HeaderXml, ReconstructedFieldOfViewLiesInsideTheEncodedOne) {
  EXPECT_TRUE(parse_changed("<x>300</x>", "<x>605</x>"));  // rounding
  expect_refused(parse_changed("<x>300</x>", "<x>610</x>"), "reconSpace/fieldOfView_mm/x is 610 mm");
  // Interpolation to a finer matrix is legal.
  EXPECT_TRUE(parse_changed("<x>128</x>", "<x>512</x>"));
}

TEST(HeaderXml, LimitsMustBeOrderedSixteenBitNumbers) {
  expect_refused(parse_changed("<maximum>83</maximum>", "<maximum>65536</maximum>"), "kspace_encoding_step_1/maximum");
  expect_refused(parse_changed("<maximum>83</maximum>", "<maximum>-1</maximum>"), "kspace_encoding_step_1/maximum");
  expect_refused(parse_changed("<center>28</center>", "<center>84</center>"), "minimum <= center <= maximum");
  expect_refused(parse_changed("<center>20</center>", "<center>1</center>"), "minimum <= center <= maximum");
  expect_refused(parse_changed("<maximum>45</maximum>", "<maximum>1</maximum>"), "kspace_encoding_step_2");
  EXPECT_TRUE(parse_changed("<maximum>83</maximum>", "<maximum>65535</maximum>"));
}

TEST(HeaderXml, Trajectories) {
  const std::pair<const char*, Trajectory> kinds[] = {
      {"cartesian", Trajectory::cartesian},      {"epi", Trajectory::epi},       {"radial", Trajectory::radial},
      {"goldenangle", Trajectory::golden_angle}, {"spiral", Trajectory::spiral}, {"other", Trajectory::other}};
  for (const auto& [name, kind] : kinds) {
    const auto header = parse_changed("<trajectory>cartesian", std::string("<trajectory>") + name);
    ASSERT_TRUE(header) << name << ": " << header.error().message;
    EXPECT_EQ(header->encodings[0].trajectory, kind);
    EXPECT_EQ(to_string(kind), name);
  }
  // EPI by the stylesheet that siemens_to_ismrmrd takes by itself.
  for (const auto& [identifier, kind] :
       {std::pair{"ConventionalEPI", Trajectory::epi}, std::pair{"Own", Trajectory::cartesian}}) {
    const auto header =
        parse_changed("<trajectory>cartesian</trajectory>",
                      std::string("<trajectory>cartesian</trajectory><trajectoryDescription><identifier>") +
                          identifier + "</identifier></trajectoryDescription>");
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->encodings[0].trajectory, kind);
  }
  expect_refused(parse_changed("<trajectory>cartesian", "<trajectory>rosette"), "trajectory is 'rosette'");
  expect_refused(parse_changed("<trajectory>cartesian</trajectory>", ""), "trajectory is missing");
}

TEST(HeaderXml, MissingPartsAreNamed) {
  expect_refused(parse_changed("<y>140</y>", ""), "encodedSpace/matrixSize/y is missing");
  std::string xml = good_xml();
  const auto begin = xml.find("<encoding>");
  xml.erase(begin, xml.find("</encoding>") + 11 - begin);
  expect_refused(parse_header(xml, Limits{}), "encoding");
  xml = good_xml();
  replace(
      xml,
      "<experimentalConditions><H1resonanceFrequency_Hz>63500000</H1resonanceFrequency_Hz></experimentalConditions>",
      "");
  expect_refused(parse_header(xml, Limits{}), "libismrmrd");  // required by the schema, found by the library
}

TEST(HeaderXml, NumbersOutsideTheEncoding) {
  expect_refused(parse_changed("<receiverChannels>16", "<receiverChannels>1025"), "receiverChannels");
  expect_refused(parse_changed("<receiverChannels>16", "<receiverChannels>-1"), "receiverChannels");
  expect_refused(parse_changed(">0.79<", ">nan<"), "relativeReceiverNoiseBandwidth");
  expect_refused(parse_changed("<kspace_encoding_step_1>2<", "<kspace_encoding_step_1>70000<"), "accelerationFactor");
}

TEST(HeaderXml, AnyVersionIsAccepted) {
  EXPECT_TRUE(parse_changed("<version>1<", "<version>8<"));
  EXPECT_TRUE(parse_changed("<version>1<", "<version>15<"));
}

TEST(HeaderXml, NamespacePrefixesAreAllowed) {
  std::string prefixed;
  const std::string xml = good_xml();
  for (std::size_t i = 0; i < xml.size(); ++i) {
    prefixed += xml[i];
    const bool opens = xml[i] == '<' && xml[i + 1] != '/' && xml[i + 1] != '?';
    const bool closes = xml[i] == '/' && i > 0 && xml[i - 1] == '<';
    if (opens || closes) prefixed += "ismrmrd:";
  }
  replace(prefixed, "xmlns=", "xmlns:ismrmrd=");
  const auto header = parse_header(prefixed, Limits{});
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->encodings.at(0).encoded.matrix[1], 140u);
  EXPECT_EQ(header->noise_dependency, "42_6");
  EXPECT_EQ(header->xml, prefixed);
}

TEST(HeaderXml, SeveralEncodings) {
  std::string xml = good_xml();
  const auto begin = xml.find("<encoding>");
  std::string second = xml.substr(begin, xml.find("</encoding>") + 11 - begin);
  replace(second, "<x>256</x>", "<x>64</x>");
  xml.insert(begin, second);
  const auto header = parse_header(xml, Limits{});
  ASSERT_TRUE(header);
  ASSERT_EQ(header->encodings.size(), 2u);
  EXPECT_EQ(header->encodings[0].encoded.matrix[0], 64u);
  EXPECT_EQ(header->encodings[1].encoded.matrix[0], 256u);
}

/// Gadgets prepare something for each: 1 MiB has room for 1,800 of them.
TEST(HeaderXml, EncodingsAreBounded) {
  std::string xml = good_xml();
  const auto begin = xml.find("<encoding>"), end = xml.find("</encoding>") + 11;
  const std::string one = xml.substr(begin, end - begin);
  for (std::uint32_t i = 1; i < kServerLimits.encodings; ++i) xml.insert(begin, one);
  const auto header = parse_header(xml, kServerLimits);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->encodings.size(), kServerLimits.encodings);
  xml.insert(begin, one);
  expect_refused(parse_header(xml, kServerLimits), "there are more than 64 elements 'encoding'");
}

/// What only EPI's gadgets need is read with the rest: each of them would parse the whole text for each encoding.
TEST(HeaderXml, EncodingsSayHowEpiIsPlayed) {
  std::string xml = good_xml();
  const auto begin = xml.find("<encoding>");
  std::string second = xml.substr(begin, xml.find("</encoding>") + 11 - begin);
  replace(second, "<trajectory>cartesian</trajectory>",
          "<trajectory>epi</trajectory><trajectoryDescription><identifier>Own</identifier><userParameterLong>"
          "<name>rampUpTime</name><value>190</value></userParameterLong></trajectoryDescription>");
  replace(second, "<interleavingDimension>",
          "<multiband><spacing><dZ>12</dZ></spacing><deltaKz>1</deltaKz>"
          "<multiband_factor>2</multiband_factor><calibration>separable2D"
          "</calibration><calibration_encoding>0</calibration_encoding></multiband>"
          "<interleavingDimension>");
  xml.insert(xml.find("</ismrmrdHeader>"), second);
  const auto header = parse_header(xml, Limits{});
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_FALSE(header->encodings.at(0).description);
  EXPECT_FALSE(header->encodings.at(0).multiband);
  ASSERT_TRUE(header->encodings.at(1).description);
  EXPECT_EQ(header->encodings[1].description->value("rampUpTime"), 190);
  ASSERT_TRUE(header->encodings[1].multiband);
  EXPECT_EQ(header->encodings[1].multiband->factor, 2u);
}

TEST(HeaderXml, HostileXmlIsRefusedBeforeItIsParsed) {
  std::string deep = "<ismrmrdHeader>";
  for (int i = 0; i < 1'000'000; ++i) deep += "<a>";
  expect_refused(parse_header(deep, Limits{}), "deep");
  expect_refused(parse_header("<!DOCTYPE a [<!ENTITY b \"c\">]>" + good_xml(), Limits{}), "document type");
  std::string xml = good_xml();
  replace(xml, "<encoding>", "<!ENTITY b \"c\"><encoding>");
  expect_refused(parse_header(xml, Limits{}), "entity");
  expect_refused(parse_header("<ismrmrdHeader><!-- ", Limits{}), "ends inside");
  expect_refused(parse_header("<ismrmrdHeader", Limits{}), "ends inside");
}

TEST(HeaderXml, DepthCountsElementsOnly) {
  // Comments, CDATA, empty elements and '>' or '/' inside quotes do not nest.
  std::string inside;
  for (int i = 0; i < 100; ++i) inside += "<a b='>'/><!-- <c><c> --><![CDATA[<d><d>]]><e f=\"/\"></e><?g <h> ?>";
  EXPECT_TRUE(parse_changed("<encoding>", inside + "<encoding>"));
  Limits shallow;
  shallow.xml_depth = 6;  // ismrmrdHeader, encoding, parallelImaging, accelerationFactor, kspace_encoding_step_1
  EXPECT_TRUE(parse_header(good_xml(), shallow));
  shallow.xml_depth = 4;
  expect_refused(parse_header(good_xml(), shallow), "more than 4 deep");
}

TEST(HeaderXml, TagsAndAttributesAreCountedBeforeTheyAreParsed) {
  // A parser's tree is many times larger than "<a/>" and ' a=""'.
  std::string many;
  for (int i = 0; i < 1 << 17; ++i) many += "<a/>";
  expect_refused(parse_header("<ismrmrdHeader>" + many + "</ismrmrdHeader>", Limits{}), "more than 131072 tags");
  many = "<ismrmrdHeader";
  for (int i = 0; i < 1 << 17; ++i) many += " a=''";
  expect_refused(parse_header(many + "/>", Limits{}), "more than 131072 tags");
  Limits few;
  few.xml_items = 2;
  EXPECT_FALSE(xml_problem("<a b='='/><c>=</c>", Limits{}));
  EXPECT_FALSE(xml_problem("<a b='='/>=", few));
  EXPECT_TRUE(xml_problem("<a b='='/><c/>", few));
  EXPECT_TRUE(xml_problem("<a></a><b/>", few));
}

TEST(HeaderXml, TextThatIsNoHeader) {
  expect_refused(parse_header("", Limits{}), "not XML");
  expect_refused(parse_header("hello", Limits{}), "hello");
  expect_refused(parse_header("<a/>", Limits{}), "root element is 'a'");
  expect_refused(parse_header("<ismrmrdHeader><x></ismrmrdHeader>", Limits{}), "not XML");
  expect_refused(parse_header("<a>\xff</a>", Limits{}), "UTF-8");
  Limits small;
  small.header_bytes = 100;
  expect_refused(parse_header(good_xml(), small), "at most 100");
}

TEST(HeaderXml, DummyHeaderIsForImagesOnly) {
  const auto header = parse_header(std::string_view("Dummy XML header\0", 17), Limits{});
  ASSERT_TRUE(header);
  EXPECT_TRUE(header->images_only);
  EXPECT_TRUE(header->encodings.empty());
}

}  // namespace
}  // namespace echotrain::protocol::test
