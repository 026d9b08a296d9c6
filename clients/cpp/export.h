// `echotrain export`: the images of a file as PNG pictures.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace echotrain::client {

struct ExportOptions {
  std::filesystem::path input;
  std::filesystem::path png;
  std::string group = "dataset";
  std::string series;          ///< empty: all
  std::vector<double> window;  ///< empty, or the values that become black and white
};

/// Writes one picture per image, channel and z: SERIES_III[_cCC][_zZZZ].png. Without a window, a series is shown from 0
/// to 99.5 percent of its magnitudes, phase images from -pi to pi; complex images are shown as magnitudes, real and
/// imaginary ones symmetric about 0.
void export_images(const ExportOptions& options, std::ostream& out);

}  // namespace echotrain::client
