// A scan file is the input of a command: ISMRMRD HDF5, or raw data of a Siemens scanner, whose measurements are scans.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "config/option.h"
#include "protocol/files/scan_reader.h"

namespace echotrain::client {

/// The choice among what a scanner's file holds.
struct MeasurementChoice {
  int measurement = 0;             ///< its number, from 1; 0: the last one
  bool patient = false;            ///< the header says who was measured
  std::filesystem::path sequence;  ///< the Pulseq file that the scan played; empty: none
};
config::OptionTable<MeasurementChoice> measurement_options();

/// True if the file is raw data of a Siemens scanner, of a version that is read or not.
bool is_scanner_file(const std::filesystem::path& file);

/// Opens a scan, by its group in HDF5 files and by its measurement in a scanner's. What is left out of a scanner's
/// file, or missing in it, is a line on `err`, and so is what a sequence tells. Throws DatasetError, and UsageError for
/// a measurement of an HDF5 file.
std::unique_ptr<protocol::ScanReader> open_scan_file(const std::filesystem::path& file, const std::string& group,
                                                     const MeasurementChoice& choice, std::ostream& err);

/// Throws UsageError where a measurement or the patient is asked of a file that is no scanner's.
void refuse_choice(const std::filesystem::path& file, const MeasurementChoice& choice);

/// A scan in a scanner's file that the chosen one may use.
struct Preparation {
  std::string name;  ///< "measurement 1 (noise)"
  std::unique_ptr<protocol::ScanReader> reader;
};
/// Those before the chosen one, in their order: readouts of noise and for receive fields. Those that cannot be read are
/// named on `err`.
std::vector<Preparation> open_preparations(const std::filesystem::path& file, const MeasurementChoice& choice,
                                           std::ostream& err);
/// Says on `err` that it goes first.
void announce(const std::filesystem::path& file, const Preparation& preparation, std::ostream& err);

}  // namespace echotrain::client
