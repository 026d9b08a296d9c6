// A PulseqReader gives the readouts of a file with what the Pulseq sequence knows of them: counters and flags by its
// labels, places in k-space, matrix and field of view.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::pulseq {

/// Readouts belong to ADC events one by one, in the order of time. Where the file has noise readouts that the sequence
/// has no place for (no label NOISE), these pass as they are; a file with several times as many readouts is the
/// sequence played as often (the label ONCE tells what is in the first or last play only), each a repetition unless
/// the file counts averages; one with fewer ends early. Samples are not touched. What the sequence does not say,
/// directions and time stamps among it, stays as the file has it.
class PulseqReader final : public ScanReader {
 public:
  /// Throws DatasetError for a sequence that cannot be read, and for readouts that are not its own.
  PulseqReader(std::unique_ptr<ScanReader> file, const std::filesystem::path& sequence);
  ~PulseqReader() override;

  std::string header_xml() const override;
  std::size_t acquisitions() const override;
  Acquisition acquisition(std::size_t index) const override;
  std::size_t waveforms() const override;
  Waveform waveform(std::size_t index) const override;
  std::vector<std::string> image_series() const override;
  std::size_t images(const std::string& series) const override;
  Image image(const std::string& series, std::size_t index) const override;

  /// Returns what people should know: the trajectory, and how readouts were found to fit.
  std::vector<std::string> notes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::protocol::pulseq
