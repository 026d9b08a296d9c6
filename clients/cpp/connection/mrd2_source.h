// An MRD 2 source sends an MRD 2 stream file as a scan.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/base/scan_file.h"
#include "clients/cpp/connection/scan_source.h"
#include "protocol/mrd2/mrd2_stream.h"

namespace echotrain::client {

/// Gives acquisitions and waveforms in the order of the file; its images only where it has no acquisitions. The file is
/// read through once before anything is sent: throws std::runtime_error where it is malformed or ends too early, so
/// that nothing of it reaches a server.
class Mrd2Source final : public ScanSource {
 public:
  explicit Mrd2Source(const std::filesystem::path& file);

  const std::string& header_xml() const override { return header_xml_; }
  std::size_t readouts() const override { return readouts_; }
  std::optional<ScanChunk> next() override;
  /// Returns what ISMRMRD has no place for.
  const protocol::mrd2::LeftOut& left_out() const { return left_out_; }
  std::size_t images_left_out() const override { return readouts_ > 0 ? images_ : 0; }
  Place go_to(std::uint64_t message) override;

 private:
  std::optional<ScanChunk::Piece> next_into(protocol::Buffer& bytes);

  std::filesystem::path file_;
  std::string header_xml_;
  std::size_t readouts_ = 0;
  protocol::mrd2::LeftOut left_out_;
  std::size_t images_ = 0;
  std::unique_ptr<protocol::mrd2::Mrd2Reader> reader_;
};

/// Opens the scan of a file that is an MRD 2 stream, an ISMRMRD HDF5 file, whose group is `group`, or a scanner's. What
/// is held beyond ISMRMRD is named on `err`.
std::unique_ptr<ScanSource> open_scan(const std::filesystem::path& file, const std::string& group,
                                      const MeasurementChoice& choice, std::ostream& err);

}  // namespace echotrain::client
