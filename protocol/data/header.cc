#include "protocol/data/header.h"

#include <fmt/format.h>
#include <ismrmrd/xml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <map>
#include <new>
#include <pugixml.hpp>
#include <sstream>
#include <utility>

#include "protocol/data/epi_description.h"
#include "protocol/data/text.h"
#include "protocol/data/xml_check.h"

namespace echotrain::protocol {
namespace {

constexpr double kFovTolerance = 1.01;  // rounded FOVs of one and the same protocol differ by less
constexpr std::uint64_t kMaxCounter = 65535;
constexpr std::size_t kMaxLabelBytes = 64;

constexpr std::array<std::string_view, 6> kTrajectoryNames = {"cartesian",   "epi",    "radial",
                                                              "goldenangle", "spiral", "other"};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// Removes namespace prefixes, which libismrmrd 1.8 does not know. Returns whether there was one.
bool strip_prefixes(pugi::xml_node node) {
  bool changed = false;
  for (pugi::xml_node child = node.first_child(); child; child = child.next_sibling()) {
    const std::string name = child.name();
    if (const auto colon = name.find(':'); colon != std::string::npos && child.type() == pugi::node_element) {
      child.set_name(name.substr(colon + 1).c_str());
      changed = true;
    }
    changed = strip_prefixes(child) || changed;
  }
  return changed;
}

/// Reads elements and keeps the first reason to refuse the header; what is read after that does not matter.
class Reader {
 public:
  explicit Reader(const Limits& limits) : limits_(limits) {}

  Header header(const pugi::xml_node& root) {
    Header header;
    std::size_t index = 0;
    for (const pugi::xml_node node : root.children("encoding")) {
      if (index == limits_.encodings) {
        refuse(fmt::format("there are more than {} elements 'encoding'", limits_.encodings));
        return header;
      }
      header.encodings.push_back(encoding(node, fmt::format("encoding[{}]", index++)));
      if (error_) return header;
    }
    if (header.encodings.empty()) refuse("there is no element 'encoding'");
    system(root.child("acquisitionSystemInformation"), header);
    const auto measurement = root.child("measurementInformation");
    header.measurement_id = trim(measurement.child_value("measurementID"));
    for (const pugi::xml_node dependency : measurement.children("measurementDependency")) {
      const Dependency& read =
          header.dependencies.emplace_back(Dependency{std::string(trim(dependency.child_value("dependencyType"))),
                                                      std::string(trim(dependency.child_value("measurementID")))});
      if (equal_ignoring_case(read.type, "noise")) header.noise_dependency = read.measurement_id;
    }
    return header;
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  void refuse(std::string reason) {
    if (!error_) error_ = Error{"bad-header", std::move(reason)};
  }

  // The text of `name` in `parent`; a missing element is refused.
  std::string_view required(const pugi::xml_node& parent, const char* name, const std::string& path) {
    const auto node = parent.child(name);
    if (!node) refuse(fmt::format("{}/{} is missing", path, name));
    return trim(node.child_value());
  }

  std::uint64_t integer(std::string_view text, std::uint64_t low, std::uint64_t high, const std::string& path) {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size() || value < low || value > high) {
      refuse(fmt::format("{} is '{}'; it must be a whole number from {} to {}", path, quotable(text), low, high));
      return low;
    }
    return value;
  }

  double positive(std::string_view text, const std::string& path) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) {
      refuse(fmt::format("{} is '{}'; it must be a finite number above 0", path, quotable(text)));
      return 1;
    }
    return value;
  }

  EncodingSpace space(const pugi::xml_node& encoding, const char* name, const std::string& encoding_path) {
    static constexpr std::array<const char*, 3> kAxes = {"x", "y", "z"};
    EncodingSpace space;
    const std::string path = fmt::format("{}/{}", encoding_path, name);
    const auto node = encoding.child(name);
    if (!node) refuse(fmt::format("{} is missing", path));
    std::uint64_t voxels = 1;
    for (std::size_t i = 0; i < kAxes.size() && !error_; ++i) {
      const std::string matrix = path + "/matrixSize";
      const std::string fov = path + "/fieldOfView_mm";
      const auto size = required(node.child("matrixSize"), kAxes[i], matrix);
      const auto extent = required(node.child("fieldOfView_mm"), kAxes[i], fov);
      space.matrix[i] =
          static_cast<std::uint32_t>(integer(size, 1, limits_.matrix_size, fmt::format("{}/{}", matrix, kAxes[i])));
      space.fov_mm[i] = positive(extent, fmt::format("{}/{}", fov, kAxes[i]));
      if (space.matrix[i] > limits_.matrix_voxels / voxels) {
        refuse(fmt::format("{} has more than {} voxels", matrix, limits_.matrix_voxels));
        break;
      }
      voxels *= space.matrix[i];
    }
    return space;
  }

