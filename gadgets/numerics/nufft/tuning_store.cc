#include "gadgets/numerics/nufft/tuning_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <vector>

namespace echotrain::numerics {
namespace {

using Json = nlohmann::json;
struct Kept {
  TuningEntry entry;
  std::int64_t written = 0;  // [s] since 1970; 0: a version wrote it that did not note it
};
using Entries = std::map<std::string, Kept>;

constexpr char kFormat[] = "echotrain tuning 1";
constexpr std::uintmax_t kLargestFile = 16 << 20;  // bytes; kMostEntries are less than one MiB

bool too_large(const std::string& file) {
  std::error_code error;
  return std::filesystem::is_regular_file(file, error) && std::filesystem::file_size(file, error) > kLargestFile;
}

/// The valid entries of the file.
Entries read(const std::string& file) {
  Entries entries;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || too_large(file)) return entries;
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
    entries[key].entry = std::move(entry);
  }
  if (const auto written = json.find("written"); written != json.end() && written->is_object())
    for (const auto& [key, when] : written->items())
      if (const auto entry = entries.find(key); entry != entries.end() && when.is_number_integer())
        entry->second.written = when.get<std::int64_t>();
  return entries;
}

/// Takes out the oldest of too many; returns how many.
std::size_t trim(Entries& entries) {
  if (entries.size() <= TuningStore::kMostEntries) return 0;
  std::vector<Entries::iterator> oldest;
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) oldest.push_back(entry);
  std::ranges::sort(oldest, {}, [](const auto& entry) { return entry->second.written; });
  oldest.resize(entries.size() - TuningStore::kMostEntries);
  for (const auto& entry : oldest) entries.erase(entry);
  return oldest.size();
}

/// Other processes see the old file or the new one, never a part of it.
void write(const std::string& file, const Entries& entries) {
  std::string temporary = file + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return;
  Json kept = Json::object(), written = Json::object();
  for (const auto& [key, each] : entries) {
    kept[key] = each.entry;
    written[key] = each.written;
  }
  const std::string text = Json{{"format", kFormat}, {"entries", kept}, {"written", written}}.dump(
                               2, ' ', false, Json::error_handler_t::replace) +
                           "\n";
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
  return found->second.entry;
}

TuningEntry TuningStore::add(const std::string& key, const TuningEntry& entry,
                             const std::function<bool(const TuningEntry&)>& acceptable,
                             const std::function<void(const std::string&)>& say) const {
  if (file_.empty()) return entry;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
  const Lock lock(file_);
  if (say && too_large(file_))
    say(fmt::format("{} has more than {} MiB, and is begun anew", file_, kLargestFile >> 20));
  Entries entries = read(file_);
  if (const auto found = entries.find(key); found != entries.end() && acceptable(found->second.entry))
    return found->second.entry;
  // Not older than any other: clocks may have been set back.
  std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const auto& [name, each] : entries) now = std::max(now, each.written);
  entries[key] = {entry, now + 1};
  if (const std::size_t gone = trim(entries); gone > 0 && say)
    say(fmt::format("of the choices in {} the newest {} stay, {} went", file_, kMostEntries, gone));
  write(file_, entries);
  return entry;
}

}  // namespace echotrain::numerics
