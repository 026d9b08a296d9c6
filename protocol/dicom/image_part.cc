#include "protocol/dicom/dicom_built.h"

#if ECHOTRAIN_HAS_DCMTK

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "protocol/data/meta.h"
#include "protocol/dicom/image_part.h"

namespace echotrain::protocol::dicom {
namespace {

struct PartName {
  const char* letter;     // of ImageType, as scanners write it
  const char* component;  // Complex Image Component
  const char* word;
};

PartName name_of(Part part) {
  switch (part) {
    case Part::phase:
      return {"P", "PHASE", "phase"};
    case Part::real:
      return {"R", "REAL", "real"};
    case Part::imaginary:
      return {"I", "IMAGINARY", "imaginary"};
    case Part::magnitude:
      break;
  }
  return {"M", "MAGNITUDE", "magnitude"};
}

/// A code string (CS): capitals, digits, blanks and underscores, at most 16.
std::string code(std::string_view text) {
  std::string out;
  for (const char c : plain_text(text, 16)) {
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const bool fits = (upper >= 'A' && upper <= 'Z') || (upper >= '0' && upper <= '9') || upper == ' ';
    out += fits ? upper : '_';
  }
  return out;
}

constexpr std::string_view kImageType = "ImageType", kComments = "ImageComments";
constexpr std::size_t kMostImageTypes = 16;
constexpr std::size_t kLongestValue = 1024, kLongestComments = 4 * kLongestText;  // in bytes: more is never told
constexpr std::uint64_t kMostToRead = 64 << 20;
// Read here, and in image_part.h.
constexpr std::array<std::string_view, 18> kTold{"SeriesDescription",
                                                 "SeriesDescriptionAdditional",
                                                 "SequenceDescriptionAdditional",
                                                 kComments,
                                                 "WindowCenter",
                                                 "WindowWidth",
                                                 "RescaleSlope",
                                                 "RescaleIntercept",
                                                 "EchoTime",
                                                 "echotrain_trace",
                                                 "RepetitionTime",
                                                 "InversionTime",
                                                 "FlipAngle",
                                                 "echotrain_not_finite_pixels",
                                                 "echotrain_saturated_pixels",
                                                 "map_quantity",
                                                 "map_unit",
                                                 "map_statistic"};

}  // namespace

Meta::Meta(const std::string& attributes) {
  if (const std::uint64_t bytes = bytes_to_read_meta(attributes); bytes > kMostToRead)
    throw DicomError(
        fmt::format("an image's attributes take {} MiB to read, more than {}", bytes >> 20, kMostToRead >> 20));
  for_each_meta(attributes, [&](std::string_view name, std::string_view value) {
    if (name == kImageType) return add_types(value);
    if (std::find(kTold.begin(), kTold.end(), name) == kTold.end() || !all(name).empty()) return;
    values_.emplace_back(name, value.substr(0, name == kComments ? kLongestComments : kLongestValue));
  });
}

void Meta::add_types(std::string_view text) {
  std::size_t room = kMostImageTypes - all(kImageType).size();
  for (std::size_t end = 0; room > 0 && end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find('\\');
    std::string value = code(text.substr(0, end));
    if (value.empty()) continue;
    values_.emplace_back(kImageType, std::move(value));
    --room;
  }
}

std::size_t Meta::bytes_of(const std::string& attributes) {
  // A value, its name and what the allocator adds, where the list has grown to twice what is in it. The shortest value
  // has two characters, of an ImageType: X\.
  constexpr std::size_t kValue = 2 * sizeof(std::pair<std::string, std::string>), kText = 48, kShortest = 2;
  constexpr std::size_t kMost = (kValue + 2 * kText) * (kTold.size() + kMostImageTypes);
  constexpr std::size_t kTexts = kTold.size() * kLongestValue + kLongestComments;
  return std::min(kTexts, attributes.size()) + std::min(kMost, attributes.size() / kShortest * (kValue + 2 * kText));
}

std::string joined_text(const std::string& first, const std::string& second) {
  if (first.empty() || second.empty()) return first + second;
  return plain_text(first, kLongestText - second.size() - 2) + "; " + second;
}

ImagePart::ImagePart(const Image& image, const Reconstruction& of, std::shared_ptr<const Meta> meta,
                     std::size_t channel, Part part, bool only_part, std::string_view kind)
    : head_(image.head),
      study_(of.study),
      meta_(std::move(meta)),
      channel_(channel),
      part_(part),
      pixels_(stored_pixels(image, channel, part, meta_->number("RescaleSlope").value_or(1),
                            meta_->number("RescaleIntercept").value_or(0))),
      map_{plain_text(meta_->text("map_quantity")), plain_text(meta_->text("map_unit")),
           meta_->text("map_statistic") == "sd"} {
  if (head_.channels > 1) name_ += fmt::format("_c{:02}", channel);
  if (!only_part) name_ += fmt::format("_{}", name_of(part).word);
  series_uid_ = uid_of(fmt::format("{}\n{}\n{}\n{} {} {}", kind, of.key, +head_.image_series_index, channel,
                                   name_of(part).letter, study_.key));
}

/// The part that readers are told: values without a sign are magnitudes, though a map is a real image.
Part ImagePart::told_part() const {
  return map_.is_map() && !map_.has_sign() && part_ == Part::real ? Part::magnitude : part_;
}

const char* ImagePart::component() const { return name_of(told_part()).component; }

std::optional<SequenceItem> ImagePart::real_world_value(double intercept, bool is_signed) const {
  if (!map_.is_map()) return std::nullopt;
  return dicom::real_world_value(map_, {pixels_.slope, intercept, is_signed});
}

std::span<const std::uint16_t> ImagePart::plane(std::size_t z) const {
  const std::size_t size = std::size_t{head_.matrix_size[0]} * head_.matrix_size[1];
  return std::span(pixels_.stored).subspan(z * size, size);
}

std::string ImagePart::faults(std::size_t z) const {
  std::vector<std::string> found;
  const std::uint32_t nan = pixels_.not_numbers[z], infinite = pixels_.infinite[z];
  if (nan > 0) found.push_back(fmt::format("pixels that are not numbers, stored as 0: {}", nan));
  if (infinite > 0)
    found.push_back(fmt::format("infinite pixels, stored as the largest finite magnitude: {}", infinite));
  // A scan's image check has noted its findings, in the whole image.
  const auto noted = [&](const char* attribute) { return meta_->number(attribute).value_or(0); };
  if (const double odd = noted("echotrain_not_finite_pixels"); odd > 0 && nan + infinite == 0)
    found.push_back(fmt::format("pixels of the image that were not finite before they got their type: {}", odd));
  if (const double cut = noted("echotrain_saturated_pixels"); cut > 0)
    found.push_back(fmt::format("pixels of the image that were cut to the range of their type: {}", cut));
  return found.empty() ? "" : fmt::format("ATTENTION: {}", fmt::join(found, ", "));
}

std::string ImagePart::identity(std::size_t z, std::int64_t number, const PlaneGeometry& place) const {
  return fmt::format("instance\n{}\n{} {} {} {} {} {} {} {} {}\n{} {} {} {}\n{} {} {}\n{}", series_uid_,
                     +head_.image_index, +head_.average, +head_.slice, +head_.contrast, +head_.phase, +head_.repetition,
                     +head_.set, z, number, fmt::join(place.position, " "), fmt::join(place.row, " "),
                     fmt::join(place.column, " "), fmt::join(place.spacing, " "), pixels_.slope, pixels_.intercept,
                     pixels_.is_signed, faults(z));
}

void ImagePart::add_patient(Elements& e) const {
  e.text(DCM_PatientName, EVR_PN, study_.patient_name);
  e.text(DCM_PatientID, EVR_LO, study_.patient_id);
  e.text(DCM_PatientBirthDate, EVR_DA, study_.birth_date);
  e.text(DCM_PatientSex, EVR_CS, study_.sex);
  e.known(DCM_PatientWeight, EVR_DS, study_.weight_kg);
  e.known(DCM_PatientSize, EVR_DS, study_.height_m);
  e.text(DCM_StudyInstanceUID, EVR_UI, study_.study_uid);
  e.text(DCM_StudyDate, EVR_DA, study_.date);
  e.text(DCM_StudyTime, EVR_TM, study_.time);
  e.text(DCM_StudyID, EVR_SH, study_.id);
  e.text(DCM_AccessionNumber, EVR_SH, study_.accession_number);
  e.text(DCM_ReferringPhysicianName, EVR_PN, study_.referring_physician);
  e.known(DCM_StudyDescription, EVR_LO, study_.description);
}

std::string ImagePart::series_description() const {
  std::string text = meta_->text("SeriesDescription");
  if (text.empty()) text = study_.series_description.empty() ? study_.protocol_name : study_.series_description;
  for (const char* more : {"SeriesDescriptionAdditional", "SequenceDescriptionAdditional"})
    if (const std::string added = meta_->text(more); !added.empty()) text += (text.empty() ? "" : "_") + added;
  if (!name_.empty()) text += fmt::format("{}{}", text.empty() ? "" : " ", name_.substr(1));
  return plain_text(text);
}

void ImagePart::add_series(Elements& e) const {
  e.text(DCM_Modality, EVR_CS, "MR");
  e.text(DCM_SeriesInstanceUID, EVR_UI, series_uid_);
  const std::int64_t behind = 2 * static_cast<std::int64_t>(channel_) + (part_ == Part::phase && !name_.empty());
  e.integer(DCM_SeriesNumber, series_number(study_.series_number, head_.image_series_index, behind, series_uid_));
  e.known(DCM_SeriesDescription, EVR_LO, series_description());
  e.known(DCM_SeriesDate, EVR_DA, study_.series_date);
  e.known(DCM_SeriesTime, EVR_TM, study_.series_time);
  e.known(DCM_ProtocolName, EVR_LO, study_.protocol_name);
  e.text(DCM_PatientPosition, EVR_CS, study_.patient_position);
  e.text(DCM_FrameOfReferenceUID, EVR_UI, study_.frame_uid);
  e.text(DCM_PositionReferenceIndicator, EVR_LO, "");
  e.text(DCM_Manufacturer, EVR_LO, study_.manufacturer);
  e.known(DCM_ManufacturerModelName, EVR_LO, study_.model);
  e.known(DCM_InstitutionName, EVR_LO, study_.institution);
  e.known(DCM_StationName, EVR_SH, study_.station);
  e.known(DCM_DeviceSerialNumber, EVR_LO, study_.device_serial_number);
  e.text(DCM_SoftwareVersions, EVR_LO, "Echotrain");
  if (const std::string trace = plain_text(meta_->text("echotrain_trace"), kLongestText); !trace.empty()) {
    // PS3.16, CID 7005.
    e.add({DCM_ContributingEquipmentSequence,
           {{DCM_Manufacturer, EVR_LO, "Echotrain"}, {DCM_ContributionDescription, EVR_ST, "trace " + trace}},
           {{DCM_PurposeOfReferenceCodeSequence,
             {{DCM_CodeValue, EVR_SH, "109102"},
              {DCM_CodingSchemeDesignator, EVR_SH, "DCM"},
              {DCM_CodeMeaning, EVR_LO, "Processing Equipment"}}}}});
  }
}

std::optional<double> ImagePart::of_image(const char* attribute, const std::vector<double>& from,
                                          std::int64_t number) const {
  if (const auto own = meta_->number(attribute)) return own;
  if (from.size() == 1) return from[0];
  if (map_.is_map() || number < 0 || number >= static_cast<std::int64_t>(from.size())) return std::nullopt;
  return from[static_cast<std::size_t>(number)];
}

std::optional<double> ImagePart::inversion_time() const {
  const std::string& by = study_.ti_counter;
  const std::int64_t number = by == "contrast"     ? head_.contrast
                              : by == "repetition" ? head_.repetition
                              : by == "phase"      ? head_.phase
                                                   : head_.set;
  return of_image("InversionTime", study_.ti_ms, number - study_.ti_first);
}

std::vector<std::string> ImagePart::image_type(const char* first) const {
  std::vector<std::string> values = meta_->all(kImageType);
  if (values.size() < 2 || (values[0] != "ORIGINAL" && values[0] != "DERIVED"))
    values.insert(values.begin(), {map_.is_map() ? "DERIVED" : first, "PRIMARY", name_of(told_part()).letter,
                                   !map_.is_map()   ? "ND"
                                   : map_.deviation ? "STD_DEVIATION"
                                                    : "QUANTITY"});
  return values;
}

void ImagePart::add_pixel_module(Elements& e, bool is_signed) const {
  e.unsigned_short(DCM_SamplesPerPixel, 1);
  e.text(DCM_PhotometricInterpretation, EVR_CS, "MONOCHROME2");
  e.unsigned_short(DCM_Rows, head_.matrix_size[1]);
  e.unsigned_short(DCM_Columns, head_.matrix_size[0]);
  e.unsigned_short(DCM_BitsAllocated, 16);
  e.unsigned_short(DCM_BitsStored, 16);
  e.unsigned_short(DCM_HighBit, 15);
  e.unsigned_short(DCM_PixelRepresentation, is_signed ? 1 : 0);
}

std::pair<double, double> ImagePart::window() const {
  const auto centre = meta_->number("WindowCenter"), width = meta_->number("WindowWidth");
  if (centre && width && *width > 0) return {*centre, *width};
  return {pixels_.centre, pixels_.width};
}

}  // namespace echotrain::protocol::dicom

#endif
