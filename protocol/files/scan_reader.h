// A scan reader gives the contents of a file with a scan as messages, whatever the file's format.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::protocol {

/// A file that is missing, of another format, damaged, or lacks what was asked for. The text names the file, the place
/// in it and what is there.
class DatasetError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All functions throw DatasetError where the file does not hold what it announces.
class ScanReader {
 public:
  virtual ~ScanReader() = default;

  virtual std::string header_xml() const = 0;  ///< empty when there is none
  virtual std::size_t acquisitions() const = 0;
  virtual Acquisition acquisition(std::size_t index) const = 0;  ///< fast in rising order
  virtual std::size_t waveforms() const = 0;
  virtual Waveform waveform(std::size_t index) const = 0;
  /// Returns the names of the image series, in name order.
  virtual std::vector<std::string> image_series() const = 0;
  virtual std::size_t images(const std::string& series) const = 0;
  virtual Image image(const std::string& series, std::size_t index) const = 0;

 protected:
  ScanReader() = default;
  ScanReader(const ScanReader&) = default;
  ScanReader(ScanReader&&) = default;
};

}  // namespace echotrain::protocol
