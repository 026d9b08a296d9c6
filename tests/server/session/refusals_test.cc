// Every row of docs/protocol.md, "Validation and answers": what is sent, and the answer that a client must see.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using wire::raw;

struct Row {
  std::string name;
  std::string bytes;
  std::string code;  ///< of the fatal error, or a part of the WARNING
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }
std::string name_of(const testing::TestParamInfo<Row>& info) { return info.param.name; }

/// One server for all rows: each row also shows that the rows before it did no harm.
class RowTest : public testing::TestWithParam<Row> {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static TestServer* server_;
};
TestServer* RowTest::server_ = nullptr;

const std::string kConfig = wire::config("cartesian_plain");
const std::string kPass = wire::config("passthrough");
const std::string kReadoutsStart = kConfig + wire::header(wire::xml());
const std::string kImagesStart = kPass + wire::header(wire::xml());

std::string xml_with(wire::Xml xml) { return kConfig + wire::header(xml.text()); }

template <class Change>
std::string readout(Change change) {
  auto head = wire::readout_head(0);
  change(head);
  return wire::acquisition(head);
}
template <class Change>
std::string bare_readout(Change change) {  // the header alone: the data it claims never follow
  auto head = wire::readout_head(0);
  change(head);
  return wire::id(1008) + raw(head);
}
template <class Change>
std::string bare_image(Change change, std::uint64_t attributes = 0) {
  auto head = wire::image_head(8);
  change(head);
  return wire::id(1022) + raw(head) + raw(attributes);
}
template <class Change>
std::string bare_waveform(Change change) {
  auto head = wire::waveform_head();
  change(head);
  return wire::id(1026) + raw(head);
}

/// A readout in Gadgetron's packing: a block of `length` bytes in all for its 32 numbers.
std::string packed(std::uint8_t bits, float scale, std::uint32_t length) {
  std::string block = raw(std::uint64_t{32}) + raw(scale) + raw(bits);
  block.resize(length, '\0');
  return kReadoutsStart + bare_readout([](auto& h) { h.flags = 1ull << 53; }) + raw(length) + block;
}
std::string without_encoding() {
  std::string xml = wire::xml();
  const std::string end = "</encoding>";
  const std::size_t begin = xml.find("<encoding>");
  return xml.erase(begin, xml.find(end) + end.size() - begin);
}

