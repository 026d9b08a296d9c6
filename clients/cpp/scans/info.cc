#include "clients/cpp/scans/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/base/json_output.h"
#include "clients/cpp/base/scan_file.h"
#include "clients/cpp/scans/suggestion.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/dataset.h"
#include "protocol/twix/twix_reader.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {
namespace {

constexpr std::string_view kFlagNames[] = {"FIRST_IN_ENCODE_STEP1",
                                           "LAST_IN_ENCODE_STEP1",
                                           "FIRST_IN_ENCODE_STEP2",
                                           "LAST_IN_ENCODE_STEP2",
                                           "FIRST_IN_AVERAGE",
                                           "LAST_IN_AVERAGE",
                                           "FIRST_IN_SLICE",
                                           "LAST_IN_SLICE",
                                           "FIRST_IN_CONTRAST",
                                           "LAST_IN_CONTRAST",
                                           "FIRST_IN_PHASE",
                                           "LAST_IN_PHASE",
                                           "FIRST_IN_REPETITION",
                                           "LAST_IN_REPETITION",
                                           "FIRST_IN_SET",
                                           "LAST_IN_SET",
                                           "FIRST_IN_SEGMENT",
                                           "LAST_IN_SEGMENT",
                                           "IS_NOISE_MEASUREMENT",
                                           "IS_PARALLEL_CALIBRATION",
                                           "IS_PARALLEL_CALIBRATION_AND_IMAGING",
                                           "IS_REVERSE",
                                           "IS_NAVIGATION_DATA",
                                           "IS_PHASECORR_DATA",
                                           "LAST_IN_MEASUREMENT",
                                           "IS_HPFEEDBACK_DATA",
                                           "IS_DUMMYSCAN_DATA",
                                           "IS_RTFEEDBACK_DATA",
                                           "IS_SURFACECOILCORRECTIONSCAN_DATA"};

std::string_view kind_name(protocol::ReadoutKind kind) {
  switch (kind) {
    case protocol::ReadoutKind::imaging:
      return "imaging";
    case protocol::ReadoutKind::noise:
      return "noise";
    case protocol::ReadoutKind::calibration:
      return "calibration";
    case protocol::ReadoutKind::navigator:
      return "navigator";
    case protocol::ReadoutKind::phase_correction:
      return "phase correction";
    case protocol::ReadoutKind::other:
      return "other";
  }
  return "other";
}

std::string_view data_type_name(int type) {
  constexpr std::string_view names[] = {"unknown", "uint16", "int16",         "uint32",        "int32",
                                        "float",   "double", "complex float", "complex double"};
  return names[type >= 1 && type <= 8 ? type : 0];
}

std::string_view image_type_name(int type) {
  constexpr std::string_view names[] = {"unset", "magnitude", "phase", "real", "imaginary", "complex", "RGB"};
  return type >= 0 && type <= 6 ? names[type] : "unknown";
}

void print_header(const std::string& xml, std::ostream& out) {
  if (xml.empty()) {
    out << "  header: none\n";
    return;
  }
  const auto parsed = protocol::parse_header(xml, {});
  if (!parsed) {
    out << fmt::format("  header: refused ({}): {}\n", parsed.error().code, parsed.error().message);
    return;
  }
  if (!parsed->measurement_id.empty())
    out << fmt::format("  measurement: {}\n", protocol::printable(parsed->measurement_id));
  if (!parsed->noise_dependency.empty())
    out << fmt::format("  noise scan: {}\n", protocol::printable(parsed->noise_dependency));
  for (std::size_t e = 0; e < parsed->encodings.size(); ++e) {
    const protocol::Encoding& encoding = parsed->encodings[e];
    const auto space = [](const protocol::EncodingSpace& s) {
      return fmt::format("{} voxels, {:g} mm", fmt::join(s.matrix, " x "), fmt::join(s.fov_mm, " x "));
    };
    out << fmt::format("  encoding {}: {}\n    encoded {}\n    recon   {}\n", e,
                       protocol::to_string(encoding.trajectory), space(encoding.encoded), space(encoding.recon));
    const auto limit = [&out](const char* name, const std::optional<protocol::CounterLimit>& l) {
      if (l && l->maximum > 0)
        out << fmt::format("    {} {} .. {}, centre {}\n", name, l->minimum, l->maximum, l->center);
    };
    limit("step 1", encoding.kspace_encoding_step_1);
    limit("step 2", encoding.kspace_encoding_step_2);
    limit("average", encoding.average);
    limit("slice", encoding.slice);
    limit("contrast", encoding.contrast);
    limit("phase", encoding.phase);
    limit("repetition", encoding.repetition);
    limit("set", encoding.set);
    if (encoding.acceleration[0] > 1 || encoding.acceleration[1] > 1) {
      out << fmt::format("    acceleration {} x {}{}{}\n", encoding.acceleration[0], encoding.acceleration[1],
                         encoding.calibration_mode.empty() ? "" : ", calibration ",
                         protocol::printable(encoding.calibration_mode));
    }
  }
  if (parsed->receiver_channels) out << fmt::format("  receiver channels: {}\n", *parsed->receiver_channels);
}

// The facts that one pass finds about the readouts of a kind.
struct KindFacts {
  std::size_t count = 0, channels = 0;
  std::map<std::string, std::size_t> shapes;
  std::vector<float> lowest, highest;  // of each trajectory dimension
};

void note_trajectory(const protocol::Acquisition& readout, KindFacts& facts) {
  const std::size_t dims = readout.head.trajectory_dimensions;
  std::vector<float> values(readout.trajectory.bytes.size() / sizeof(float));
  readout.trajectory.copy_to(values.data());
  if (facts.lowest.size() < dims) {
    facts.lowest.resize(dims, std::numeric_limits<float>::max());
    facts.highest.resize(dims, std::numeric_limits<float>::lowest());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    facts.lowest[i % dims] = std::min(facts.lowest[i % dims], values[i]);
    facts.highest[i % dims] = std::max(facts.highest[i % dims], values[i]);
  }
}

/// The facts about all readouts of a scan.
struct ReadoutFacts {
  std::map<protocol::ReadoutKind, KindFacts> kinds;
  std::vector<std::string> flags;

