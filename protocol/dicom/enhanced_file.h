// An enhanced DICOM file holds the images of a series as one multi-frame instance.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
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
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

  /// Takes what images share; the study must outlive this. An instance has at most `most_frames` frames, and 1 GiB of
  /// pixels.
  explicit EnhancedImages(const Reconstruction& of, std::size_t most_frames = kAnyNumber);
  ~EnhancedImages();
  EnhancedImages(EnhancedImages&&) noexcept;

  /// Keeps an image, as 16-bit pixels. Throws DicomError where it cannot be told in DICOM, as to_dicom(); nothing of it
  /// is kept then. Closes what would have too many frames with this image before it is added.
  void add(const Image& image);
  /// Returns the memory that an image takes here at most [bytes].
  static std::size_t bytes_of(const Image& image);
  std::size_t bytes() const;  ///< memory that is taken, by bytes_of()
  bool empty() const;         ///< nothing is kept, but for what is closed
  /// Ends the instances of all images so far: further images become further instances of the same series.
  void close();
  /// Returns whether instances are closed that next() has not given.
  bool has_closed() const;
  /// Returns the memory that next() takes at most beside what is kept [bytes].
  std::size_t bytes_to_make() const;
  /// Makes an instance of what is closed; nothing after the last. Its name is that of its part, with its size where a
  /// series has several. DicomError where it cannot be written: the next one is another.
  std::optional<Instance> next();
  /// Closes, and gives all.
  void finish(const std::function<void(Instance&&)>& give);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::protocol::dicom
