#include "protocol/dicom/dicom_file.h"

#include "protocol/dicom/dicom_built.h"

#if ECHOTRAIN_HAS_DCMTK

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "protocol/dicom/image_part.h"

namespace echotrain::protocol::dicom {
namespace {

void add_sequence(Elements& e, const ImagePart& of) {
  const auto decimal_or_nothing = [&](const DcmTagKey& tag, const std::optional<double>& value) {
    e.text(tag, EVR_DS, value ? decimal_text(*value) : "");
  };
  e.text(DCM_ScanningSequence, EVR_CS, "RM");  // research mode: headers name no sequence in DICOM's terms
  e.text(DCM_SequenceVariant, EVR_CS, "NONE");
  e.text(DCM_ScanOptions, EVR_CS, "");
  e.text(DCM_MRAcquisitionType, EVR_CS, of.study().is_3d || of.head().matrix_size[2] > 1 ? "3D" : "2D");
  e.known(DCM_SequenceName, EVR_SH, of.study().sequence_name);
  decimal_or_nothing(DCM_RepetitionTime, of.repetition_time());
  decimal_or_nothing(DCM_EchoTime, of.echo_time());
  if (const auto ti = of.inversion_time()) e.decimal(DCM_InversionTime, *ti);
  if (const auto flip = of.flip_angle()) e.decimal(DCM_FlipAngle, *flip);
  e.text(DCM_EchoTrainLength, EVR_IS, "");
  e.integer(DCM_EchoNumbers, of.head().contrast + 1);
  e.integer(DCM_TemporalPositionIdentifier, of.head().repetition + 1);
  e.integer(DCM_AcquisitionNumber, 1);
  e.known(DCM_MagneticFieldStrength, EVR_DS, of.study().field_strength_t);
  e.known(DCM_ImagingFrequency, EVR_DS, of.study().frequency_mhz);
  e.text(DCM_ImageType, EVR_CS, fmt::format("{}", fmt::join(of.image_type(), "\\")));
  e.text(DCM_ComplexImageComponent, EVR_CS, of.component());
}

void add_place(Elements& e, const ImagePart& of, const PlaneGeometry& place) {
  const std::array<double, 6> orientation{place.row[0],    place.row[1],    place.row[2],
                                          place.column[0], place.column[1], place.column[2]};
  e.decimals(DCM_ImagePositionPatient, place.position);
  e.decimals(DCM_ImageOrientationPatient, orientation);
  e.decimals(DCM_PixelSpacing, place.spacing);
  e.decimal(DCM_SliceThickness, place.thickness);
  if (of.head().matrix_size[2] > 1) e.decimal(DCM_SpacingBetweenSlices, place.thickness);
  const std::array<double, 3> normal{place.row[1] * place.column[2] - place.row[2] * place.column[1],
                                     place.row[2] * place.column[0] - place.row[0] * place.column[2],
                                     place.row[0] * place.column[1] - place.row[1] * place.column[0]};
  e.decimal(DCM_SliceLocation,
            normal[0] * place.position[0] + normal[1] * place.position[1] + normal[2] * place.position[2]);
}

void add_pixels(Elements& e, const ImagePart& of, std::size_t z) {
  of.add_pixel_module(e, of.pixels().is_signed);
  e.decimal(DCM_RescaleIntercept, of.pixels().intercept);
  e.decimal(DCM_RescaleSlope, of.pixels().slope);
  e.text(DCM_RescaleType, EVR_LO, "US");
  if (const auto mapping = of.real_world_value(of.pixels().intercept, of.pixels().is_signed)) e.add(*mapping);
  const auto [centre, width] = of.window();
  e.decimal(DCM_WindowCenter, centre);
  e.decimal(DCM_WindowWidth, width);
  e.text(DCM_VOILUTFunction, EVR_CS, "LINEAR_EXACT");  // LINEAR knows no window narrower than 1
  e.pixels(of.plane(z));
}

Instance plane(const ImagePart& of, std::size_t z, std::int64_t number) {
  const std::span<const std::uint16_t> stored = of.plane(z);
  const PlaneGeometry place = plane_geometry(of.head(), z);
  Instance out;
  out.name = of.name() + (of.head().matrix_size[2] > 1 ? fmt::format("_z{:03}", z) : "");
  out.series_uid = of.series_uid();
  out.uid = uid_of(of.identity(z, number, place) +
                   std::string(reinterpret_cast<const char*>(stored.data()), stored.size_bytes()));
  DcmFileFormat file;
  Elements elements(*file.getDataset());
  elements.text(DCM_SpecificCharacterSet, EVR_CS, "ISO_IR 192");
  elements.text(DCM_SOPClassUID, EVR_UI, UID_MRImageStorage);
  elements.text(DCM_SOPInstanceUID, EVR_UI, out.uid);
  of.add_patient(elements);
  of.add_series(elements);
  add_sequence(elements, of);
  elements.known(DCM_ImageComments, EVR_LT, joined_text(of.comments(), of.faults(z)));
  elements.integer(DCM_InstanceNumber, number);
  add_place(elements, of, place);
  add_pixels(elements, of, z);
  out.bytes = part_10_bytes(file);
  return out;
}

}  // namespace

bool available() { return true; }

struct Instances::Impl {
  Impl(const Image& from, const Reconstruction& reconstruction, std::int64_t first)
      : image(from),
        of(reconstruction),
        number(first),
        meta(std::make_shared<const Meta>(from.attributes)),
        parts(parts_of(from.head)) {}

