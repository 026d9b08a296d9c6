#include "gadgets/numerics/nufft/tuning_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

namespace echotrain::numerics {
namespace {

using Json = nlohmann::json;
using Entries = std::map<std::string, TuningEntry>;

constexpr char kFormat[] = "echotrain tuning 1";
constexpr std::uintmax_t kLargestFile = 1 << 20;  // bytes; a site's choices are a few kilobytes

/// The valid entries of the file.
Entries read(const std::string& file) {
  Entries entries;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || std::filesystem::file_size(file, error) > kLargestFile)
    return entries;
  std::ifstream stream(file, std::ios::binary);
  // Parses without exceptions: text that is not JSON gives a value that is no object.
  const Json json = Json::parse(stream, nullptr, false);
  if (!json.is_object()) return entries;
  const auto format = json.find("format"), kept = json.find("entries");
  if (format == json.end() || *format != Json(kFormat) || kept == json.end() || !kept->is_object()) return entries;
  for (const auto& [key, values] : kept->items()) {
    if (!values.is_object()) continue;
    TuningEntry entry;
    for (const auto& [name, value] : values.items())
      if (value.is_number_integer()) entry[name] = value.get<std::int64_t>();
    entries[key] = std::move(entry);
  }
  return entries;
}

/// Other processes see the old file or the new one, never a part of it.
void write(const std::string& file, const Entries& entries) {
  std::string temporary = file + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return;
  const std::string text =
      Json{{"format", kFormat}, {"entries", entries}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  // Readable for all, as any other file, where mkstemp() makes a private one.
  const bool whole = ::fchmod(descriptor, 0644) == 0 &&
                     ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (::close(descriptor) != 0 || !whole || std::rename(temporary.c_str(), file.c_str()) != 0)
    ::unlink(temporary.c_str());
}

/// Held while a file is read and written anew, so that no other process's entry gets lost. Where the lock cannot be
/// had, after a wait of 2 s or because the file system has no locks, an entry may get lost, which costs another trial.
class Lock {
 public:
  explicit Lock(const std::string& file)
      : descriptor_(::open((file + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    constexpr int kAttempts = 400;
    for (int i = 0; descriptor_ >= 0 && i < kAttempts && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0; ++i) {
      if (errno != EWOULDBLOCK && errno != EINTR) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Lock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::optional<TuningEntry> TuningStore::find(const std::string& key) const {
  if (file_.empty()) return std::nullopt;
  const Entries entries = read(file_);
  const auto found = entries.find(key);
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

TuningEntry TuningStore::add(const std::string& key, const TuningEntry& entry,
                             const std::function<bool(const TuningEntry&)>& acceptable) const {
  if (file_.empty()) return entry;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
  const Lock lock(file_);
  Entries entries = read(file_);
  if (const auto found = entries.find(key); found != entries.end() && acceptable(found->second)) return found->second;
  entries[key] = entry;
  write(file_, entries);
  return entry;
}

}  // namespace echotrain::numerics
