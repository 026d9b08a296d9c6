// The command `echotrain export` writes the images of a file as pictures, animations, NIfTI volumes and DICOM files.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>

#include "clients/cpp/base/progress.h"
#include "config/option.h"

namespace echotrain::client {

struct ExportOptions : ProgressChoice {
  std::filesystem::path input;
  std::filesystem::path png, gif, nifti, dicom;  ///< folders to write to, made when missing; at least one
  bool dicom_enhanced = false;                   ///< one multi-frame DICOM file per series
  bool patient = false;                          ///< DICOM files keep the header's patient fields
  std::string group = "dataset";
  std::string series;                               ///< empty: all
  std::optional<std::pair<double, double>> window;  ///< the values that become black and white
  bool json = false;
  double fps = 15;  ///< frames per second of animations
};

config::OptionTable<ExportOptions> export_options();

/// png: one picture per image, channel and z: SERIES_III[_cCC][_zZZZ].png.
/// gif: one animation per series and channel: SERIES[_cCC].gif. Planes z run fastest, then cardiac phases, repetitions,
/// slices, contrasts and sets, whatever order the images came in.
/// Without a window, a series is shown from 0 to 99.5 percent of its magnitudes, phase images from -pi to pi; complex
/// images are shown as magnitudes, real and imaginary ones symmetric about 0.
/// nifti: one file per series and channel: SERIES[_cCC].nii, with values unchanged. Slices form a volume by their
/// positions; images that differ in another counter form the fourth axis.
/// dicom: one file per plane, or per series with dicom_enhanced (dicom_export.h); std::runtime_error where this program
/// was built without DCMTK. UsageError without any folder; std::runtime_error when the images of a series do not fit
/// together.
void export_images(const ExportOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
