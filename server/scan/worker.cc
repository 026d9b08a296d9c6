#include "server/scan/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "gadgets/engine/host/host_parameters.h"
#include "gadgets/numerics/core/cuda/receive_memory.h"
#include "gadgets/numerics/core/team/team.h"
#include "gadgets/shared/program/scan_environment.h"
#include "protocol/data/meta.h"
#include "protocol/files/asset_folder.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/slab_pool.h"
#include "server/base/clock.h"
#include "server/base/priority.h"
#include "server/memory/memory_estimate.h"

namespace echotrain::server {

using protocol::Level;

namespace {
// After so long without data no thread spins for the scan until something comes: a breath hold, a long repetition time.
constexpr std::chrono::milliseconds kSoon{500};

/// A message that cannot be used, with the error that its client is told.
struct Refusal : std::runtime_error {
  explicit Refusal(protocol::Error its_error) : std::runtime_error(its_error.message), error(std::move(its_error)) {}
  protocol::Error error;
};

std::vector<int> devices_of(const ScanPlace& place) {
  std::vector<int> devices{place.device};
  devices.insert(devices.end(), place.others.begin(), place.others.end());
  return devices;
}

/// Tells the scan's load that its thread computes, as long as it lives.
class Computing {
 public:
  explicit Computing(ScanLoad* load) : load_(load) {
    if (load_ != nullptr) load_->begin(Clock::now());
  }
  ~Computing() {
    if (load_ != nullptr) load_->end(Clock::now());
  }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  ScanLoad* const load_;
};
}  // namespace

int yields(std::int64_t beside, int cores) {
  constexpr double kStep = 1.25;  // of the kernel's weights
  // A higher step would make others wait long for what such a scan makes for all: plans, operators, trajectories.
  constexpr int kMost = 5;
  if (beside < cores) return 0;
  const double share = static_cast<double>(beside + 1) / std::max(1, cores);
  return std::min(kMost, static_cast<int>(std::lround(std::log(share) / std::log(kStep))));
}

Worker::Worker(ScanRequest request, ScanPlace place, const config::ServerOptions& options,
               const protocol::Limits& limits, std::shared_ptr<numerics::Resources> resources,
               std::shared_ptr<QueueMemory> queues, std::shared_ptr<Outbox> outbox, SessionLog log,
               std::shared_ptr<ScanMeter> meter, std::shared_ptr<Readiness> readiness, std::shared_ptr<ImageSink> dicom,
               std::function<void()> wake)
    : request_(std::move(request)),
      place_(std::move(place)),
      devices_(devices_of(place_)),
      options_(options),
      limits_(limits),
      resources_(std::move(resources)),
      account_(queues->account()),
      heap_(account_),
      outbox_(std::move(outbox)),
      log_(std::move(log)),
      meter_(std::move(meter)),
      readiness_(std::move(readiness)),
      dicom_(std::move(dicom)),
      wake_(std::move(wake)),
      inbox_(static_cast<std::size_t>(options.queue_mib) << 20, wake_, std::move(queues)),
      thread_([this] { run(); }) {}

Worker::~Worker() {
  cancel();
  thread_.join();
}

void Worker::cancel() {
  cancelled_ = true;
  if (const int thread = yielding_.exchange(0); thread != 0) stop_yielding(thread);
  stop_.request_stop();
  inbox_.cancel();
  outbox_->kick();
}

void Worker::confirm() {
  const std::scoped_lock lock(texts_mutex_);
  confirmed_ = true;
  for (const auto& [level, text] : held_texts_) outbox_->text(level, text);
  held_texts_.clear();
}

void Worker::run() {
  runs_as_ = this_thread();
  numerics::Progress::of_thread() = progress_;
  if (place_.busy_polling) place_.busy_polling->cores().unpin();  // the thread that has started this one is on one core
  lower_priority(place_.yields);
  if (place_.yields > 0) yielding_ = this_thread();
  if (cancelled_ && yielding_.exchange(0) != 0) lower_priority(0);
  try {
    const numerics::HeapScope allocates(&heap_);  // not for what follows a failure, which must not fail
    work();
    if (place_.canary && place_.backend == numerics::Backend::cuda) place_.canary->scan_succeeded(devices_);
  } catch (const numerics::Stopped&) {
    log_.debug("stopped before its end");
  } catch (const Refusal& refusal) {
    failure_ = refusal.error;
  } catch (const ClientError& error) {
    failure_ = {"bad-data", error.what()};
  } catch (const OverBudget& error) {
    failure_ = {"budget", error.what()};
  } catch (const numerics::DeviceLost& error) {
    failure_ = {"resources", fmt::format("{}; this server can no longer use its GPU and ends", error.what())};
    readiness_->break_down(fmt::format("a GPU is lost: {}", error.what()));
  } catch (const numerics::DeviceFailed& error) {
    failure_ = {"resources", error.what()};
    if (place_.canary) place_.canary->scan_failed(devices_, error.what());
  } catch (const numerics::ResourceError& error) {
    failure_ = {"resources", error.what()};
  } catch (const std::bad_alloc&) {
    failure_ = heap_.refused() ? protocol::Error{"budget", over_budget()}
                               : protocol::Error{"resources", "the server is out of memory"};
  } catch (const std::exception& error) {
    failure_ =
        heap_.refused() ? protocol::Error{"budget", over_budget()} : protocol::Error{"recon-failed", error.what()};
    log_.error("reconstruction failed: {}", protocol::printable(error.what()));
  }
  heap_.settle();  // what gadgets had is free, and the client may take long to read its images
  yielding_ = 0;
  done_ = true;
  wake_();
}

/// The text for a scan whose allocation failed because the budget lends no more.
std::string Worker::over_budget() {
  try {
    heap_.check();
  } catch (const OverBudget& error) {
    return error.what();
  } catch (const std::exception&) {
  }
  return fmt::format(
      "this scan wants more memory than this server may lend (of {} MiB in all); try again later, or "
      "raise memory_mib",
      account_->budget()->bound() >> 20);
}

/// Charges what gadgets have allocated. Throws OverBudget where that is more than the budget lends, or than a session
/// may have.
void Worker::check_heap() {
  heap_.check();
  const std::uint64_t most = session_memory(options_, *account_->budget());
  if (heap_.bytes() > most)
    throw OverBudget(fmt::format("gadgets have allocated {} of the {} MiB that a session may use (session_memory_mib)",
                                 heap_.bytes() >> 20, most >> 20));
}

void Worker::work() {
  meter_->set_backend(numerics::to_string(place_.backend));
  check_.emplace(*request_.header);
  const bool on_device = place_.backend == numerics::Backend::cuda;
  numerics::ContextOptions context_options;
  context_options.device = place_.device;
  context_options.memory_budget = on_device ? device_memory(options_) : session_memory(options_, *account_->budget());
  context_options.stop_token = stop_.get_token();
  context_options.group = place_.helped;
  context_options.account = account_;
  numerics::Context compute(place_.backend, resources_, context_options);
  if (on_device) {
    const std::shared_ptr<std::byte[]> block = resources_->get<numerics::ReceiveMemory>().take();
    if (block) resources_->get<protocol::SlabPool>().lend({block.get(), numerics::ReceiveMemory::kBytes}, block);
  }
  std::optional<numerics::Team> team;
  if (!place_.others.empty()) team.emplace(compute, place_.others, context_options.memory_budget);
  Pipeline pipeline(
      request_.plan, compute,
      {[this](protocol::Image&& image, const ImageTimes& times) { send(std::move(image), times); },
       [this](Level level, const std::string& text) { say(level, text); }},
      [&](const std::string& name) {
        const protocol::AssetFolder assets(options_.assets, [this](const std::string& there) {
          log_.info("the pipeline names a file that is not among the assets; there are: {}",
                    protocol::printable(there));
        });
        return assets.images(name, [&] { compute.check_stop(); });
      },
      team ? &*team : nullptr);
  // One empty batch at a time asks the pipeline for results that came on their own.
  const auto wake = [this] {
    if (woken_.exchange(true)) return;
    try {
      inbox_.push(std::vector<protocol::Acquisition>());
    } catch (...) {
      woken_ = false;
      throw;
    }
    wake_();
  };
  compute.cache<ScanEnvironment>() = {wake,
                                      [this] {
                                        if (numerics::Yield* const yield = numerics::Yield::of_thread()) yield->rest();
                                        const numerics::Progress::Wait for_client(*progress_);
                                        outbox_->wait_for_room(cancelled_);
                                      },
                                      request_.host_json, request_.owner, request_.client};
  if (request_.observer) request_.observer->watch(pipeline, compute);
  const auto count_work = [&] {
    counts_.work = pipeline.counts().work;
    meter_->progress(counts_);
  };
  const auto in_turn = [&](const auto& compute_part) {
    std::optional<FairScheduler::Scan::Computing> turn;
    if (place_.scheduled) {
      const numerics::Progress::Wait for_turn(*progress_);
      turn.emplace(*place_.scheduled, stop_.get_token());
    }
    compute_part();
  };
  std::optional<BusyPolling::Wait> wait;
  if (place_.busy_polling) wait.emplace(*place_.busy_polling);
  try {
    in_turn([&] {
      const Computing counted(place_.load.get());
      pipeline.start(*request_.header);
      check_heap();
    });
    // The core is taken only now: threads that a pipeline starts may use all cores.
    std::unique_ptr<DedicatedCores::Lease> core;
    if (wait) core = place_.busy_polling->cores().take();
    Inbox::Waiting waiting;
    if (wait) waiting = {kSoon, core != nullptr, [&](bool on) { wait->rest(on); }};
    for (;;) {
      Inbox::Taken taken = [&] {
        const numerics::Progress::Wait for_client(*progress_);
        heap_.settle();
        outbox_->wait_for_room(cancelled_);
        return inbox_.take(waiting);
      }();
      woken_ = false;
      in_turn([&] {
        const Computing counted(place_.load.get());
        check_heap();
        if (taken.work) process(pipeline, std::move(*taken.work), inbox_.waiting());
        count_work();
        if (taken.end) pipeline.finish(*taken.end);
      });
      if (!taken.work) break;
    }
    pipeline.wait();
    count_work();  // odd images are known once all are complete
  } catch (...) {
    // Images that were finished before the error are still sent.
    counts_.peak_bytes = compute.peak_bytes();
    count_work();
    try {
      pipeline.wait();
    } catch (const numerics::DeviceLost&) {  // the first error came from this one
      throw;
    } catch (const std::exception&) {  // the first error is the one to tell
    }
    count_work();
    throw;
  }
  counts_.peak_bytes = compute.peak_bytes();
  if (send_error_) std::rethrow_exception(send_error_);
}

void Worker::process(Pipeline& pipeline, Work&& work, std::int64_t waiting) {
  if (auto* batch = std::get_if<std::vector<protocol::Acquisition>>(&work)) {
    process(pipeline, std::move(*batch), waiting);
  } else if (auto* image = std::get_if<protocol::Image>(&work)) {
    process(pipeline, std::move(*image));
  } else {
    auto& waveform = std::get<protocol::Waveform>(work);
    tolerate_version(waveform.head.version);
    ++counts_.waveforms;
    pipeline.push(std::move(waveform));
  }
}

void Worker::process(Pipeline& pipeline, std::vector<protocol::Acquisition>&& batch, std::int64_t waiting) {
  counts_.readouts += batch.size();
  std::size_t kept = 0, expanded = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (cancelled_) throw numerics::Stopped();
    tolerate_version(batch[i].head.version);
    if (protocol::is_compressed(batch[i])) {
      if (expanded >= Inbox::kBatchBytes) {
        push(pipeline,
             {std::make_move_iterator(batch.begin()),
              std::make_move_iterator(batch.begin() + static_cast<std::ptrdiff_t>(kept))},
             waiting + static_cast<std::int64_t>(batch.size() - i));
        kept = expanded = 0;
      }
      expanded += expand(batch[i]);
    }
    if (const auto reason = check_->check(batch[i])) {
      note_skip(*reason);
      continue;
    }
    if (kept != i) batch[kept] = std::move(batch[i]);
    ++kept;
  }
  batch.resize(kept);
  push(pipeline, std::move(batch), waiting);
}

