// The PNG writer makes files of grey pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace echotrain::client {

/// Writes 8-bit grey pixels [y, x]. Throws std::runtime_error, naming the file, when it cannot be written.
void write_png(const std::filesystem::path& file, std::size_t width, std::size_t height,
               std::span<const std::uint8_t> pixels);

/// Returns the value below which `percent` (0..100) of the finite values lie; 0 when there are none.
float percentile(std::span<const float> values, double percent);

}  // namespace echotrain::client
