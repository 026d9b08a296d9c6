// The cost bound limits what one input may cost, for targets that run whole sessions: a peer's bytes must not take the
// machine.
#pragma once

#include <sanitizer/allocator_interface.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz.h"

namespace echotrain::fuzz {

/// The bytes that the process has allocated and not freed, now and at most. Resident memory would not tell: the
/// sanitizer keeps 256 MiB of what was freed.
class Heap {
 public:
  /// To be called before the first input.
  static void watch() {
    require(__sanitizer_install_malloc_and_free_hooks(took, gave) != 0, "allocations cannot be watched");
  }
  /// Forgets the peak.
  static std::int64_t mark() { return most = alive.load(); }
  static std::int64_t peak() { return most; }

 private:
  static void took(const volatile void* /*memory*/, std::size_t size) {
    const std::int64_t now = alive += static_cast<std::int64_t>(size);
    for (std::int64_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
  }
  static void gave(const volatile void* memory) {
    alive -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory)));
  }
  static inline std::atomic<std::int64_t> alive = 0, most = 0;
};

struct Cost {
  double seconds;    ///< of processors' time, of all threads
  std::int64_t mib;  ///< of memory at once, beyond what the process had before
};

/// Stops the fuzzer at the end of an input that has cost more; ECHOTRAIN_FUZZ_SHOW=1 prints what each costs.
class CostBound {
 public:
  explicit CostBound(const Cost& most) : most_(most) {}
  ~CostBound() {
    const double seconds = cpu_s() - begun_s_;
    const std::int64_t mib = (Heap::peak() - begun_bytes_) >> 20;
    if (std::getenv("ECHOTRAIN_FUZZ_SHOW") != nullptr)
      std::fprintf(stderr, "cost: %.3f s of the processor, %ld MiB\n", seconds, static_cast<long>(mib));
    hold("seconds of the processor", seconds, most_.seconds);
    hold("MiB of memory at once", static_cast<double>(mib), static_cast<double>(most_.mib));
  }
  CostBound(const CostBound&) = delete;
  CostBound& operator=(const CostBound&) = delete;

 private:
  static double cpu_s() {
    timespec now{};
    require(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0, "the processor's time cannot be read");
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  static void hold(const char* what, double taken, double most) {
    if (taken <= most) return;
    std::fprintf(stderr, "an input takes %.1f %s, where %.1f are allowed\n", taken, what, most);
    require(false, "an input costs more than its target's bound");
  }

  const Cost most_;
  const double begun_s_ = cpu_s();
  const std::int64_t begun_bytes_ = Heap::mark();
};

}  // namespace echotrain::fuzz
