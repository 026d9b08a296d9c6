#include "server/capture/capture.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "gadgets/shared/store/private_files.h"
#include "server/base/log.h"

namespace echotrain::server {

namespace {

constexpr std::size_t kMostParts = 64;       // of one write
constexpr std::size_t kMostBytes = 1 << 20;  // few enough to be in the processor's cache still for their checksum
// How long what the file system said of free space is believed.
constexpr std::uint64_t kMostBeforeAsking = 64 << 20;
constexpr std::chrono::milliseconds kLongestBeforeAsking(100);
// Files of ended captures that wait for the disk: with their checksums' half of what a process may open by default.
constexpr std::size_t kMostClosing = 256;

ssize_t read_at(int descriptor, std::span<std::byte> room, std::uint64_t offset) {
  for (;;) {
    const ssize_t n = ::pread(descriptor, room.data(), room.size(), static_cast<off_t>(offset));
    if (n >= 0 || errno != EINTR) return n;
  }
}

}  // namespace

std::optional<std::uint64_t> free_bytes(int descriptor) {
  struct statvfs status {};
  if (::fstatvfs(descriptor, &status) != 0 || status.f_blocks == 0) return std::nullopt;  // some say nothing
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

// --- a session's side ------------------------------------------------------------------------------------------------

Capture::Capture(CaptureStore& store, std::string name, std::shared_ptr<QueueMemory> memory, std::function<void()> wake)
    : store_(store), name_(std::move(name)), wake_(std::move(wake)), share_(std::move(memory)) {}

void Capture::count_waiting(std::size_t bytes) {
  waiting_bytes_ = bytes;
  share_.set(bytes);
}

void Capture::append(protocol::Payload bytes) {
  if (bytes.bytes.empty()) return;
  const std::scoped_lock lock(store_.mutex_);
  if (finished_ || abandoned_ || seal_ != Seal::none) return;
  const std::size_t n = bytes.bytes.size();
  waiting_.push_back(std::move(bytes));
  size_ += n;
  count_waiting(waiting_bytes_ + n);
  if (!stopped_ && store_.is_full(*this) &&
      store_.options_.when_slow == config::CaptureOptions::WhenSlow::stop_capture) {
    too_slow_ = true;
    store_.stop(*this, fmt::format("the disk is slower than the data; {} MiB wait for it", waiting_bytes_ >> 20));
  }
  store_.schedule(*this);
}

std::uint64_t Capture::size() const {
  const std::scoped_lock lock(store_.mutex_);
  return size_;
}

std::uint64_t Capture::saved() const {
  const std::scoped_lock lock(store_.mutex_);
  return written_;
}

bool Capture::full() const {
  const std::scoped_lock lock(store_.mutex_);
  return !stopped_ && store_.is_full(*this);
}

bool Capture::stopped() const {
  const std::scoped_lock lock(store_.mutex_);
  return stopped_;
}

std::string Capture::failure() const {
  const std::scoped_lock lock(store_.mutex_);
  return failure_;
}

bool Capture::settled() const {
  const std::scoped_lock lock(store_.mutex_);
  return !writing_ && (stopped_ || waiting_.empty());
}

bool Capture::too_slow() const {
  const std::scoped_lock lock(store_.mutex_);
  return too_slow_;
}

void Capture::stop(const std::string& why) {
  const std::scoped_lock lock(store_.mutex_);
  store_.stop(*this, why);
}

void Capture::abandon() {
  const std::scoped_lock lock(store_.mutex_);
  if (std::exchange(abandoned_, true)) return;
  store_.stop(*this, "given up");
  store_.schedule(*this);
}

bool Capture::written(std::uint64_t bytes) {
  const std::scoped_lock lock(store_.mutex_);
  if (stopped_ || written_ >= bytes) return true;
  awaited_ = bytes;
  return false;
}

void Capture::seal() {
  const std::scoped_lock lock(store_.mutex_);
  if (seal_ != Seal::none || finished_) return;
  seal_ = Seal::wanted;
  store_.schedule(*this);
}

bool Capture::sealed() const {
  const std::scoped_lock lock(store_.mutex_);
  return stopped_ || seal_ == Seal::done;
}

void Capture::fetch(std::uint64_t offset, std::span<std::byte> room) {
  const std::scoped_lock lock(store_.mutex_);
  fetched_.reset();
  fetch_ = Fetch{offset, room};
  store_.schedule(*this);
}

std::optional<protocol::Result<std::size_t>> Capture::fetched() {
  const std::scoped_lock lock(store_.mutex_);
  return std::exchange(fetched_, std::nullopt);
}

void Capture::finish(bool keep) {
  std::function<void()> wake;  // destroyed outside the lock
  const std::scoped_lock lock(store_.mutex_);
  if (std::exchange(finished_, true)) return;
  keep_ = keep;
  wake.swap(wake_);
  store_.schedule(*this);
}

// --- the store -------------------------------------------------------------------------------------------------------

CaptureStore::CaptureStore(const config::CaptureOptions& options, std::shared_ptr<QueueMemory> memory, Disk disk,
                           std::string group)
    : options_(options),
      memory_(std::move(memory)),
      disk_{disk.write ? std::move(disk.write) : ::writev, disk.sync ? std::move(disk.sync) : ::fdatasync,
            disk.free ? std::move(disk.free) : free_bytes, disk.sync_all ? std::move(disk.sync_all) : ::syncfs},
      group_(std::move(group)),
      queue_bytes_(static_cast<std::size_t>(options.queue_mib) << 20) {
  prepare_capture_directory(options_.directory, group_ + ".directory");
  salt_ = salt_of(options_.directory);
  writer_ = std::thread([this] { write_all(); });
  housekeeper_ = std::thread([this] { keep_house(); });
  pruner_ = std::thread([this] { keep_pruned(); });
}

CaptureStore::~CaptureStore() { finish(); }

void CaptureStore::finish() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    for (const auto& capture : captures_) {
      capture->finished_ = true;
      schedule(*capture);
    }
  }
  work_.notify_one();
  writer_.join();
  {
    const std::scoped_lock lock(mutex_);
    writer_done_ = true;
  }
  housework_.notify_one();
  housekeeper_.join();
  {
    const std::scoped_lock lock(mutex_);
    all_closed_ = true;
  }
  pruning_.notify_one();
  pruner_.join();
}

