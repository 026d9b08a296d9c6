// An enhanced DICOM file holds the images of a series as one multi-frame instance.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "protocol/data/messages.h"
#include "protocol/dicom/dicom_file.h"

namespace echotrain::protocol::dicom {

/// Collects images, and makes instances of Enhanced MR Image Storage of them (PS3.3 A.36): one for each
/// image_series_index, channel and part (magnitude and phase of complex images), whose frames are the planes of its
/// images. Images of a series that differ in size become several instances.
///
/// Frames are in the order of time (set, average, repetition, phase), contrast, stack (planes of one orientation, in
/// the order of their first image) and place along the stack's normal, whatever order the images came in; these are the
/// dimensions of the instance. What all frames say alike is told once (Shared Functional Groups Sequence).
///
/// UIDs are digests as those of to_dicom(), of series of their own. The same meta attributes are read.
class EnhancedImages {
 public:
  /// Takes what images share; the study must outlive this.
  explicit EnhancedImages(const Reconstruction& of);
  ~EnhancedImages();
  EnhancedImages(EnhancedImages&&) noexcept;

  /// Keeps an image, as 16-bit pixels. Throws DicomError where it cannot be told in DICOM, as to_dicom(); nothing of it
  /// is kept then.
  void add(const Image& image);
  std::size_t bytes() const;  ///< of the pixels that are kept
  bool empty() const;
  /// Gives the instances of all images so far, and begins anew: further images become further instances of the same
  /// series. An instance's name is that of its part, with its size where a series has several. DicomError where an
  /// instance cannot be written.
  void finish(const std::function<void(Instance&&)>& give);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::protocol::dicom
