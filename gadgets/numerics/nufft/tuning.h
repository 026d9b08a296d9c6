// How a NUFFT plan cuts its work for this machine. A few ways are tried once per device and class of problems, and the
// best is remembered on disk. The software of Sumanaweera and Liu, "Medical Image Reconstruction with the FFT", GPU
// Gems 2, chapter 48, section 48.4.3, picks its transition point likewise, by trying them all (docs/seeds.md).
//
// Which way is chosen changes the order of sums and so the last bits of a result, never its accuracy.
// Without ResourceOptions::autotune default_tuning() is taken: the same bits anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
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

/// Tries and remembers. Thread-safe: one trial at a time.
class NufftTuner {
 public:
  /// `file`: where choices are kept; empty: in this object only. `seconds`: about how long the trial of one class may
  /// take.
  explicit NufftTuner(std::string file, double seconds = kSeconds);
  /// Keeps choices in tuning.json in the resources' cache folder, if they have one.
  explicit NufftTuner(const Resources& resources);

  /// The tuning for a problem, from memory, from the file, or else by trial on a part of this very trajectory.
  /// Arguments as for NufftPlan::make(); `coils`: how many will probably be transformed at once. A problem that takes
  /// less than about a millisecond gets the default. Never fails for want of memory or disk: then it is the default.
  NufftTuning tuned(Context& context, HostView<const double> coordinates, const Shape& image,
                    const NufftOptions& options, std::int64_t coils);

  /// How many classes this object has tried.
  int trials() const;

 private:
  static constexpr double kSeconds = 0.3;
  const TuningStore store_;
  const double seconds_;
  mutable std::timed_mutex mutex_;
  std::map<std::string, NufftTuning> known_;
  int trials_ = 0;
};

/// The choice of the tuner in the context's resources, or the default if they turn tuning off.
NufftTuning tuned(Context& context, HostView<const double> coordinates, const Shape& image, const NufftOptions& options,
                  std::int64_t coils);

}  // namespace echotrain::numerics