std::vector<Row> fatal_rows() {
  const std::string yaml_unknown_key = "echotrain: 1\nname: mine\npipelin:\n  - passthrough\n";
  const std::string yaml_bad_order =
      "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - fft: {direction: inverse}\n";
  return {
      {"id_unknown", kReadoutsStart + wire::id(2000), "unknown-message"},
      {"id_zero", wire::id(0), "unknown-message"},
      {"id_unsupported_in_data", kReadoutsStart + wire::id(1023), "unknown-message: unsupported message 1023"},
      {"id_deprecated", kReadoutsStart + wire::id(1001), "unknown-message: unsupported message 1001"},
      {"id_dicom", kReadoutsStart + wire::id(1018), "unknown-message: unsupported message 1018"},
      {"http", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "unknown-message"},
      {"tls", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), "unknown-message"},
      {"mrd2", std::string("yardl\x01\x00\x00\x00", 9), "unknown-message"},
      {"response_unasked", wire::id(7) + raw(std::uint64_t{1}) + raw(std::uint64_t{1}) + "x", "unknown-message"},
      {"error_of_gadgetron", kReadoutsStart + wire::id(8) + raw(std::uint64_t{4}) + "oops", "unknown-message"},
      {"header_before_config", wire::header(wire::xml()), "out-of-order"},
      {"data_before_config", wire::acquisition(0), "out-of-order"},
      {"data_before_header", kConfig + wire::acquisition(0), "out-of-order"},
      {"image_before_header", kConfig + wire::image(wire::image_head(4)), "out-of-order"},
      {"waveform_before_header", kConfig + wire::waveform(), "out-of-order"},
      // These are refused at once: what a client sends drop by drop would keep its session.
      {"id_of_data_before_config", wire::id(1008),
       "out-of-order: an acquisition came before the config and the header"},
      {"id_of_image_before_header", kConfig + wire::id(1022), "out-of-order: an image came before the header"},
      {"part_of_waveform_before_header", kConfig + wire::waveform().substr(0, 20),
       "out-of-order: a waveform came before the header"},

      {"config_unterminated", wire::config(std::string(1024, 'a')), "bad-config"},
      {"config_is_a_path", wire::config("../etc/passwd"), "bad-config"},
      {"config_hidden", wire::config(".cartesian_plain"), "bad-config"},
      {"config_too_long", wire::config(std::string(256, 'a')), "bad-config"},
      {"config_unknown", wire::config("cartesian_2e") + wire::header(wire::xml()), "unknown-config"},
      {"config_empty", wire::config("") + wire::header(wire::xml()), "unknown-config"},
      {"config_text_too_long", wire::id(2) + raw(std::uint32_t{(256 << 10) + 1}),
       "bad-config: 2 (CONFIG_TEXT) claims 262145 bytes; at most 262144 are allowed; leave out comments"},
      {"config_text_not_utf8", wire::config_text("name: \xff\xfe"), "bad-config"},
      {"config_text_unknown_key", wire::config_text(yaml_unknown_key) + wire::header(wire::xml()),
       "bad-config: config:3:"},
      {"config_text_bad_order", wire::config_text(yaml_bad_order) + wire::header(wire::xml()), "bad-config: config:5:"},
      {"config_text_deep", wire::config_text(std::string(10000, '[')) + wire::header(wire::xml()), "bad-config"},
      {"config_text_gadgetron",
       wire::config_text("<?xml version=\"1.0\"?><gadgetronStreamConfiguration/>") + wire::header(wire::xml()),
       "bad-config"},
      {"config_twice", kConfig + kConfig, "duplicate-config"},
      {"config_name_and_text", kConfig + wire::config_text("echotrain: 1"), "duplicate-config"},
      {"config_after_header", kReadoutsStart + kConfig, "duplicate-config"},

      {"header_empty", kConfig + wire::header(""), "bad-header"},
      {"header_too_long", kConfig + wire::id(3) + raw(std::uint32_t{(1 << 20) + 1}), "bad-header"},
      {"header_longest_claim", kConfig + wire::id(3) + raw(std::uint32_t{0xffffffff}), "bad-header"},
      {"header_twice", kReadoutsStart + wire::header(wire::xml()), "duplicate-header"},
      {"header_not_utf8", kConfig + wire::header("<ismrmrdHeader>\xff\xfe</ismrmrdHeader>"), "bad-header"},
      {"header_not_xml", kConfig + wire::header("hello"), "bad-header"},
      {"header_other_xml", kConfig + wire::header("<?xml version=\"1.0\"?><html/>"), "bad-header"},
      {"header_deep", kConfig + wire::header([] {
                        std::string xml;
                        for (int i = 0; i < 100000; ++i) xml += "<a>";
                        return xml;
                      }()),
       "bad-header"},
      {"header_dummy", kConfig + wire::header("Dummy XML header"), "bad-header"},
      {"header_size_negative", xml_with({.encoded_x = "-64"}), "bad-header"},
      {"header_size_wraps", xml_with({.encoded_x = "70000"}), "bad-header"},
      {"header_size_huge", xml_with({.encoded_x = "99999999999"}), "bad-header"},
      {"header_size_word", xml_with({.encoded_x = "abc"}), "bad-header"},
      {"header_size_zero", xml_with({.encoded_x = "0"}), "bad-header"},
      {"header_fov_nan", xml_with({.fov = "nan"}), "bad-header"},
      {"header_fov_negative", xml_with({.fov = "-1"}), "bad-header"},
      {"header_limits_reversed", xml_with({.step_1 = "<minimum>5</minimum><maximum>3</maximum><center>4</center>"}),
       "bad-header"},

      {"header_center_outside", xml_with({.step_1 = "<minimum>0</minimum><maximum>7</maximum><center>8</center>"}),
       "bad-header"},
      {"header_no_encoding", kConfig + wire::header(without_encoding()), "bad-header"},
      {"header_recon_fov_larger", xml_with({.recon_fov = "300"}), "bad-header"},
      {"header_voxels", xml_with({.encoded_x = "4096", .encoded_y = "4096", .encoded_z = "4096"}), "bad-header"},

      {"text_too_long", kReadoutsStart + wire::id(5) + raw(std::uint32_t{(1 << 20) + 1}), "too-large"},
      {"query_reserved", wire::query("ismrmrd::version", 1, /*reserved=*/1), "bad-query"},
      {"query_too_long", wire::id(6) + raw(std::uint64_t{0}) + raw(std::uint64_t{1}) + raw(std::uint64_t{4097}),
       "bad-query"},
      {"query_longest_claim", wire::id(6) + raw(std::uint64_t{0}) + raw(std::uint64_t{1}) + raw(~std::uint64_t{0}),
       "bad-query"},

      {"readout_version", kReadoutsStart + bare_readout([](auto& h) { h.version = 2; }), "bad-version"},
      {"readout_channels", kReadoutsStart + bare_readout([](auto& h) { h.active_channels = 1025; }), "too-large"},
      {"readout_bytes",
       kReadoutsStart + bare_readout([](auto& h) { h.number_of_samples = 65535, h.active_channels = 1024; }),
       "too-large"},
      {"readout_trajectory", kReadoutsStart + bare_readout([](auto& h) { h.trajectory_dimensions = 4; }),
       "bad-trajectory"},
      {"readout_compression_3", kReadoutsStart + bare_readout([](auto& h) { h.flags = 1ull << 54; }), "compression"},
      {"readout_compression_both", kReadoutsStart + bare_readout([](auto& h) { h.flags = 3ull << 52; }), "compression"},
      {"readout_compression_length",
       kReadoutsStart + bare_readout([](auto& h) { h.flags = 1ull << 53; }) + raw(std::uint32_t{16 * 8 * 2 + 65}),
       "compression"},
      {"readout_compression_count",
       kReadoutsStart + bare_readout([](auto& h) { h.flags = 1ull << 53; }) + raw(std::uint32_t{13}) +
           raw(std::uint64_t{31}) + raw(1.0f) + "\x08",
       "compression"},

      {"readout_packed_no_bits", packed(0, 1.0f, 13), "compression"},
      {"readout_packed_bits", packed(32, 1.0f, 13 + 32 * 4), "compression"},
      {"readout_packed_scale_0", packed(8, 0.0f, 13 + 32), "compression"},
      {"readout_packed_scale_nan", packed(8, std::nanf(""), 13 + 32), "compression"},
      {"readout_packed_short", packed(8, 1.0f, 13 + 31), "compression"},
      {"readout_packed_long", packed(8, 1.0f, 13 + 33), "compression"},
      {"readout_packed_no_head", packed(8, 1.0f, 12), "compression"},
      {"readout_zfp_garbage",
       kReadoutsStart + bare_readout([](auto& h) { h.flags = 1ull << 52; }) + raw(std::uint32_t{64}) +
           std::string(64, 'x'),
       "compression"},
      {"readout_zfp_empty",
       kReadoutsStart + bare_readout([](auto& h) { h.flags = 1ull << 52; }) + raw(std::uint32_t{0}), "compression"},

      {"waveform_version", kReadoutsStart + bare_waveform([](auto& h) { h.version = 2; }), "bad-version"},
      {"waveform_bytes", kReadoutsStart + bare_waveform([](auto& h) { h.channels = h.number_of_samples = 65535; }),
       "too-large"},

      {"image_version", kImagesStart + bare_image([](auto& h) { h.version = 3; }), "bad-version"},
      {"image_type_0", kImagesStart + bare_image([](auto& h) { h.data_type = 0; }), "bad-image"},
      {"image_type_9", kImagesStart + bare_image([](auto& h) { h.data_type = 9; }), "bad-image"},
      {"image_size_0", kImagesStart + bare_image([](auto& h) { h.matrix_size[1] = 0; }), "bad-image"},
      {"image_channels_0", kImagesStart + bare_image([](auto& h) { h.channels = 0; }), "bad-image"},
      {"image_wraps", kImagesStart + bare_image([](auto& h) {
                        h.matrix_size[0] = h.matrix_size[1] = h.matrix_size[2] = h.channels = 65535;
                      }),
       "too-large"},
      {"image_2_to_32",
       kImagesStart + bare_image([](auto& h) { h.matrix_size[0] = h.matrix_size[1] = 32768, h.matrix_size[2] = 4; }),
       "too-large"},
      {"image_attributes", kImagesStart + bare_image([](auto&) {}, (16 << 20) + 1), "too-large"},
      {"image_attributes_wrap", kImagesStart + bare_image([](auto&) {}, ~std::uint64_t{0} - 100), "too-large"},
  };
}

