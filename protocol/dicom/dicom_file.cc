#include "protocol/dicom/dicom_file.h"

#if ECHOTRAIN_HAS_DCMTK

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcostrmb.h>
#include <dcmtk/dcmdata/dctk.h>
#include <dcmtk/dcmdata/dcwcache.h>
#include <dcmtk/oflog/oflog.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "protocol/data/meta.h"
#include "protocol/dicom/plane_geometry.h"
#include "protocol/dicom/stored_pixels.h"

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

/// The meta attributes of one image.
class Meta {
 public:
  explicit Meta(const std::string& attributes) : values_(meta_values(attributes)) {}

  std::string text(std::string_view name) const {
    for (const auto& [key, value] : values_)
      if (key == name) return value;
    return "";
  }
  std::optional<double> number(std::string_view name) const {
    const std::string text = this->text(name);
    double out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(out)) return std::nullopt;
    return out;
  }
  std::vector<std::string> all(std::string_view name) const {
    std::vector<std::string> found;
    for (const auto& [key, value] : values_)
      if (key == name) found.push_back(value);
    return found;
  }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

/// Sets elements with the value representations given here: the library's dictionary is a file of its own, which a
/// machine may lack.
class Elements {
 public:
  explicit Elements(DcmDataset& dataset) : dataset_(dataset) {}

  void text(const DcmTagKey& tag, DcmEVR representation, const std::string& value) {
    check(dataset_.putAndInsertString(DcmTag(tag, DcmVR(representation)), value.c_str()), tag);
  }
  /// Only where there is something to say.
  void known(const DcmTagKey& tag, DcmEVR representation, const std::string& value) {
    if (!value.empty()) text(tag, representation, value);
  }
  void decimals(const DcmTagKey& tag, std::span<const double> values) {
    std::vector<std::string> texts;
    for (const double value : values) texts.push_back(decimal_text(value));
    text(tag, EVR_DS, fmt::format("{}", fmt::join(texts, "\\")));
  }
  void decimal(const DcmTagKey& tag, double value) { decimals(tag, {&value, 1}); }
  void integer(const DcmTagKey& tag, std::int64_t value) { text(tag, EVR_IS, std::to_string(value)); }
  void unsigned_short(const DcmTagKey& tag, std::uint16_t value) {
    check(dataset_.putAndInsertUint16(DcmTag(tag, DcmVR(EVR_US)), value), tag);
  }
  void pixels(std::span<const std::uint16_t> values) {
    check(dataset_.putAndInsertUint16Array(DcmTag(DCM_PixelData, DcmVR(EVR_OW)), values.data(), values.size()),
          DCM_PixelData);
  }

 private:
  static void check(const OFCondition& done, const DcmTagKey& tag) {
    if (done.bad())
      throw DicomError(fmt::format("DICOM element ({:04x},{:04x}): {}", tag.getGroup(), tag.getElement(), done.text()));
  }
  DcmDataset& dataset_;
};

std::string part_10_bytes(DcmFileFormat& file) {
  constexpr std::size_t kMetaHeader = 4096;  // more than it takes
  std::string bytes(file.getDataset()->calcElementLength(EXS_LittleEndianExplicit, EET_ExplicitLength) + kMetaHeader,
                    '\0');
  DcmOutputBufferStream stream(bytes.data(), static_cast<offile_off_t>(bytes.size()));
  DcmWriteCache cache;
  file.transferInit();
  const OFCondition done = file.write(stream, EXS_LittleEndianExplicit, EET_ExplicitLength, &cache, EGL_recalcGL);
  file.transferEnd();
  if (done.bad()) throw DicomError(fmt::format("an instance cannot be written: {}", done.text()));
  void* begin = nullptr;
  offile_off_t length = 0;
  stream.flushBuffer(begin, length);
  bytes.resize(static_cast<std::size_t>(length));
  return bytes;
}

