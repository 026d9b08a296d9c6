// Noise covariances that scans leave for later scans.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// What a noise scan tells. It holds nothing of the patient.
struct NoiseRecord {
  int coils = 0;
  std::vector<numerics::cdouble> covariance;  ///< [coil, coil] in the units of the readouts
  double dwell_us = 0;                        ///< 0: unknown
  std::int64_t samples = 0;
  std::vector<std::string> labels;  ///< of the coils, in the order of channels; empty: unknown
  std::int64_t made_unix_s = 0;     ///< [s] since 1970

  std::uint64_t bytes() const;
};

/// Noise by the measurement ID of the scan that measured it, in memory and, if the options say so, in files of the
/// cache folder, which several processes of one user may share. Measurement IDs may name a patient: only digests of
/// them are kept (16 bytes of SHA-256), salted by a random number of the folder; other users cannot read either. What
/// is older than the options allow counts as missing, as does a file that is damaged, of another version or of another
/// ID; a folder that cannot be written keeps nothing. Beyond the bound, what is oldest goes. Throws only
/// std::bad_alloc. Thread-safe.
class NoiseStore : private numerics::Droppable {
 public:
  explicit NoiseStore(const numerics::Resources& resources);
  ~NoiseStore() override;

  /// Null: not known.
  std::shared_ptr<const NoiseRecord> find(const std::string& measurement_id);
  /// Replaces what was known of this ID. An empty ID, and a record that is not a matrix, is not kept.
  void add(const std::string& measurement_id, const NoiseRecord& record);

  struct Listed {
    std::string digest;  ///< its first 8 hexadecimal digits
    std::shared_ptr<const NoiseRecord> record;
  };
  /// All that is known, the newest first.
  std::vector<Listed> list();

  std::int64_t hours() const { return hours_; }

 private:
  using Digest = std::array<unsigned char, 16>;
  struct Entry {
    Digest digest;
    std::shared_ptr<const NoiseRecord> record;
    std::uint64_t used;  // when last, by the budget's clock
  };
  using Entries = std::list<Entry>;

  bool too_old(const NoiseRecord& record) const;
  Digest digest_of(const std::string& measurement_id);
  std::filesystem::path file(const Digest& digest) const;
  std::shared_ptr<const NoiseRecord> read(const Digest& digest) const;
  void write(const Digest& digest, const NoiseRecord& record) const;
  std::vector<Digest> files() const;
  void make_room(std::uint64_t bytes) const;
  void keep(const Digest& digest, std::shared_ptr<const NoiseRecord> record);
  void count();
  Entries::const_iterator longest_unused() const;
  std::optional<std::uint64_t> unused_since() const override;
  void drop(std::uint64_t wanted) override;

  const std::uint64_t most_bytes_;
  const std::int64_t hours_;
  const std::filesystem::path folder_;  // empty: memory only
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  mutable std::mutex mutex_;
  std::string salt_;             // empty: not read yet
  numerics::MemoryShare share_;  // of the entries
  Entries entries_;              // most recently added first
};

}  // namespace echotrain