  /// Makes the next channel's, or part's, pixels.
  void make_part() {
    one.emplace(image, of, meta, made / parts.size(), parts[made % parts.size()], parts.size() == 1);
    ++made;
    z = 0;
  }

  const Image& image;
  const Reconstruction of;
  const std::int64_t number;
  const std::shared_ptr<const Meta> meta;
  const std::vector<Part> parts;
  std::size_t made = 0, z = 0;   // parts of channels; the next plane of the last of them
  std::optional<ImagePart> one;  // that part
};

Instances::Instances(const Image& image, const Reconstruction& of, std::int64_t number) {
  plane_geometry(image.head, 0);
  impl_ = std::make_unique<Impl>(image, of, number);
  constexpr std::size_t kMostInstances = 4096;
  const std::size_t planes = image.head.matrix_size[2];
  if (image.head.channels * impl_->parts.size() * planes > kMostInstances)
    throw DicomError(fmt::format("an image of {} channels and {} planes makes more than {} instances",
                                 +image.head.channels, planes, kMostInstances));
  if (image.head.channels > 0) impl_->make_part();
}

Instances::~Instances() = default;
Instances::Instances(Instances&&) noexcept = default;

std::optional<Instance> Instances::next() {
  Impl& at = *impl_;
  if (!at.one) return std::nullopt;
  if (at.z == at.image.head.matrix_size[2]) {
    at.one.reset();  // its pixels go before the next part's come
    if (at.made == at.image.head.channels * at.parts.size()) return std::nullopt;
    at.make_part();
  }
  const std::size_t z = at.z++;
  return plane(*at.one, z, at.number + static_cast<std::int64_t>(z));
}

}  // namespace echotrain::protocol::dicom

#else

namespace echotrain::protocol::dicom {

bool available() { return false; }

struct Instances::Impl {};
Instances::Instances(const Image& /*image*/, const Reconstruction& /*of*/, std::int64_t /*number*/) {
  throw DicomError(
      "this program was built without DICOM: install DCMTK (Debian: libdcmtk-dev), then configure and build it again");
}
Instances::~Instances() = default;
Instances::Instances(Instances&&) noexcept = default;
std::optional<Instance> Instances::next() { return std::nullopt; }

}  // namespace echotrain::protocol::dicom

#endif

namespace echotrain::protocol::dicom {

void to_dicom(const Image& image, const Reconstruction& of, std::int64_t number,
              const std::function<void(Instance&&)>& give) {
  Instances all(image, of, number);
  while (std::optional<Instance> one = all.next()) give(std::move(*one));
}

}  // namespace echotrain::protocol::dicom
