#include "server/scan/plugins.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "server/base/server_plugin_abi.h"

namespace echotrain::server {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAdvice = "compile it against this server's own package (find_package(echotrain))";

/// True if the owner is the only member of its group. (A group that others join later is not known here.)
bool is_own_group(const struct stat& file) {
  passwd owner{};
  passwd* found = nullptr;
  char memory[16 << 10];
  if (::getpwuid_r(file.st_uid, &owner, memory, sizeof memory, &found) != 0 || found == nullptr) return false;
  if (owner.pw_gid != file.st_gid) return false;
  const std::string name = owner.pw_name;
  group of_file{};
  group* known = nullptr;
  char more[16 << 10];
  if (::getgrgid_r(file.st_gid, &of_file, more, sizeof more, &known) != 0 || known == nullptr) return false;
  if (name != of_file.gr_name) return false;  // a group that several users may have, such as "users"
  for (char** member = of_file.gr_mem; *member != nullptr; ++member)
    if (name != *member) return false;
  return true;
}

void refuse_if_others_write(const fs::path& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0)
    throw std::runtime_error(fmt::format("plugins: cannot look at {}: {}", path.string(), std::strerror(errno)));
  const auto refuse = [&](const char* who, const char* mode) {
    throw std::runtime_error(fmt::format("plugins: {} may change {}, and this server would run what is in it; chmod {}",
                                         who, path.string(), mode));
  };
  if ((file.st_mode & S_IWOTH) != 0) refuse("everybody", "o-w");
  if ((file.st_mode & S_IWGRP) != 0 && !is_own_group(file)) refuse("a whole group", "g-w");
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
  if (std::string_view(abi) != plugin_abi())
    refuse(file, fmt::format("it was compiled for {}, and this server has {}; {}", abi, plugin_abi(), kAdvice));
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
