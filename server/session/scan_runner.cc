#include "server/session/scan_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "server/base/priority.h"
#include "server/capture/capture_files.h"
#include "server/memory/memory_estimate.h"

namespace echotrain::server {

namespace {

constexpr double kTrial_s = 0.5;

ScanAdmission::Client client_of(const Connection& connection) {
  return {connection.address, connection.exempt, connection.status->queues, connection.waker()};
}

/// A detached scan whose client is gone computes in what live ones leave.
int yields_to_live(const Connection& connection) {
  constexpr int kSteps = 10;  // of nice(2): about a tenth of the weight
  return connection.origin && !*connection.origin->live ? kSteps : 0;
}

}  // namespace

ScanRunner::ScanRunner(Connection& connection, Watchdog& watchdog)
    : connection_(connection),
      watchdog_(watchdog),
      admission_(connection.environment.memory_admission, connection.environment.compute,
                 connection.options.max_waiting, client_of(connection)) {
  watchdog_.on_pause([this] { pause(); });
  watchdog_.on_crawl([this] { end_crawling(); });
  watchdog_.on_look([this](Clock::time_point now) { look_at_progress(now); });
}

asio::awaitable<void> ScanRunner::prepare(const ScanRequest& request) {
  end_trial();
  paused_ = asked_again_ = false;
  if (worker_) {
    replaced_ = std::move(worker_);
    stop(*replaced_);
    while (!replaced_->done() && !hangs_) co_await connection_.wait();
    if (!hangs_) replaced_.reset();
  }
  if (connection_.ending()) co_return;
  try {
    const numerics::Backend backend = choose_backend(request.plan->spec(), connection_.options.backend);
    tell(admission_.ask_for_memory(needs(request, backend)));
    if (admission_.has_memory()) tell(admission_.ask_for_place());
  } catch (const numerics::ResourceError& error) {
    connection_.fail({"resources", error.what()});
  }
}

ScanAdmission::Needs ScanRunner::needs(const ScanRequest& request, numerics::Backend backend) const {
  const config::ServerOptions& options = connection_.options;
  const std::uint64_t wanted =
      memory_estimate(*request.header, *request.plan, backend) + step_memory(*request.header, *request.plan, options);
  const std::uint64_t on_device = memory_estimate(*request.header, *request.plan, numerics::Backend::cpu);
  return {backend, std::min(wanted, session_memory(options, *connection_.environment.memory)),
          std::min(on_device, device_memory(options)), wanted};
}

void ScanRunner::tell(const ScanAdmission::Answer& answer) {
  if (answer.refusal) connection_.fail(*answer.refusal);
  if (answer.wait.empty()) return;
  if (!waiting_since_) waiting_since_ = Clock::now();
  watchdog_.place_wait_begins(*waiting_since_,
                              admission_.has_memory() ? Watchdog::Lacks::place : Watchdog::Lacks::memory);
  connection_.status->state = SessionState::waiting;
  connection_.log.info("{}", answer.wait);
  connection_.outbox->text(protocol::Level::info, answer.wait);
}

asio::awaitable<void> ScanRunner::run(ScanRequest request) {
  while (!connection_.ending() && !admission_.has_memory()) co_await wait_in_line();
  if (!connection_.ending()) tell(admission_.ask_for_place());
  while (!connection_.ending() && !admission_.has_place()) co_await wait_in_line();
  watchdog_.place_wait_ends();
  if (connection_.ending()) co_return;
  place_granted();
  const Environment& environment = connection_.environment;
  const config::ServerOptions& options = connection_.options;
  servers_pipeline_ = environment.catalogue.offers(request.plan);
  meter_ =
      environment.metrics->scan(servers_pipeline_ ? request.plan->spec().name : Metrics::kInline, connection_.status);
  at_ = {admission_.place().backend(),
         admission_.place().device(),
         admission_.place().others(),
         admission_.yields_now(environment.resources->threads().size()) + yields_to_live(connection_),
         environment.scheduler->scan(options.address_turns ? admission_.counted_as() : ""),
         environment.scheduler->helped(admission_.counted_as()),
         environment.busy_polling,
         admission_.place().load(),
         environment.canary};
  const config::PipelineSpec& spec = request.plan->spec();
  std::shared_ptr<ImageSink> dicom;
  if (environment.sinks && request.trusted && (!connection_.origin || connection_.origin->to_dicom))
    dicom = environment.sinks->sink(connection_.log, spec.dicom_peers, *request.header, spec.text, request.occasion,
                                    {request.owner, request.client, capture_owner(request.occasion)});
  else if (!options.dicom.send_to.empty() && !request.trusted)
    connection_.outbox->text(protocol::Level::warning,
                             fmt::format("the images go to no DICOM peer (dicom.send_to): this pipeline is its "
                                         "client's, and those that go there are the server's own; {}",
                                         kHowToTrust));
  if (connection_.observer) {
    request.observer = connection_.observer;
    connection_.observer->begin(spec.name, *request.header, spec.trajectory_unit, request.occasion);
  }
  worker_ = std::make_unique<Worker>(std::move(request), at_, options, environment.limits, environment.resources,
                                     connection_.status->queues, connection_.outbox, connection_.log, meter_,
                                     environment.readiness, std::move(dicom), connection_.waker());
  progress_.emplace(worker_->progress());
  on_trial_ = true;
  watchdog_.set_alarm(Clock::now() + seconds(std::min(kTrial_s, options.idle_timeout_s / 4)), [this] { confirm(); });
}

// Waits in line, and looks at the connection: where nothing is read meanwhile, a client that is gone would stay in
// line.
asio::awaitable<void> ScanRunner::wait_in_line() {
  if (watchdog_.holds_back() && connection_.transport->is_reset())
    connection_.lose("the connection was reset while its scan waited");
  else
    co_await connection_.poll_wait();
}

void ScanRunner::place_granted() {
  if (const auto since = std::exchange(waiting_since_, std::nullopt))
    connection_.log.info("waited {:.2f} s", std::chrono::duration<double>(Clock::now() - *since).count());
  connection_.status->state = SessionState::scanning;
}

void ScanRunner::end_trial() {
  on_trial_ = false;
  watchdog_.clear_alarm();
}

void ScanRunner::confirm() {
  if (!on_trial_) return;
  end_trial();
  worker_->confirm();
  const double most_s = connection_.options.max_scan_s;
  watchdog_.set_alarm(Clock::now() + seconds(most_s), [this, most_s] {
    connection_.fail(
        {"timeout", fmt::format("the scan has gone on for {} s, the longest time that this server lets one "
                                "(max_scan_s)",
                                most_s)});
  });
  connection_.notify();  // it may have failed already
}

void ScanRunner::push(Work&& work) {
  if (!worker_) return;
  confirm();
  const bool waveform = std::holds_alternative<protocol::Waveform>(work);
  worker_->push(std::move(work));
  // Waveforms go on during a breath hold: they wait in the queue.
  if (paused_ && (!waveform || worker_->full())) ask_again();
}

// Pauses; called again and again while the scan does nothing.
void ScanRunner::pause() {
  if (on_trial_ || !worker_ || asked_again_) return;
  if (!paused_) {
    if (!worker_->pause()) return;
    paused_ = true;
    admission_.give_back_place();
    connection_.status->state = SessionState::paused;
    connection_.log.info("no data, or too few for its memory, for {} s: its place on the {} is free until data come",
                         connection_.options.pause_s, numerics::to_string(at_.backend));
  }
  if (const std::uint64_t bytes = admission_.give_back_unused_memory(); bytes > 0)
    connection_.log.info("{} MiB that were reserved for it, and that it does not use, go to scans that wait",
                         bytes >> 20);
  end_borrowing(/*idle=*/true);
}

// Memory that is used cannot be lent.
void ScanRunner::end_borrowing(bool idle) {
  if (gives_way_ || !admission_.must_end(idle)) return;
  gives_way_ = true;
  connection_.fail(
      {"budget", fmt::format("{} for {} s (pause_s), the scans of this address have more than its part of it, and {}",
                             idle ? "others wait for memory, (almost) no data of this scan have come"
                                  : "others have waited for memory",
                             connection_.options.pause_s, admission_.why_it_ends())});
  give_way();
}

void ScanRunner::end_crawling() {
  if (gives_way_ || !worker_ || !admission_.must_end_crawling()) return;
  gives_way_ = true;
  connection_.fail(
      {"budget",
       fmt::format("others wait for memory, and in {} s (three times idle_timeout_s) fewer data of this scan "
                   "have come than would fill the {} MiB that it uses within two days; send it again when "
                   "its data are there",
                   kCrawl * connection_.options.idle_timeout_s, (connection_.status->account->used() >> 20) + 1)});
  give_way();
}

// Others wait for all that the scan has.
void ScanRunner::give_way() {
  cancel();
  if (connection_.end.over_budget()) connection_.drop_unsent();
}

void ScanRunner::ask_again() {
  if (std::exchange(asked_again_, true)) return;
  tell(admission_.regain_memory());
  check_admission();
}

// Looks for memory first, and then for the place: a scan that has a place keeps others from it.
void ScanRunner::check_admission() {
  if (!admission_.has_memory()) return;
  if (!admission_.asked_for_place()) tell(admission_.ask_again(at_));
  if (admission_.has_place()) go_on();
}

// Goes on: the scan has its place again.
void ScanRunner::go_on() {
  watchdog_.place_wait_ends();
  place_granted();
  paused_ = asked_again_ = false;
  worker_->resume();
  connection_.notify();  // the reader may have waited for this
}

// Waits for the place, so that what came before the session's end is still reconstructed.
asio::awaitable<void> ScanRunner::regain_place() {
  if (!paused_) co_return;
  if (!connection_.end.gone) ask_again();
  while (paused_ && !connection_.end.gone && !worker_->done() && !watchdog_.place_wait_over()) {
    check_admission();
    end_borrowing(/*idle=*/false);
    if (paused_) co_await connection_.wait();
  }
  if (!paused_) co_return;
  watchdog_.place_wait_ends();
  stop(*worker_);
}

// A session that has borrowed memory which others wait for, or want to find, takes in no more than what its worker
// works on. One that is paused works on nothing.
bool ScanRunner::busy() const {
  const Environment& environment = connection_.environment;
  const bool give_back =
      !paused_ && connection_.status->queues->borrows() &&
      (environment.memory_admission->under_pressure() || environment.memory->left() == 0 || admission_.has_too_much());
  return (worker_ && (worker_->full() || (give_back && worker_->notify_when_empty()))) || regaining();
}

// Looks at the scan's progress; called again and again, also when the client is gone.
void ScanRunner::look_at_progress(Clock::time_point now) {
  const Worker* const worker = worker_ ? worker_.get() : replaced_.get();
  if (worker == nullptr || worker->done()) {
    connection_.status->step_s = 0;
    return;
  }
  if (hangs_) return;
  // A thread without a core shows no signs of life: that time does not count.
  const auto had_core = now - std::chrono::duration_cast<Clock::duration>(run_queue_delay(worker->thread()));
  const double age_s = std::max(0.0, std::chrono::duration<double>(progress_->look(had_core)).count());
  connection_.status->step_s = age_s;
  const double most_s = connection_.options.max_step_s;
  if (most_s > 0 && age_s > most_s) give_up(*worker);
}

// Gives the scan up: nobody can end a thread, so the session ends without it.
void ScanRunner::give_up(const Worker& worker) {
  hangs_ = true;
  const std::string* const gadget = worker.progress()->at();
  const std::string what = fmt::format(
      "{} has shown no sign of life for {} s, the longest time that this server lets "
      "one compute without (max_step_s)",
      gadget != nullptr ? fmt::format("the gadget '{}'", *gadget) : "the scan", connection_.options.max_step_s);
  connection_.log.error("{}", what);
  cancel();
  if (worker.backend() == numerics::Backend::cpu) {
    connection_.fail({"timeout", what + "; try another pipeline, or less data, and tell who runs this server"});
    return;
  }
  connection_.fail({"timeout", what + "; this server can no longer use its GPU and ends: send the scan again later"});
  connection_.environment.readiness->break_down("a GPU does not answer: " + what);
}

void ScanRunner::check() {
  if (regaining()) check_admission();
  if (paused_ && worker_ && worker_->has_results()) ask_again();
  if (worker_ && !on_trial_ && worker_->done() && worker_->failure()) connection_.fail(*worker_->failure());
  end_borrowing(/*idle=*/false);
}

asio::awaitable<void> ScanRunner::finish() {
  if (worker_) {
    confirm();
    co_await regain_place();
    connection_.status->state = SessionState::finishing;
    const double most_s = connection_.options.max_compute_s;
    watchdog_.set_alarm(Clock::now() + seconds(most_s), [this, most_s] {
      stop(*worker_);
      connection_.fail({"timeout", fmt::format("the scan has computed for {} s after its last data, the longest time "
                                               "that this server lets one (max_compute_s)",
                                               most_s)});
    });
    worker_->finish(connection_.end.closed && !connection_.end.error ? End::complete : End::truncated);
    while (!worker_->done() && !hangs_) {
      if (connection_.end.gone) stop(*worker_);
      end_borrowing(/*idle=*/false);
      co_await connection_.wait();
    }
  }
  watchdog_.clear_alarm();
  if (hangs_) co_return;
  if (worker_) connection_.free_offloaded(worker_->hand_over_queue());  // of one that has failed
  admission_.give_back();
  if (worker_ && worker_->failure()) connection_.fail(*worker_->failure());
}

void ScanRunner::cancel() {
  if (!worker_) return;
  if (paused_) watchdog_.place_wait_ends();
  paused_ = asked_again_ = false;  // it needs no place to stop
  stop(*worker_);
}

// Stops the worker; what waits for it is freed elsewhere.
void ScanRunner::stop(Worker& worker) {
  worker.cancel();
  connection_.free_offloaded(worker.hand_over_queue());
}

void ScanRunner::abandon() {
  end_trial();
  paused_ = asked_again_ = false;
  std::unique_ptr<Worker>& worker = worker_ ? worker_ : replaced_;
  for (const std::unique_ptr<Worker>* each : {&worker_, &replaced_})
    if (*each) stop(**each);
  if (hangs_ && !worker->done()) {  // it may have stopped since it was told to
    connection_.status->state = SessionState::stuck;
    connection_.environment.stuck->add(std::move(worker), admission_.hand_over());
  }
  worker_.reset();
  replaced_.reset();
  admission_.give_back();
}

void ScanRunner::report(ScanSummary& summary) const {
  if (!started()) return;
  if (hangs_) {  // its counts are its thread's
    summary.pipeline = connection_.status->pipeline();
    summary.backend = connection_.status->backend();
    summary.scan.readouts = connection_.status->readouts;
    return;
  }
  worker_->report(summary);
  if (!servers_pipeline_) summary.pipeline = Metrics::kInline;
}

}  // namespace echotrain::server
