// Files beside the scans: coil maps and reference images that pipelines name.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "protocol/files/dataset.h"

namespace echotrain::protocol {

/// ISMRMRD HDF5 files of one folder. Thread-safe: the HDF5 library is used by one thread at a time.
class AssetFolder {
 public:
  /// An empty `folder` means that there is none.
  explicit AssetFolder(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  /// The images of the file's first image series, in order. `name` is the name of a file in the folder, never a path.
  /// Throws DatasetError that says what is there instead. `between` is called before each image; what it throws ends
  /// the reading.
  std::vector<Image> images(const std::string& name, const std::function<void()>& between = {}) const;

 private:
  std::vector<std::string> names() const;
  std::filesystem::path folder_;
};

}  // namespace echotrain::protocol
