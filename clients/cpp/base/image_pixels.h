// The pixels of image messages and stored arrays become numbers that tools can work with.
#pragma once

#include <complex>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/data/meta.h"

namespace echotrain::client {

/// The pixels of an image of any data type.
struct Pixels {
  std::size_t channels = 1, z = 1, y = 1, x = 1;
  bool is_complex = false;
  std::vector<std::complex<double>> values;  ///< [channel, z, y, x]

  std::string size_text() const;  ///< "8 x 1 x 256 x 256 [channel, z, y, x]"
};

/// Reads the pixels. Throws std::runtime_error when they do not fill the matrix.
Pixels read_pixels(const protocol::Image& image);

/// Returns the magnitude [z, y, x]; several channels are combined by the root of the sum of their squares.
std::vector<float> combined_magnitude(const Pixels& pixels);

/// A real array of an HDF5 file, without leading axes of length 1.
struct StoredArray {
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// Reads GROUP/NAME. Throws protocol::DatasetError when the file or the array is missing or not real numbers.
StoredArray read_array(const std::filesystem::path& file, const std::string& group, const std::string& name);

/// Reads the arrays `truth`, `truth_1`, `truth_2`, ... of a file, one per contrast, up to the first that is missing.
/// Throws as read_array() does when `truth` is missing.
std::vector<StoredArray> read_truths(const std::filesystem::path& file, const std::string& group);

/// Names and values of an image's meta attributes, in their order; none when they are not ismrmrdMeta XML.
using protocol::meta_values;

}  // namespace echotrain::client