  std::optional<CounterLimit> limit(const pugi::xml_node& limits, const char* name, const std::string& encoding_path) {
    const auto node = limits.child(name);
    if (!node) return std::nullopt;
    const std::string path = fmt::format("{}/encodingLimits/{}", encoding_path, name);
    const auto value = [&](const char* field, std::uint16_t otherwise) {
      const auto child = node.child(field);
      if (!child) return otherwise;
      return static_cast<std::uint16_t>(
          integer(trim(child.child_value()), 0, kMaxCounter, fmt::format("{}/{}", path, field)));
    };
    CounterLimit limit;
    limit.minimum = value("minimum", 0);
    limit.maximum = value("maximum", limit.minimum);
    limit.center = value("center", limit.minimum);
    if (limit.minimum > limit.center || limit.center > limit.maximum) {
      refuse(fmt::format("{} has minimum {}, center {}, maximum {}; minimum <= center <= maximum must hold", path,
                         limit.minimum, limit.center, limit.maximum));
    }
    return limit;
  }

  Encoding encoding(const pugi::xml_node& node, const std::string& path) {
    Encoding encoding;
    encoding.encoded = space(node, "encodedSpace", path);
    encoding.recon = space(node, "reconSpace", path);
    for (std::size_t i = 0; i < 3; ++i) {
      // An image may be cropped to a part of the encoded field of view, or interpolated to a finer matrix; nothing is
      // known outside the encoded field of view.
      if (encoding.recon.fov_mm[i] > kFovTolerance * encoding.encoded.fov_mm[i]) {
        refuse(fmt::format("{}/reconSpace/fieldOfView_mm/{} is {} mm, more than the {} mm encoded", path, "xyz"[i],
                           encoding.recon.fov_mm[i], encoding.encoded.fov_mm[i]));
      }
    }
    const auto name = required(node, "trajectory", path);
    const auto* const found = std::find(kTrajectoryNames.begin(), kTrajectoryNames.end(), name);
    if (found == kTrajectoryNames.end()) {
      refuse(fmt::format("{}/trajectory is '{}'; it must be one of {}", path, quotable(name),
                         fmt::join(kTrajectoryNames, ", ")));
    } else {
      encoding.trajectory = static_cast<Trajectory>(found - kTrajectoryNames.begin());
    }
    const auto limits = node.child("encodingLimits");
    encoding.kspace_encoding_step_1 = limit(limits, "kspace_encoding_step_1", path);
    encoding.kspace_encoding_step_2 = limit(limits, "kspace_encoding_step_2", path);
    encoding.average = limit(limits, "average", path);
    encoding.slice = limit(limits, "slice", path);
    encoding.contrast = limit(limits, "contrast", path);
    encoding.phase = limit(limits, "phase", path);
    encoding.repetition = limit(limits, "repetition", path);
    encoding.set = limit(limits, "set", path);
    encoding.segment = limit(limits, "segment", path);
    if (const auto parallel = node.child("parallelImaging")) {
      const auto factor = parallel.child("accelerationFactor");
      const std::string factor_path = path + "/parallelImaging/accelerationFactor";
      static constexpr std::array<const char*, 2> kSteps = {"kspace_encoding_step_1", "kspace_encoding_step_2"};
      for (std::size_t i = 0; i < kSteps.size(); ++i) {
        const auto text = required(factor, kSteps[i], factor_path);
        const auto value = integer(text, 0, kMaxCounter, fmt::format("{}/{}", factor_path, kSteps[i]));
        encoding.acceleration[i] = static_cast<std::uint16_t>(std::max<std::uint64_t>(value, 1));  // 0 means none
      }
      encoding.calibration_mode = trim(parallel.child_value("calibrationMode"));
      encoding.interleaving = trim(parallel.child_value("interleavingDimension"));
    }
    encoding.description = trajectory_description(node);
    // The stylesheet that siemens_to_ismrmrd takes by itself writes `cartesian` for EPI, too.
    if (encoding.trajectory == Trajectory::cartesian && encoding.description &&
        encoding.description->identifier == "ConventionalEPI")
      encoding.trajectory = Trajectory::epi;
    encoding.multiband = multiband(node);
    return encoding;
  }

