#include "server/scan/plugins.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "gadgets/api/plugin.h"

namespace echotrain::server {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAdvice = "compile it against this server's own package (find_package(echotrain))";

void refuse_if_others_write(const fs::path& path) {
  if ((fs::status(path).permissions() & fs::perms::others_write) != fs::perms::none)
    throw std::runtime_error(fmt::format(
        "plugins: everybody may change {}, and this server would run what is in it; chmod o-w", path.string()));
}

std::vector<fs::path> shared_objects(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".so" && entry.is_regular_file()) files.push_back(fs::canonical(entry.path()));
  if (error) throw std::runtime_error(fmt::format("plugins: cannot read the folder {}: {}", folder, error.message()));
  refuse_if_others_write(folder);
  std::sort(files.begin(), files.end());
  return files;
}

[[noreturn]] void refuse(const fs::path& file, std::string_view why) {
  throw std::runtime_error(fmt::format("plugin {}: {}", file.string(), why));
}

Registry load(const fs::path& file) {
  refuse_if_others_write(file);
  // Functions are bound below, once it is known that the plugin is meant for this program.
  void* library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) refuse(file, fmt::format("it cannot be loaded: {}; {}", ::dlerror(), kAdvice));
  const auto* abi = static_cast<const char*>(::dlsym(library, "echotrain_plugin_abi"));
  auto* fill = reinterpret_cast<void (*)(Registry&)>(::dlsym(library, "echotrain_plugin_register"));
  if (abi == nullptr || fill == nullptr) refuse(file, "it is no plugin: its code has no ECHOTRAIN_PLUGIN");
  if (std::string_view(abi) != ECHOTRAIN_PLUGIN_ABI)
    refuse(file, fmt::format("it was compiled for {}, and this server has {}; {}", abi, ECHOTRAIN_PLUGIN_ABI, kAdvice));
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    refuse(file, fmt::format("it cannot be loaded: {}; {}", ::dlerror(), kAdvice));
  Registry brought;
  fill(brought);
  return brought;
}

}  // namespace

std::vector<std::string> load_plugins(const std::vector<std::string>& folders, Registry& registry) {
  std::vector<std::string> loaded;
  for (const std::string& folder : folders) {
    for (const fs::path& file : shared_objects(folder)) {
      Registry brought = load(file);
      for (const std::string& name : brought.names())
        if (registry.find(name) != nullptr) refuse(file, fmt::format("there is a gadget called '{}' already", name));
      loaded.push_back(fmt::format("{}: {}", file.string(), fmt::join(brought.names(), ", ")));
      registry.take(std::move(brought));
    }
  }
  return loaded;
}

}  // namespace echotrain::server
