// Eigenvalues is a cache of largest eigenvalues, which scans share.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "gadgets/api/items.h"

namespace echotrain {

/// The largest eigenvalues of operators, with or without coil maps, shared by scans. Thread-safe.
class Eigenvalues {
 public:
  /// Returns 0 if it is not known yet.
  double find(const NormalEquations& of) const;
  void add(const NormalEquations& of, double value);

 private:
  struct Known {
    std::weak_ptr<const numerics::NormalOperator> matrix;
    std::weak_ptr<void> maps;
    bool has_maps;
    double value;
  };
  mutable std::mutex mutex_;
  std::vector<Known> known_;  // most recent last
};

}  // namespace echotrain
