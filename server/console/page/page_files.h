// The files of the live page (server/console/page) travel inside the program.
#pragma once

#include <span>
#include <string_view>

namespace echotrain::server {

struct PageFile {
  std::string_view name;  ///< "main.js"; a shipped pipeline's picture: the SHA-256 of its text in hex, and ".png"
  std::string_view bytes;
};

/// Returns all of them; CMake makes the source.
std::span<const PageFile> page_files();

}  // namespace echotrain::server