/// One series of instances: a channel and a part of an image.
class PlaneWriter {
 public:
  PlaneWriter(const Image& image, const Reconstruction& of, std::size_t channel, Part part, bool only_part)
      : head_(image.head),
        study_(of.study),
        meta_(image.attributes),
        channel_(channel),
        part_(part),
        pixels_(stored_pixels(image, channel, part, meta_.number("RescaleSlope").value_or(1),
                              meta_.number("RescaleIntercept").value_or(0))) {
    if (head_.channels > 1) name_ += fmt::format("_c{:02}", channel);
    if (!only_part) name_ += fmt::format("_{}", name_of(part).word);
    series_uid_ = uid_of(fmt::format("series\n{}\n{}\n{} {} {}", of.key, +head_.image_series_index, channel,
                                     name_of(part).letter, study_.key));
  }

  Instance plane(std::size_t z, std::int64_t number) const {
    const std::size_t size = std::size_t{head_.matrix_size[0]} * head_.matrix_size[1];
    const std::span<const std::uint16_t> stored = std::span(pixels_.stored).subspan(z * size, size);
    const PlaneGeometry place = plane_geometry(head_, z);
    Instance out;
    out.name = name_ + (head_.matrix_size[2] > 1 ? fmt::format("_z{:03}", z) : "");
    out.series_uid = series_uid_;
    out.uid = uid_of(identity(z, number, place) +
                     std::string(reinterpret_cast<const char*>(stored.data()), stored.size_bytes()));
    DcmFileFormat file;
    Elements elements(*file.getDataset());
    elements.text(DCM_SpecificCharacterSet, EVR_CS, "ISO_IR 192");
    elements.text(DCM_SOPClassUID, EVR_UI, UID_MRImageStorage);
    elements.text(DCM_SOPInstanceUID, EVR_UI, out.uid);
    add_patient(elements);
    add_series(elements);
    add_sequence(elements);
    elements.integer(DCM_InstanceNumber, number);
    add_place(elements, place);
    add_pixels(elements, stored);
    out.bytes = part_10_bytes(file);
    return out;
  }

 private:
  /// Tells the plane from all others, but for its pixels.
  std::string identity(std::size_t z, std::int64_t number, const PlaneGeometry& place) const {
    return fmt::format("instance\n{}\n{} {} {} {} {} {} {} {} {}\n{} {} {} {}\n{} {} {}\n", series_uid_,
                       +head_.image_index, +head_.average, +head_.slice, +head_.contrast, +head_.phase,
                       +head_.repetition, +head_.set, z, number, fmt::join(place.position, " "),
                       fmt::join(place.row, " "), fmt::join(place.column, " "), fmt::join(place.spacing, " "),
                       pixels_.slope, pixels_.intercept, pixels_.is_signed);
  }

