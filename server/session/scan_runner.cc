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

asio::awaitable<void> ScanRunner::prepare(const ScanRequest& request) {
  end_trial();
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
  if (!place_->granted()) tell_of_wait(backend);
}

void ScanRunner::tell_of_wait(numerics::Backend backend) {
  waiting_since_ = Clock::now();
  watchdog_.place_wait_begins(*waiting_since_);
  connection_.status->state = SessionState::waiting;
  const std::string text = fmt::format("waiting for a place on the {}; {} scans wait before this one",
                                       numerics::to_string(backend), place_->position());
  connection_.log.info("{}", text);
  connection_.outbox->text(protocol::Level::info, text);
}

asio::awaitable<void> ScanRunner::run(ScanRequest request) {
  while (!connection_.ending() && !place_->granted()) co_await connection_.wait();
  watchdog_.place_wait_ends();
  if (connection_.ending()) co_return;
  if (const auto since = std::exchange(waiting_since_, std::nullopt))
    connection_.log.info("waited {:.2f} s", std::chrono::duration<double>(Clock::now() - *since).count());
  const Environment& environment = connection_.environment;
  const config::ServerOptions& options = connection_.options;
  const bool own = environment.catalogue.offers(request.plan);
  meter_ = environment.metrics->scan(own ? request.plan->spec().name : Metrics::kInline, connection_.status);
  connection_.status->state = SessionState::scanning;
  const ScanPlace place{place_->backend(), place_->device(), place_->others()};
  worker_ = std::make_unique<Worker>(std::move(request), place, options, environment.limits, environment.resources,
                                     environment.memory, connection_.status->queues, connection_.outbox,
                                     connection_.log, meter_, environment.readiness, connection_.waker());
  on_trial_ = true;
  watchdog_.set_alarm(Clock::now() + seconds(std::min(kTrial_s, options.idle_timeout_s / 4)), [this] { confirm(); });
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
  worker_->push(std::move(work));
}

void ScanRunner::check() {
  if (worker_ && !on_trial_ && worker_->done() && worker_->failure()) connection_.fail(*worker_->failure());
}

asio::awaitable<void> ScanRunner::finish() {
  if (worker_) {
    confirm();
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
  if (worker_) worker_->cancel();
}

void ScanRunner::abandon() {
  end_trial();
  worker_.reset();
  place_.reset();
}

void ScanRunner::report(ScanSummary& summary) const {
  if (worker_) worker_->report(summary);
}

}  // namespace echotrain::server
