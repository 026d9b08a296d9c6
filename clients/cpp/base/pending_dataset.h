// A pending dataset is an output file that gets its name once there is something in it.
#pragma once

#include <filesystem>
#include <optional>

#include "protocol/files/dataset.h"

namespace echotrain::client {

/// A DatasetWriter of a temporary file beside `output`. A run that ends before keep() leaves an older file as it was.
class PendingDataset {
 public:
  /// Makes the temporary file. What is no ordinary file, or lies where no file can be made, is written to directly.
  explicit PendingDataset(const std::filesystem::path& output);
  /// Removes the temporary file, if it has not been kept.
  ~PendingDataset();
  PendingDataset(const PendingDataset&) = delete;
  PendingDataset& operator=(const PendingDataset&) = delete;

  protocol::DatasetWriter& writer() { return *writer_; }
  /// Flushes, and gives the file its name, in place of an older one. Later calls do nothing.
  void keep();

 private:
  std::filesystem::path output_, temporary_;  // no temporary: it has its name
  std::optional<protocol::DatasetWriter> writer_;
};

}  // namespace echotrain::client