using FatalRow = RowTest;
TEST_P(FatalRow, IsAnsweredAndTheServerGoesOn) {
  const Conversation all = server_->exchange(GetParam().bytes, /*half_close=*/false);
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    " + GetParam().code));
  EXPECT_TRUE(server_->works());
}
INSTANTIATE_TEST_SUITE_P(Section8, FatalRow, testing::ValuesIn(fatal_rows()), name_of);

std::vector<Row> skip_rows() {
  const float nan = std::nanf("");
  return {
      {"no_samples", readout([](auto& h) { h.number_of_samples = 0; }), "without samples"},
      {"no_channels", readout([](auto& h) { h.active_channels = 0; }), "without samples"},
      {"encoding_space", readout([](auto& h) { h.encoding_space_ref = 1; }), "encoding space"},
      {"line_outside", readout([](auto& h) { h.idx.kspace_encode_step_1 = 60000; }), "kspace_encode_step_1"},
      {"repetition_outside", readout([](auto& h) { h.idx.repetition = 10; }), "repetition"},
      {"discard", readout([](auto& h) { h.discard_pre = 5, h.discard_post = 4; }), "discard"},
      {"discard_wraps", readout([](auto& h) { h.discard_pre = h.discard_post = 32768; }), "discard"},
      {"center_sample", readout([](auto& h) { h.center_sample = 8; }), "center_sample"},
      {"trajectory_nan",
       [&] {
         auto head = wire::readout_head(0);
         head.trajectory_dimensions = 2;
         return wire::acquisition(head, 1.0f, nan);
       }(),
       "non-finite trajectory"},
      {"samples_nan", wire::acquisition(wire::readout_head(0), nan), "non-finite samples"},
      {"samples_infinite", wire::acquisition(wire::readout_head(0), std::numeric_limits<float>::infinity()),
       "non-finite samples"},
      {"channels_differ", wire::acquisition(0) + readout([](auto& h) { h.active_channels = 3; }),
       "differs from its group"},
      {"samples_differ", wire::acquisition(0) + readout([](auto& h) { h.number_of_samples = 16; }),
       "differs from its group"},
      {"version_0", readout([](auto& h) { h.version = 0; }), "version 0"},
  };
}

