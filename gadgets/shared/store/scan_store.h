// A ScanStore keeps records that scans leave for later scans, by client, device and measurement ID: in memory and, for
// some kinds, in files.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// The key of a record. Senders of scans choose all of it except the owner.
struct RecordKey {
  std::string owner;           ///< the client's identity, which the program knows; empty: it has no clients
  std::string device;          ///< device that measured it, by protocol::device_of(); empty: a namespace of its own
  std::string measurement_id;  ///< empty: the record is not kept
  std::string client{};  ///< client in whose part the record counts (ScanEnvironment::client); empty: the owner itself
};

/// Records of one kind, found by owner, device and measurement ID of the scan that left them, in memory and, if kind
/// and options say so, in files of the cache folder, which several processes of one user may share. No owner finds,
/// replaces or lists another owner's records. Keys may name a patient: only digests of them are kept (16 bytes of
/// SHA-256), salted by a random number of the folder; other users cannot read either. A record older than the options
/// allow counts as missing, as does a file that is damaged, of another version or of another key; a folder that cannot
/// be written keeps nothing.
///
/// The bound on bytes holds for memory and, counted in blocks, for files, each; kMostEntries for both together. Beyond
/// a bound, records are dropped by fair share: the client that has most loses its least recently used record; a client
/// with no more than an equal part loses nothing to others. No write lists the folder more than once a minute. Throws
/// only std::bad_alloc. Thread-safe.
class ScanStore : private numerics::Evictable {
 public:
  struct Kind {
    const char* name;  ///< name of the folder and of its files
    std::array<char, 8> magic;
    bool files = true;  ///< false: records show the patient, and stay in memory
  };
  enum class Added { no, fresh, replaced };  ///< replaced: the same owner had left another one of this key
  static constexpr std::size_t kMostEntries = 4096;

  ~ScanStore() override;
  std::int64_t hours() const { return hours_; }
  std::uint64_t most_bytes() const { return most_bytes_; }
  /// The number of files in another version's format. They are not read, because it did not note their owners.
  std::size_t former_files();

 protected:
  /// A record of any type.
  struct Kept {
    std::shared_ptr<const void> record;  // null: there is none
    std::uint64_t bytes = 0;             // in memory
    std::int64_t made_unix_s = 0;        // time [s] since 1970
  };

  ScanStore(const numerics::Resources& resources, const Kind& kind);
  Kept find(const RecordKey& key);
  /// Returns the owner's record of this measurement, from any device; none if there are several.
  Kept find_of_any_device(const std::string& owner, const std::string& measurement_id);
  /// Replaces the record of this key; unpacked() reads `payload`, if there are files.
  Added add(const RecordKey& key, Kept kept, const std::string& payload);
  /// The first 8 hexadecimal digits of digests, and their records, the newest first.
  std::vector<std::pair<std::string, Kept>> all();
  /// Reads a record from a file's payload; returns null if it is invalid. Kinds without files have none.
  virtual Kept unpacked(std::string_view /*payload*/) const { return {}; }

 private:
  using Digest = std::array<unsigned char, 16>;
  /// The facts of a record in the index and in a file's head.
  struct Head {
    Digest digest, client, scan;  // digests of the key; of its client; of its owner and measurement ID
    std::int64_t made_unix_s;
  };
  struct Entry {
    Head head;
    Kept kept;           // empty: it is on the disk only
    std::uint64_t disk;  // bytes of its file's blocks; 0: there is none
    std::uint64_t used;  // time of the last use, by the budget's clock
    std::uint64_t memory() const { return kept.record ? kept.bytes : 0; }
    bool can_drop() const { return kept.record && disk > 0; }
  };

  bool too_old(std::int64_t made_unix_s) const;
  Digest digest_of(char what, std::initializer_list<std::string_view> texts);
  Head head_of(const RecordKey& key, std::int64_t made_unix_s);
  std::filesystem::path file(const Digest& digest) const;
  std::optional<Head> read_head(std::string_view text) const;
  Kept find(const Digest& digest);
  std::pair<Head, Kept> read(const Digest& digest) const;
  std::filesystem::path write(const Head& head, const std::string& payload) const;
  void look_at_folder(bool if_changed = false);
  Added keep(const Head& head, Kept kept, const std::filesystem::path& written);
  void trim();
  void trim(std::uint64_t most, std::uint64_t (*amount)(const Entry&), void (ScanStore::*give_up)(Entry&));
  void forget_memory(Entry& entry) { entry.kept.record = nullptr; }
  void forget_file(Entry& entry);
  void forget(Entry& entry);
  void clean();
  std::optional<std::uint64_t> unused_since() const override;
  void evict(std::uint64_t wanted) override;

  const Kind kind_;
  const std::string suffix_;
  const std::uint64_t most_bytes_;
  const std::int64_t hours_;
  const std::filesystem::path folder_;  // empty: memory only
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  std::mutex look_mutex_;  // locked before mutex_
  std::optional<std::chrono::steady_clock::time_point> looked_;
  std::filesystem::file_time_type changed_;  // time of the folder, before it was read
  mutable std::mutex mutex_;
  std::string salt_;             // empty: not read yet
  numerics::MemoryShare share_;  // memory of the records
  std::vector<Entry> entries_;
};

/// Seconds since 1970.
std::int64_t unix_seconds();

/// The part of a measurement ID that may stand in a log.
std::string end_of_id(const std::string& measurement_id);

}  // namespace echotrain
