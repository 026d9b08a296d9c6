// Messages written byte by byte after docs/protocol.md, "Messages" and "Layouts", in both directions.
#include <gtest/gtest.h>

#include <numeric>

#include "protocol/data/pixels.h"
#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::test {
namespace {

template <class T>
Buffer encoded(const T& message) {
  Buffer out;
  encode(message, out);
  return out;
}

// The message's size, or 0 when its extent is not exact.
std::uint64_t exact_size(std::span<const std::byte> bytes) {
  const auto extent = measure(bytes, Limits{});
  return extent && extent->exact ? extent->size : 0;
}

TEST(CodecVectors, Close) {
  const Buffer bytes = Wire().u8(0x04).u8(0x00).bytes;
  EXPECT_EQ(encoded(Close{}), bytes);
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  EXPECT_TRUE(std::holds_alternative<Close>(*message));
}

TEST(CodecVectors, TextWithItsNul) {
  const Buffer bytes = Wire().u16(5).u32(3).text("hi").u8(0).bytes;
  EXPECT_EQ(encoded(Text{"hi"}), bytes);
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Text>(*message).text, "hi");
}

TEST(CodecVectors, TextIsCutAtItsFirstNul) {
  for (const Buffer& bytes : {Wire().u16(5).u32(2).text("hi").bytes, Wire().u16(5).u32(4).text("hi").zeros(2).bytes,
                              Wire().u16(5).u32(6).text("hi").u8(0).text("xyz").bytes}) {
    const auto message = decode_copy(bytes);
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<Text>(*message).text, "hi");
  }
}

TEST(CodecVectors, EmptyTextAndEmptyConfigTextAreLegal) {
  EXPECT_TRUE(decode_copy(Wire().u16(5).u32(0).bytes));
  EXPECT_TRUE(decode_copy(Wire().u16(2).u32(0).bytes));
}

TEST(CodecVectors, TextKeepsBytesThatAreNotUtf8) {
  const auto message = decode_copy(Wire().u16(5).u32(2).u8(0xff).u8('a').bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Text>(*message).text,
            "\xff"
            "a");
}

TEST(CodecVectors, ConfigFile) {
  const Buffer bytes = Wire().u16(1).text("x").zeros(1023).bytes;
  ASSERT_EQ(bytes.size(), 1026u);
  EXPECT_EQ(encoded(ConfigFile{"x"}), bytes);
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<ConfigFile>(*message).name, "x");
}

TEST(CodecVectors, ConfigFileIgnoresWhatFollowsItsNul) {
  Buffer bytes = Wire().u16(1).text("radial_2d.v1-a").u8(0).bytes;
  bytes.resize(1026, std::byte{0xee});
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<ConfigFile>(*message).name, "radial_2d.v1-a");
}

TEST(CodecVectors, EmptyConfigNameMeansTheDefault) {
  const auto message = decode_copy(Wire().u16(1).zeros(1024).bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<ConfigFile>(*message).name, "");
}

TEST(CodecVectors, ConfigTextAndHeaderHaveNoNul) {
  EXPECT_EQ(encoded(ConfigText{"ab"}), Wire().u16(2).u32(2).text("ab").bytes);
  EXPECT_EQ(encoded(HeaderText{"<x/>"}), Wire().u16(3).u32(4).text("<x/>").bytes);
  const auto config = decode_copy(Wire().u16(2).u32(2).text("ab").bytes);
  ASSERT_TRUE(config);
  EXPECT_EQ(std::get<ConfigText>(*config).text, "ab");
  const auto header = decode_copy(Wire().u16(3).u32(5).text("<x/>").u8(0).bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(std::get<HeaderText>(*header).xml, "<x/>");
}

TEST(CodecVectors, QueryAndResponse) {
  const Buffer query = Wire().u16(6).u64(0).u64(5).u64(1).text("a").bytes;
  EXPECT_EQ(encoded(Query{5, "a"}), query);
  const auto message = decode_copy(query);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Query>(*message).correlation_id, 5u);
  EXPECT_EQ(std::get<Query>(*message).name, "a");

  const Buffer response = Wire().u16(7).u64(5).u64(1).text("b").bytes;
  EXPECT_EQ(encoded(Response{5, "b"}), response);
  Limits client;
  client.response_bytes = 4096;
  const auto answer = decode_copy(response, client);
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<Response>(*answer).correlation_id, 5u);
  EXPECT_EQ(std::get<Response>(*answer).text, "b");
}

