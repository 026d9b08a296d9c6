// A command that writes a file while it reads another one must not overwrite its input.
#pragma once

#include <filesystem>

namespace echotrain::client {

/// Throws UsageError when both are one file.
void refuse_overwriting(const std::filesystem::path& input, const std::filesystem::path& output);

}  // namespace echotrain::client