  void add_patient(Elements& e) const {
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

  std::string series_description() const {
    std::string text = meta_.text("SeriesDescription");
    if (text.empty()) text = study_.series_description.empty() ? study_.protocol_name : study_.series_description;
    for (const char* more : {"SeriesDescriptionAdditional", "SequenceDescriptionAdditional"})
      if (const std::string added = meta_.text(more); !added.empty()) text += (text.empty() ? "" : "_") + added;
    if (!name_.empty()) text += fmt::format("{}{}", text.empty() ? "" : " ", name_.substr(1));
    return plain_text(text);
  }

  void add_series(Elements& e) const {
    e.text(DCM_Modality, EVR_CS, "MR");
    e.text(DCM_SeriesInstanceUID, EVR_UI, series_uid_);
    // Channels and parts follow the image's own series by hundreds.
    const std::int64_t behind = 2 * static_cast<std::int64_t>(channel_) + (part_ == Part::phase && !name_.empty());
    e.integer(DCM_SeriesNumber, 1000 * study_.series_number + 100 * behind + head_.image_series_index);
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
  }

  /// The sequence's number for this contrast, as the image or the header says; nothing where neither does.
  std::optional<double> of_contrast(const char* attribute, const std::vector<double>& from) const {
    if (const auto own = meta_.number(attribute)) return own;
    if (from.empty()) return std::nullopt;
    return from.size() == 1               ? from[0]
           : head_.contrast < from.size() ? std::optional<double>(from[head_.contrast])
                                          : std::nullopt;
  }

  void add_sequence(Elements& e) const {
    const auto decimal_or_nothing = [&](const DcmTagKey& tag, const std::optional<double>& value) {
      e.text(tag, EVR_DS, value ? decimal_text(*value) : "");
    };
    e.text(DCM_ScanningSequence, EVR_CS, "RM");  // research mode: headers name no sequence in DICOM's terms
    e.text(DCM_SequenceVariant, EVR_CS, "NONE");
    e.text(DCM_ScanOptions, EVR_CS, "");
    e.text(DCM_MRAcquisitionType, EVR_CS, study_.is_3d || head_.matrix_size[2] > 1 ? "3D" : "2D");
    e.known(DCM_SequenceName, EVR_SH, study_.sequence_name);
    decimal_or_nothing(DCM_RepetitionTime, of_contrast("RepetitionTime", study_.tr_ms));
    decimal_or_nothing(DCM_EchoTime, of_contrast("EchoTime", study_.te_ms));
    if (const auto ti = of_contrast("InversionTime", study_.ti_ms)) e.decimal(DCM_InversionTime, *ti);
    if (const auto flip = of_contrast("FlipAngle", study_.flip_deg)) e.decimal(DCM_FlipAngle, *flip);
    e.text(DCM_EchoTrainLength, EVR_IS, "");
    e.integer(DCM_EchoNumbers, head_.contrast + 1);
    e.integer(DCM_TemporalPositionIdentifier, head_.repetition + 1);
    e.integer(DCM_AcquisitionNumber, 1);
    e.known(DCM_MagneticFieldStrength, EVR_DS, study_.field_strength_t);
    e.known(DCM_ImagingFrequency, EVR_DS, study_.frequency_mhz);
    e.text(DCM_ImageType, EVR_CS, image_type());
    e.text(DCM_ComplexImageComponent, EVR_CS, name_of(part_).component);
    e.known(DCM_ImageComments, EVR_LT, plain_text(meta_.text("ImageComments"), 10240));
  }

  /// What the image says, where it says all of it (ORIGINAL or DERIVED first); otherwise that with the part before it.
  std::string image_type() const {
    std::vector<std::string> values;
    for (const std::string& each : meta_.all("ImageType")) {
      std::size_t begin = 0;
      for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
        end = each.find('\\', begin);
        std::string value = code(each.substr(begin, end == std::string::npos ? end : end - begin));
        if (!value.empty()) values.push_back(std::move(value));
      }
    }
    if (values.size() < 2 || (values[0] != "ORIGINAL" && values[0] != "DERIVED"))
      values.insert(values.begin(), {"ORIGINAL", "PRIMARY", name_of(part_).letter, "ND"});
    return fmt::format("{}", fmt::join(values, "\\"));
  }

  /// A code string (CS): capitals, digits, blanks and underscores, at most 16.
  static std::string code(std::string_view text) {
    std::string out;
    for (const char c : plain_text(text, 16)) {
      const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      const bool fits = (upper >= 'A' && upper <= 'Z') || (upper >= '0' && upper <= '9') || upper == ' ';
      out += fits ? upper : '_';
    }
    return out;
  }

