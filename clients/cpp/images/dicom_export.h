// The DICOM export writes image series as DICOM files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "protocol/dicom/study.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {

/// Writes one series of a file to `folder`: a file SERIES_III[_cCC][_PART][_zZZZ].dcm for each plane (and channel, and
/// part of complex images). InstanceNumbers follow sets, contrasts, averages, repetitions and phases, and in each of
/// them the planes along the slices' normal. Series UIDs follow from the pixels of the series, so exporting a file
/// again gives the same files, and exporting another reconstruction of the same measurement gives another series of the
/// same study. `patient` keeps the header's patient fields. Returns the number of files. std::runtime_error when an
/// image cannot be told in DICOM or a file cannot be written.
std::size_t export_dicom(const protocol::DatasetReader& reader, const std::string& series, bool patient,
                         const std::filesystem::path& folder);

/// Writes the same as Enhanced MR Image Storage: a file SERIES[_cCC][_PART].dcm for the series (and each channel, and
/// part of complex images), whose frames are in the order of protocol/dicom/enhanced_file.h.
std::size_t export_enhanced_dicom(const protocol::DatasetReader& reader, const std::string& series, bool patient,
                                  const std::filesystem::path& folder);

}  // namespace echotrain::client
