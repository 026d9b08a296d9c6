// How a NUFFT plan cuts its work for this machine. A few ways are tried once per device and class of problems, at a
// time when no scan runs, and the best is remembered on disk; until then plans take default_tuning(). The software of
// Sumanaweera and Liu, "Medical Image Reconstruction with the FFT", GPU Gems 2, chapter 48, section 48.4.3, picks its
// transition point likewise, by trying them all (docs/seeds.md).
//
// Which way is chosen changes the order of sums and so the last bits of a result, never its accuracy.
// Without ResourceOptions::autotune default_tuning() is taken: the same bits anywhere.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/nufft/tuning_store.h"

namespace echotrain::numerics {

struct NufftOptions;

struct NufftTuning {
  std::int32_t tile[3] = {1, 1, 1};  ///< grid points of a full tile, slowest axis first; fixed on CUDA
  std::int64_t most_piece = 512;     ///< samples that are gathered in one piece of a tile
  std::int32_t most_group = 8;       ///< coils gridded together on the CPU: up to 8, 4 or 1
  std::int32_t most_threads = 0;     ///< that grid on the CPU; 0: all of the pool
  bool operator==(const NufftTuning&) const = default;
};

/// "tiles of 32 x 32, pieces of 8192 samples, 8 coils together, all threads", for logs.
std::string describe(const NufftTuning& tuning);

/// A fair choice for every problem, always the same. dims: 1..3.
NufftTuning default_tuning(int dims, int kernel_width, Backend backend);

/// What is tried and remembered together: "2d, width 5, 4^9 grid points, 4^0 samples each, 5+ coils". `grid_points` of
/// the oversampled grid.
std::string problem_class(int dims, int kernel_width, double grid_points, double samples, std::int64_t coils);

/// All that may be tried or remembered for a backend with a pool of `threads`. The default comes first.
std::vector<NufftTuning> candidate_tunings(int dims, int kernel_width, Backend backend, int threads);

/// Remembers what was found, and finds out more when it is told to. Thread-safe.
class NufftTuner {
 public:
  /// `file`: where choices are kept; empty: in this object only. `seconds`: about how long the trial of one class may
  /// take.
  explicit NufftTuner(std::string file, double seconds = kSeconds);
  /// Keeps choices in tuning.json in the resources' cache folder, if they have one.
  explicit NufftTuner(const Resources& resources);

  /// The tuning for a problem, from memory or from the file; else the default, at once, and a part of this very
  /// trajectory is kept for try_next(). Arguments as for NufftPlan::make(); `coils`: how many will probably be
  /// transformed at once. A problem that takes less than about a millisecond gets the default for good.
  NufftTuning tuned(Context& context, HostView<const double> coordinates, const Shape& image,
                    const NufftOptions& options, std::int64_t coils);

  /// What a plan is made for, without its trajectory.
  struct Kind {
    Backend backend = Backend::cpu;
    std::int64_t samples = 0;
    const Shape& image;
    const NufftOptions& options;
    std::int64_t coils = 0;
  };
  /// What this object knows of such problems; none: tuned() would give the default, or has to look into the file.
  std::optional<NufftTuning> known(Resources& resources, const Kind& kind) const;

  /// Tries out what tuned() was first asked for and did not know; takes `seconds`, and the machine or the device to
  /// itself. Says what was found, for logs; none: nothing is left to try, or `stop` was requested, and it will be tried
  /// next time. A class that cannot be tried for want of memory gets the default.
  std::optional<std::string> try_next(const std::shared_ptr<Resources>& resources, const std::stop_token& stop = {});
  /// Classes that wait for a trial.
  std::size_t wishes() const;
  /// How many classes this object has tried.
  int trials() const;

 private:
  static constexpr double kSeconds = 0.3;
  struct Wish;
  NufftTuner(std::string file, double seconds, std::shared_ptr<MemoryAccount> account);
  void wish_for(const Wish& what, HostView<const double> coordinates, const Shape& image, double work);

  const TuningStore store_;
  const double seconds_;
  const std::shared_ptr<MemoryAccount> account_;  // pays for what waits for a trial; null: nobody does
  std::mutex trying_;                             // one trial at a time
  mutable std::mutex mutex_;                      // the rest
  std::map<std::string, NufftTuning> known_;
  std::set<std::string> looked_up_;  // classes that the file did not have
  std::list<std::shared_ptr<Wish>> wishes_;
  int trials_ = 0;
};

/// What the tuner of the context's resources knows, or the default if they turn tuning off.
NufftTuning tuned(Context& context, HostView<const double> coordinates, const Shape& image, const NufftOptions& options,
                  std::int64_t coils);

}  // namespace echotrain::numerics
