#include "gadgets/epi/slice_fits.h"

#include <algorithm>

#include "gadgets/numerics/core/heap_account.h"

namespace echotrain {
namespace {

numerics::ContextOptions beside(Scan& scan) {
  return {.stop_token = scan.compute.stop_token(), .group = scan.compute.group(), .account = scan.compute.account()};
}

/// Bytes of all slices' kernels, with all sources and with those that are left at either end of a frame, of lines that
/// all run forward, or that run both ways by turns.
std::uint64_t most_bytes(const SliceGroup& group, const numerics::SliceGrappaOptions& options) {
  const auto slices = static_cast<std::int64_t>(group.blocks.size());
  const std::int64_t ways = group.reversed.empty() ? 1 : 2;
  return static_cast<std::uint64_t>(ways * slices * (options.kernel_y + 1) * group.coils() * group.coils() *
                                    options.kernel_x * options.kernel_y) *
         sizeof(cfloat);
}

}  // namespace

SliceFits::SliceFits(Scan& scan, const numerics::SliceGrappaOptions& options, bool with_thread)
    : scan_(&scan),
      options_(options),
      caller_context_(numerics::Backend::cpu, scan.compute.shared_resources(), beside(scan)) {
  if (!with_thread) return;
  thread_context_ =
      std::make_unique<numerics::Context>(numerics::Backend::cpu, scan.compute.shared_resources(), beside(scan));
  thread_ = std::thread([this, given = given_.get_future(), heap = numerics::HeapAccount::of_thread()]() mutable {
    const numerics::HeapScope allocates(heap);
    for (const std::shared_ptr<Job>& job : given.get()) {
      if (job->taken.exchange(true)) continue;
      try {
        job->promise.set_value(fitted(*thread_context_, job->group));
      } catch (...) {
        job->promise.set_exception(std::current_exception());
      }
    }
  });
}

SliceFits::~SliceFits() {
  for (auto& [key, job] : jobs_) job->taken = true;  // the thread leaves out jobs that nobody asks for
  if (!thread_.joinable()) return;
  if (!started_) given_.set_value({});
  thread_.join();
}

void SliceFits::start(std::vector<std::pair<Key, SliceGroup>> groups) {
  std::vector<std::shared_ptr<Job>> jobs;
  std::uint64_t bytes = 0;
  for (auto& [key, group] : groups) {
    auto job = std::make_shared<Job>();
    bytes += most_bytes(group, options_);
    job->group = std::move(group);
    jobs.push_back(std::move(job));
  }
  numerics::MemoryShare(scan_->compute.account()).grow_to(bytes);  // makes room for them
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs_[groups[i].first] = jobs[i];
  started_ = true;
  given_.set_value(std::move(jobs));
}

bool SliceFits::has(const Key& key, std::int64_t lines, const std::vector<bool>& reversed, std::int64_t coils,
                    std::int64_t samples) const {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return false;
  const SliceGroup& group = found->second->group;
  return group.lines == lines && group.reversed == reversed && group.coils() == coils && group.samples() == samples;
}

numerics::GrappaKernels SliceFits::take(const Key& key) {
  const std::shared_ptr<Job> job = std::move(jobs_.extract(key).mapped());
  const auto forget = [&] {
    job->group = {};  // the thread may keep the job, but these arrays are of the scan's context
  };
  try {
    Fitted made = job->taken.exchange(true) ? job->promise.get_future().get() : fitted(caller_context_, job->group);
    forget();
    return placed(std::move(made));
  } catch (const std::invalid_argument&) {
    forget();
    throw;
  }
}

void SliceFits::drop(const Key& key) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  const std::shared_ptr<Job> job = std::move(found->second);
  jobs_.erase(found);
  if (job->taken.exchange(true)) return;  // the thread has begun, and keeps the memory that it uses until its end
  job->group = {};
}

numerics::GrappaKernels SliceFits::make(const SliceGroup& group) { return placed(fitted(caller_context_, group)); }

SliceFits::Fitted SliceFits::fitted(numerics::Context& context, const SliceGroup& group) const {
  std::vector<numerics::SliceReference> references;
  for (std::size_t m = 0; m < group.blocks.size(); ++m) {
    references.push_back({group.blocks[m].cview(), group.turns[m]});
    if (!group.backwards.empty()) references.back().reversed = group.backwards[m].cview();
  }
  Fitted out;
  out.kernels = numerics::fit_slices(context, references, group.step, group.lines, options_, group.reversed);
  out.weights.assign(out.kernels.weights.data(), out.kernels.weights.data() + out.kernels.weights.size());
  out.kernels.weights = {};
  return out;
}

numerics::GrappaKernels SliceFits::placed(Fitted&& made) const {
  made.kernels.weights =
      scan_->compute.upload<cfloat>({made.weights.data(), {static_cast<std::int64_t>(made.weights.size())}});
  return std::move(made.kernels);
}

}  // namespace echotrain
