// A dataset is an ISMRMRD HDF5 file, read as messages and written from them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/files/scan_reader.h"

namespace echotrain::protocol {

/// Reads an ISMRMRD HDF5 file (libismrmrd's layout: GROUP/xml, GROUP/data, GROUP/waveforms, GROUP/<images...>).
class DatasetReader final : public ScanReader {
 public:
  explicit DatasetReader(const std::filesystem::path& file, std::string group = "dataset");
  ~DatasetReader() override;
  DatasetReader(DatasetReader&&) noexcept;

  std::string header_xml() const override;
  std::size_t acquisitions() const override;
  std::size_t waveforms() const override;
  Acquisition acquisition(std::size_t index) const override;
  Waveform waveform(std::size_t index) const override;
  std::vector<std::string> image_series() const override;
  std::size_t images(const std::string& series) const override;
  Image image(const std::string& series, std::size_t index) const override;
  /// Returns the groups of the file that hold a dataset.
  static std::vector<std::string> groups(const std::filesystem::path& file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes an ISMRMRD HDF5 file, replacing an existing one. The file is whole and readable after every flush() and after
/// destruction, so that a later failure loses no image.
class DatasetWriter {
 public:
  explicit DatasetWriter(const std::filesystem::path& file, std::string group = "dataset");
  ~DatasetWriter();
  DatasetWriter(DatasetWriter&&) noexcept;

  /// Opens the file, which the first write does otherwise. From then on to flush(), it needs its name no more.
  void open();
  void header_xml(const std::string& xml);
  void append(const Acquisition& acquisition);
  void append(const Waveform& waveform);
  void append(const Image& image);  ///< series "image_<image_series_index>"
  /// Writes a numeric array for inspection (`recon --save-after`): float32, or complex as a compound of r and i.
  void array(const std::string& name, const std::vector<std::size_t>& shape, const float* values);
  void array(const std::string& name, const std::vector<std::size_t>& shape, const std::complex<float>* values);
  void flush();
  /// Flushes, and gives the file another name on the same disk, in place of a file that has it.
  void rename(const std::filesystem::path& file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::protocol
