#include "server/scan/plugins.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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

/// Reads an object, or several, at a place of a file.
template <class T>
std::optional<std::vector<T>> read_at(std::ifstream& file, std::uint64_t place, std::uint64_t n = 1) {
  constexpr std::uint64_t kMost = 1 << 24;  // bytes
  if (n > kMost / sizeof(T)) return std::nullopt;
  std::vector<T> out(n);
  file.clear();
  file.seekg(static_cast<std::streamoff>(place));
  if (!file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(n * sizeof(T)))) return std::nullopt;
  return out;
}

/// The text of a plugin's symbol echotrain_plugin_abi, read from the file (elf(5)): to load it would run its
/// constructors. Empty where it has no such symbol; nothing for what cannot be loaded either.
std::optional<std::string> abi_of(const fs::path& path) {
  constexpr std::string_view kSymbol = "echotrain_plugin_abi";
  std::ifstream file(path, std::ios::binary);
  const auto head = read_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp((*head)[0].e_ident, ELFMAG, SELFMAG) != 0 || (*head)[0].e_ident[EI_CLASS] != ELFCLASS64)
    return std::nullopt;
  const auto sections = read_at<Elf64_Shdr>(file, (*head)[0].e_shoff, (*head)[0].e_shnum);
  const auto segments = read_at<Elf64_Phdr>(file, (*head)[0].e_phoff, (*head)[0].e_phnum);
  if (!sections || !segments) return std::nullopt;
  for (const Elf64_Shdr& section : *sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections->size()) continue;
    const auto symbols = read_at<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    const Elf64_Shdr& strings = (*sections)[section.sh_link];
    auto names = read_at<char>(file, strings.sh_offset, strings.sh_size);
    if (!symbols || !names) return std::nullopt;
    names->push_back('\0');
    for (const Elf64_Sym& symbol : *symbols) {
      if (symbol.st_name >= names->size() || names->data() + symbol.st_name != kSymbol) continue;
      for (const Elf64_Phdr& segment : *segments) {
        if (segment.p_type != PT_LOAD || symbol.st_value < segment.p_vaddr ||
            symbol.st_value - segment.p_vaddr >= segment.p_filesz)
          continue;
        const auto text = read_at<char>(file, segment.p_offset + (symbol.st_value - segment.p_vaddr), symbol.st_size);
        if (!text) return std::nullopt;
        return std::string(text->data(), ::strnlen(text->data(), text->size()));
      }
    }
  }
  return "";
}

Registry load(const fs::path& file) {
  refuse_if_others_write(file);
  const std::optional<std::string> told = abi_of(file);
  if (told && told->empty()) refuse(file, "it is no plugin: its code has no ECHOTRAIN_PLUGIN");
  if (told && *told != plugin_abi())
    refuse(file, fmt::format("it was compiled for {}, and this server has {}; {}", *told, plugin_abi(), kAdvice));
  // Functions are bound below, once it is known that the plugin is meant for this program.
  void* library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) refuse(file, fmt::format("it cannot be loaded: {}; {}", ::dlerror(), kAdvice));
  const auto* abi = static_cast<const char*>(::dlsym(library, "echotrain_plugin_abi"));
  auto* fill = reinterpret_cast<void (*)(Registry&)>(::dlsym(library, "echotrain_plugin_register"));
  if (abi == nullptr || fill == nullptr) refuse(file, "it is no plugin: its code has no ECHOTRAIN_PLUGIN");
  if (std::string_view(abi) != plugin_abi())  // of a file whose symbols could not be read above
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
