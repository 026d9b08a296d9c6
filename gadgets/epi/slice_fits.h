// SliceFits makes the kernels of groups of simultaneous slices in the background, beside the frames that come
// meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gadgets/api/scan.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/parallel/slice_grappa.h"

namespace echotrain {

/// The input for the kernels of a group.
struct SliceGroup {
  std::vector<HostArray<cfloat>> blocks;     ///< [coil, y, x] for each slice: reference lines without gaps
  std::vector<HostArray<cfloat>> backwards;  ///< the same lines, read backwards; empty: directions do not count
  std::vector<double> turns;                 ///< for each slice, as in numerics::SliceReference
  std::int64_t step = 1, lines = 0;          ///< step and number of frames' lines
  std::vector<bool> reversed;                ///< those of frames' lines that were read backwards; empty: none counts

  std::int64_t coils() const { return blocks.front().shape()[0]; }
  std::int64_t samples() const { return blocks.front().shape()[2]; }
};

/// Kernels of groups, by numerics::fit_slices() on the host: the same bits on every thread. After start(), they are
/// made one after another on a thread, which ends with this object, after its current fit. Only the thread that made
/// this object may use it.
class SliceFits {
 public:
  using Key = std::pair<std::uint16_t, std::uint16_t>;  // encoding, and the slice that readouts name
  /// `beside`: makes that thread. It is made now, because a scan's thread may have a core of its own later (option
  /// `latency` of the server), which the threads that it starts then would share.
  SliceFits(Scan& scan, const numerics::SliceGrappaOptions& options, bool beside);
  ~SliceFits();
  SliceFits(const SliceFits&) = delete;
  SliceFits& operator=(const SliceFits&) = delete;

  /// True if start() may be called: there is a thread, and it has no work yet.
  bool may_start() const { return thread_.joinable() && !started_; }
  /// Starts the fits; call it once, with the groups in the order in which their frames are expected.
  void start(std::vector<std::pair<Key, SliceGroup>> groups);
  /// True if start() was given this group, for frames of as many lines, in these directions, coils and samples.
  bool has(const Key& key, std::int64_t lines, const std::vector<bool>& reversed, std::int64_t coils,
           std::int64_t samples) const;
  /// Returns the kernels of such a group, and forgets the group. The caller makes those whose turn has not come, and so
  /// waits for one fit at most. Throws as fit_slices() does.
  numerics::GrappaKernels take(const Key& key);
  /// Forgets a group that start() was given, if it was, because its references have changed.
  void drop(const Key& key);
  /// Makes the kernels of another group, on the caller's thread.
  numerics::GrappaKernels make(const SliceGroup& group);

 private:
  /// Kernels whose weights no context keeps, because contexts belong to one thread each.
  struct Fitted {
    numerics::GrappaKernels kernels;
    std::vector<cfloat> weights;
  };
  struct Job {
    SliceGroup group;
    std::atomic<bool> taken = false;
    std::promise<Fitted> promise;
  };
  Fitted fitted(numerics::Context& context, const SliceGroup& group) const;
  numerics::GrappaKernels placed(Fitted&& made) const;

  Scan* scan_;
  const numerics::SliceGrappaOptions options_;
  numerics::Context caller_context_;                   // of the caller's thread, on the CPU
  std::unique_ptr<numerics::Context> thread_context_;  // of the thread
  std::map<Key, std::shared_ptr<Job>> jobs_;           // jobs that were not asked for yet
  bool started_ = false;
  std::promise<std::vector<std::shared_ptr<Job>>> given_;  // groups given to the thread
  std::thread thread_;
};

}  // namespace echotrain
