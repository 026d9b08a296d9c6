// Choices of the tuner in a JSON file that several processes may share.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace echotrain::numerics {

/// An entry's numbers by their names.
using TuningEntry = std::map<std::string, std::int64_t>;

/// Never throws because of the file or its folder: a file that cannot be read counts as missing, and an entry that
/// cannot be written is not kept.
class TuningStore {
 public:
  /// With an empty name, nothing is kept.
  explicit TuningStore(std::string file) : file_(std::move(file)) {}

  std::optional<TuningEntry> find(const std::string& key) const;

  /// Adds an entry, and makes the file and its folder where they are missing. If another process was first and its
  /// entry satisfies `acceptable`, that entry stays and is returned, so that all agree; else `entry` is.
  TuningEntry add(const std::string& key, const TuningEntry& entry,
                  const std::function<bool(const TuningEntry&)>& acceptable) const;

 private:
  std::string file_;
};

}  // namespace echotrain::numerics