  void add_place(Elements& e, const PlaneGeometry& place) const {
    const std::array<double, 6> orientation{place.row[0],    place.row[1],    place.row[2],
                                            place.column[0], place.column[1], place.column[2]};
    e.decimals(DCM_ImagePositionPatient, place.position);
    e.decimals(DCM_ImageOrientationPatient, orientation);
    e.decimals(DCM_PixelSpacing, place.spacing);
    e.decimal(DCM_SliceThickness, place.thickness);
    if (head_.matrix_size[2] > 1) e.decimal(DCM_SpacingBetweenSlices, place.thickness);
    const std::array<double, 3> normal{place.row[1] * place.column[2] - place.row[2] * place.column[1],
                                       place.row[2] * place.column[0] - place.row[0] * place.column[2],
                                       place.row[0] * place.column[1] - place.row[1] * place.column[0]};
    e.decimal(DCM_SliceLocation,
              normal[0] * place.position[0] + normal[1] * place.position[1] + normal[2] * place.position[2]);
  }

  void add_pixels(Elements& e, std::span<const std::uint16_t> stored) const {
    e.unsigned_short(DCM_SamplesPerPixel, 1);
    e.text(DCM_PhotometricInterpretation, EVR_CS, "MONOCHROME2");
    e.unsigned_short(DCM_Rows, head_.matrix_size[1]);
    e.unsigned_short(DCM_Columns, head_.matrix_size[0]);
    e.unsigned_short(DCM_BitsAllocated, 16);
    e.unsigned_short(DCM_BitsStored, 16);
    e.unsigned_short(DCM_HighBit, 15);
    e.unsigned_short(DCM_PixelRepresentation, pixels_.is_signed ? 1 : 0);
    e.decimal(DCM_RescaleIntercept, pixels_.intercept);
    e.decimal(DCM_RescaleSlope, pixels_.slope);
    e.text(DCM_RescaleType, EVR_LO, "US");
    const auto centre = meta_.number("WindowCenter"), width = meta_.number("WindowWidth");
    const bool given = centre && width && *width > 0;
    e.decimal(DCM_WindowCenter, given ? *centre : pixels_.centre);
    e.decimal(DCM_WindowWidth, given ? *width : pixels_.width);
    e.text(DCM_VOILUTFunction, EVR_CS, "LINEAR_EXACT");  // LINEAR knows no window narrower than 1
    e.pixels(stored);
  }

  const ImageHeader& head_;
  const Study& study_;
  const Meta meta_;
  const std::size_t channel_;
  const Part part_;
  const StoredPixels pixels_;
  std::string name_, series_uid_;
};

}  // namespace

bool available() { return true; }

void to_dicom(const Image& image, const Reconstruction& of, std::int64_t number,
              const std::function<void(Instance&&)>& give) {
  static const bool quiet = [] {  // the library's own log goes to stderr
    OFLog::configure(OFLogger::OFF_LOG_LEVEL);
    return true;
  }();
  static_cast<void>(quiet);
  plane_geometry(image.head, 0);
  const std::vector<Part> parts = parts_of(image.head);
  constexpr std::size_t kMostInstances = 4096;
  const std::size_t planes = image.head.matrix_size[2];
  if (image.head.channels * parts.size() * planes > kMostInstances)
    throw DicomError(fmt::format("an image of {} channels and {} planes makes more than {} instances",
                                 +image.head.channels, planes, kMostInstances));
  for (std::size_t channel = 0; channel < image.head.channels; ++channel)
    for (const Part part : parts) {
      const PlaneWriter writer(image, of, channel, part, parts.size() == 1);
      for (std::size_t z = 0; z < image.head.matrix_size[2]; ++z)
        give(writer.plane(z, number + static_cast<std::int64_t>(z)));
    }
}

}  // namespace echotrain::protocol::dicom

#else

namespace echotrain::protocol::dicom {

bool available() { return false; }

void to_dicom(const Image& /*image*/, const Reconstruction& /*of*/, std::int64_t /*number*/,
              const std::function<void(Instance&&)>& /*give*/) {
  throw DicomError(
      "this program was built without DICOM: install DCMTK (Debian: libdcmtk-dev), then configure and build it again");
}

}  // namespace echotrain::protocol::dicom

#endif