void Worker::push(Pipeline& pipeline, std::vector<protocol::Acquisition>&& readouts, std::int64_t waiting) {
  check_heap();
  if (request_.observer) request_.observer->readouts(readouts);
  pipeline.push(std::move(readouts), request_.drops ? std::optional(waiting) : std::nullopt);
}

// Expands compressed samples, which the session pays for before they are there and as long as they are held. Returns
// their bytes.
std::size_t Worker::expand(protocol::Acquisition& readout) {
  const std::uint64_t bytes = protocol::expanding_bytes(readout);
  const std::uint64_t most = session_memory(options_, *account_->budget());
  if (account_->used() + bytes > most)
    throw OverBudget(
        fmt::format("a readout takes {} MiB when it is expanded, and the scan has {} of the {} MiB that a "
                    "session may use (session_memory_mib)",
                    (bytes >> 20) + 1, account_->used() >> 20, most >> 20));
  const auto share = std::make_shared<numerics::MemoryShare>(account_);
  share->grow_to(bytes);
  const numerics::HeapScope paid(nullptr);
  if (const protocol::Status status = protocol::expand(readout, share); !status) throw Refusal(status.error());
  share->set(readout.data.bytes.size());
  return readout.data.bytes.size();
}

void Worker::process(Pipeline& pipeline, protocol::Image&& image) {
  tolerate_version(image.head.version);
  ++counts_.images_in;
  // Attributes are read several times, each time as a tree, by as many scans as there are.
  numerics::MemoryShare reading(account_);
  if (!image.attributes.empty()) reading.grow_to(protocol::bytes_to_read_meta(image.attributes));
  if (const auto reason = protocol::check_attributes(image, limits_)) {
    image.attributes.clear();
    image.head.attribute_string_len = 0;
    if (!std::exchange(warned_attributes_, true))
      say(Level::warning, fmt::format("{}: {}; the image is kept without them", reason->kind, reason->message));
  }
  pipeline.push(std::move(image));
}

