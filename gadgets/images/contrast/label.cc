#include "gadgets/images/contrast/label.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

constexpr std::string_view kBlank = " \t";

/// The parts between commas, without the blanks around them.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string part = list.substr(begin, end - begin);
    part.erase(0, std::min(part.find_first_not_of(kBlank), part.size()));
    part.erase(part.find_last_not_of(kBlank) + 1);
    if (!part.empty()) parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Parameters<Label::Options> Label::parameters() {
  return Parameters<Options>()
      .text("data_role", &Options::data_role, "DataRole, such as Image or Quantitative")
      .text("series_description", &Options::series_description, "SeriesDescription: replaces the protocol's name")
      .text("series_description_additional", &Options::series_description_additional,
            "SeriesDescriptionAdditional: the host adds it to the series description")
      .text("sequence_description_additional", &Options::sequence_description_additional,
            "SequenceDescriptionAdditional: the host adds it to the sequence description")
      .text("image_comments", &Options::image_comments, "ImageComments: added to those there are, after '; '")
      .text("image_type", &Options::image_type, "ImageType: DICOM's values, separated by commas: DERIVED, PRIMARY, M")
      .text("history", &Options::history, "steps added to ImageProcessingHistory, separated by commas")
      .number("window_center", &Options::window_center, -1e12, 1e12, "WindowCenter; with window_width")
      .number("window_width", &Options::window_width, 1e-12, 1e12, "WindowWidth; with window_center")
      .number("rescale_slope", &Options::rescale_slope, -1e12, 1e12,
              "RescaleSlope of Quantitative images: value = pixel x slope + intercept")
      .number("rescale_intercept", &Options::rescale_intercept, -1e12, 1e12, "RescaleIntercept of Quantitative images")
      .flag("keep_image_geometry", &Options::keep_image_geometry,
            "Keep_image_geometry: whether the host is to leave the images as they are turned");
}

Label::Label(Options options) : options_(std::move(options)) {
  if (options_.window_center.has_value() != options_.window_width.has_value())
    throw std::invalid_argument("a window has both window_center and window_width");
  for (const std::string* text :
       {&options_.data_role, &options_.series_description, &options_.series_description_additional,
        &options_.sequence_description_additional, &options_.image_comments, &options_.image_type, &options_.history})
    if (std::any_of(text->begin(), text->end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
      throw std::invalid_argument("a text holds a control character, which meta attributes cannot hold");
}

void Label::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const auto frame = std::make_shared<Frame>(*images.frame);
  auto& notes = frame->notes;
  for (const auto& [name, text] :
       {std::pair("DataRole", &options_.data_role), std::pair("SeriesDescription", &options_.series_description),
        std::pair("SeriesDescriptionAdditional", &options_.series_description_additional),
        std::pair("SequenceDescriptionAdditional", &options_.sequence_description_additional)})
    if (!text->empty()) notes[name] = *text;
  if (!options_.image_comments.empty()) {
    std::string& comments = notes["ImageComments"];
    comments += (comments.empty() ? "" : "; ") + options_.image_comments;
  }
  if (!options_.image_type.empty()) notes["ImageType"] = note_of(parts_of(options_.image_type));
  for (const std::string& step : parts_of(options_.history)) add_step(*frame, step);
  if (options_.window_center) set_window(*frame, *options_.window_center, *options_.window_width);
  if (options_.rescale_slope) notes["RescaleSlope"] = fmt::format("{:.9g}", *options_.rescale_slope);
  if (options_.rescale_intercept) notes["RescaleIntercept"] = fmt::format("{:.9g}", *options_.rescale_intercept);
  if (!options_.keep_image_geometry) notes["Keep_image_geometry"] = "0";
  images.frame = frame;
  emit(std::move(images));
}

}  // namespace echotrain
