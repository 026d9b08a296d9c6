// A TwixReader reads one measurement of a Siemens raw data file (VD, VE) as the messages of an ISMRMRD scan.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::twix {

struct TwixOptions {
  std::size_t measurement = 0;  ///< its number, from 1; 0: the last one, which is the scan
  bool patient = false;         ///< the header has the patient's name, ID, date of birth, sex and weight
  /// A measurement behind this one (0: the last): then only readouts that it may use are given, noise and lines for a
  /// receive field. Noise alone has that one's encoding in the header, as its own may be one that a pipeline for the
  /// scan does not take.
  std::optional<std::size_t> preparation_for;
};

/// A raid file, and what a pass over the heads of its measurements has found: it is made once for all readers of the
/// file. Copies share it; readers of several threads do not make it at the same time.
class TwixFile {
 public:
  /// Throws DatasetError for a file of another format.
  explicit TwixFile(const std::filesystem::path& file);

  std::size_t measurements() const;
  /// Returns the numbers of the measurements before this one (0: the last) whose readouts it may use. Those that cannot
  /// be read are none of them; `refused` gets why.
  std::vector<std::size_t> preparations(std::size_t measurement, std::vector<std::string>& refused) const;

 private:
  friend class TwixReader;
  struct Surveyed;
  std::shared_ptr<Surveyed> surveyed_;
};

/// The constructor reads all heads of the measurement, if the file does not know them yet; then readouts are read as
/// they are asked for, in the order of the file, which is that of the scan counter. Samples are those of the file:
/// nothing is cut, turned or scaled.
class TwixReader final : public ScanReader {
 public:
  /// Throws DatasetError for a file of another format, a measurement that is not there, or bytes that cannot be right.
  explicit TwixReader(const TwixFile& file, const TwixOptions& options = {});
  explicit TwixReader(const std::filesystem::path& file, const TwixOptions& options = {})
      : TwixReader(TwixFile(file), options) {}
  ~TwixReader() override;

  std::string header_xml() const override;
  std::size_t acquisitions() const override;
  Acquisition acquisition(std::size_t index) const override;
  std::size_t waveforms() const override { return 0; }
  Waveform waveform(std::size_t index) const override;
  std::vector<std::string> image_series() const override { return {}; }
  std::size_t images(const std::string& series) const override;
  Image image(const std::string& series, std::size_t index) const override;

  std::size_t measurement() const;  ///< its number, from 1
  std::string name() const;         ///< "measurement 2 (gre)"
  /// Returns what people should know: what is left out, and what the file lacks.
  std::vector<std::string> notes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::protocol::twix