  void system(const pugi::xml_node& node, Header& header) {
    if (const auto channels = node.child("receiverChannels")) {
      const auto value =
          integer(trim(channels.child_value()), 0, limits_.channels, "acquisitionSystemInformation/receiverChannels");
      if (value > 0) header.receiver_channels = static_cast<std::uint32_t>(value);  // 0 means unknown
    }
    if (const auto bandwidth = node.child("relativeReceiverNoiseBandwidth")) {
      header.relative_receiver_noise_bandwidth =
          positive(trim(bandwidth.child_value()), "acquisitionSystemInformation/relativeReceiverNoiseBandwidth");
    }
    std::multimap<std::uint64_t, std::string> labels;
    for (const pugi::xml_node label : node.children("coilLabel")) {
      const std::string_view text = trim(label.child_value("coilNumber"));
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      // Labels without order are as good as none; nobody needs them so much that the scan should end.
      if (error != std::errc() || end != text.data() + text.size() || number > kMaxCounter) return;
      if (labels.size() < limits_.channels)
        labels.emplace(number, printable(trim(label.child_value("coilName")), kMaxLabelBytes));
    }
    for (auto& [number, name] : labels) header.coil_labels.push_back(std::move(name));
  }

  const Limits& limits_;
  std::optional<Error> error_;
};

// Reads the header with libismrmrd, too, so that programs with that library can read it. `xml` must be XML.
std::optional<Error> check_with_library(const std::string& xml) {
  try {
    ISMRMRD::IsmrmrdHeader ignored;
    ISMRMRD::deserialize(xml.c_str(), ignored);
    return std::nullopt;
  } catch (const std::exception& e) {
    // The library, which guesses encodings, has one error for lack of memory and for text that it does not take for
    // XML.
    if (std::string_view(e.what()).starts_with("Unable to load")) {
      pugi::xml_document document;
      const pugi::xml_parse_result result = document.load_string(xml.c_str());
      if (result || result.status == pugi::status_out_of_memory) throw std::bad_alloc();
      return Error{"bad-header", fmt::format("libismrmrd cannot read the header: {}", result.description())};
    }
    return Error{"bad-header", fmt::format("libismrmrd cannot read the header: {}", quotable(e.what(), 200))};
  }
}

}  // namespace

std::string_view to_string(Trajectory trajectory) { return kTrajectoryNames.at(static_cast<std::size_t>(trajectory)); }

Result<Header> parse_header(std::string_view xml, const Limits& limits) {
  xml = cut_at_nul(xml);
  if (xml.size() > limits.header_bytes) {
    return Error{"bad-header",
                 fmt::format("the header has {} bytes; at most {} are allowed", xml.size(), limits.header_bytes)};
  }
  if (!is_utf8(xml)) return Error{"bad-header", "the header is not valid UTF-8"};
  if (trim(xml) == "Dummy XML header") {
    Header header;
    header.images_only = true;
    header.xml = xml;
    return header;
  }
  if (auto danger = xml_problem(xml, limits)) return Error{"bad-header", *std::move(danger)};
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8);
  if (parsed.status == pugi::status_out_of_memory) throw std::bad_alloc();
  if (!parsed) {
    return Error{"bad-header", fmt::format("the header is not XML: {} at byte {}; it begins with '{}'",
                                           parsed.description(), parsed.offset, quotable(xml.substr(0, 40)))};
  }
  std::string text(xml);
  if (strip_prefixes(document)) {
    std::ostringstream plain;
    document.save(plain, "", pugi::format_raw, pugi::encoding_utf8);
    text = plain.str();
  }
  const auto root = document.child("ismrmrdHeader");
  if (!root) {
    return Error{"bad-header", fmt::format("the root element is '{}'; 'ismrmrdHeader' is needed",
                                           quotable(document.document_element().name()))};
  }
  Reader reader(limits);
  Header header = reader.header(root);
  if (reader.error()) return *reader.error();
  if (auto error = check_with_library(text)) return *error;
  header.xml = xml;
  return header;
}

}  // namespace echotrain::protocol