TEST(CodecVectors, AcquisitionSizes) {
  EXPECT_EQ(exact_size(acquisition_head(64, 2, 0)), 1366u);
  EXPECT_EQ(exact_size(acquisition_head(64, 2, 2)), 1878u);
  EXPECT_EQ(exact_size(acquisition_head(0, 2, 3)), 342u);
  EXPECT_EQ(exact_size(acquisition_head(64, 0, 2)), 342u + 4 * 2 * 64);
}

TEST(CodecVectors, ImageSize) { EXPECT_EQ(exact_size(image_head(5, 8, 4, 1, 1, 106)), 442u); }

TEST(CodecVectors, WholeExchangeOfAGadgetronClient) {
  Buffer stream;
  encode(ConfigFile{"default.xml"}, stream);
  encode(HeaderText{std::string(1323, 'x')}, stream);
  const auto readout = decode_copy(acquisition_bytes(64, 2, 0));
  ASSERT_TRUE(readout);
  for (int i = 0; i < 32; ++i) encode(std::get<Acquisition>(*readout), stream);
  encode(Close{}, stream);
  EXPECT_EQ(stream.size(), 46069u);
}

TEST(CodecVectors, AcquisitionFieldsLieWhereTheTableSays) {
  Buffer bytes = acquisition_bytes(3, 2, 2);
  poke<std::uint64_t>(bytes, 2, 0x0103456789000081);  // no compression
  poke<std::uint32_t>(bytes, 10, 10);
  poke<std::uint32_t>(bytes, 14, 14);
  poke<std::uint32_t>(bytes, 18, 18);
  poke<std::uint32_t>(bytes, 30, 30);
  poke<std::uint64_t>(bytes, 40 + 8 * 15, 1u << 31);
  poke<std::uint16_t>(bytes, 168, 168);
  poke<std::uint16_t>(bytes, 170, 170);
  poke<std::uint16_t>(bytes, 172, 172);
  poke<std::uint16_t>(bytes, 174, 174);
  poke<float>(bytes, 178, 178);
  poke<float>(bytes, 182 + 8, 190);
  poke<float>(bytes, 194, 194);
  poke<float>(bytes, 206, 206);
  poke<float>(bytes, 218, 218);
  poke<float>(bytes, 230, 230);
  for (std::uint16_t offset = 242; offset <= 260; offset += 2) poke<std::uint16_t>(bytes, offset, offset);
  poke<std::uint16_t>(bytes, 274, 274);
  poke<std::int32_t>(bytes, 276 + 4 * 7, -7);
  poke<float>(bytes, 308 + 4 * 7, 7);
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  const auto& acquisition = std::get<Acquisition>(*message);
  const AcquisitionHeader& head = acquisition.head;
  EXPECT_EQ(+head.version, 1);
  EXPECT_EQ(+head.flags, 0x0103456789000081u);
  EXPECT_EQ(+head.measurement_uid, 10u);
  EXPECT_EQ(+head.scan_counter, 14u);
  EXPECT_EQ(+head.acquisition_time_stamp, 18u);
  EXPECT_EQ(+head.physiology_time_stamp[2], 30u);
  EXPECT_EQ(+head.number_of_samples, 3);
  EXPECT_EQ(+head.active_channels, 2);
  EXPECT_EQ(+head.channel_mask[15], 1u << 31);
  EXPECT_EQ(+head.discard_pre, 168);
  EXPECT_EQ(+head.discard_post, 170);
  EXPECT_EQ(+head.center_sample, 172);
  EXPECT_EQ(+head.encoding_space_ref, 174);
  EXPECT_EQ(+head.trajectory_dimensions, 2);
  EXPECT_EQ(+head.sample_time_us, 178);
  EXPECT_EQ(+head.position[2], 190);
  EXPECT_EQ(+head.read_dir[0], 194);
  EXPECT_EQ(+head.phase_dir[0], 206);
  EXPECT_EQ(+head.slice_dir[0], 218);
  EXPECT_EQ(+head.patient_table_position[0], 230);
  EXPECT_EQ(+head.idx.kspace_encode_step_1, 242);
  EXPECT_EQ(+head.idx.kspace_encode_step_2, 244);
  EXPECT_EQ(+head.idx.average, 246);
  EXPECT_EQ(+head.idx.slice, 248);
  EXPECT_EQ(+head.idx.contrast, 250);
  EXPECT_EQ(+head.idx.phase, 252);
  EXPECT_EQ(+head.idx.repetition, 254);
  EXPECT_EQ(+head.idx.set, 256);
  EXPECT_EQ(+head.idx.segment, 258);
  EXPECT_EQ(+head.idx.user[0], 260);
  EXPECT_EQ(+head.idx.user[7], 274);
  EXPECT_EQ(+head.user_int[7], -7);
  EXPECT_EQ(+head.user_float[7], 7);
  // Trajectory first (3 samples x 2 dimensions), then data (2 channels x 3 samples x re, im).
  EXPECT_EQ(numbers<float>(acquisition.trajectory), (std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5}));
  EXPECT_EQ(numbers<float>(acquisition.data), (std::vector<float>{3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5}));
  // And back: the same bytes.
  EXPECT_EQ(encoded(acquisition), bytes);
}

