// Choices of the tuner in a JSON file that several processes may share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace echotrain::numerics {

/// An entry's numbers by their names.
using TuningEntry = std::map<std::string, std::int64_t>;

/// Never throws because of the file or its folder: a file that cannot be read counts as missing, and an entry that
/// cannot be written is not kept. Of more than kMostEntries, the newest are kept.
class TuningStore {
 public:
  static constexpr std::size_t kMostEntries = 1024;
  /// With an empty name, nothing is kept.
  explicit TuningStore(std::string file) : file_(std::move(file)) {}

  std::optional<TuningEntry> find(const std::string& key) const;

  /// Adds an entry, and makes the file and its folder where they are missing. If another process was first and its
  /// entry satisfies `acceptable`, that entry stays and is returned, so that all agree; else `entry` is. `say` hears,
  /// for a log, what of the file is lost.
  TuningEntry add(const std::string& key, const TuningEntry& entry,
                  const std::function<bool(const TuningEntry&)>& acceptable,
                  const std::function<void(const std::string&)>& say = {}) const;

 private:
  std::string file_;
};

}  // namespace echotrain::numerics