using SkipRow = RowTest;
TEST_P(SkipRow, CostsOneWarningAndNotTheScan) {
  // Twice: one warning per kind.
  const Conversation all =
      server_->exchange(kReadoutsStart + GetParam().bytes + GetParam().bytes + wire::frame() + wire::close());
  EXPECT_TRUE(all.ended_well());
  const std::string texts = all.texts();
  EXPECT_THAT(texts, HasSubstr(GetParam().code));
  EXPECT_THAT(texts, HasSubstr("WARNING  "));
  EXPECT_THAT(texts, Not(HasSubstr("ERROR")));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), '\n'), 1) << texts;
  EXPECT_EQ(all.count(1022), 1U) << texts;
}
INSTANTIATE_TEST_SUITE_P(Section8, SkipRow, testing::ValuesIn(skip_rows()), name_of);

TEST(Refusals, ImageWithBrokenAttributesIsKeptWithoutThem) {
  TestServer server;
  const std::string good =
      "<?xml version=\"1.0\"?><ismrmrdMeta><meta><name>a</name><value>b</value></meta></ismrmrdMeta>";
  const Conversation all = server.exchange(kImagesStart + wire::image(wire::image_head(4), "<ismrmrdMeta><meta>") +
                                           wire::image(wire::image_head(4, 2), good) + wire::close());
  EXPECT_TRUE(all.ended_well());
  ASSERT_EQ(all.count(1022), 2U) << all.texts();
  EXPECT_EQ(all.images()[0], wire::image(wire::image_head(4)).substr(2));
  EXPECT_EQ(all.images()[1], wire::image(wire::image_head(4, 2), good).substr(2));
  EXPECT_THAT(all.texts(), HasSubstr("WARNING  "));
}

TEST(Refusals, TextsThatAreNoJsonNeverEndASession) {
  TestServer server;
  for (const std::string& text :
       {std::string(), std::string("\0\0", 2), std::string("\xff\xfe\x1b[31m"), std::string("{\"parameters\": 5}"),
        std::string("[1,"), std::string("{\"parameters\": {\"config\": 7}}"), std::string(100000, '['),
        std::string("{\"parameters\": {\"config\": \"../x\"}}")}) {
    const Conversation all = server.exchange(kReadoutsStart + wire::text(text) + wire::frame() + wire::close());
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U) << text << all.texts();
    EXPECT_THAT(all.texts(), Not(HasSubstr("ERROR")));
  }
}

TEST(Refusals, MessageOverTheSessionsMemoryIsRefusedBeforeItIsThere) {
  config::ServerOptions options;
  options.session_memory_mib = 1;
  TestServer server(options);
  const Conversation all = server.exchange(kImagesStart + wire::image(wire::image_head(1024)) + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    budget"));
}

TEST(Refusals, UnknownConfigNamesTheNearestOrAll) {
  TestServer server;
  const auto texts = [&server](const std::string& name) {
    return server.exchange(wire::config(name) + wire::header(wire::xml())).texts();
  };
  EXPECT_THAT(texts("cartesian_2e"), AllOf(HasSubstr("did you mean 'cartesian_2d'"), Not(HasSubstr("passthrough"))));
  EXPECT_THAT(texts("unheard_of"), HasSubstr("passthrough"));
}

TEST(Refusals, FatalErrorIsReadByAClientThatStillSends) {
  // Without draining, the kernel would answer the unread megabytes with RST and the text would be lost.
  TestServer server;
  RawClient client(server.port());
  client.send(kReadoutsStart + wire::id(2000));
  const std::string rubbish(1 << 20, 'x');
  for (int i = 0; i < 32; ++i) EXPECT_TRUE(client.send(rubbish));
  client.half_close();
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    unknown-message"));
}

}  // namespace
}  // namespace echotrain::server
