#include "server/capture/capture_files.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "gadgets/shared/store/fair_share_eviction.h"
#include "gadgets/shared/store/private_files.h"

namespace echotrain::server {

namespace fs = std::filesystem;
using std::chrono::system_clock;

namespace {

constexpr std::string_view kSuffix = ".mrd";
constexpr std::chrono::hours kLoneChecksumsStay{24};
// A capture counts so much at least within keep_gib, which so bounds their number, too.
constexpr std::uint64_t kLeastCounted = 1 << 20;

/// Removes the first characters of `text` that `is_one` accepts; returns how many.
template <class IsOne>
std::size_t skip(std::string_view& text, IsOne is_one) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_one);
  const auto count = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(count);
  return count;
}
bool skip_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

struct Found {
  fs::path path;
  std::uint64_t bytes;
  timespec changed;
};

bool is_older(const Found& a, const Found& b) {
  if (a.changed.tv_sec != b.changed.tv_sec) return a.changed.tv_sec < b.changed.tv_sec;
  if (a.changed.tv_nsec != b.changed.tv_nsec) return a.changed.tv_nsec < b.changed.tv_nsec;
  return a.path < b.path;
}

/// Names of owner_name() in a capture's name, which may be empty.
struct Owners {
  std::string_view owner, client;
};

/// Nothing where `name` is not a capture's.
std::optional<Owners> owners_in(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto hexadecimal = [&](char c) { return digit(c) || (c >= 'a' && c <= 'f'); };
  if (skip(name, digit) != 8 || !skip_text(name, "T") || skip(name, digit) != 6 || !skip_text(name, "Z-s") ||
      skip(name, digit) == 0 || !skip_text(name, "-") || skip(name, hexadecimal) != 8 || !name.ends_with(kSuffix))
    return std::nullopt;
  name.remove_suffix(kSuffix.size());
  if (name.empty()) return Owners{};
  if (!skip_text(name, "-")) return std::nullopt;
  const std::string_view owner = name.substr(0, name.find('-'));
  name.remove_prefix(owner.size());
  if (!is_owner_name(owner)) return std::nullopt;
  if (name.empty()) return Owners{owner, owner};
  return skip_text(name, "-") && is_owner_name(name) ? std::optional(Owners{owner, name}) : std::nullopt;
}

std::vector<Found> find_captures(const fs::path& directory) {
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    struct stat status {};
    if (!is_capture_name(entry->path().filename().string()) || ::lstat(entry->path().c_str(), &status) != 0 ||
        !S_ISREG(status.st_mode))
      continue;
    found.push_back({entry->path(), static_cast<std::uint64_t>(status.st_size), status.st_mtim});
  }
  std::sort(found.begin(), found.end(), is_older);
  return found;
}

void remove_file(const fs::path& path) { ::unlink(path.c_str()); }

/// False when the file is still being written. It goes before its checksums: without them it would seem an older
/// server's to anyone who finds it.
bool remove_unused(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return false;
  const bool unused = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  const bool removed = unused && ::unlink(path.c_str()) == 0;
  if (removed) remove_file(protocol::checksum_file(path));
  ::close(descriptor);
  return removed;
}

/// Removes checksums that a server left when it was killed between making or removing them and their capture.
void remove_lone_checksums(const fs::path& directory, std::time_t before) {
  const std::string suffix = protocol::checksum_file(fs::path()).string();
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    struct stat status {
    }, capture{};
    std::string name = entry->path().filename().string();
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    if (is_capture_name(name) && ::lstat((directory / name).c_str(), &capture) != 0 && errno == ENOENT &&
        ::lstat(entry->path().c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_mtim.tv_sec < before)
      remove_file(entry->path());
  }
}

}  // namespace

std::string system_text(int error) { return std::generic_category().message(error); }

