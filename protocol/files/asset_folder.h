// The asset folder has files beside the scans: coil maps, reference images and coefficients that pipelines name.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/files/dataset.h"

namespace echotrain::protocol {

/// ISMRMRD HDF5 files of one folder, and texts (.grad, .coef, .gradients). Thread-safe: the HDF5 library is used by one
/// thread at a time.
class AssetFolder {
 public:
  /// An empty `folder` means that there is none. With `missing`, errors do not tell what else is there: it is called
  /// with what they would have told.
  explicit AssetFolder(std::filesystem::path folder = {}, std::function<void(const std::string&)> missing = {})
      : folder_(std::move(folder)), missing_(std::move(missing)) {}

  /// Returns the images of the file's first image series, in order; a text, of at most 65,535 bytes, is an image along
  /// x whose pixels (uint16) are its bytes, as a client would send it. `name` is the name of a file in the folder,
  /// never a path. Throws DatasetError that says what is there instead. `between` is called before each image; what it
  /// throws ends the reading.
  std::vector<Image> images(const std::string& name, const std::function<void()>& between = {}) const;

 private:
  std::vector<std::string> names() const;
  std::filesystem::path folder_;
  std::function<void(const std::string&)> missing_;
};

}  // namespace echotrain::protocol