  ImagingFacts imaging() const {
    const auto found = kinds.find(protocol::ReadoutKind::imaging);
    if (found == kinds.end()) return {};
    const KindFacts& facts = found->second;
    const std::size_t dims = facts.lowest.size();
    return {facts.count, dims, dims > 2 && facts.lowest.back() >= 0 && facts.highest.back() > 0, facts.channels};
  }
};

ReadoutFacts readouts_of(const protocol::ScanReader& reader) {
  ReadoutFacts all;
  std::uint64_t flags = 0;
  const auto header = protocol::parse_header(reader.header_xml(), {});
  const bool known = header && !header->encodings.empty();
  const auto trajectory = known ? header->encodings.front().trajectory : protocol::Trajectory::other;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const protocol::Acquisition readout = reader.acquisition(i);
    const protocol::AcquisitionHeader head = readout.head;
    flags |= head.flags;
    KindFacts& facts = all.kinds[protocol::readout_kind(head, trajectory)];
    ++facts.count;
    facts.channels = head.active_channels;
    ++facts.shapes[fmt::format("{} channels x {} samples", +head.active_channels, +head.number_of_samples)];
    note_trajectory(readout, facts);
  }
  for (std::size_t bit = 0; bit < 64; ++bit)
    if ((flags >> bit & 1) != 0)
      all.flags.push_back(bit < std::size(kFlagNames) ? std::string(kFlagNames[bit]) : fmt::format("flag {}", bit + 1));
  return all;
}