std::string capture_name(system_clock::time_point began, std::uint64_t session, const std::string& owner,
                         const std::string& client) {
  std::random_device random;
  return fmt::format("{:%Y%m%dT%H%M%SZ}-s{}-{:08x}{}{}{}{}{}", fmt::gmtime(system_clock::to_time_t(began)), session,
                     static_cast<std::uint32_t>(random()), owner.empty() ? "" : "-", owner, client.empty() ? "" : "-",
                     client, kSuffix);
}

bool is_capture_name(std::string_view name) { return owners_in(name).has_value(); }

std::string capture_owner(std::string_view name) { return std::string(owners_in(name).value_or(Owners{}).owner); }

std::string sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return "its folder cannot be opened: " + system_text(errno);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  return result == 0 ? std::string() : "synchronising its folder failed: " + system_text(error);
}

void prepare_capture_directory(const fs::path& directory, const std::string& option) {
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(
        fmt::format("{}: cannot keep captures in '{}': {}; name a folder that the server may write to", option,
                    directory.string(), why));
  };
  std::error_code error;
  const fs::path parent = fs::absolute(directory).lexically_normal().parent_path();
  fs::create_directories(parent, error);
  if (error) refuse(error.message());
  const bool made = ::mkdir(directory.c_str(), S_IRWXU) == 0;
  if (!made && errno != EEXIST) refuse(system_text(errno));
  if (!fs::is_directory(directory, error)) refuse("it is not a folder");
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) refuse(system_text(errno));
  if (made) sync_folder(parent);  // where the file system can
}

CaptureFile::CaptureFile(const fs::path& directory, const std::string& name) : path_(directory / name) {
  const auto make = [](const fs::path& path) {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  };
  // The checksums first: a capture whose server was killed here would seem to be an older server's.
  const fs::path sums = protocol::checksum_file(path_);
  checksums_descriptor_ = make(sums);
  if (checksums_descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot make the file");
  descriptor_ = make(path_);
  if (descriptor_ >= 0) {
    ::flock(descriptor_, LOCK_EX | LOCK_NB);
    return;
  }
  const int error = errno;
  ::close(checksums_descriptor_);
  remove_file(sums);
  throw std::system_error(error, std::generic_category(), "cannot make the file");
}

CaptureFile::CaptureFile(const fs::path& directory, const std::string& name, std::uint64_t size)
    : checksums_end(true), path_(directory / name) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open the file");
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    ::close(descriptor_);
    throw std::system_error(error, std::generic_category(), "cannot cut the file");
  }
}

CaptureFile::~CaptureFile() {
  if (checksums_descriptor_ >= 0) ::close(checksums_descriptor_);
  ::close(descriptor_);
}

void CaptureFile::remove() const {
  remove_file(path_);
  remove_file(protocol::checksum_file(path_));
}

Removed remove_old_captures(const config::CaptureOptions& options, system_clock::time_point now) {
  Removed removed;
  if (options.keep_days == 0 && options.keep_gib == 0) return removed;
  remove_lone_checksums(options.directory, system_clock::to_time_t(now - kLoneChecksumsStay));
  const std::vector<Found> found = find_captures(options.directory);
  if (found.empty()) return removed;
  const auto remove = [&](const Found& file) {
    if (&file == &found.back() || !remove_unused(file.path)) return false;
    ++removed.files;
    removed.bytes += file.bytes;
    return true;
  };
  const std::time_t oldest = options.keep_days == 0
                                 ? std::numeric_limits<std::time_t>::min()
                                 : system_clock::to_time_t(now) - static_cast<std::time_t>(options.keep_days) * 86400;
  std::map<std::string, std::vector<const Found*>> owned;  // the oldest last
  for (auto file = found.rbegin(); file != found.rend(); ++file)
    if (file->changed.tv_sec >= oldest || !remove(*file))
      owned[std::string(owners_in(file->path.filename().string())->client)].push_back(&*file);
  if (options.keep_gib > 0)
    evict_to_fair_share(
        owned, static_cast<std::uint64_t>(options.keep_gib) << 30,
        [](const Found* file) { return std::max(file->bytes, kLeastCounted); },
        [&](const Found* file) { return remove(*file); });
  return removed;
}

}  // namespace echotrain::server
