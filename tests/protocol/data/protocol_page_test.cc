// The bounds and layouts that docs/protocol.md tells, against limits.h and layout.h.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "protocol/data/layout.h"
#include "protocol/data/limits.h"
#include "tests/support/sources.h"

namespace echotrain::protocol::test {
namespace {

using ::testing::HasSubstr;

/// The page in one line.
std::string page() {
  std::ifstream file(source_path("docs/protocol.md"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(text.empty()) << "docs/protocol.md cannot be read";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Returns the row of a code on the page, from the code to its end.
std::string row(const std::string& code) {
  const std::string text = page();
  const std::size_t at = text.find("`" + code + "`", text.find("|code|when|"));
  return at == std::string::npos ? "" : text.substr(at, text.find("| |", at) - at);
}

/// "1 MiB", "256 KiB", "4096 bytes".
std::string size_text(std::uint64_t bytes) {
  if (bytes % (1 << 30) == 0) return fmt::format("{} GiB", bytes >> 30);
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return bytes % (1 << 10) == 0 && bytes > (1 << 12) ? fmt::format("{} KiB", bytes >> 10)
                                                     : fmt::format("{} bytes", bytes);
}

/// 131,072
std::string with_comma(std::uint64_t n) { return fmt::format("{},{:03}", n / 1000, n % 1000); }

TEST(ProtocolPage, TellsTheServersBounds) {
  const Limits& server = kServerLimits;
  EXPECT_THAT(row("bad-header"), HasSubstr("empty or above " + size_text(server.header_bytes) + ","));
  EXPECT_THAT(row("bad-header"), HasSubstr(fmt::format("no encoding or more than {},", server.encodings)));
  EXPECT_THAT(row("bad-header"), HasSubstr(fmt::format("outside 1..{} voxels per axis or above 2^{} in all",
                                                       server.matrix_size, std::bit_width(server.matrix_voxels) - 1)));
  EXPECT_THAT(row("bad-header"), HasSubstr(fmt::format("nested deeper than {} or with more than {} tags",
                                                       server.xml_depth, with_comma(server.xml_items))));
  EXPECT_THAT(row("bad-config"), HasSubstr(fmt::format("JSON above {} or with more than {} parameters",
                                                       size_text(kMaxHostBytes), with_comma(kMaxHostParameters))));
  EXPECT_THAT(row("bad-config"), HasSubstr(fmt::format("or above {} characters", kMaxConfigName)));
  EXPECT_THAT(row("bad-config"), HasSubstr("not UTF-8 or above " + size_text(server.config_text_bytes) + ","));
  EXPECT_EQ(server.attribute_bytes, server.waveform_bytes) << "the page tells them together";
  EXPECT_THAT(
      row("too-large"),
      HasSubstr(fmt::format("above {} of text, {} of attributes or waveform, {} of samples per readout, {} of "
                            "pixels, {} channels",
                            size_text(server.text_bytes), size_text(server.attribute_bytes),
                            size_text(server.acquisition_bytes), size_text(server.image_bytes), server.channels)));
  EXPECT_THAT(row("bad-query"), HasSubstr("a query above " + size_text(server.query_bytes)));
  EXPECT_THAT(row("unauthorized"),
              HasSubstr(fmt::format("the first {} lines and {} of a text, and no client sends more "
                                    "than {} before it",
                                    kTokenLines, size_text(kTokenBytes), size_text(kTokenBytes))));
  EXPECT_THAT(page(), HasSubstr(fmt::format("once answers have taken {}, the", size_text(kTokenBytes))));
  EXPECT_THAT(page(), HasSubstr(fmt::format("for more than {} of samples expands at most {} times",
                                            size_text(kAnyRatioBytes), kMaxExpansion)));
  EXPECT_THAT(page(), HasSubstr(fmt::format("{} bytes: a pipeline's name", kConfigNameBytes)));
}

struct Field {
  std::size_t offset, bytes;
};
using Fields = std::map<std::string, Field>;
#define ECHOTRAIN_FIELD(head, name)                     \
  {                                                     \
#name, { offsetof(head, name), sizeof(head::name) } \
  }

/// Each field that the page tells of a head, and no other, lies where the struct has it.
void expect_layout(const std::string& what, std::size_t head_bytes, const Fields& fields) {
  const std::string text = page();
  const std::string title = fmt::format("**{}**, {} bytes: ", what, head_bytes);
  const std::size_t at = text.find(title);
  ASSERT_NE(at, std::string::npos) << title;
  const std::string paragraph = text.substr(at, text.find("  ", at) - at);
  const std::regex told("(?:bytes: |; )([0-9]+) (\\w+) [uif]([0-9]+)(?:\\[([0-9]+)\\])?");
  std::size_t found = 0;
  for (std::sregex_iterator one(paragraph.begin(), paragraph.end(), told), end; one != end; ++one, ++found) {
    const std::string name = (*one)[2];
    const auto field = fields.find(name);
    if (field == fields.end()) {
      ADD_FAILURE() << what << " has no field " << name;
      continue;
    }
    EXPECT_EQ(std::stoul((*one)[1]), field->second.offset) << what << ": " << name;
    const std::size_t count = (*one)[4].matched ? std::stoul((*one)[4]) : 1;
    EXPECT_EQ(std::stoul((*one)[3]) / 8 * count, field->second.bytes) << what << ": " << name;
  }
  EXPECT_EQ(found, fields.size()) << what << ": the page lacks fields";
}

TEST(ProtocolPage, TellsTheLayoutOfAcquisitions) {
  using Head = AcquisitionHeader;
  expect_layout("Acquisition", kAcquisitionHeadBytes,
                {ECHOTRAIN_FIELD(Head, version),
                 ECHOTRAIN_FIELD(Head, flags),
                 ECHOTRAIN_FIELD(Head, measurement_uid),
                 ECHOTRAIN_FIELD(Head, scan_counter),
                 ECHOTRAIN_FIELD(Head, acquisition_time_stamp),
                 ECHOTRAIN_FIELD(Head, physiology_time_stamp),
                 ECHOTRAIN_FIELD(Head, number_of_samples),
                 ECHOTRAIN_FIELD(Head, available_channels),
                 ECHOTRAIN_FIELD(Head, active_channels),
                 ECHOTRAIN_FIELD(Head, channel_mask),
                 ECHOTRAIN_FIELD(Head, discard_pre),
                 ECHOTRAIN_FIELD(Head, discard_post),
                 ECHOTRAIN_FIELD(Head, center_sample),
                 ECHOTRAIN_FIELD(Head, encoding_space_ref),
                 ECHOTRAIN_FIELD(Head, trajectory_dimensions),
                 ECHOTRAIN_FIELD(Head, sample_time_us),
                 ECHOTRAIN_FIELD(Head, position),
                 ECHOTRAIN_FIELD(Head, read_dir),
                 ECHOTRAIN_FIELD(Head, phase_dir),
                 ECHOTRAIN_FIELD(Head, slice_dir),
                 ECHOTRAIN_FIELD(Head, patient_table_position),
                 ECHOTRAIN_FIELD(Head, user_int),
                 ECHOTRAIN_FIELD(Head, user_float)});
  EXPECT_THAT(page(), HasSubstr(fmt::format("; {} idx, each u16: kspace_encode_step_1, kspace_encode_step_2, average, "
                                            "slice, contrast, phase, repetition, set, segment, user[8];",
                                            offsetof(Head, idx))));
}

TEST(ProtocolPage, TellsTheLayoutOfImages) {
  using Head = ImageHeader;
  expect_layout("Image", kImageHeadBytes,
                {ECHOTRAIN_FIELD(Head, version),
                 ECHOTRAIN_FIELD(Head, data_type),
                 ECHOTRAIN_FIELD(Head, flags),
                 ECHOTRAIN_FIELD(Head, measurement_uid),
                 ECHOTRAIN_FIELD(Head, matrix_size),
                 ECHOTRAIN_FIELD(Head, field_of_view),
                 ECHOTRAIN_FIELD(Head, channels),
                 ECHOTRAIN_FIELD(Head, position),
                 ECHOTRAIN_FIELD(Head, read_dir),
                 ECHOTRAIN_FIELD(Head, phase_dir),
                 ECHOTRAIN_FIELD(Head, slice_dir),
                 ECHOTRAIN_FIELD(Head, patient_table_position),
                 ECHOTRAIN_FIELD(Head, average),
                 ECHOTRAIN_FIELD(Head, slice),
                 ECHOTRAIN_FIELD(Head, contrast),
                 ECHOTRAIN_FIELD(Head, phase),
                 ECHOTRAIN_FIELD(Head, repetition),
                 ECHOTRAIN_FIELD(Head, set),
                 ECHOTRAIN_FIELD(Head, acquisition_time_stamp),
                 ECHOTRAIN_FIELD(Head, physiology_time_stamp),
                 ECHOTRAIN_FIELD(Head, image_type),
                 ECHOTRAIN_FIELD(Head, image_index),
                 ECHOTRAIN_FIELD(Head, image_series_index),
                 ECHOTRAIN_FIELD(Head, user_int),
                 ECHOTRAIN_FIELD(Head, user_float),
                 ECHOTRAIN_FIELD(Head, attribute_string_len)});
  EXPECT_THAT(page(), HasSubstr(fmt::format("; {} length of the attributes u64 (this one counts); {} attributes",
                                            kImageHeadBytes, kImageHeadBytes + kAttributeLengthBytes)));
}

TEST(ProtocolPage, TellsTheLayoutOfWaveforms) {
  using Head = WaveformHeader;
  expect_layout(
      "Waveform", kWaveformHeadBytes,
      {ECHOTRAIN_FIELD(Head, version), ECHOTRAIN_FIELD(Head, flags), ECHOTRAIN_FIELD(Head, measurement_uid),
       ECHOTRAIN_FIELD(Head, scan_counter), ECHOTRAIN_FIELD(Head, time_stamp), ECHOTRAIN_FIELD(Head, number_of_samples),
       ECHOTRAIN_FIELD(Head, channels), ECHOTRAIN_FIELD(Head, sample_time_us), ECHOTRAIN_FIELD(Head, waveform_id)});
}

#undef ECHOTRAIN_FIELD

}  // namespace
}  // namespace echotrain::protocol::test