TEST(CodecVectors, PayloadsReferToTheOwnersBytes) {
  auto owner = std::make_shared<const Buffer>(acquisition_bytes(4, 1, 0));
  const auto message = decode(*owner, owner, Limits{});
  ASSERT_TRUE(message);
  const auto& data = std::get<Acquisition>(*message).data;
  EXPECT_EQ(data.bytes.data(), owner->data() + 342);
  EXPECT_EQ(owner.use_count(), 2);
}

TEST(CodecVectors, WaveformFieldsLieWhereTheTableSays) {
  Wire wire{waveform_head(2, 3)};
  for (std::uint32_t i = 0; i < 6; ++i) wire.u32(100 + i);
  Buffer bytes = wire.bytes;
  poke<std::uint64_t>(bytes, 8, 8);
  poke<std::uint32_t>(bytes, 16, 16);
  poke<std::uint32_t>(bytes, 20, 20);
  poke<std::uint32_t>(bytes, 24, 24);
  poke<float>(bytes, 32, 32);
  poke<std::uint16_t>(bytes, 36, 36);
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  const auto& waveform = std::get<Waveform>(*message);
  EXPECT_EQ(waveform.head.flags, 8u);
  EXPECT_EQ(waveform.head.measurement_uid, 16u);
  EXPECT_EQ(waveform.head.scan_counter, 20u);
  EXPECT_EQ(waveform.head.time_stamp, 24u);
  EXPECT_EQ(waveform.head.number_of_samples, 2);
  EXPECT_EQ(waveform.head.channels, 3);
  EXPECT_EQ(waveform.head.sample_time_us, 32);
  EXPECT_EQ(waveform.head.waveform_id, 36);
  EXPECT_EQ(numbers<std::uint32_t>(waveform.data), (std::vector<std::uint32_t>{100, 101, 102, 103, 104, 105}));
  poke<std::uint32_t>(bytes, 2, 0);  // padding leaves as zeros
  poke<std::uint16_t>(bytes, 38, 0);
  EXPECT_EQ(encoded(waveform), bytes);
}

