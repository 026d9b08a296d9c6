// A command that writes a file while it reads another one must not overwrite its input.
#pragma once

#include <filesystem>

namespace echotrain::client {

/// Throws UsageError when both are one file.
void refuse_overwriting(const std::filesystem::path& input, const std::filesystem::path& output);

/// Throws UsageError for an output that its name calls a picture, a volume or DICOM: the commands write HDF5.
void refuse_other_format(const std::filesystem::path& output);

}  // namespace echotrain::client
