// Commands that write a file while they read another one.
#pragma once

#include <filesystem>

namespace echotrain::client {

/// UsageError when both are one file.
void refuse_overwriting(const std::filesystem::path& input, const std::filesystem::path& output);

}  // namespace echotrain::client
