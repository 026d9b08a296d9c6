// A DICOM file holds a plane of an image as one instance.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "protocol/data/messages.h"
#include "protocol/dicom/study.h"
#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {

/// True if this program was built with DCMTK. Without, to_dicom() throws a DicomError that says how to get it.
bool available();

/// One instance of MR Image Storage.
struct Instance {
  std::string name;  ///< what tells it from the image's others: "_c01_phase_z003"; empty for the only one
  std::string uid, series_uid;
  std::string bytes;  ///< a Part 10 file, explicit VR little endian
};

/// The facts that the images of one reconstruction share beyond their study.
struct Reconstruction {
  const Study& study;
  std::string key;  ///< tells reconstructions of one measurement apart: of another key, another series
};

/// Makes the instances of an image, one at a time: its planes, in the order of z, of each channel and of each part
/// (magnitude and phase of complex images), in turn. `number` is the InstanceNumber of the first plane; further planes
/// count on, and channels and parts are series of their own, which count from `number` again.
///
/// UIDs are digests: that of the study of the measurement; that of a series of the study, `key`, image_series_index,
/// channel and part; that of an instance of the series, the counters, the plane, its pixels and its place. So the same
/// image has the same UIDs whenever it is made, and another one has others.
///
/// Meta attributes of the image that are read: SeriesDescription, SeriesDescriptionAdditional or
/// SequenceDescriptionAdditional, ImageType, ImageComments, WindowCenter, WindowWidth (in values after the rescale),
/// RescaleSlope, RescaleIntercept, EchoTime, RepetitionTime, InversionTime (ms), FlipAngle (degrees), map_quantity,
/// map_unit, map_statistic (map_meaning.h). Those that are no
/// numbers where numbers are needed are passed over. Geometry is that of the image's header.
class Instances {
 public:
  /// Image and study must outlive this. Throws DicomError where the image cannot be told in DICOM (plane_geometry.h,
  /// stored_pixels.h).
  Instances(const Image& image, const Reconstruction& of, std::int64_t number);
  ~Instances();
  Instances(Instances&&) noexcept;
  /// Makes the next one; nothing after the last.
  std::optional<Instance> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Gives all Instances of an image. Throws as their constructor, before `give` is called.
void to_dicom(const Image& image, const Reconstruction& of, std::int64_t number,
              const std::function<void(Instance&&)>& give);

}  // namespace echotrain::protocol::dicom