void print_readouts(std::size_t count, const ReadoutFacts& readouts, std::ostream& out) {
  out << fmt::format("  readouts: {}\n", count);
  for (const auto& [kind, facts] : readouts.kinds) {
    out << fmt::format("    {}: {}\n", kind_name(kind), facts.count);
    for (const auto& [shape, of_shape] : facts.shapes) out << fmt::format("      {} of {}\n", of_shape, shape);
    for (std::size_t d = 0; d < facts.lowest.size(); ++d) {
      out << fmt::format("      trajectory {}: {:.6g} .. {:.6g}\n", d, facts.lowest[d], facts.highest[d]);
    }
  }
  if (!readouts.flags.empty()) out << fmt::format("    flags: {}\n", fmt::join(readouts.flags, ", "));
}

std::string suggestion_for(const protocol::ScanReader& reader, const ReadoutFacts& readouts) {
  const auto header = protocol::parse_header(reader.header_xml(), {});
  return header ? suggested_pipeline(*header, readouts.imaging()) : "";
}

void print_suggestion(const std::string& name, std::ostream& out) {
  if (!name.empty()) out << fmt::format("try: -c {}\n", name);
}

Json json_of(const std::string& xml) {
  if (xml.empty()) return nullptr;
  const auto parsed = protocol::parse_header(xml, {});
  if (!parsed) return {{"refused", parsed.error().code}, {"message", parsed.error().message}};
  Json header = {{"measurement", parsed->measurement_id},
                 {"noise_scan", parsed->noise_dependency},
                 {"receiver_channels", parsed->receiver_channels ? Json(*parsed->receiver_channels) : Json()},
                 {"encodings", Json::array()}};
  for (const protocol::Encoding& encoding : parsed->encodings) {
    const auto space = [](const protocol::EncodingSpace& s) { return Json{{"matrix", s.matrix}, {"mm", s.fov_mm}}; };
    header["encodings"].push_back({{"trajectory", protocol::to_string(encoding.trajectory)},
                                   {"encoded", space(encoding.encoded)},
                                   {"recon", space(encoding.recon)},
                                   {"acceleration", encoding.acceleration}});
  }
  return header;
}

Json json_of(std::size_t count, const ReadoutFacts& readouts) {
  Json all = {{"count", count}, {"kinds", Json::object()}, {"flags", readouts.flags}};
  for (const auto& [kind, facts] : readouts.kinds) {
    Json trajectory = Json::array();
    for (std::size_t d = 0; d < facts.lowest.size(); ++d) trajectory.push_back({facts.lowest[d], facts.highest[d]});
    all["kinds"][std::string(kind_name(kind))] = {{"count", facts.count}, {"trajectory", trajectory}};
  }
  return all;
}

// What is known of any scan, under the name that the file gives it.
Json json_of(const std::string& name, const protocol::ScanReader& reader) {
  const ReadoutFacts readouts = readouts_of(reader);
  const std::string pipeline = suggestion_for(reader, readouts);
  Json scan = {{"name", name},
               {"header", json_of(reader.header_xml())},
               {"readouts", json_of(reader.acquisitions(), readouts)},
               {"waveforms", reader.waveforms()},
               {"images", Json::array()},
               {"pipeline", pipeline.empty() ? Json() : Json(pipeline)}};
  for (const std::string& series : reader.image_series()) {
    Json each = {{"series", series}, {"count", reader.images(series)}};
    if (reader.images(series) > 0) {
      const protocol::ImageHeader head = reader.image(series, 0).head;
      each["data_type"] = data_type_name(head.data_type);
      each["image_type"] = image_type_name(head.image_type);
      each["matrix"] = {+head.matrix_size[0], +head.matrix_size[1], +head.matrix_size[2]};
      each["channels"] = +head.channels;
    }
    scan["images"].push_back(std::move(each));
  }
  return scan;
}

