// What scans leave for later scans, by measurement ID: in memory and, of some kinds, in files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <list>
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

/// Records of one kind, found by the measurement ID of the scan that left them, in memory and, if kind and options say
/// so, in files of the cache folder, which several processes of one user may share. Measurement IDs may name a patient:
/// only digests of them are kept (16 bytes of SHA-256), salted by a random number of the folder; other users cannot
/// read either. What is older than the options allow counts as missing, as does a file that is damaged, of another
/// version or of another ID; a folder that cannot be written keeps nothing. Beyond the bound, what is oldest goes.
/// Throws only std::bad_alloc. Thread-safe.
class ScanStore : private numerics::Droppable {
 public:
  struct Kind {
    const char* name;  ///< of the folder and of its files
    std::array<char, 8> magic;
    bool files = true;  ///< false: what it holds shows the patient, and stays in memory
  };
  ~ScanStore() override;
  std::int64_t hours() const { return hours_; }
  std::uint64_t most_bytes() const { return most_bytes_; }

 protected:
  /// A record, whatever its type.
  struct Kept {
    std::shared_ptr<const void> record;  // null: there is none
    std::uint64_t bytes = 0;             // in memory
    std::int64_t made_unix_s = 0;        // when [s] since 1970
  };
  using Digest = std::array<unsigned char, 16>;

  ScanStore(const numerics::Resources& resources, const Kind& kind);
  Kept find(const std::string& measurement_id);
  /// Replaces what was known of this ID; `payload` is what unpacked() takes, if there are files. Nothing is kept of an
  /// empty ID.
  void add(const std::string& measurement_id, Kept kept, const std::string& payload);
  /// The first 8 hexadecimal digits of digests, and their records, the newest first.
  std::vector<std::pair<std::string, Kept>> all();
  /// A record of a file; null where it is not one. Kinds without files have none.
  virtual Kept unpacked(std::string_view /*payload*/) const { return {}; }

 private:
  struct Entry {
    Digest digest;
    Kept kept;
    std::uint64_t used;  // when last, by the budget's clock
  };
  using Entries = std::list<Entry>;

  bool too_old(const Kept& kept) const;
  Digest digest_of(const std::string& measurement_id);
  std::filesystem::path file(const Digest& digest) const;
  Kept read(const Digest& digest) const;
  void write(const Digest& digest, const std::string& payload) const;
  std::vector<Digest> files() const;
  void keep(const Digest& digest, Kept kept);
  void count();
  Entries::const_iterator longest_unused() const;
  std::optional<std::uint64_t> unused_since() const override;
  void drop(std::uint64_t wanted) override;

  const Kind kind_;
  const std::string suffix_;
  const std::uint64_t most_bytes_;
  const std::int64_t hours_;
  const std::filesystem::path folder_;  // empty: memory only
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  mutable std::mutex mutex_;
  std::string salt_;             // empty: not read yet
  numerics::MemoryShare share_;  // of the entries
  Entries entries_;              // most recently added first
};

/// Seconds since 1970.
std::int64_t unix_seconds();

/// As much of a measurement ID as may stand in a log.
std::string end_of_id(const std::string& measurement_id);

}  // namespace echotrain
