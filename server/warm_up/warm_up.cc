#include "server/warm_up/warm_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/cuda/receive_memory.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "protocol/wire/slab_pool.h"
#include "server/base/log.h"
#include "server/base/priority.h"
#include "server/warm_up/small_scans.h"

namespace echotrain::server {
namespace {

constexpr int kLast = 19;  // steps of nice(2)
// The sizes of small scans: a GPU's kernels differ with the size of the problem, so that these are like those of scans.
constexpr SmallScanSize kOnCpu{64, 4}, kOnGpu{160, 12};
constexpr std::size_t kBatch = 16;  // readouts that come together

struct Target {
  numerics::Backend backend;
  int device;
};

// Lengths of axes are even, with and without oversampling; multiples of 16 are the commonest.
constexpr std::int64_t kShortest = 48, kLongest = 512, kCommon = 16, kTransforms = 8;
// This much device memory the pool keeps for the scans that follow.
constexpr std::int64_t kPoolBytes = 128 << 20;

/// Does what the thread of a scan does before its pipeline begins.
void receive_into_pinned_memory(numerics::Resources& resources) {
  const std::shared_ptr<std::byte[]> block = resources.get<numerics::ReceiveMemory>().take();
  if (block) resources.get<protocol::SlabPool>().lend({block.get(), numerics::ReceiveMemory::kBytes}, block);
}

void run_scan(const Environment& environment, const Target& target, const PipelineCatalogue::Plan& plan, SmallScan scan,
              const std::stop_token& stop) {
  const std::shared_ptr<numerics::Resources>& resources = environment.resources;
  numerics::ContextOptions options;
  options.device = target.device;
  options.memory_budget = WarmUp::kMostMemory;
  options.stop_token = stop;
  numerics::Context compute(target.backend, resources, options);
  if (target.backend == numerics::Backend::cuda) receive_into_pinned_memory(*resources);
  std::optional<BusyPolling::Wait> wait;  // who polls for images sleeps otherwise
  if (environment.busy_polling) wait.emplace(*environment.busy_polling);
  Pipeline pipeline(plan, compute, {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const auto&) {}});
  try {
    pipeline.start(scan.header);
    for (auto next = scan.readouts.begin(); next != scan.readouts.end();) {
      const auto end = next + std::min<std::ptrdiff_t>(kBatch, std::distance(next, scan.readouts.end()));
      pipeline.push({std::make_move_iterator(next), std::make_move_iterator(end)},
                    std::distance(end, scan.readouts.end()));
      next = end;
    }
    pipeline.finish(End::complete);
  } catch (...) {
    try {
      pipeline.wait();                 // images call the sink until then
    } catch (const std::exception&) {  // the first error is the one to tell
    }
    throw;
  }
  pipeline.wait();
}

/// Transforms along rows and columns of a length: the driver compiles and stores a kernel for each, some 50 ms where it
/// has none yet, whatever the other axis' length is. It uses resources of its own, so that the plans go: those that
/// scans leave are kept for the next ones, up to a number.
void run_transforms(const Environment& environment, const Target& target, std::int64_t length,
                    const std::stop_token& stop) {
  const auto own = std::make_shared<numerics::Resources>(numerics::ResourceOptions{.threads = 1});
  numerics::ContextOptions options;
  options.device = target.device;
  options.memory_budget = WarmUp::kMostMemory;
  options.stop_token = stop;
  options.account = std::make_shared<numerics::MemoryAccount>(environment.memory);
  numerics::Context compute(target.backend, own, options);
  auto values = compute.zeros<numerics::cfloat>({kTransforms, length, length});
  numerics::fft(compute, values.view(), 2, numerics::Direction::inverse);
  numerics::fft(compute, values.view(), 2, numerics::Direction::forward);
  compute.synchronize();
}

/// Adds the steps of one GPU: memory before all else, and lengths after scans of each kind.
void add_device_steps(const Environment& environment, const Target& target, std::vector<WarmUp::Step>& before,
                      std::vector<WarmUp::Step>& after) {
  const std::string place = fmt::format("on {} {}", numerics::to_string(target.backend), target.device);
  before.push_back({"memory " + place, [&environment, target](const std::stop_token& stop) {
                      numerics::ContextOptions options;
                      options.device = target.device;
                      options.stop_token = stop;
                      numerics::Context compute(target.backend, environment.resources, options);
                      receive_into_pinned_memory(*environment.resources);
                      compute.allocate<std::byte>({kPoolBytes});
                    }});
  for (const bool common : {true, false})
    for (std::int64_t length = kShortest; length <= kLongest; length += 2) {
      if ((length % kCommon == 0) != common) continue;
      after.push_back({fmt::format("transforms_of_{} {}", length, place),
                       [&environment, target, length](const std::stop_token& stop) {
                         run_transforms(environment, target, length, stop);
                       }});
    }
}

std::string text_of(const config::Node& node) {
  std::string text;
  switch (node.kind()) {
    case config::Node::Kind::scalar:
      return node.as_string();
    case config::Node::Kind::sequence:
      for (const config::Node& each : node.as_sequence()) text += text_of(each) + ",";
      break;
    case config::Node::Kind::map:
      for (const auto& [key, mark, value] : node.as_map()) text += key + ":" + text_of(value) + ",";
      break;
    case config::Node::Kind::null:
      break;
  }
  return "(" + text + ")";
}

/// The gadgets and the parameters of a file, without its name and its comments.
std::string fingerprint(const config::PipelineSpec& spec, SmallScanKind kind) {
  const bool accelerated = kind == SmallScanKind::accelerated || kind == SmallScanKind::accelerated_epi;
  std::string text =
      fmt::format("{} {} {}", static_cast<int>(kind), static_cast<int>(spec.frame.kind), spec.frame.readouts);
  for (const config::GadgetSpec& gadget : accelerated && !spec.accelerated.empty() ? spec.accelerated : spec.gadgets)
    text += fmt::format(" {}{}", gadget.name, text_of(gadget.parameters));
  return text;
}

}  // namespace