std::shared_ptr<Capture> CaptureStore::open(std::uint64_t session, std::function<void()> wake,
                                            const std::string& identity, const std::string& client) {
  const std::string owner = identity.empty() ? "" : owner_name(salt_, identity);
  const std::string part = owner.empty() || client.empty() || client == identity ? "" : owner_name(salt_, client);
  std::shared_ptr<Capture> capture(new Capture(
      *this, capture_name(std::chrono::system_clock::now(), session, owner, part), memory_, std::move(wake)));
  const std::scoped_lock lock(mutex_);
  captures_.push_back(capture);
  return capture;
}

std::shared_ptr<Capture> CaptureStore::open_file(const std::string& name, std::uint64_t size,
                                                 std::function<void()> wake) {
  std::shared_ptr<Capture> capture(new Capture(*this, name, memory_, std::move(wake)));
  capture->file_ = std::make_shared<CaptureFile>(options_.directory, name, size);
  capture->size_ = capture->written_ = size;
  const std::scoped_lock lock(mutex_);
  captures_.push_back(capture);
  return capture;
}

void CaptureStore::schedule(Capture& capture) {
  if (capture.closed_ || std::exchange(capture.scheduled_, true)) return;
  ready_.push_back(capture.shared_from_this());
  work_.notify_one();
}

void CaptureStore::write_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return !ready_.empty() || (stopping_ && captures_.empty()); });
    if (ready_.empty()) return;
    std::shared_ptr<Capture> capture = std::move(ready_.front());
    ready_.pop_front();
    capture->scheduled_ = false;
    serve(*capture, lock);
    lock.unlock();
    spent_.clear();
    capture.reset();
    lock.lock();
  }
}

void CaptureStore::serve(Capture& capture, Lock& lock) {
  if (capture.fetch_) fetch(capture, lock);
  if (!capture.stopped_ && !capture.waiting_.empty() && may_write(capture)) write(capture, lock);
  if (capture.abandoned_) take_written(capture, capture.waiting_bytes_);
  const bool all_written = capture.stopped_ || capture.waiting_.empty();
  if (capture.awaited_ && (capture.stopped_ || capture.written_ >= *capture.awaited_)) {
    capture.awaited_.reset();
    wake(capture);
  }
  if (all_written && capture.seal_ == Capture::Seal::wanted) seal(capture, lock);
  if (all_written && capture.finished_) {
    if (capture.keep_) end_checksums(capture, lock);
    close(capture);
  } else if ((!all_written && capture.file_) || capture.fetch_) {
    schedule(capture);
  }
}