void Worker::tolerate_version(std::uint16_t version) {
  if (version == 0 && !std::exchange(warned_version_, true))
    say(Level::warning, "a message has version 0; it is read as version 1");
}

void Worker::note_skip(const protocol::SkipReason& reason) {
  auto count = counts_.skipped.find(reason.kind);
  if (count == counts_.skipped.end()) count = counts_.skipped.emplace(reason.kind, 0).first;
  if (++count->second == 1)
    say(Level::warning,
        fmt::format("skipped ({}): {}; further ones of this kind are only counted", reason.kind, reason.message));
}

void Worker::say(Level level, const std::string& text) {
  const std::string line = protocol::printable(text);
  if (level >= Level::warning)
    log_.warn("{}", line);
  else
    log_.info("{}", line);
  if (request_.observer && level >= Level::warning) request_.observer->warning(line);
  const std::scoped_lock lock(texts_mutex_);
  if (confirmed_)
    outbox_->text(level, text);
  else
    held_texts_.emplace_back(level, text);
}

/// Warns of late images: scans whose frames are counted are looked at while they run, so that those who wait for images
/// learn that these come late.
void Worker::warn_when_late(const ImageTimes& times) {
  constexpr double kLate = 1;  // [s]
  const config::FrameRule& rule = request_.plan->spec().frame;
  if (rule.kind != config::FrameRule::Kind::readouts || rule.when_behind != config::WhenBehind::wait ||
      times.arrival.received == Instant{})
    return;
  const std::chrono::duration<double> late = times.copied - times.arrival.received;
  if (late.count() <= kLate || warned_late_.exchange(true)) return;
  say(Level::warning,
      fmt::format(
          "computing does not follow the scan: this image comes {:.1f} s after its last readout, and later ones "
          "more, as long as data come faster than they are computed. 'frame: {{readouts: .., when_behind: "
          "drop_oldest}}' in the pipeline leaves out frames instead; a GPU, fewer channels (coil_compression) "
          "or a smaller matrix take less time",
          late.count()));
}

