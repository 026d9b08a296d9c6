// The mistakes of a file are found together, where one does not hide the others.
#pragma once

#include <utility>
#include <vector>

#include "config/node.h"

namespace echotrain::config {

/// While one lives, attempt() keeps this thread's errors instead of passing them on. What was read is then incomplete,
/// and good for finding more mistakes only. One at a time in a thread.
class Mistakes {
 public:
  Mistakes();
  ~Mistakes();
  Mistakes(const Mistakes&) = delete;
  Mistakes& operator=(const Mistakes&) = delete;

  /// Returns each once, in the order of their places.
  std::vector<ConfigError> all() const;

  /// True if one lives and has mistakes.
  static bool found();
  /// Does the work. Returns false after a ConfigError that has been kept; without a living Mistakes, passes it on.
  template <class Work>
  static bool attempt(Work&& work) {
    try {
      std::forward<Work>(work)();
      return true;
    } catch (const ConfigError& error) {
      if (!keep(error)) throw;
      return false;
    }
  }

 private:
  static bool keep(const ConfigError& error);
  std::vector<ConfigError> kept_;
};

}  // namespace echotrain::config
