// A store of FFTW plans, one per context.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/transforms/fft/fft.h"

struct fftwf_plan_s;

namespace echotrain::numerics::cpu {

/// Plans for contiguous lines that are a fixed distance apart; FFTW is much slower at columns. Planned by estimate, so
/// that every run has the same bits.
class FftwPlans {
 public:
  using Plan = fftwf_plan_s*;
  FftwPlans() = default;
  FftwPlans(const FftwPlans&) = delete;
  FftwPlans& operator=(const FftwPlans&) = delete;
  ~FftwPlans() { clear(); }

  /// Forgets all plans when there are many. Call it while no plan is in use.
  void trim();
  /// Returns a plan for `lines` lines of n points. `from` and `to` are equal, or both aligned to 64 bytes. Throws
  /// ResourceError when FFTW has no plan.
  Plan get(std::int64_t n, std::int64_t lines, std::int64_t distance, Direction direction, cfloat* from, cfloat* to);

  /// Runs a plan on lines that are aligned as those of get() were. May be called from any thread.
  static void execute(Plan plan, cfloat* from, cfloat* to);
  /// True if FFTW can use its vector instructions on lines that begin here.
  static bool aligned(const cfloat* line);

 private:
  struct Key {
    int n, lines;
    std::int64_t distance;
    bool in_place;
    int sign, misalignment;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Plan plan;
    std::unique_ptr<HeapCharge> charge;
  };
  void clear();

  std::map<Key, Entry> plans_;
};

}  // namespace echotrain::numerics::cpu
