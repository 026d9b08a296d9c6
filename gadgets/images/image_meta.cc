#include "gadgets/images/image_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "gadgets/shared/incoming/meta_notes.h"
#include "protocol/data/echo_times.h"
#include "protocol/data/meta.h"

namespace echotrain {
namespace {

using Direction = std::array<float, 3>;

/// Reads a vector of a header, whose fields need not be aligned, from `at` on.
Direction vector_of(const protocol::ImageHeader& head, std::size_t at) {
  Direction out{};
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&head) + at, sizeof(out));
  return out;
}

std::string direction_note(const Direction& direction) {
  std::vector<std::string> values;
  for (const float v : direction) values.push_back(fmt::format("{}", v == 0 ? 0 : v));  // no -0
  return note_of(values);
}

bool differ(const protocol::ImageHeader& a, const protocol::ImageHeader& b, std::size_t at) {
  return vector_of(a, at) != vector_of(b, at);
}

bool is_turned(const protocol::ImageHeader& head, const protocol::ImageHeader& source) {
  return differ(head, source, offsetof(protocol::ImageHeader, read_dir)) ||
         differ(head, source, offsetof(protocol::ImageHeader, phase_dir));
}

bool has_other_geometry(const protocol::ImageHeader& head, const protocol::ImageHeader& source) {
  return is_turned(head, source) || differ(head, source, offsetof(protocol::ImageHeader, slice_dir)) ||
         differ(head, source, offsetof(protocol::ImageHeader, position)) ||
         differ(head, source, offsetof(protocol::ImageHeader, field_of_view)) ||
         std::memcmp(&head.matrix_size, &source.matrix_size, sizeof(head.matrix_size)) != 0;
}

/// True if the notes still have the window of the client's image.
bool keeps_window(const std::map<std::string, std::string>& notes, const std::string& attributes) {
  const std::map<std::string, std::string> before = notes_of(attributes);
  const auto value = [](const auto& map, const char* name) {
    const auto it = map.find(name);
    return it == map.end() ? std::string() : it->second;
  };
  return value(notes, "WindowCenter") == value(before, "WindowCenter") &&
         value(notes, "WindowWidth") == value(before, "WindowWidth");
}

void multiply(std::map<std::string, std::string>& notes, const char* name, double factor) {
  if (const auto value = number_of(notes, name)) notes[name] = fmt::format("{:.9g}", *value * factor);
}

}  // namespace

ImageMeta::ImageMeta(const protocol::Header& header, std::string backend)
    : backend_(std::move(backend)), echo_times_ms_(protocol::echo_times_ms(header.xml)) {}

/// Adds the attributes that hosts expect and no gadget has set.
void ImageMeta::complete(const Frame& frame, const protocol::ImageHeader& head, Notes& notes) const {
  notes.try_emplace("DataRole", has_own_unit(frame) ? "Quantitative" : "Image");
  notes.try_emplace("Keep_image_geometry", "1");
  const Direction row = vector_of(head, offsetof(protocol::ImageHeader, read_dir)),
                  column = vector_of(head, offsetof(protocol::ImageHeader, phase_dir));
  const bool turned = frame.source && is_turned(head, frame.source->head);
  if (row != Direction{} && (turned || !notes.contains("ImageRowDir"))) notes["ImageRowDir"] = direction_note(row);
  if (column != Direction{} && (turned || !notes.contains("ImageColumnDir")))
    notes["ImageColumnDir"] = direction_note(column);
  // A map is made of all echoes.
  const std::size_t several = notes.contains("map_quantity") ? echo_times_ms_.size() : head.contrast;
  const std::size_t echo = echo_times_ms_.size() == 1 ? 0 : several;
  if (echo < echo_times_ms_.size()) notes.try_emplace("EchoTime", fmt::format("{}", echo_times_ms_[echo]));
}

std::string ImageMeta::text(const Frame& frame, const protocol::ImageHeader& head, double scale,
                            std::vector<std::string> steps) const {
  Notes notes = frame.notes;
  complete(frame, head, notes);
  if (scale != 1 && notes["DataRole"] != "Quantitative") {
    multiply(notes, "WindowCenter", scale);
    multiply(notes, "WindowWidth", scale);
  }
  if (notes["DataRole"] == "Quantitative") {
    notes["RescaleSlope"] = fmt::format("{:.9g}", number_of(notes, "RescaleSlope").value_or(1) / scale);
    notes.try_emplace("RescaleIntercept", "0");
  }
  if (frame.source && notes.contains("IceMiniHead") &&
      (scale != 1 || has_other_geometry(head, frame.source->head) || !keeps_window(notes, frame.source->attributes)))
    notes.erase("IceMiniHead");

  std::map<std::string, std::vector<std::string>> values;
  for (const auto& [name, note] : notes) values[name] = values_of(note);
  values["ImageProcessingHistory"].push_back("ECHOTRAIN");
  values["echotrain_backend"] = {backend_};
  values["echotrain_frame"] = {std::to_string(frame.id)};
  if (!frame.source || frame.readouts > 0) values["echotrain_readouts"] = {std::to_string(frame.readouts)};
  if (frame.arrival.readout > 0) values["echotrain_last_readout"] = {std::to_string(frame.arrival.readout)};
  if (!steps.empty()) values["echotrain_step_us"] = std::move(steps);
  return protocol::meta_text(values);
}

}  // namespace echotrain
