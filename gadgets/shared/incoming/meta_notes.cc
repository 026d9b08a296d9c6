#include "gadgets/shared/incoming/meta_notes.h"

#include <fmt/format.h>
#include <ismrmrd/ismrmrd.h>

#include <charconv>

#include "protocol/data/meta.h"

namespace echotrain {
namespace {

constexpr char kBetween = '\x1f';  // the unit separator, which XML 1.0 does not allow in a text

}  // namespace

std::string note_of(const std::vector<std::string>& values) {
  std::string note;
  for (std::size_t i = 0; i < values.size(); ++i) note += (i > 0 ? std::string(1, kBetween) : "") + values[i];
  return note;
}

std::vector<std::string> values_of(const std::string& note) {
  std::vector<std::string> values;
  std::size_t begin = 0;
  for (std::size_t end = note.find(kBetween); end != std::string::npos; end = note.find(kBetween, begin)) {
    values.push_back(note.substr(begin, end - begin));
    begin = end + 1;
  }
  values.push_back(note.substr(begin));
  return values;
}

std::optional<double> number_of(const std::map<std::string, std::string>& notes, const std::string& name) {
  const auto note = notes.find(name);
  if (note == notes.end()) return std::nullopt;
  double value = 0;
  const std::string& text = note->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::map<std::string, std::string> notes_of(const std::string& attributes) {
  std::map<std::string, std::string> notes;
  protocol::for_each_meta(attributes, [&](std::string_view name, std::string_view value) {
    if (name.empty() || name.starts_with("echotrain_")) return;
    const auto [note, first] = notes.try_emplace(std::string(name), value);
    if (!first) (note->second += kBetween) += value;
  });
  return notes;
}

void set_window(Frame& frame, double center, double width) {
  frame.notes["WindowCenter"] = fmt::format("{:g}", center);
  frame.notes["WindowWidth"] = fmt::format("{:g}", width);
  frame.notes.erase("IceMiniHead");
}

void forget_window(Frame& frame) {
  for (const char* name : {"WindowCenter", "WindowWidth", "IceMiniHead"}) frame.notes.erase(name);
}

void add_step(Frame& frame, std::string_view step) {
  std::string& history = frame.notes["ImageProcessingHistory"];
  if (!history.empty()) history += kBetween;
  history += step;
}

bool has_own_unit(const Frame& frame) {
  return (!frame.source && frame.key.series != 0) || frame.notes.contains("map_quantity");
}

bool are_phases(const Frame& frame, Scan& scan, std::string_view gadget) {
  if (!frame.source || frame.source->head.image_type != ISMRMRD::ISMRMRD_IMTYPE_PHASE) return false;
  scan.warn(
      fmt::format("{} leaves phase images as they are, as angles cannot be summed; send complex images to have "
                  "their phase, too",
                  gadget));
  return true;
}

}  // namespace echotrain
