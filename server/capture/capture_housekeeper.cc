// The housekeeper does with files of captures what takes long besides writing: synchronising, closing and removing.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/capture/capture.h"

namespace echotrain::server {

using Sync = config::CaptureOptions::Sync;

namespace {

constexpr std::chrono::minutes kBetweenPrunings(10);
// A pruning looks at each file of the folder. After a scan it comes this many times its last duration later, so that it
// takes a twentieth of a core at most, or after this, whichever is sooner.
constexpr int kRest = 20;
constexpr std::chrono::seconds kLongestRest(10);
// Beyond this many files at once the whole file system is synchronised: each call of its own takes milliseconds.
constexpr std::ptrdiff_t kMostOneByOne = 16;

}  // namespace

void CaptureStore::keep_house() {
  const auto period = seconds(options_.sync_s);
  const bool periodic = options_.sync == Sync::periodic || options_.sync == Sync::before_close;
  Clock::time_point sync_at = periodic ? Clock::now() + period : Clock::time_point::max();
  Lock lock(mutex_);
  for (;;) {
    const auto has_work = [this] { return writer_done_ || !closing_.empty() || !sealing_.empty(); };
    if (periodic)
      housework_.wait_until(lock, sync_at, has_work);
    else
      housework_.wait(lock, has_work);
    sync_sealed(lock);  // first: sessions wait for it
    if (writer_done_ && closing_.empty()) return;
    std::vector<Closing> closing = std::exchange(closing_, {});
    being_closed_ = closing.size();
    if (periodic && Clock::now() >= sync_at) {
      sync_open_files(lock);
      sync_at = Clock::now() + period;
    }
    lock.unlock();
    close_files(std::move(closing));
    lock.lock();
    if (std::exchange(being_closed_, 0) > 0) {
      has_closed_ = true;
      pruning_.notify_one();
    }
    for (const auto& capture : captures_)
      if (!capture->file_ && !capture->waiting_.empty()) schedule(*capture);  // it may have its file now
  }
}

std::string CaptureStore::sync(CaptureFile& file) const {
  if (file.unsynced.exchange(false) && disk_.sync(file.descriptor()) != 0)
    return "synchronising failed: " + system_text(errno);
  if (file.checksums_unsynced.exchange(false) && disk_.sync(file.checksums_descriptor()) != 0)
    return "synchronising checksums failed: " + system_text(errno);
  return std::exchange(file.name_synced, true) ? std::string() : sync_folder(file.path().parent_path());
}

void CaptureStore::sync_sealed(Lock& lock) {
  for (const auto& capture : std::exchange(sealing_, {})) {
    const std::shared_ptr<CaptureFile> file = capture->file_;
    if (!file) continue;  // closed meanwhile
    lock.unlock();
    const std::string failure = sync(*file);
    lock.lock();
    if (!failure.empty()) stop(*capture, failure);
    capture->seal_ = Capture::Seal::done;
    wake(*capture);
  }
}

void CaptureStore::close_files(std::vector<Closing> closing) const {
  const auto is_behind = [](const Closing& each) { return each.keep && !each.file->synced(); };
  const bool synced = options_.sync != Sync::none && std::ranges::count_if(closing, is_behind) > kMostOneByOne &&
                      disk_.sync_all(std::ranges::find_if(closing, is_behind)->file->descriptor()) == 0;
  for (Closing& each : closing) {
    if (!each.keep) {
      each.file->remove();
    } else if (options_.sync != Sync::none && !synced) {
      if (const std::string failure = sync(*each.file); !failure.empty())
        write_log(LogLevel::error, fmt::format("capture {}: {}", each.file->path().string(), failure));
    }
    each.file.reset();
  }
}

void CaptureStore::sync_open_files(Lock& lock) {
  std::vector<std::pair<std::shared_ptr<Capture>, std::shared_ptr<CaptureFile>>> open;
  for (const auto& capture : captures_)
    if (capture->file_ && (capture->file_->unsynced || capture->file_->checksums_unsynced))
      open.emplace_back(capture, capture->file_);
  for (const auto& [capture, file] : open) {
    lock.unlock();
    const std::string failure = sync(*file);
    lock.lock();
    if (!failure.empty()) stop(*capture, failure);
  }
}

void CaptureStore::keep_pruned() {
  Lock lock(mutex_);
  do {
    has_closed_ = false;
    lock.unlock();
    const Clock::time_point began = Clock::now();
    prune();
    const Clock::time_point ended = Clock::now();
    lock.lock();
    const auto rest = std::min<Clock::duration>(kRest * (ended - began), kLongestRest);
    pruning_.wait_until(lock, ended + rest, [this] { return all_closed_; });
    pruning_.wait_until(lock, ended + kBetweenPrunings, [this] { return all_closed_ || has_closed_; });
  } while (!all_closed_ || has_closed_);
}

void CaptureStore::prune() const {
  const Removed removed = remove_old_captures(options_, std::chrono::system_clock::now());
  if (removed.files > 0)
    write_log(LogLevel::info, fmt::format("retention: {} captures of {:.1f} MiB in all were removed", removed.files,
                                          static_cast<double>(removed.bytes) / (1 << 20)));
}

}  // namespace echotrain::server