void CaptureStore::fetch(Capture& capture, Lock& lock) {
  const Capture::Fetch wanted = *std::exchange(capture.fetch_, std::nullopt);
  protocol::Result<std::size_t> result(std::size_t{0});
  if (wanted.offset < capture.written_) {
    const auto n = std::min<std::uint64_t>(wanted.room.size(), capture.written_ - wanted.offset);
    const int descriptor = capture.file_->descriptor();
    lock.unlock();
    const ssize_t got = read_at(descriptor, wanted.room.first(n), wanted.offset);
    if (got > 0)
      result = static_cast<std::size_t>(got);
    else
      result = protocol::Error{
          "capture", fmt::format("the raw capture {} cannot be read back: {}", capture.name_,
                                 got < 0 ? system_text(errno) : std::string("it is shorter than what was written"))};
    lock.lock();
  } else {
    // Not written yet. Nobody else takes from the queue, so its parts stay while the lock is released.
    std::vector<std::span<const std::byte>> parts;
    std::uint64_t at = capture.written_;
    std::size_t room = wanted.room.size();
    for (const protocol::Payload& part : capture.waiting_) {
      if (room == 0) break;
      const auto skipped =
          static_cast<std::size_t>(std::min<std::uint64_t>(part.bytes.size(), std::max(wanted.offset, at) - at));
      at += part.bytes.size();
      const auto rest = part.bytes.subspan(skipped);
      parts.push_back(rest.first(std::min(rest.size(), room)));
      room -= parts.back().size();
    }
    lock.unlock();
    std::byte* to = wanted.room.data();
    for (const auto& part : parts) to = std::copy(part.begin(), part.end(), to);
    result = static_cast<std::size_t>(to - wanted.room.data());
    lock.lock();
  }
  capture.fetched_ = std::move(result);
  wake(capture);
}

void CaptureStore::write(Capture& capture, Lock& lock) {
  std::vector<iovec> parts;
  std::size_t bytes = 0;
  const std::uint64_t bound = (static_cast<std::uint64_t>(options_.max_mib) << 20) - capture.written_;
  for (const protocol::Payload& part : capture.waiting_) {
    if (parts.size() == kMostParts || bytes >= std::min<std::uint64_t>(kMostBytes, bound)) break;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(part.bytes.size(), bound - bytes));
    // iovec has no const pointer; writev() changes nothing.
    parts.push_back({const_cast<std::byte*>(part.bytes.data()), n});  // NOLINT
    bytes += n;
  }
  std::shared_ptr<CaptureFile> file = capture.file_;
  std::size_t done = 0;
  std::string failure;
  capture.writing_ = true;
  lock.unlock();
  if (bytes == 0) failure = fmt::format("it has reached {}.max_mib = {}", group_, options_.max_mib);
  if (failure.empty()) failure = write_parts(capture.name_, file, parts, done);
  lock.lock();
  capture.writing_ = false;
  capture.file_ = std::move(file);
  const bool was_full = is_full(capture);
  capture.written_ += done;
  take_written(capture, done);
  if (!failure.empty())
    stop(capture, failure);
  else if (was_full && !is_full(capture))
    wake(capture);
}

// One that has no file yet waits for the housekeeper where it would be one too many.
bool CaptureStore::may_write(const Capture& capture) const {
  return capture.file_ || closing_.size() + being_closed_ < kMostClosing;
}

// Makes the file if need be. Returns what failed, or nothing; `done` bytes are in the file.
std::string CaptureStore::write_parts(const std::string& name, std::shared_ptr<CaptureFile>& file,
                                      const std::vector<iovec>& parts, std::size_t& done) {
  try {
    if (!file) file = std::make_shared<CaptureFile>(options_.directory, name);
  } catch (const std::system_error& error) {
    return error.what();
  }
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  if (std::string why = why_no_room(file->descriptor(), bytes); !why.empty()) return why;
  const ssize_t n = disk_.write(file->descriptor(), parts.data(), static_cast<int>(parts.size()));
  if (n < 0 && errno == EINTR) return {};
  if (n <= 0) return "writing failed: " + (n == 0 ? "no byte was written" : system_text(errno));
  done = static_cast<std::size_t>(n);
  file->unsynced = true;
  if (file->checksums_end) return {};
  std::string lines;
  std::size_t left = done;
  for (const iovec& part : parts) {
    const std::size_t taken = std::min(left, part.iov_len);
    lines += file->checksums.add({static_cast<const std::byte*>(part.iov_base), taken});
    left -= taken;
  }
  return write_checksums(*file, lines);
}

