// An image part is a channel and a part of an image, and what its instances share. Included only where there is DCMTK.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/dicom/dicom_file.h"
#include "protocol/dicom/elements.h"
#include "protocol/dicom/map_meaning.h"
#include "protocol/dicom/plane_geometry.h"
#include "protocol/dicom/stored_pixels.h"

namespace echotrain::protocol::dicom {

/// Those meta attributes of one image that its instances tell: the first value of each, but of ImageType the first 16
/// codes. Long values are cut.
class Meta {
 public:
  /// Throws DicomError where reading them would take more than 64 MiB.
  explicit Meta(const std::string& attributes);
  /// Returns the memory that they take at most [bytes].
  static std::size_t bytes_of(const std::string& attributes);

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
  void add_types(std::string_view text);  // the codes between its backslashes

  std::vector<std::pair<std::string, std::string>> values_;
};

constexpr std::size_t kLongestText = 10240;  // of a long text (LT), in characters: PS3.5, 6.2

/// Returns the texts that are not empty, with "; " between them, as a long text.
std::string joined_text(const std::string& first, const std::string& second);

/// A channel and a part (magnitude, phase, ...) of an image as a series has it. The study must outlive it.
class ImagePart {
 public:
  /// `meta` is the image's. `only_part`: the image has no other parts. `kind` tells series of other classes apart.
  /// Throws DicomError as stored_pixels() does.
  ImagePart(const Image& image, const Reconstruction& of, std::shared_ptr<const Meta> meta, std::size_t channel,
            Part part, bool only_part, std::string_view kind = "series");

  const ImageHeader& head() const { return head_; }
  const Study& study() const { return study_; }
  const StoredPixels& pixels() const { return pixels_; }
  const std::string& name() const { return name_; }  ///< "_c01_phase"; empty for an image's only one
  const std::string& series_uid() const { return series_uid_; }
  const char* component() const;  ///< Complex Image Component
  /// Returns what the pixels mean, of maps only. A frame of several may have another intercept and sign than the part.
  std::optional<SequenceItem> real_world_value(double intercept, bool is_signed) const;
  /// Returns the stored pixels of a plane.
  std::span<const std::uint16_t> plane(std::size_t z) const;
  /// Tells a plane from all others, but for its pixels.
  std::string identity(std::size_t z, std::int64_t number, const PlaneGeometry& place) const;

  void add_patient(Elements& e) const;
  void add_series(Elements& e) const;
  /// Adds size and kind of the pixels, but not the pixels.
  void add_pixel_module(Elements& e, bool is_signed) const;

  // The sequence's number for this contrast, as the image or the header says; nothing where neither does, and for maps
  // where the header says several [ms, degrees].
  std::optional<double> repetition_time() const { return of_image("RepetitionTime", study_.tr_ms, head_.contrast); }
  std::optional<double> echo_time() const { return of_image("EchoTime", study_.te_ms, head_.contrast); }
  std::optional<double> flip_angle() const { return of_image("FlipAngle", study_.flip_deg, head_.contrast); }
  /// Likewise by the counter of inversion times.
  std::optional<double> inversion_time() const;

  /// Returns what the image says, where it says all of it (ORIGINAL or DERIVED first); otherwise that with `first`,
  /// PRIMARY, the part and ND before it; for maps DERIVED, PRIMARY, the part, QUANTITY or STD_DEVIATION.
  std::vector<std::string> image_type(const char* first = "ORIGINAL") const;
  /// Returns what the image says of itself.
  std::string comments() const { return plain_text(meta_->text("ImageComments"), kLongestText); }
  /// Returns one sentence for a reader where pixels of the plane are not what was computed: not numbers, infinite, cut.
  /// Empty where all are.
  std::string faults(std::size_t z) const;
  std::pair<double, double> window() const;  ///< centre and width, in values

 private:
  std::string series_description() const;
  Part told_part() const;
  std::optional<double> of_image(const char* attribute, const std::vector<double>& from, std::int64_t number) const;

  const ImageHeader head_;
  const Study& study_;
  const std::shared_ptr<const Meta> meta_;
  const std::size_t channel_;
  const Part part_;
  const StoredPixels pixels_;
  const MapMeaning map_;
  std::string name_, series_uid_;
};

}  // namespace echotrain::protocol::dicom
