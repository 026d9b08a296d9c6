// A raw capture is a file of the bytes that a session receives, appended as they come (docs/capture.md).
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "config/server_options.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "server/base/clock.h"
#include "server/base/queue_memory.h"
#include "server/capture/capture_files.h"

namespace echotrain::server {

/// The calls by which bytes reach the disk: ::writev, ::fdatasync and ::syncfs, unless a test makes them slow or fail.
/// `free` returns the bytes left on the file system of a descriptor; nothing where it does not tell.
struct Disk {
  std::function<ssize_t(int descriptor, const iovec* parts, int count)> write;
  std::function<int(int descriptor)> sync;
  std::function<std::optional<std::uint64_t>(int descriptor)> free;
  std::function<int(int descriptor)> sync_all = {};
};

/// Returns the bytes left on the file system of a descriptor; nothing where it does not tell.
std::optional<std::uint64_t> free_bytes(int descriptor);

class CaptureStore;

/// The capture of one session. No call waits for the disk. "Wakes" means: another thread calls the function given to
/// CaptureStore::open(), with locks held, until finish(). For the session's strand.
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  const std::string& name() const { return name_; }  ///< of the file, without its folder

  /// Takes the bytes that follow those taken before; they stay where they are until they are written.
  void append(protocol::Payload bytes);
  /// Bytes taken so far, and those of them that are in the file.
  std::uint64_t size() const;
  std::uint64_t saved() const;
  /// True if as many bytes wait for the disk as may wait: append no more. Wakes when that changes.
  bool full() const;
  /// True if nothing more is written, because a write failed, a bound is reached or the disk was too slow; failure()
  /// says why. Wakes when that happens. Bytes that were not written stay readable by fetch() until abandon().
  bool stopped() const;
  std::string failure() const;
  bool too_slow() const;  ///< the disk was too slow
  /// True if no byte is on its way to the file: all are written, or the capture has stopped.
  bool settled() const;
  /// Stops the capture for a reason of the session's.
  void stop(const std::string& why);
  /// Drops the waiting bytes and takes no more.
  void abandon();
  /// True if the first `bytes` of those taken are written, or the capture has stopped. Wakes when that becomes so.
  bool written(std::uint64_t bytes);
  /// Takes no more bytes. Ends the checksums when all is written and, with sync: before_close, forces everything to the
  /// disk.
  void seal();
  /// True if seal() has done its work, or the capture has stopped. Wakes when that becomes so.
  bool sealed() const;

  /// Begins to copy bytes from `offset` on, at least one and as many as are at hand and fit, to `room`, which stays
  /// valid until fetched(). Precondition: offset < size(), and no other fetch is under way. Wakes when it is done.
  void fetch(std::uint64_t offset, std::span<std::byte> room);
  /// Returns the number of bytes copied, or why the file cannot be read; nothing until then. Gives each result once.
  std::optional<protocol::Result<std::size_t>> fetched();

  /// Ends the capture: closes the file when all is written, or removes it. Lets `wake` go, because the writer may keep
  /// the capture for longer than the objects that `wake` refers to live.
  void finish(bool keep);

 private:
  friend class CaptureStore;
  Capture(CaptureStore& store, std::string name, std::shared_ptr<QueueMemory> memory, std::function<void()> wake);
  void count_waiting(std::size_t bytes);

  CaptureStore& store_;
  const std::string name_;

  // Guarded by the store's mutex.
  std::function<void()> wake_;
  std::deque<protocol::Payload> waiting_;  // from written_ on; only the writer takes from it
  std::size_t waiting_bytes_ = 0;
  QueueMemory::Share share_;  // of waiting_bytes_
  std::uint64_t size_ = 0, written_ = 0;
  std::string failure_;
  bool stopped_ = false, too_slow_ = false, abandoned_ = false;
  bool writing_ = false;                  // the writer has let the lock go meanwhile
  std::optional<std::uint64_t> awaited_;  // by who asked for written()
  enum class Seal { none, wanted, syncing, done };
  Seal seal_ = Seal::none;
  bool finished_ = false, keep_ = true, closed_ = false;
  struct Fetch {
    std::uint64_t offset;
    std::span<std::byte> room;
  };
  std::optional<Fetch> fetch_;
  std::optional<protocol::Result<std::size_t>> fetched_;
  bool scheduled_ = false;  // in the writer's queue
  std::shared_ptr<CaptureFile> file_;
};