TEST(CodecVectors, ImageFieldsLieWhereTheTableSays) {
  const std::string attributes = "<ismrmrdMeta/>";
  Wire wire{image_head(2, 3, 2, 1, 1, attributes.size())};
  wire.text(attributes);
  for (std::uint16_t i = 0; i < 6; ++i) wire.u16(i);
  Buffer bytes = wire.bytes;
  poke<std::uint64_t>(bytes, 4, 4);
  poke<std::uint32_t>(bytes, 12, 12);
  poke<float>(bytes, 22 + 8, 30);
  poke<float>(bytes, 36, 36);
  poke<float>(bytes, 48, 48);
  poke<float>(bytes, 60, 60);
  poke<float>(bytes, 72, 72);
  poke<float>(bytes, 84, 84);
  for (std::uint16_t offset = 96; offset <= 106; offset += 2) poke<std::uint16_t>(bytes, offset, offset);
  poke<std::uint32_t>(bytes, 108, 108);
  poke<std::uint32_t>(bytes, 112 + 8, 120);
  poke<std::uint16_t>(bytes, 124, 5);
  poke<std::uint16_t>(bytes, 126, 126);
  poke<std::uint16_t>(bytes, 128, 128);
  poke<std::int32_t>(bytes, 130 + 28, -8);
  poke<float>(bytes, 162 + 28, 8);
  poke<std::uint32_t>(bytes, 194, 999);  // for information only, and wrong here
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  const auto& image = std::get<Image>(*message);
  const ImageHeader& head = image.head;
  EXPECT_EQ(+head.data_type, 2);
  EXPECT_EQ(+head.flags, 4u);
  EXPECT_EQ(+head.measurement_uid, 12u);
  EXPECT_EQ(+head.matrix_size[0], 3);
  EXPECT_EQ(+head.matrix_size[1], 2);
  EXPECT_EQ(+head.field_of_view[2], 30);
  EXPECT_EQ(+head.channels, 1);
  EXPECT_EQ(+head.position[0], 36);
  EXPECT_EQ(+head.read_dir[0], 48);
  EXPECT_EQ(+head.phase_dir[0], 60);
  EXPECT_EQ(+head.slice_dir[0], 72);
  EXPECT_EQ(+head.patient_table_position[0], 84);
  EXPECT_EQ(+head.average, 96);
  EXPECT_EQ(+head.slice, 98);
  EXPECT_EQ(+head.contrast, 100);
  EXPECT_EQ(+head.phase, 102);
  EXPECT_EQ(+head.repetition, 104);
  EXPECT_EQ(+head.set, 106);
  EXPECT_EQ(+head.acquisition_time_stamp, 108u);
  EXPECT_EQ(+head.physiology_time_stamp[2], 120u);
  EXPECT_EQ(+head.image_type, 5);
  EXPECT_EQ(+head.image_index, 126);
  EXPECT_EQ(+head.image_series_index, 128);
  EXPECT_EQ(+head.user_int[7], -8);
  EXPECT_EQ(+head.user_float[7], 8);
  EXPECT_EQ(image.attributes, attributes);
  EXPECT_EQ(numbers<std::uint16_t>(image.pixels), (std::vector<std::uint16_t>{0, 1, 2, 3, 4, 5}));
  poke<std::uint32_t>(bytes, 194, 14);  // the sent field is right
  EXPECT_EQ(encoded(image), bytes);
  Image lying = image;
  lying.head.attribute_string_len = 5;
  EXPECT_EQ(encoded(lying), bytes);

  Buffer head_only;
  encode_without_pixels(image, head_only);
  EXPECT_EQ(head_only, Buffer(bytes.begin(), bytes.end() - 12));
}

TEST(CodecVectors, ImageAttributesLoseTrailingNuls) {
  const Buffer bytes = Wire{image_head(1, 1, 1, 1, 1, 4)}.text("<a").zeros(2).u16(7).bytes;
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Image>(*message).attributes, "<a");
  EXPECT_EQ(numbers<std::uint16_t>(std::get<Image>(*message).pixels), (std::vector<std::uint16_t>{7}));
}

TEST(CodecVectors, ImagesAreSentWithVersionOne) {
  Buffer bytes = Wire{image_head(1, 1, 1, 1, 1, 0)}.u16(7).bytes;
  poke<std::uint16_t>(bytes, 0, 0);
  const auto message = decode_copy(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(peek<std::uint16_t>(encoded(std::get<Image>(*message)), 0), 1);
}

TEST(CodecVectors, EncodeRefusesPayloadsThatTheHeaderContradicts) {
  Buffer out;
  Acquisition acquisition;
  acquisition.head.number_of_samples = 2;
  acquisition.head.active_channels = 1;
  EXPECT_THROW(encode(acquisition, out), std::length_error);
  Image image;
  image.head.data_type = 5;
  EXPECT_THROW(encode(image, out), std::length_error);
  for (auto& size : image.head.matrix_size) size = 65535;
  image.head.channels = 65535;
  image.head.data_type = 8;
  EXPECT_THROW(encode(image, out), std::length_error);
  Waveform waveform;
  waveform.head = {};
  waveform.head.channels = waveform.head.number_of_samples = 1;
  EXPECT_THROW(encode(waveform, out), std::length_error);
  EXPECT_THROW(encode(ConfigFile{std::string(1024, 'a')}, out), std::length_error);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace echotrain::protocol::test
