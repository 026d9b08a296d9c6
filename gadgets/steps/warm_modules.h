// WarmModules are processes that have loaded a user's module, and wait for a scan.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/steps/python_peer.h"

namespace echotrain {

/// Keeps StepSettings::warm processes of the modules that scans have used last, as nearly as many of each as possible.
/// A process serves one scan, and then ends: another one takes its place a second later, so that a scan's first image
/// does not wait for it. One that has ended, or whose files have changed, is replaced; one that ended before it had
/// loaded its module, only after a scan has asked for the module again. The memory budget counts a waiting process as
/// one at work, and drops it when a scan wants the memory. One of a program's Resources. Thread-safe.
class WarmModules final : public numerics::Evictable {
 public:
  explicit WarmModules(numerics::Resources& resources);
  ~WarmModules() override;

  /// Returns a process that has loaded this module; no value if there is none. In either case others will wait for the
  /// next scans.
  std::optional<ModuleProcess> take(const StepSettings& settings, const PythonStart& start,
                                    const std::vector<std::string>& arguments);
  /// Returns how many have loaded their modules.
  std::size_t ready();

  std::optional<std::uint64_t> unused_since() const override;
  void evict(std::uint64_t wanted) override;

 private:
  struct Kind {
    StepSettings settings;
    PythonStart start;
    std::vector<std::string> arguments;
    bool broken = false;  // its last process has ended before it was ready
    bool is(const PythonStart& other, const std::vector<std::string>& more) const;
  };
  struct Waiting {
    std::shared_ptr<Kind> kind;
    ModuleProcess process;
    std::string files;  // that it has loaded, as they were
    bool ready = false;
    std::uint64_t since = 0, bytes = 0;
  };
  void work(const std::stop_token& stop);
  std::list<Waiting> take_out_bad();
  std::shared_ptr<Kind> wanted() const;
  void end(std::list<Waiting>&& gone);

  const std::shared_ptr<numerics::MemoryBudget> budget_;
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::list<std::shared_ptr<Kind>> kinds_;  // the last one used first; at most most_
  std::list<Waiting> waiting_;              // the oldest first
  std::jthread thread_;                     // from the first take() on
};

}  // namespace echotrain