std::vector<WarmUp::Step> WarmUp::steps_of(const Environment& environment) {
  struct Wanted {
    const config::PipelineSpec* spec;
    SmallScanKind kind;
  };
  std::vector<Wanted> first, others;
  std::set<std::string> known;
  std::set<SmallScanKind> kinds;
  const auto want = [&](const config::PipelineSpec& spec, bool is_default) {
    for (const SmallScanKind kind : small_scans_of(spec)) {
      if (!known.insert(fingerprint(spec, kind)).second) continue;
      const bool new_kind = kinds.insert(kind).second;
      (is_default || new_kind ? first : others).push_back({&spec, kind});
    }
  };
  const config::PipelineLibrary& library = environment.catalogue.library();
  if (const auto* chosen =
          environment.catalogue.has_default() ? library.find(environment.options.default_pipeline) : nullptr)
    want(*chosen, true);
  for (const config::PipelineSpec& spec : library.all()) want(spec, false);

  const std::vector<Place> places = environment.compute->places();
  std::vector<Step> steps, lengths;
  const auto backend_of = [&](const Wanted& each) -> std::optional<numerics::Backend> {
    try {
      return choose_backend(*each.spec, environment.options.backend);
    } catch (const numerics::ResourceError&) {
      return std::nullopt;  // its scans are refused
    }
  };
  const auto on_gpu = [&](const Wanted& each) { return backend_of(each) == numerics::Backend::cuda; };
  if (std::any_of(first.begin(), first.end(), on_gpu) || std::any_of(others.begin(), others.end(), on_gpu))
    for (const Place& place : places)
      if (place.backend == numerics::Backend::cuda)
        add_device_steps(environment, {place.backend, place.device}, steps, lengths);
  const auto add_scan = [&](const Wanted& each) {
    const auto backend = backend_of(each);
    if (!backend) return;
    const auto plan = environment.catalogue.by_name(each.spec->name);
    for (const Place& place : places) {
      if (!plan || place.backend != *backend) continue;
      const Target target{*backend, place.device};
      const SmallScanSize size = *backend == numerics::Backend::cuda ? kOnGpu : kOnCpu;
      steps.push_back({fmt::format("{} on {} {}", each.spec->name, numerics::to_string(*backend), place.device),
                       [&environment, target, plan = *plan, each, size](const std::stop_token& stop) {
                         run_scan(environment, target, plan, small_scan(*each.spec, each.kind, size), stop);
                       }});
    }
  };
  std::for_each(first.begin(), first.end(), add_scan);
  steps.insert(steps.end(), std::make_move_iterator(lengths.begin()), std::make_move_iterator(lengths.end()));
  std::for_each(others.begin(), others.end(), add_scan);
  return steps;
}

WarmUp::WarmUp(std::shared_ptr<ComputePool> compute, std::vector<Step> steps, std::function<void()> done,
               Clock::duration most_time)
    : compute_(std::move(compute)),
      steps_(std::move(steps)),
      done_(std::move(done)),
      most_time_(most_time),
      thread_([this](const std::stop_token& stop) {
        numerics::Progress::of_thread() = progress_;
        run(stop);
        progress_->end();
      }) {}

void WarmUp::run(const std::stop_token& stop) {
  lower_priority(kLast);
  Clock::duration spent{};
  std::size_t next = 0;
  while (next < steps_.size() && spent < most_time_) {
    auto free = [&] {
      const numerics::Progress::Wait wait(*progress_);
      return compute_->wait_for_quiet(next == 0 ? Clock::duration{} : kQuiet, stop);
    }();
    if (!free) return;
    const std::stop_callback ends(stop, [&] { free->request_stop(); });
    while (next < steps_.size() && spent < most_time_ && !free->stop_requested()) {
      const Step& step = steps_[next];
      const auto began = Clock::now();
      std::string what;
      const numerics::Progress::Stay here(progress_.get(), step.name);
      progress_->forget_device();
      try {
        step.run(free->get_token());
        ++next;
      } catch (const numerics::Stopped&) {
        what = ": stopped by a scan";
      } catch (const std::exception& error) {  // who sends such a scan is told
        what = fmt::format(": {}", error.what());
        ++next;
      }
      const auto took = Clock::now() - began;
      spent += took;
      write_log(LogLevel::debug, fmt::format("warm-up: {}, {:.1f} ms{}", step.name,
                                             std::chrono::duration<double, std::milli>(took).count(), what));
    }
  }
  write_log(LogLevel::debug, fmt::format("warm-up: {} of {} steps in {:.2f} s", next, steps_.size(),
                                         std::chrono::duration<double>(spent).count()));
  if (done_) done_();
}

}  // namespace echotrain::server
