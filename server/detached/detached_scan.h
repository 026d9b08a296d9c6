// A detached scan outlives its connection: a journal of what came, a file of results, and a thread that makes the one
// of the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "protocol/data/limits.h"
#include "protocol/data/messages.h"
#include "server/base/clock.h"
#include "server/base/descriptor.h"
#include "server/capture/capture.h"
#include "server/detached/origin.h"
#include "server/detached/scan_record.h"

namespace echotrain::server {

/// The bytes that the detached scans of one client have together, of those that they may have. Thread-safe.
class ClientBytes {
 public:
  explicit ClientBytes(std::uint64_t most) : most_(most) {}
  bool take(std::uint64_t bytes);                    ///< false: they are too many, and not taken
  void add(std::uint64_t bytes) { used_ += bytes; }  ///< of what is there already
  void give_back(std::uint64_t bytes) { used_ -= bytes; }
  std::uint64_t most() const { return most_; }
  std::uint64_t left() const;

 private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_ = 0;
};

/// The things that all detached scans of a server share. Outlives them.
struct DetachedCommon {
  std::filesystem::path folder;
  CaptureStore* captures = nullptr;  ///< writes the journals
  std::uint64_t reserve_bytes = 0;   ///< stay free on the file system of this descriptor
  std::function<std::optional<std::uint64_t>(int descriptor)> free_bytes;
  std::function<int(int descriptor)> sync;  ///< as fdatasync(2)
  /// Removes a scan that its client has all of. False: there is none.
  std::function<bool(const Identity& of)> make_room;
  protocol::Limits limits;
  Clock::duration resume_within{};
  AddDetachedSession add_session;
  /// Gives a scan without a client its turn, after those of clients that are there; true is given back by `end_turn`.
  std::function<bool(Clock::duration waited)> take_turn;
  std::function<void()> end_turn;
};

struct RunOutcome;

/// Clients' sides may be on any thread; what they give to watch() is called on any thread, and must only wake.
class DetachedScan : public std::enable_shared_from_this<DetachedScan> {
 public:
  enum class State { receiving, waiting, running, done, failed, incomplete, cancelled };
  static std::string_view to_string(State state);
  static bool is_end(State state) { return state >= State::done; }

  /// A new one, or one of which a file of a former process is there: then the journal has `messages` whole ones after
  /// the header in `journal_bytes`, and so on. Opens the files of one that has not ended, which are cut to these.
  /// std::system_error.
  struct Found {
    std::uint64_t head_bytes = 0;  ///< the journal up to the header's end; 0: a new scan
    std::uint64_t journal_bytes = 0, messages = 0, results_bytes = 0, images = 0;
    bool closed = false;  ///< the last message is CLOSE
  };
  DetachedScan(DetachedCommon& common, ScanRecord record, const Found& found, std::shared_ptr<ClientBytes> of_client);
  ~DetachedScan();
  DetachedScan(const DetachedScan&) = delete;
  DetachedScan& operator=(const DetachedScan&) = delete;
  /// Takes config and header of a new scan.
  void begin(protocol::Payload head);
  /// Starts the thread. Not for a scan that has ended.
  void start();

  const std::string& id() const { return id_; }
  ScanRecord record() const;

  // --- who sends and reads
  using Watch = std::uint64_t;
  Watch watch(std::function<void()> wake);
  void unwatch(Watch watch);
  /// From now on this one sends; who sent before is refused by append(). Not where too_late().
  void take_over(Watch watch);
  bool too_late() const;  ///< the client was awaited long enough: the scan ends with what has come
  bool sends(Watch watch) const { return sender_ == watch; }
  /// Takes `messages` whole messages for the journal. False: another one sends, or the journal has stopped.
  bool append(Watch watch, protocol::Payload bytes, std::uint64_t messages, bool close);
  void end_input(Watch watch);  ///< nothing more comes of who sends, and nobody will resume
  bool full() const;            ///< too many bytes wait for the disk
  /// True if no byte is on its way to the journal. A journal that has stopped goes on, if the disk lets it, behind its
  /// last safe message, once it is opened again, which looks at the disk.
  bool settled() const;
  void reopen(Watch watch);  ///< for who sends
  bool all_safe();           ///< all that was taken is

  struct View {
    State state = State::waiting;
    bool begun = false;      ///< config and header are safe
    std::uint64_t safe = 0;  ///< messages
    std::uint64_t safe_bytes = 0;
    bool closed = false;        ///< CLOSE is safe
    std::string problem;        ///< why the journal takes no more
    std::uint64_t results = 0;  ///< bytes, of whole messages
    std::uint64_t images = 0;
  };
  View look();
  Descriptor open_results() const;  ///< to read them; std::system_error
  std::uint64_t bytes();
  std::string json();

