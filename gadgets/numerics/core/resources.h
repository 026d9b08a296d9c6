// The resources that all scans of a program share: the CPU threads, caches and pools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <typeindex>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

/// Plain data.
struct ResourceOptions {
  int threads = 0;                     ///< CPU threads, up to kMostThreads; 0: one per core that this process may use
  std::filesystem::path cache_folder;  ///< the folder for results that outlive a run; empty: none
  std::uint64_t plan_cache_bytes = std::uint64_t{2} << 30;        ///< bytes of NUFFT plans; 0 keeps none
  std::uint64_t operator_cache_bytes = std::uint64_t{2} << 30;    ///< bytes of operators F^H W F; 0 keeps none
  std::uint64_t trajectory_cache_bytes = std::uint64_t{1} << 30;  ///< bytes of trajectories and their weights; 0 keeps
                                                                  ///< none
  std::uint64_t disk_cache_bytes = std::uint64_t{4} << 30;        ///< bytes of files in cache_folder; 0 keeps none
  std::uint64_t scan_store_bytes = std::uint64_t{64} << 20;       ///< bytes of what scans store for later scans; 0
                                                                  ///< keeps none
  std::int64_t scan_store_hours = 24;                             ///< hours for which that is kept; 0 keeps none
  bool scan_store_disk = true;                                    ///< false: it is kept in memory only
  bool hopper = true;               ///< false: no Hopper kernels, so that tests can compare them with the portable ones
  bool graphs = true;               ///< false: no work is recorded as a CUDA graph, which some tools cannot follow
  std::uint64_t memory_budget = 0;  ///< bytes of host memory that all users together may take; 0: no bound

  static constexpr int kMostThreads = 4096;
};

/// Returns $XDG_CACHE_HOME/echotrain, else $HOME/.cache/echotrain, else an empty path.
std::filesystem::path user_cache_folder();

/// A server, a command-line run and a test each have one. Contexts keep it alive. Thread-safe.
///
/// Shared objects are found by their type, and made when they are first asked for: by T(Resources&) if T has this
/// constructor, else by T(). An object must not keep the Resources alive, nor a Context, which keeps them alive.
///
/// The constructor runs while the Resources are locked, so it must not wait for threads(): a piece of its work on
/// another thread that asks the Resources for anything would wait for that lock, and the constructor for the piece.
/// Until it returns, no scan gets any shared object. Long work belongs in a member function.
class Resources {
 public:
  /// Throws ResourceError when the threads cannot be started.
  explicit Resources(ResourceOptions options = {});
  ~Resources();
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  const ResourceOptions& options() const { return options_; }
  ThreadPool& threads() { return threads_; }
  /// The budget of host memory that all users of these resources share.
  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }

  /// The one T of these resources, which lives as long as they do.
  template <class T>
  T& get() {
    return *share<T>();
  }
  /// The shared T for callers that may outlive the resources.
  template <class T>
  std::shared_ptr<T> share() {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<void>& thing = things_[std::type_index(typeid(T))];
    if (!thing) thing = make<T>();
    return std::static_pointer_cast<T>(thing);
  }

 private:
  template <class T>
  std::shared_ptr<T> make() {
    if constexpr (std::is_constructible_v<T, Resources&>)
      return std::make_shared<T>(*this);
    else
      return std::make_shared<T>();
  }

  const ResourceOptions options_;
  const std::shared_ptr<MemoryBudget> memory_;
  ThreadPool threads_;
  std::recursive_mutex mutex_;  // an object may ask for another one while it is made
  std::map<std::type_index, std::shared_ptr<void>> things_;
};

}  // namespace echotrain::numerics
