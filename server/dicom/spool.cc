#include "server/dicom/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

namespace echotrain::server {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSuffix = ".dcm", kRefused = "refused", kPart = ".part";
constexpr std::size_t kDigits = 20;
constexpr std::chrono::seconds kBetweenListings{1};

// Advice for clients.
constexpr const char* kWhenTaken =
    "send the scan again when the peer has taken what waits for it, which who runs the server sees on the page /dicom";
constexpr const char* kWhenAllTaken =
    "send the scan again when peers have taken what waits for them, which who runs the server sees on the page /dicom";
constexpr const char* kNeverFits = "raise dicom.spool_mib on the server: so much never fits, even where nothing waits";
constexpr const char* kMendDisk =
    "who runs the server looks after the disk and the folder dicom.spool; send the scan again then";

std::string error_text(int error) { return std::generic_category().message(error); }

/// Returns the owner in "00000000000000000017-8c1f03d2.dcm"; empty where there is none.
std::string_view owner_in(std::string_view name) {
  if (!name.ends_with(kSuffix) || name.size() <= kDigits + 1 + kSuffix.size() || name[kDigits] != '-') return {};
  const std::string_view owner = name.substr(kDigits + 1, name.size() - kDigits - 1 - kSuffix.size());
  return is_owner_name(owner) ? owner : std::string_view{};
}

/// Returns the number of such a file, or one without an owner; 0 for other names.
std::uint64_t number_of(std::string_view name) {
  const std::size_t owner = owner_in(name).size();
  if (name.size() != kDigits + (owner > 0 ? owner + 1 : 0) + kSuffix.size() || !name.ends_with(kSuffix)) return 0;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < kDigits; ++i) {
    if (name[i] < '0' || name[i] > '9') return 0;
    number = number * 10 + static_cast<std::uint64_t>(name[i] - '0');
  }
  return number;
}

std::string name_of(std::uint64_t number, std::string_view owner) {
  return fmt::format("{:020}{}{}{}", number, owner.empty() ? "" : "-", owner, kSuffix);
}

/// Writes a file of its own and forces it to the disk. Returns the errno of what failed, or 0.
int write_file(const fs::path& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (file < 0) return errno;
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written > 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0 && ::fdatasync(file) != 0) error = errno;
  ::close(file);
  return error;
}

/// Counts a file's bytes among its owner's, or takes them off.
void count(std::map<std::string, std::uint64_t, std::less<>>& owned, std::string_view name, std::uint64_t bytes,
           bool more) {
  const std::string_view owner = owner_in(name);
  auto at = owned.find(owner);
  if (at == owned.end()) at = owned.emplace(owner, 0).first;
  at->second = more ? at->second + bytes : at->second - bytes;
  if (at->second == 0) owned.erase(at);
}

void sync_names(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

void make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw std::runtime_error(
        fmt::format("dicom.spool: cannot make the folder '{}': {}; name one that the server may "
                    "write to",
                    folder.string(), error_text(errno)));
}

}  // namespace

Spool::Spool(fs::path folder, Limits limits, const std::vector<std::string>& peers)
    : folder_(std::move(folder)), limits_(limits) {
  std::error_code ignored;
  fs::create_directories(fs::absolute(folder_).lexically_normal().parent_path(), ignored);
  make_folder(folder_);
  const fs::path lock = folder_ / "lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (lock_ < 0)
    throw std::runtime_error(
        fmt::format("dicom.spool: cannot write to the folder '{}': {}; name one that the server "
                    "may write to",
                    folder_.string(), error_text(errno)));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw std::runtime_error(fmt::format(
        "dicom.spool: another process uses the folder '{}'; give each server one of its own", folder_.string()));
  }
  try {
    salt_ = salt_of(folder_);
    for (const std::string& peer : peers) {
      make_folder(folder_ / peer);
      make_folder(folder_ / peer / kRefused);
      take_stock(folder_ / peer, queues_[peer]);
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (!entry.is_directory() || queues_.contains(name)) continue;
      Queue queue;
      take_stock(entry.path(), queue);
      if (queue.files > 0) orphans_.push_back(name);
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

Spool::~Spool() { ::close(lock_); }

/// Adds a file to those that wait. An owner that had none gets its turn after all others.
void Spool::add(Queue& queue, const std::string& name, std::uint64_t bytes) {
  Line& line = queue.lines.try_emplace(std::string(owner_in(name)), Line{{}, queue.turn}).first->second;
  line.files[number_of(name)] = bytes;
  ++queue.files;
  queue.bytes += bytes;
}

/// Takes a file out of those that wait. Returns its bytes; nothing where it is none of them.
std::optional<std::uint64_t> Spool::take(Queue& queue, const std::string& name) {
  const auto line = queue.lines.find(std::string(owner_in(name)));
  if (line == queue.lines.end()) return std::nullopt;
  const auto file = line->second.files.find(number_of(name));
  if (file == line->second.files.end()) return std::nullopt;
  const std::uint64_t bytes = file->second;
  --queue.files;
  queue.bytes -= bytes;
  line->second.files.erase(file);
  if (line->second.files.empty()) queue.lines.erase(line);
  return bytes;
}

/// Counts what waits in a peer's folder; removes what a process left unfinished.
void Spool::take_stock(const fs::path& folder, Queue& queue) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(kPart)) fs::remove(entry.path(), error);
    const std::uint64_t number = number_of(name);
    if (number == 0) continue;
    next_ = std::max(next_, number + 1);
    if (!entry.is_regular_file(error)) continue;
    const std::uint64_t bytes = entry.file_size(error);
    add(queue, name, bytes);
    count(queue.owned, name, bytes, true);
  }
  bytes_ += queue.bytes;
  tidy(folder, queue);
}