// Asks the file system now and then only: on a network that takes time.
std::string CaptureStore::why_no_room(int descriptor, std::size_t bytes) {
  const std::uint64_t reserve = static_cast<std::uint64_t>(options_.reserve_mib) << 20;
  if (reserve == 0) return {};
  const Clock::time_point now = Clock::now();
  if (known_free_ < bytes || now >= known_free_until_) {
    const std::optional<std::uint64_t> free = disk_.free(descriptor);
    if (free && *free < reserve + bytes)
      return fmt::format("{} MiB are left on the disk, of which {}.reserve_mib = {} stay free", *free >> 20, group_,
                         options_.reserve_mib);
    known_free_ = free ? std::min(*free - reserve, kMostBeforeAsking) : kMostBeforeAsking;
    known_free_until_ = now + kLongestBeforeAsking;
  }
  known_free_ -= std::min<std::uint64_t>(known_free_, bytes);
  return {};
}

std::string CaptureStore::write_checksums(CaptureFile& file, std::string_view lines) const {
  if (file.checksums_end) return {};
  while (!lines.empty()) {
    const iovec part{const_cast<char*>(lines.data()), lines.size()};  // NOLINT
    const ssize_t n = disk_.write(file.checksums_descriptor(), &part, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      file.checksums_end = true;  // lines after one that is cut off would mean nothing
      return "writing checksums failed: " + (n == 0 ? "no byte was written" : system_text(errno));
    }
    file.checksums_unsynced = true;
    lines.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

// Nothing is written to the capture any more.
void CaptureStore::end_checksums(Capture& capture, Lock& lock) {
  const std::shared_ptr<CaptureFile> file = capture.file_;
  if (!file || file->checksums_end) return;
  lock.unlock();
  const std::string failure = write_checksums(*file, file->checksums.end());
  file->checksums_end = true;
  lock.lock();
  if (failure.empty()) return;
  stop(capture, failure);
  if (capture.finished_) write_log(LogLevel::error, fmt::format("capture {}: {}", capture.name_, failure));
}

void CaptureStore::seal(Capture& capture, Lock& lock) {
  end_checksums(capture, lock);
  if (!capture.stopped_ && capture.file_ && options_.sync == config::CaptureOptions::Sync::before_close) {
    capture.seal_ = Capture::Seal::syncing;
    sealing_.push_back(capture.shared_from_this());
    housework_.notify_one();
  } else {
    capture.seal_ = Capture::Seal::done;
    wake(capture);
  }
}

// Removes that many bytes from the front of the queue.
void CaptureStore::take_written(Capture& capture, std::size_t bytes) {
  capture.count_waiting(capture.waiting_bytes_ - bytes);
  while (bytes > 0) {
    protocol::Payload& front = capture.waiting_.front();
    const std::size_t n = std::min(bytes, front.bytes.size());
    front.bytes = front.bytes.subspan(n);
    bytes -= n;
    if (!front.bytes.empty()) return;
    spent_.push_back(std::move(front));
    capture.waiting_.pop_front();
  }
}

void CaptureStore::stop(Capture& capture, const std::string& why) {
  if (std::exchange(capture.stopped_, true)) return;
  capture.failure_ = why;
  wake(capture);
}

// With the lock held, so that nothing of a session is touched after finish().
void CaptureStore::wake(const Capture& capture) const {
  if (!capture.finished_) capture.wake_();
}

void CaptureStore::close(Capture& capture) {
  capture.closed_ = true;
  take_written(capture, capture.waiting_bytes_);
  if (capture.file_) {
    closing_.push_back({std::move(capture.file_), capture.keep_});
    housework_.notify_one();
  }
  std::erase_if(captures_, [&](const auto& each) { return each.get() == &capture; });
}

}  // namespace echotrain::server
