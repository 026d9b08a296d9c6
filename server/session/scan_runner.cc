#include "server/session/scan_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace echotrain::server {

namespace {
constexpr double kTrial_s = 0.5;
}  // namespace

ScanRunner::ScanRunner(Connection& connection, Watchdog& watchdog) : connection_(connection), watchdog_(watchdog) {
  watchdog_.on_pause([this] { pause(); });
}

asio::awaitable<void> ScanRunner::prepare(const ScanRequest& request) {
  end_trial();
  paused_ = false;
  if (const std::unique_ptr<Worker> replaced = std::move(worker_)) {
    replaced->cancel();
    while (!replaced->done()) co_await connection_.wait();
  }
  if (connection_.ending()) co_return;
  try {
    ask_for_place(choose_backend(request.plan->spec(), connection_.options.backend));
  } catch (const numerics::ResourceError& error) {
    connection_.fail({"resources", error.what()});
  }
}

void ScanRunner::ask_for_place(numerics::Backend backend) {
  if (place_ && place_->backend() == backend) return;  // the place of the scan that this one replaces
  place_.reset();
  place_ = connection_.environment.compute->ask(backend, connection_.waker());
  if (!place_) {
    connection_.fail({"busy", fmt::format("no place for a scan on the {} is free, and the line for one is "
                                          "full (max_waiting = {}); try again later",
                                          numerics::to_string(backend), connection_.options.max_waiting)});
    return;
  }
  if (!place_->granted()) tell_of_wait();
}

void ScanRunner::tell_of_wait() {
  waiting_since_ = Clock::now();
  watchdog_.place_wait_begins(*waiting_since_);
  connection_.status->state = SessionState::waiting;
  const std::string text = fmt::format("waiting for a place on the {}; {} scans wait before this one",
                                       numerics::to_string(place_->backend()), place_->position());
  connection_.log.info("{}", text);
  connection_.outbox->text(protocol::Level::info, text);
}

asio::awaitable<void> ScanRunner::run(ScanRequest request) {
  while (!connection_.ending() && !place_->granted()) co_await connection_.wait();
  watchdog_.place_wait_ends();
  if (connection_.ending()) co_return;
  place_granted();
  const Environment& environment = connection_.environment;
  const config::ServerOptions& options = connection_.options;
  const bool own = environment.catalogue.offers(request.plan);
  meter_ = environment.metrics->scan(own ? request.plan->spec().name : Metrics::kInline, connection_.status);
  at_ = {place_->backend(), place_->device(), place_->others()};
  worker_ = std::make_unique<Worker>(std::move(request), at_, options, environment.limits, environment.resources,
                                     environment.memory, connection_.status->queues, connection_.outbox,
                                     connection_.log, meter_, environment.readiness, connection_.waker());
  on_trial_ = true;
  watchdog_.set_alarm(Clock::now() + seconds(std::min(kTrial_s, options.idle_timeout_s / 4)), [this] { confirm(); });
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

void ScanRunner::pause() {
  if (paused_ || on_trial_ || !worker_ || !worker_->pause()) return;
  paused_ = true;
  place_.reset();
  connection_.status->state = SessionState::paused;
  connection_.log.info("no data for {} s: its place on the {} is free for others until data come",
                       connection_.options.pause_s, numerics::to_string(at_.backend));
}

void ScanRunner::ask_again() {
  if (place_) return;
  place_ = connection_.environment.compute->ask_again(at_.backend, at_.device, connection_.waker());
  if (place_->granted())
    go_on();
  else
    tell_of_wait();
}

// The scan has its place again.
void ScanRunner::go_on() {
  watchdog_.place_wait_ends();
  place_granted();
  paused_ = false;
  worker_->resume();
  connection_.notify();  // the reader may have waited for this
}

bool ScanRunner::waited_too_long() const {
  return waiting_since_ && Clock::now() > *waiting_since_ + seconds(connection_.options.wait_timeout_s);
}

// What came before the session's end is still to be reconstructed.
asio::awaitable<void> ScanRunner::regain_place() {
  if (!paused_) co_return;
  if (!connection_.end.gone) ask_again();
  while (paused_ && !connection_.end.gone && !worker_->done() && !waited_too_long()) {
    if (place_->granted())
      go_on();
    else
      co_await connection_.wait();
  }
  if (paused_) worker_->cancel();
}

void ScanRunner::check() {
  if (regaining() && place_->granted()) go_on();
  if (worker_ && !on_trial_ && worker_->done() && worker_->failure()) connection_.fail(*worker_->failure());
}

asio::awaitable<void> ScanRunner::finish() {
  if (worker_) {
    confirm();
    co_await regain_place();
    connection_.status->state = SessionState::finishing;
    worker_->finish(connection_.end.closed && !connection_.end.error ? End::complete : End::truncated);
    while (!worker_->done()) {
      if (connection_.end.gone) worker_->cancel();
      co_await connection_.wait();
    }
  }
  place_.reset();
  if (worker_ && worker_->failure()) connection_.fail(*worker_->failure());
}

void ScanRunner::cancel() {
  if (!worker_) return;
  paused_ = false;  // it needs no place to stop
  worker_->cancel();
}

void ScanRunner::abandon() {
  end_trial();
  paused_ = false;
  worker_.reset();
  place_.reset();
}

void ScanRunner::report(ScanSummary& summary) const {
  if (worker_) worker_->report(summary);
}

}  // namespace echotrain::server