/// Lists the folder anew, as an operator may have removed some of the files. Each listing takes time with their number,
/// so that there is one in a second.
void Spool::list_refused(const fs::path& folder, Queue& queue) {
  const Clock::time_point now = Clock::now();
  if (queue.listed && now < *queue.listed + kBetweenListings) return;
  queue.listed = now;
  bytes_ -= std::exchange(queue.refused_bytes, 0);
  for (const Aside& aside : std::exchange(queue.refused, {})) count(queue.owned, aside.name, aside.bytes, false);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / kRefused, error)) {
    const std::string name = entry.path().filename();
    const std::uint64_t number = number_of(name), bytes = entry.file_size(error);
    if (number == 0) continue;
    next_ = std::max(next_, number + 1);
    if (error) continue;
    const fs::file_time_type since = entry.last_write_time(error);
    if (error) continue;
    queue.refused.push_back({since, name, bytes});
    queue.refused_bytes += bytes;
    count(queue.owned, name, bytes, true);
  }
  std::sort(queue.refused.begin(), queue.refused.end(),
            [](const Aside& a, const Aside& b) { return std::tie(a.since, a.name) < std::tie(b.since, b.name); });
  bytes_ += queue.refused_bytes;
}

std::uint64_t Spool::tidy(const fs::path& folder, Queue& queue) {
  list_refused(folder, queue);
  const fs::file_time_type now = fs::file_time_type::clock::now();
  std::uint64_t removed = 0;
  for (auto oldest = queue.refused.begin(); oldest != queue.refused.end();) {
    if (now - oldest->since <= limits_.refused_age && queue.refused_bytes <= limits_.refused_bytes) break;
    std::error_code error;
    removed += fs::remove(folder / kRefused / oldest->name, error) ? 1 : 0;
    if (error) {  // it is tried again
      ++oldest;
      continue;
    }
    bytes_ -= oldest->bytes;
    queue.refused_bytes -= oldest->bytes;
    count(queue.owned, oldest->name, oldest->bytes, false);
    oldest = queue.refused.erase(oldest);
  }
  return removed;
}

std::uint64_t Spool::tidy(const std::string& peer) {
  const std::scoped_lock lock(mutex_);
  return tidy(folder_ / peer, queues_[peer]);
}

/// Returns why files of this size have no place, and what to do; nothing where they have one.
std::string Spool::refusal(const std::string& peer, std::uint64_t size, const std::string& owner) const {
  if (bytes_ + size > limits_.bytes)
    return fmt::format("the spool holds {} MiB of at most {} (dicom.spool_mib); {}", bytes_ >> 20, limits_.bytes >> 20,
                       size > limits_.bytes ? kNeverFits : kWhenAllTaken);
  const std::uint64_t share = limits_.bytes / 2 / std::max<std::size_t>(1, queues_.size());
  const std::uint64_t common = limits_.bytes - share * queues_.size();
  std::uint64_t beyond = 0, own = 0, owned = 0;  // beyond: of what is common
  for (const auto& [name, queue] : queues_) {
    const std::uint64_t held = queue.bytes + queue.refused_bytes + queue.writing;
    beyond += held > share ? held - share : 0;
    if (name != peer) continue;
    own = held;
    if (const auto at = queue.owned.find(owner); at != queue.owned.end()) owned = at->second;
  }
  const std::uint64_t left = (own < share ? share - own : 0) + (common > beyond ? common - beyond : 0);
  const std::uint64_t most = share + common;  // where nothing waits
  if (size > left)
    return fmt::format("{} MiB of the spool wait for it, and the rest is for other peers (dicom.spool_mib); {}",
                       own >> 20,
                       size > most ? kNeverFits
                       : own > 0   ? kWhenTaken
                                   : kWhenAllTaken);
  if (owner.empty() || owned + size <= std::min(left, limits_.bytes - bytes_) - size) return "";
  return fmt::format(
      "{} MiB of this client's images for it are in the spool, and what is left is for others (dicom.spool_mib); {}",
      owned >> 20, size > most / 2 ? kNeverFits : kWhenTaken);
}