Json json_of(const std::filesystem::path& file) {
  Json document = json_document("info");
  document["file"] = file.string();
  document["scans"] = Json::array();
  if (!is_scanner_file(file)) {
    for (const auto& group : protocol::DatasetReader::groups(file))
      document["scans"].push_back(json_of(group, protocol::DatasetReader(file, group)));
    return document;
  }
  const protocol::twix::TwixFile raid(file);
  for (std::size_t number = 1; number <= raid.measurements(); ++number) {
    try {
      const protocol::twix::TwixReader reader(raid, {.measurement = number});
      document["scans"].push_back(json_of(reader.name(), reader));
    } catch (const protocol::DatasetError& error) {  // others may be whole
      document["scans"].push_back({{"name", fmt::format("measurement {}", number)}, {"error", error.what()}});
    }
  }
  return document;
}

void print_images(const protocol::DatasetReader& reader, std::ostream& out) {
  for (const auto& series : reader.image_series()) {
    const std::size_t count = reader.images(series);
    out << fmt::format("  images {}: {}\n", series, count);
    if (count == 0) continue;
    const protocol::Image first = reader.image(series, 0);
    const protocol::ImageHeader head = first.head;
    out << fmt::format("    {} {} x {} x {} voxels, {} channels, {:g} x {:g} x {:g} mm, {}\n",
                       data_type_name(head.data_type), +head.matrix_size[0], +head.matrix_size[1], +head.matrix_size[2],
                       +head.channels, +head.field_of_view[0], +head.field_of_view[1], +head.field_of_view[2],
                       image_type_name(head.image_type));
    for (const auto& [name, value] : meta_values(first.attributes)) out << fmt::format("    {} = {}\n", name, value);
  }
}

void print_measurements(const std::filesystem::path& file, std::ostream& out) {
  const protocol::twix::TwixFile raid(file);
  const std::size_t count = raid.measurements();
  out << fmt::format("{}: Siemens raw data, {}\n", file.string(), protocol::pluralized(count, "measurement"));
  for (std::size_t number = 1; number <= count; ++number) {
    try {
      const protocol::twix::TwixReader reader(raid, {.measurement = number});
      out << reader.name() << '\n';
      for (const std::string& note : reader.notes()) out << fmt::format("  {}\n", note);
      print_header(reader.header_xml(), out);
      const ReadoutFacts readouts = readouts_of(reader);
      print_readouts(reader.acquisitions(), readouts, out);
      print_suggestion(suggestion_for(reader, readouts), out);
    } catch (const protocol::DatasetError& error) {  // others may be whole
      out << fmt::format("measurement {}\n  cannot be read: {}\n", number, error.what());
    }
  }
}

}  // namespace

config::OptionTable<InfoOptions> info_options() {
  return config::OptionTable<InfoOptions>()
      .path("input", &InfoOptions::input, "IN", "ISMRMRD HDF5 file, or raw data of a Siemens scanner")
      .positional()
      .required()
      .flag("json", &InfoOptions::json, kJsonHelp);
}

void info(const InfoOptions& options, std::ostream& out) {
  const std::filesystem::path& file = options.input;
  if (options.json) return write_json(json_of(file), out);
  if (is_scanner_file(file)) return print_measurements(file, out);
  const auto groups = protocol::DatasetReader::groups(file);
  out << fmt::format("{}: {} group{}\n", file.string(), groups.size(), groups.size() == 1 ? "" : "s");
  if (groups.empty()) out << "  no ISMRMRD data; arrays become a scan in Python (docs/python.md)\n";
  for (const auto& group : groups) {
    out << fmt::format("group {}\n", group);
    const protocol::DatasetReader reader(file, group);
    print_header(reader.header_xml(), out);
    const ReadoutFacts readouts = readouts_of(reader);
    if (reader.acquisitions() > 0) print_readouts(reader.acquisitions(), readouts, out);
    if (reader.waveforms() > 0) out << fmt::format("  waveforms: {}\n", reader.waveforms());
    print_images(reader, out);
    print_suggestion(suggestion_for(reader, readouts), out);
  }
}

}  // namespace echotrain::client
