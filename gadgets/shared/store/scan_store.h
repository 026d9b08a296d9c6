// What scans leave for later scans, by client, device and measurement ID: in memory and, of some kinds, in files.
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

/// Where a record is found. Each of these is chosen by those who send scans, but for the owner.
struct RecordKey {
  std::string owner;           ///< the client's identity, which the program knows; empty: it has no clients
  std::string device;          ///< that measured it, by protocol::device_of(); empty: a namespace of its own
  std::string measurement_id;  ///< empty: nothing is kept
  std::string client{};        ///< in whose part a record is (ScanPort::client); empty: the owner's own
};

/// Records of one kind, found by owner, device and measurement ID of the scan that left them, in memory and, if kind
/// and options say so, in files of the cache folder, which several processes of one user may share. Nobody finds,
/// replaces or lists what another owner left. Keys may name a patient: only digests of them are kept (16 bytes of
/// SHA-256), salted by a random number of the folder; other users cannot read either. What is older than the options
/// allow counts as missing, as does a file that is damaged, of another version or of another key; a folder that cannot
/// be written keeps nothing.
///
/// The bound on bytes holds for memory and, counted in blocks, for files, each; kMostEntries for both together. Beyond
/// one, the client that has most of it loses what was unused for longest: who has no more than an equal part loses
/// nothing to others. No write lists the folder more than once a minute. Throws only std::bad_alloc. Thread-safe.
class ScanStore : private numerics::Droppable {
 public:
  struct Kind {
    const char* name;  ///< of the folder and of its files
    std::array<char, 8> magic;
    bool files = true;  ///< false: what it holds shows the patient, and stays in memory
  };
  enum class Added { no, fresh, replaced };  ///< replaced: the same owner had left another one of this key
  static constexpr std::size_t kMostEntries = 4096;

  ~ScanStore() override;
  std::int64_t hours() const { return hours_; }
  std::uint64_t most_bytes() const { return most_bytes_; }
  /// Files of another version's format, which are not read: it did not note whose they are.
  std::size_t former_files();

 protected:
  /// A record, whatever its type.
  struct Kept {
    std::shared_ptr<const void> record;  // null: there is none
    std::uint64_t bytes = 0;             // in memory
    std::int64_t made_unix_s = 0;        // when [s] since 1970
  };

  ScanStore(const numerics::Resources& resources, const Kind& kind);
  Kept find(const RecordKey& key);
  /// What the owner has of this measurement, of any device; nothing where that is not one record but several.
  Kept find_of_any_device(const std::string& owner, const std::string& measurement_id);
  /// Replaces what was known of this key; `payload` is what unpacked() takes, if there are files.
  Added add(const RecordKey& key, Kept kept, const std::string& payload);
  /// The first 8 hexadecimal digits of digests, and their records, the newest first.
  std::vector<std::pair<std::string, Kept>> all();
  /// A record of a file; null where it is not one. Kinds without files have none.
  virtual Kept unpacked(std::string_view /*payload*/) const { return {}; }

 private:
  using Digest = std::array<unsigned char, 16>;
  /// What the index and a file's head say of a record.
  struct Head {
    Digest digest, client, scan;  // of the key; of its client; of its owner and measurement ID
    std::int64_t made_unix_s;
  };
  struct Entry {
    Head head;
    Kept kept;           // no record: it is on the disk only
    std::uint64_t disk;  // bytes of its file's blocks; 0: there is none
    std::uint64_t used;  // when last, by the budget's clock
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
  void drop(std::uint64_t wanted) override;

  const Kind kind_;
  const std::string suffix_;
  const std::uint64_t most_bytes_;
  const std::int64_t hours_;
  const std::filesystem::path folder_;  // empty: memory only
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  std::mutex look_mutex_;  // before mutex_
  std::optional<std::chrono::steady_clock::time_point> looked_;
  std::filesystem::file_time_type changed_;  // the folder, before it was looked at
  mutable std::mutex mutex_;
  std::string salt_;             // empty: not read yet
  numerics::MemoryShare share_;  // of the records in memory
  std::vector<Entry> entries_;
};

/// Seconds since 1970.
std::int64_t unix_seconds();

/// As much of a measurement ID as may stand in a log.
std::string end_of_id(const std::string& measurement_id);

}  // namespace echotrain
