// The files of the live page (server/console/page) travel inside the program.
#pragma once

#include <span>
#include <string_view>

namespace echotrain::server {

struct PageFile {
  std::string_view name;  ///< "main.js"
  std::string_view text;
};

/// Returns all of them; CMake makes the source.
std::span<const PageFile> page_files();

}  // namespace echotrain::server
