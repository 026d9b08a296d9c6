// A source file that tests read is a shipped pipeline or a page of docs/.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace echotrain {

/// The path of a file or folder of the sources ("docs/gadgets.md"): in the bundle that this program lies in
/// (.ci/bundle.sh: bin/ and share/echotrain/sources/ side by side), else in the checkout that it was built from.
inline std::filesystem::path source_path(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto bundled = program.parent_path().parent_path() / "share/echotrain/sources" / name;
  if (!error && std::filesystem::exists(bundled, error)) return bundled;
  return std::filesystem::path(ECHOTRAIN_SOURCE_DIR) / name;
}

inline std::filesystem::path shipped_pipelines() { return source_path("config/pipelines"); }

}  // namespace echotrain