  /// Its client has all of its results: it goes first where room is short. Looks at the disk.
  void delivered();
  bool may_go() const { return delivered_ && thread_ended_; }
  void is_removed();  ///< its bytes do not count any more, and its files may go

  void cancel();
  /// The server stops: a scan that waits for data of its client ends its session; none begins.
  void stop();
  /// Waits for the thread; `now`: a session that still runs is cut off, and runs again with the next server.
  void join(bool now);
  bool thread_ended() const { return thread_ended_; }

  // --- for the run of its session (detached_run.cc), on the scan's thread
  int journal_descriptor() const { return journal_.get(); }
  int wake_descriptor() const { return wake_.get(); }
  const protocol::Limits& limits() const { return common_.limits; }
  protocol::Result<std::uint64_t> add_session(int socket) const;  ///< which has the socket from then on
  bool has_sender() const { return sender_ != 0; }
  bool cancelled() const { return cancelled_; }
  bool stopping() const { return stopping_; }
  bool cut_off() const { return cut_off_; }
  bool input_ended();  ///< no more comes: CLOSE is safe, or the client has not come back in time
  /// Forces to the disk what was written, where only that is safe.
  void sync_journal();
  /// Appends a whole message to the results. Returns what failed, or nothing. Bytes beyond the client's bound are no
  /// matter of time: results_full().
  std::string add_result(std::span<const std::byte> message, bool image, bool last_words = false);
  bool results_full() const { return results_full_; }
  std::uint64_t first_images() const { return images_; }

 private:
  struct Mark {
    std::uint64_t end, messages;
    bool close;
  };
  void open_files(const Found& found);
  void work();
  RunOutcome run();
  bool may_run(Clock::time_point since, bool& has_turn);
  void end(State state, const std::string& failure, std::span<const std::byte> last_text);
  std::string add_counted_result(std::span<const std::byte> message, bool image);
  std::string why_no_room(std::uint64_t bytes) const;
  bool count(std::uint64_t bytes);
  void count_again();
  std::string bound_reached() const;
  void wake_all();
  void wake_thread() const;
  void close_files();
  State state() const;
  void refresh();

  DetachedCommon& common_;
  const std::shared_ptr<ClientBytes> of_client_;
  const std::string id_;          // read without the lock
  Descriptor journal_, results_;  // the thread's
  Descriptor wake_;               // guarded by watchers_mutex_, but for the thread

  mutable std::mutex mutex_;  // taken before the captures' lock, never after it
  ScanRecord record_;
  std::shared_ptr<Capture> capture_;
  std::deque<Mark> marks_;  // of what is not safe yet
  std::uint64_t head_bytes_ = 0, appended_bytes_ = 0, appended_ = 0, safe_ = 0, safe_bytes_ = 0, synced_ = 0;
  bool closed_ = false, close_safe_ = false;
  std::string problem_;
  std::uint64_t results_bytes_ = 0, images_ = 0;
  std::uint64_t counted_ = 0;       // of this scan in of_client_
  bool reopening_ = false;          // the journal's file is cut: what is safe stays as it is
  bool removed_ = false;            // no file of it is to be made any more
  std::uint64_t room_awaited_ = 0;  // on the disk, for a result
  std::string trouble_;             // why its results wait
  bool running_ = false, input_ended_ = false;
  State end_ = State::waiting;  // one of those that are an end, or waiting
  bool in_time_ = true;         // what its session gets was not received before
  Clock::time_point client_left_;

  std::atomic<Watch> sender_ = 0;
  std::atomic<bool> cancelled_ = false, stopping_ = false, cut_off_ = false, thread_ended_ = false, delivered_ = false,
                    results_full_ = false;
  const std::shared_ptr<std::atomic<bool>> live_ = std::make_shared<std::atomic<bool>>(false);

  mutable std::mutex watchers_mutex_;  // the captures' lock may be held
  std::map<Watch, std::function<void()>> watchers_;
  Watch last_watch_ = 0;
  std::mutex record_file_mutex_;  // taken before mutex_: writing the record of a scan that has ended
  std::mutex join_mutex_;
  std::thread thread_;
};

/// The answer to who asks for a scan.
std::string json_of(const ScanRecord& facts, DetachedScan::State state, std::uint64_t received, std::uint64_t images,
                    const std::string& problem);

}  // namespace echotrain::server