void Worker::send(protocol::Image&& image, const ImageTimes& times) {
  progress_->step();  // the scan's thread may wait for a GPU until the last image is complete
  meter_->image();
  if (place_.load && times.arrival.taken != Instant{}) place_.load->image(times.arrival.taken, times.copied);
  try {
    warn_when_late(times);
    note_parameters(image.attributes, request_.set_by_host);
    if (!request_.header->study.trace.empty() &&  // else equal scans have equal images
        image.attributes.find("<name>echotrain_trace</name>") == std::string::npos)
      protocol::add_meta(image.attributes, "echotrain_trace", request_.header->trace);
    if (const std::string trouble = dicom_ ? dicom_->add(image) : ""; !trouble.empty() && !warned_dicom_.exchange(true))
      say(Level::warning, trouble);
    if (request_.observer) request_.observer->image(image);
    outbox_->image(std::move(image), times);
  } catch (const std::exception&) {  // it cannot be encoded; thrown later, on the worker's thread
    const std::scoped_lock lock(mutex_);
    if (!send_error_) send_error_ = std::current_exception();
  }
}

void Worker::report(ScanSummary& summary) const {
  summary.pipeline = request_.plan->spec().name;
  summary.backend = numerics::to_string(place_.backend);
  summary.scan = counts_;
  summary.trace = request_.header->trace;
}

}  // namespace echotrain::server