std::string Spool::no_room(const std::string& peer, std::uint64_t bytes, const std::string& owner) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock ? refusal(peer, bytes, owner) : "";
}

std::string Spool::put(const std::string& peer, std::string_view bytes, const std::string& owner) {
  std::string name;
  {
    const std::scoped_lock lock(mutex_);
    if (!refusal(peer, bytes.size(), owner).empty())
      for (auto& [each, queue] : queues_) list_refused(folder_ / each, queue);
    if (std::string why = refusal(peer, bytes.size(), owner); !why.empty()) return why;
    name = name_of(next_++, owner);
    bytes_ += bytes.size();
    queues_[peer].writing += bytes.size();
    count(queues_[peer].owned, name, bytes.size(), true);
  }
  const fs::path file = folder_ / peer / name, part = folder_ / peer / (name + std::string(kPart));
  int error = write_file(part, bytes);
  if (error == 0 && ::rename(part.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) sync_names(folder_ / peer);
  const std::scoped_lock lock(mutex_);
  queues_[peer].writing -= bytes.size();
  if (error != 0) {
    ::unlink(part.c_str());
    bytes_ -= bytes.size();
    count(queues_[peer].owned, name, bytes.size(), false);
    return fmt::format("writing to the spool failed: {}; {}", error_text(error), kMendDisk);
  }
  add(queues_[peer], name, bytes.size());
  return "";
}

std::optional<fs::path> Spool::next(const std::string& peer, const std::function<bool(const fs::path&)>& passed_over) {
  const std::scoped_lock lock(mutex_);
  const auto found = queues_.find(peer);
  if (found == queues_.end()) return std::nullopt;
  Queue& queue = found->second;
  Line* whose = nullptr;
  std::uint64_t lowest = 0;
  fs::path first;
  for (auto& [owner, line] : queue.lines)
    for (const auto& [number, bytes] : line.files) {
      if (whose != nullptr && std::tie(whose->turn, lowest) < std::tie(line.turn, number)) break;
      fs::path file = folder_ / peer / name_of(number, owner);
      if (passed_over && passed_over(file)) continue;
      whose = &line;
      lowest = number;
      first = std::move(file);
      break;
    }
  if (whose == nullptr) return std::nullopt;
  whose->turn = ++queue.turn;
  return first;
}

void Spool::remove(const std::string& peer, const fs::path& file) {
  ::unlink(file.c_str());
  const std::scoped_lock lock(mutex_);
  Queue& queue = queues_[peer];
  const std::string name = file.filename();
  const std::optional<std::uint64_t> bytes = take(queue, name);
  if (!bytes) return;
  bytes_ -= *bytes;
  count(queue.owned, name, *bytes, false);
}

void Spool::put_aside(const std::string& peer, const fs::path& file) {
  const std::scoped_lock lock(mutex_);
  Queue& queue = queues_[peer];
  const std::string name = file.filename();
  const std::optional<std::uint64_t> bytes = take(queue, name);
  if (!bytes) return;
  const fs::path to = folder_ / peer / kRefused / name;
  if (::rename(file.c_str(), to.c_str()) == 0) {
    ::utimensat(AT_FDCWD, to.c_str(), nullptr, 0);  // since when it lies there
    queue.refused.push_back({fs::file_time_type::clock::now(), name, *bytes});
    queue.refused_bytes += *bytes;
  } else {
    bytes_ -= *bytes;  // it is gone
    count(queue.owned, name, *bytes, false);
  }
}

Spool::Waiting Spool::waiting(const std::string& peer) const {
  const std::scoped_lock lock(mutex_);
  const auto queue = queues_.find(peer);
  if (queue == queues_.end()) return {};
  return {queue->second.files, queue->second.bytes, queue->second.refused.size()};
}

std::vector<std::string> Spool::orphans() const {
  const std::scoped_lock lock(mutex_);
  return orphans_;
}

}  // namespace echotrain::server
