#include "clients/cpp/base/pipeline_files.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {
namespace fs = std::filesystem;

std::vector<fs::path> shipped_pipelines() {
  std::vector<fs::path> candidates;
  if (const char* named = std::getenv("ECHOTRAIN_PIPELINES"); named != nullptr && *named != '\0') return {named};
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) candidates.push_back(program.parent_path().parent_path() / "share/echotrain/pipelines");
  candidates.emplace_back(ECHOTRAIN_PIPELINES_DIR);
  for (const fs::path& folder : candidates) {
    if (fs::is_directory(folder, error)) return {folder};
  }
  return {};
}

bool is_pipeline_file(const std::string& name) {
  const fs::path path(name);
  std::error_code error;
  return (path.extension() == ".yaml" || path.extension() == ".yml") && fs::is_regular_file(path, error);
}

config::PipelineSpec find_pipeline(const std::string& name, const std::vector<std::string>& folders) {
  if (is_pipeline_file(name)) return config::read_pipeline_file(name);
  std::vector<fs::path> all = shipped_pipelines();
  all.insert(all.end(), folders.begin(), folders.end());
  const config::PipelineLibrary library(all);
  if (const config::PipelineSpec* spec = library.find(name)) return *spec;
  throw UsageError(library.unknown(name) + " (nor is there such a .yaml file)");
}

std::string pipeline_text(const std::string& name) {
  fs::path file(name);
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    for (const fs::path& folder : shipped_pipelines()) file = folder / (name + ".yaml");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw UsageError(
        fmt::format("cannot read the pipeline '{}': give a .yaml file or a shipped pipeline's name", name));
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace echotrain::client
