// The detached store holds all detached scans of a server, over its restarts.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/pipeline_spec.h"
#include "config/server_options.h"
#include "protocol/data/limits.h"
#include "protocol/data/result.h"
#include "server/base/descriptor.h"
#include "server/base/queue_memory.h"
#include "server/capture/capture.h"
#include "server/detached/detached_scan.h"

namespace echotrain::server {

/// Keeps scans within the options: begins them, finds them for the client that they belong to, runs those again that a
/// former process has left, and removes them in time. Thread-safe.
class DetachedStore {
 public:
  /// A scan without a client that has waited so long for live ones waits for them no more.
  static constexpr std::chrono::seconds kAges{30};
  /// `options.directory` is not empty. Nothing is made there before the first scan.
  DetachedStore(const config::DetachedOptions& options, std::shared_ptr<QueueMemory> memory,
                const protocol::Limits& limits, Disk disk = {}, Clock::duration ages = kAges);
  ~DetachedStore();  ///< finish()
  DetachedStore(const DetachedStore&) = delete;
  DetachedStore& operator=(const DetachedStore&) = delete;

  /// Serves from now on, and takes up what a former process has left, on a thread: journals are long, disks may hang.
  /// `live_waits` is true while scans whose clients are there wait for memory or a place.
  void serve(AddDetachedSession add_session, std::function<bool()> live_waits);

  struct NewScan {
    std::string pipeline;
    Identity identity;
    std::string peer;
    std::optional<config::ClientPipelines> granted;
    std::string occasion;
    config::DetachSpec spec;
    bool asked = false;                     ///< by the client, not by a pipeline of the server's
    std::vector<std::byte> config, header;  ///< messages, without a token
  };
  /// Begins a scan. The error says why not. Looks at the disk.
  protocol::Result<std::shared_ptr<DetachedScan>> create(NewScan scan);
  /// Nothing: what is said of the scan of this ID (empty: of all) is so. Otherwise why it is not known yet: its files
  /// are being read, or another server has the folder; this one takes it as soon as that ends.
  std::string why_unknown(const std::string& id);
  bool elsewhere() const { return elsewhere_; }
  /// Returns null for a scan that is not there, or is another client's.
  std::shared_ptr<DetachedScan> find(const std::string& id, const Identity& identity) const;
  /// Returns a JSON array: of a client's scans, the newest first, or of all.
  std::string json(const Identity* of) const;
  /// Cancels a scan; one that has ended is removed. False: there is none of this ID, or it is another client's.
  bool cancel(const std::string& id, const Identity* of);

  struct Counts {
    std::map<std::string, std::uint64_t> scans;  ///< by state, each of them
    std::uint64_t bytes = 0;
  };
  Counts counts() const;

  /// The server stops: scans that wait for their client let their sessions go.
  void stop();
  /// Ends the threads; what has not ended goes on with the next server.
  void finish();

 private:
  using Scan = std::shared_ptr<DetachedScan>;
  std::string open_folder(bool make);
  void list();
  void take_up();
  void take_up(const ScanRecord& record);
  std::shared_ptr<ClientBytes> bytes_of(const Identity& identity);
  Scan delivered_of(const Identity& identity) const;
  std::string why_no_room(const NewScan& scan);
  bool take_turn(Clock::duration waited);
  void keep_house();
  void prune();
  void remove(const Scan& scan);

  const config::DetachedOptions options_;
  const std::shared_ptr<QueueMemory> memory_;
  const Disk disk_;
  const std::filesystem::path folder_;
  const Clock::duration ages_;
  DetachedCommon common_;
  std::function<bool()> live_waits_;
  Descriptor lock_;
  std::unique_ptr<CaptureStore> journals_;

  mutable std::mutex mutex_;
  std::mutex folder_mutex_, making_mutex_;
  std::condition_variable housework_;
  std::map<std::string, Scan> scans_;
  struct Unread {
    ScanRecord record;
    std::shared_ptr<ClientBytes> of_client;
    std::uint64_t bytes = 0;  // as many count
  };
  std::map<std::string, Unread> unread_;  // scans of a former process that are not among scans_ yet
  std::string wanted_;                    // the one that is asked for: it is read next
  std::map<std::string, std::weak_ptr<ClientBytes>> clients_;
  int turns_ = 0;  // scans without a client that run
  bool serving_ = false, looked_ = false;
  std::atomic<bool> stopping_ = false, elsewhere_ = false, opened_ = false;
  std::thread housekeeper_;
};

}  // namespace echotrain::server