/// All captures of a server, with one thread that writes, one that synchronises and closes files, and one that removes
/// old ones, so that neither sessions nor writes wait for those, nor a CLOSE for what others left.
class CaptureStore {
 public:
  /// Prepares the folder (prepare_capture_directory). What waits is counted in `memory`. Errors name options of
  /// `group`.
  CaptureStore(const config::CaptureOptions& options, std::shared_ptr<QueueMemory> memory, Disk disk = {},
               std::string group = "capture");
  ~CaptureStore();  ///< finish()
  CaptureStore(const CaptureStore&) = delete;
  CaptureStore& operator=(const CaptureStore&) = delete;

  /// A capture for the session of this number, of the client of this identity, which counts as `client` where room is
  /// short (Identity::part; empty: as itself). The store must outlive it.
  std::shared_ptr<Capture> open(std::uint64_t session, std::function<void()> wake, const std::string& identity = {},
                                const std::string& client = {});
  /// A capture without checksums in a file of this name, which goes on after `size` bytes that stay. Looks at the disk.
  /// std::system_error.
  std::shared_ptr<Capture> open_file(const std::string& name, std::uint64_t size, std::function<void()> wake);
  /// Ends all captures, and returns when what waits is written and their files are closed. None may be opened
  /// afterwards. Not for two threads at a time.
  void finish();

 private:
  friend class Capture;
  using Lock = std::unique_lock<std::mutex>;
  struct Closing {
    std::shared_ptr<CaptureFile> file;
    bool keep;
  };
  void schedule(Capture& capture);
  bool is_full(const Capture& capture) const { return capture.waiting_bytes_ >= queue_bytes_; }
  bool may_write(const Capture& capture) const;

  void stop(Capture& capture, const std::string& why);
  void wake(const Capture& capture) const;

  // The writer.
  void write_all();
  void serve(Capture& capture, Lock& lock);
  void fetch(Capture& capture, Lock& lock);
  void write(Capture& capture, Lock& lock);
  std::string write_parts(const std::string& name, std::shared_ptr<CaptureFile>& file, const std::vector<iovec>& parts,
                          std::size_t& done);
  std::string why_no_room(int descriptor, std::size_t bytes);
  std::string write_checksums(CaptureFile& file, std::string_view lines) const;
  void end_checksums(Capture& capture, Lock& lock);
  void seal(Capture& capture, Lock& lock);
  void take_written(Capture& capture, std::size_t bytes);
  void close(Capture& capture);

  // The housekeeper.
  void keep_house();
  std::string sync(CaptureFile& file) const;  // empty, or what failed
  void sync_sealed(Lock& lock);
  void close_files(std::vector<Closing> closing) const;
  void sync_open_files(Lock& lock);

  // The one that removes.
  void keep_pruned();
  void prune() const;

  const config::CaptureOptions options_;
  const std::shared_ptr<QueueMemory> memory_;
  const Disk disk_;
  const std::string group_;
  const std::size_t queue_bytes_;
  std::string salt_;  // of the folder

  std::mutex mutex_;
  std::condition_variable work_, housework_, pruning_;
  std::deque<std::shared_ptr<Capture>> ready_;      // with something for the writer
  std::vector<std::shared_ptr<Capture>> captures_;  // not closed
  std::vector<protocol::Payload> spent_;            // the writer's, to be let go outside the lock
  std::vector<Closing> closing_;
  std::size_t being_closed_ = 0;                   // by the housekeeper, besides those
  std::vector<std::shared_ptr<Capture>> sealing_;  // for the housekeeper to synchronise
  std::uint64_t known_free_ = 0;                   // the writer's: may be written before it asks again
  Clock::time_point known_free_until_;
  bool stopping_ = false, writer_done_ = false;
  bool has_closed_ = false, all_closed_ = false;  // since the last pruning; for ever
  std::thread writer_, housekeeper_, pruner_;
};

}  // namespace echotrain::server
