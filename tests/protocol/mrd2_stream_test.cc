#include "protocol/mrd2/mrd2_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "protocol/data/layout.h"
#include "protocol/data/meta.h"
#include "protocol/mrd2/model.h"
#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::mrd2::test {
namespace {

using protocol::test::Wire;
using ::testing::HasSubstr;

constexpr const char* kHeader =
    "<ismrmrdHeader><measurementInformation><measurementID>7</measurementID><patientPosition>FFS</patientPosition>"
    "</measurementInformation><experimentalConditions><H1resonanceFrequency_Hz>123200000</H1resonanceFrequency_Hz>"
    "</experimentalConditions></ismrmrdHeader>";

/// An unsigned varint (https://microsoft.github.io/yardl/reference/binary.html).
void varint(Wire& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.u8(static_cast<std::uint8_t>(value | 0x80));
  to.u8(static_cast<std::uint8_t>(value));
}

Wire begun(std::string_view schema) {
  Wire out;
  out.text("yardl").u32(1);
  varint(out, schema.size());
  out.text(schema);
  return out;
}

class Mrd2Stream : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("echotrain_mrd2_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void save(const Buffer& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// All messages, and the error that ended them.
  std::pair<std::vector<Message>, Error> read(const Limits& limits = {}) const {
    Mrd2Reader reader(path_, limits);
    std::vector<Message> all;
    while (true) {
      auto message = reader.next();
      left_out_ = reader.left_out();
      if (!message) return {std::move(all), message.error()};
      if (!*message) return {std::move(all), {}};
      all.push_back(*std::move(*message));
    }
  }
  Error error_of(const Buffer& bytes) const {
    save(bytes);
    return read().second;
  }

  std::filesystem::path path_;
  mutable LeftOut left_out_;
};

Acquisition readout() {
  Acquisition out;
  out.head.version = 1;
  out.head.flags = acquisition_flag(19) | acquisition_flag(64);
  out.head.number_of_samples = 3;
  out.head.active_channels = out.head.available_channels = 2;
  out.head.channel_mask[0] = 3;
  out.head.trajectory_dimensions = 2;
  out.head.idx.kspace_encode_step_1 = 65535;
  out.head.user_int[7] = -5;
  out.head.user_float[0] = 0.25f;
  out.head.read_dir[2] = -1;
  out.head.sample_time_us = 2.6f;
  out.data = Payload::take(std::vector<std::complex<float>>{{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}});
  out.trajectory = Payload::take(std::vector<float>{0, 1, 2, 3, 4, 5});
  return out;
}

bool equal(const Payload& a, const Payload& b) {
  return std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

TEST_F(Mrd2Stream, WritesAndReadsBack) {
  Image image;
  image.head.version = 1;
  image.head.data_type = ISMRMRD::ISMRMRD_SHORT;
  image.head.image_type = ISMRMRD::ISMRMRD_IMTYPE_REAL;
  image.head.channels = 1;
  std::fill_n(image.head.matrix_size, 3, std::uint16_t{1});
  image.head.matrix_size[0] = 4;
  image.head.field_of_view[0] = 300;
  add_meta(image.attributes, "role", "map");
  image.pixels = Payload::take(std::vector<std::int16_t>{-32768, -1, 0, 32767});
  Waveform waveform;
  waveform.head.version = 1;
  waveform.head.channels = 1;
  waveform.head.number_of_samples = 2;
  waveform.head.time_stamp = 9;
  waveform.data = Payload::take(std::vector<std::uint32_t>{0, 0xffffffff});
  {
    Mrd2Writer writer(path_);
    ASSERT_TRUE(writer.write(HeaderText{kHeader}));
    ASSERT_TRUE(writer.write(readout()));
    ASSERT_TRUE(writer.write(waveform));
    ASSERT_TRUE(writer.write(image));
    writer.finish();
  }
  const auto [messages, error] = read();
  EXPECT_EQ(error.message, "");
  ASSERT_EQ(messages.size(), 5u);
  const std::string& header = std::get<HeaderText>(messages[0]).xml;
  for (const char* part : {"<measurementID>7<", "<patientPosition>FFS<", "<H1resonanceFrequency_Hz>123200000<"})
    EXPECT_THAT(header, HasSubstr(part));
  const auto& got = std::get<Acquisition>(messages[1]);
  const AcquisitionHeader want = readout().head;
  EXPECT_EQ(std::memcmp(&got.head, &want, sizeof(want)), 0);
  EXPECT_TRUE(equal(got.data, readout().data));
  EXPECT_TRUE(equal(got.trajectory, readout().trajectory));
  EXPECT_EQ(+std::get<Waveform>(messages[2]).head.time_stamp, 9u);
  EXPECT_TRUE(equal(std::get<Waveform>(messages[2]).data, waveform.data));
  const auto& back = std::get<Image>(messages[3]);
  EXPECT_EQ(+back.head.data_type, +image.head.data_type);
  EXPECT_EQ(+back.head.image_type, +image.head.image_type);
  EXPECT_EQ(meta_value(back.attributes, "role"), "map");
  EXPECT_TRUE(equal(back.pixels, image.pixels));
  EXPECT_TRUE(std::holds_alternative<Close>(messages[4]));
}

TEST_F(Mrd2Stream, EveryCutIsToldAndLosesNothingBeforeIt) {
  {
    Mrd2Writer writer(path_);
    ASSERT_TRUE(writer.write(readout()));
    ASSERT_TRUE(writer.write(readout()));
    writer.finish();
  }
  const std::string whole = bytes();
  const std::size_t item = (whole.size() - begun(model_text()).bytes.size() - 2) / 2;
  for (std::size_t left = 0; left < whole.size(); left += left < 20000 ? 997 : 13) {
    std::ofstream(path_, std::ios::binary) << whole.substr(0, left);
    const auto [messages, error] = read();
    EXPECT_EQ(error.code, "truncated") << left;
    EXPECT_THAT(error.message, HasSubstr("byte " + std::to_string(left)));
    const std::size_t data = whole.size() - 2 * item - 1;
    EXPECT_EQ(messages.size(), left < data ? 0 : (left - data) / item) << left;
  }
}

TEST_F(Mrd2Stream, ClaimsAreNotBelieved) {
  const std::string& schema = model_text();
  const auto item = [&](std::uint64_t kind) {
    Wire out = begun(schema);
    out.u8(0).u8(1);  // no header; a block of one item
    varint(out, kind);
    return out;
  };
  const auto refusal = [&](Wire& bytes, const std::string& code, const std::string& why) {
    const Error error = error_of(bytes.bytes);
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(why));
    EXPECT_THAT(error.message, HasSubstr("byte "));
  };
  Wire kind = item(14);
  refusal(kind, "malformed", "an item of kind 14; there are 14");
  Wire endless = begun(schema);
  for (int i = 0; i < 10; ++i) endless.u8(0xff);
  refusal(endless, "malformed", "64 bits");
  Wire waveform = item(1);  // flags, uid, counter, time; sample time; id; 2^40 x 2^40 samples
  waveform.u8(0).u8(0).u8(0).u8(0).f32(1).u8(0);
  varint(waveform, std::uint64_t{1} << 40);
  varint(waveform, std::uint64_t{1} << 40);
  refusal(waveform, "too-large", "1099511627776 x 1099511627776");
  Wire narrow = item(1);
  narrow.u8(0);
  varint(narrow, std::uint64_t{1} << 32);
  refusal(narrow, "malformed", "does not fit 32 bits");
  Wire large = item(12);  // an array of which nothing is kept, of 2^55 elements
  large.u8(1);
  varint(large, std::uint64_t{1} << 55);
  refusal(large, "truncated", "the stream ends here");
  Wire version;
  version.text("yardl").u32(2);
  refusal(version, "bad-version", "version 2");
  Wire other;
  other.text("yarrr").u32(1);
  refusal(other, "malformed", "does not begin with 'yardl'");
}

TEST_F(Mrd2Stream, SchemasAreChecked) {
  const auto with = [](const std::string& types) {
    return R"({"protocol":{"name":"Mrd","sequence":[{"name":"header","type":[null,"Mrd.Header"]},{"name":"data","type":)"
           R"({"stream":{"items":[{"tag":"A","type":"Mrd.A"},{"tag":"B","type":"Mrd.B"}]}}}]},"types":[)" +
           types + "]}";
  };
  const std::string b = R"({"name":"B","fields":[{"name":"x","type":"uint32"}]},)";
  const std::string header = R"({"name":"Header","fields":[{"name":"x","type":"uint32"}]})";
  const auto expect = [&](const std::string& schema, const std::string& why) {
    const Error error = error_of(begun(schema).bytes);
    EXPECT_EQ(error.code, "bad-schema") << error.message;
    EXPECT_THAT(error.message, HasSubstr(why));
  };
  expect("{", "is no JSON");
  expect(std::string(100, '['), "nests deeper");
  expect(R"({"protocol":{"name":"Mrd","sequence":[]}})", "lacks 'types'");
  expect(with(b + header), "'Mrd.A' that is not known");
  expect(with(b + R"({"name":"A","fields":[{"name":"a","type":"Mrd.A"}]},)" + header), "contains itself");
  expect(with(b + R"({"name":"A","fields":[]},)" + header), "take no bytes");
  expect(with(b + R"({"name":"A","fields":[{"name":"a","type":"uint8"}]},)" + header), "'uint8' that is not known");
  expect(R"({"protocol":{"name":"MrdNoiseCovariance","sequence":[]},"types":[]})", "'MrdNoiseCovariance'");
}

TEST_F(Mrd2Stream, FieldsMayStandElsewhereAndItemsMayBeUnknown) {
  // The order of a waveform's fields is another one, and it has one more; items of a kind of their own are passed over.
  const std::string schema =
      R"({"protocol":{"name":"Mrd","sequence":[{"name":"header","type":[null,"Mrd.Header"]},{"name":"data","type":)"
      R"({"stream":{"items":[{"tag":"New","type":{"vector":{"items":"string"}}},{"tag":"Wave","type":"Mrd.W"}]}}}]},)"
      R"("types":[{"name":"Header","fields":[{"name":"x","type":"uint32"}]},{"name":"Waveform","typeParameters":["T"],)"
      R"("fields":[{"name":"data","type":{"array":{"items":"T","dimensions":2}}},{"name":"timeStamp","type":"uint32"},)"
      R"({"name":"flags","type":"uint64"},{"name":"measurementUid","type":"uint32"},{"name":"scanCounter","type":"uint32"},)"
      R"({"name":"sampleTimeUs","type":"float32"},{"name":"waveformId","type":"uint32"},{"name":"more","type":"bool"}]},)"
      R"({"name":"W","type":{"name":"Mrd.Waveform","typeArguments":["uint32"]}}]})";
  Wire stream = begun(schema);
  stream.u8(0).u8(2);                                    // no header; a block of two items
  stream.u8(0).u8(1).u8(2).text("ab");                   // New
  stream.u8(1).u8(1).u8(2).u8(5).u8(0x80).u8(1).u8(77);  // Wave: 1 x 2 samples, 5 and 128; time stamp
  stream.u8(1).u8(2).u8(3).f32(1.5f).u8(4).u8(1).u8(0);  // the rest, and the stream's end
  save(stream.bytes);
  const auto [messages, error] = read();
  EXPECT_EQ(error.message, "");
  ASSERT_EQ(messages.size(), 2u);
  const auto& waveform = std::get<Waveform>(messages[0]);
  EXPECT_EQ(+waveform.head.time_stamp, 77u);
  EXPECT_EQ(+waveform.head.waveform_id, 4);
  EXPECT_EQ(load<std::uint32_t>(waveform.data.bytes, 4), 128u);
  EXPECT_EQ(left_out_["New"], 1u);
  EXPECT_EQ(left_out_["field Waveform<uint32>.more, which MRD 2.1 does not know"], 1u);
}

TEST_F(Mrd2Stream, WhatDoesNotFitIsLeftOutAndTheRestGoesOn) {
  Wire stream = begun(model_text());
  const auto waveform = [&](std::uint64_t id) {
    stream.u8(1).u8(1).u8(0).u8(0).u8(0).u8(0).f32(1);
    varint(stream, id);
    stream.u8(1).u8(1).u8(0);
  };
  stream.u8(0);
  waveform(70000);
  waveform(3);
  stream.u8(0);
  save(stream.bytes);
  const auto [messages, error] = read();
  EXPECT_EQ(error.message, "");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(+std::get<Waveform>(messages[0]).head.waveform_id, 3);
  ASSERT_EQ(left_out_.size(), 1u);
  EXPECT_THAT(left_out_.begin()->first, HasSubstr("waveformId is 70000; at most 65535 fits"));
}

TEST_F(Mrd2Stream, HeadersThatAreNoneAreRefused) {
  Mrd2Writer writer(path_);
  EXPECT_THAT(writer.write(HeaderText{"<other/>"}).error().message, HasSubstr("'other'"));
  EXPECT_EQ(writer.write(HeaderText{"nothing"}).error().code, "bad-header");
  Acquisition cut = readout();
  cut.data.bytes = cut.data.bytes.first(8);
  EXPECT_THAT(writer.write(cut).error().message, HasSubstr("does not have the data"));
}

}  // namespace
}  // namespace echotrain::protocol::mrd2::test
