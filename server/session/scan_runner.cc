#include "server/session/scan_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "server/memory/memory_estimate.h"
#include "server/net/slots.h"

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
    backend_ = choose_backend(request.plan->spec(), connection_.options.backend);
  } catch (const numerics::ResourceError& error) {
    connection_.fail({"resources", error.what()});
    co_return;
  }
  ask_for_memory(request);
  if (memory_ && memory_->granted())
    ask_for_place();
  else
    place_.reset();  // of the scan that this one replaces: who has the memory may wait for it
}

void ScanRunner::ask_for_memory(const ScanRequest& request) {
  memory_.reset();
  const Environment& environment = connection_.environment;
  const std::uint64_t wanted = memory_estimate(request.header, *request.plan, backend_) +
                               step_memory(request.header, *request.plan, connection_.options);
  device_bytes_ = std::min(memory_estimate(request.header, *request.plan, numerics::Backend::cpu),
                           device_memory(connection_.options));
  const std::uint64_t bytes = std::min(wanted, session_memory(connection_.options, *environment.memory));
  memory_ = environment.reservations->ask({connection_.status->account, bytes, who(), exempt()}, connection_.waker());
  if (!memory_)
    connection_.fail({"busy", fmt::format("the {} MiB that this scan needs are not free, and the line for memory "
                                          "is full (max_waiting = {}{}); try again later",
                                          (bytes >> 20) + 1, connection_.options.max_waiting,
                                          exempt() ? "" : ", of which one address leaves a quarter")});
  else if (!memory_->granted())
    tell_of_wait(fmt::format("waiting for memory, {} MiB; {} scans wait before this one", (memory_->bytes() >> 20) + 1,
                             memory_->position()));
}

void ScanRunner::ask_for_place() {
  if (place_ && place_->backend() == backend_) return;  // the place of the scan that this one replaces
  place_.reset();
  place_ = connection_.environment.compute->ask(backend_, connection_.waker(), exempt() ? "" : who(), device_bytes_);
  if (!place_)
    connection_.fail(
        {"busy", fmt::format("no place for a scan on the {} is free, and the line for one is "
                             "full (max_waiting = {}); try again later{}",
                             numerics::to_string(backend_), connection_.options.max_waiting, why_longer(backend_))});
  else if (!place_->granted())
    tell_of_place_wait();
}

void ScanRunner::tell_of_place_wait() {
  tell_of_wait(fmt::format("waiting for a place on the {}; {} scans wait before this one{}",
                           numerics::to_string(place_->backend()), place_->position(), why_longer(place_->backend())));
}

// A place may be free, but not for one more scan of the address.
std::string ScanRunner::why_longer(numerics::Backend backend) const {
  const std::string bound = exempt() ? "" : connection_.environment.compute->bound(backend, who());
  return bound.empty() ? "" : "; " + bound;
}

void ScanRunner::tell_of_wait(const std::string& text) {
  if (!waiting_since_) waiting_since_ = Clock::now();
  watchdog_.place_wait_begins(*waiting_since_);
  connection_.status->state = SessionState::waiting;
  connection_.log.info("{}", text);
  connection_.outbox->text(protocol::Level::info, text);
}

asio::awaitable<void> ScanRunner::run(ScanRequest request) {
  while (!connection_.ending() && !memory_->granted()) co_await wait_in_line();
  if (!connection_.ending()) ask_for_place();
  while (!connection_.ending() && !place_->granted()) co_await wait_in_line();
  watchdog_.place_wait_ends();
  if (connection_.ending()) co_return;
  place_granted();
  const Environment& environment = connection_.environment;
  const config::ServerOptions& options = connection_.options;
  const bool own = environment.catalogue.offers(request.plan);
  meter_ = environment.metrics->scan(own ? request.plan->spec().name : Metrics::kInline, connection_.status);
  at_ = {place_->backend(),
         place_->device(),
         place_->others(),
         yields_now(),
         environment.turns->scan(options.address_turns && !exempt() ? who() : ""),
         environment.turns->helped(exempt() ? "" : who()),
         environment.spinning,
         place_->load()};
  const config::PipelineSpec& spec = request.plan->spec();
  std::shared_ptr<ImageSink> dicom;
  if (environment.sinks) dicom = environment.sinks->sink(connection_.log, spec.dicom_peers, request.header, spec.text);
  if (connection_.onlooker) {
    request.onlooker = connection_.onlooker;
    connection_.onlooker->begin(spec.name, request.header, spec.trajectory_unit);
  }
  worker_ = std::make_unique<Worker>(std::move(request), at_, options, environment.limits, environment.resources,
                                     connection_.status->queues, connection_.outbox, connection_.log, meter_,
                                     environment.readiness, std::move(dicom), connection_.waker());
  on_trial_ = true;
  watchdog_.set_alarm(Clock::now() + seconds(std::min(kTrial_s, options.idle_timeout_s / 4)), [this] { confirm(); });
}

// The client's address without its port; the brackets of an IPv6 address go with it.
std::string ScanRunner::host() const {
  const std::string& peer = connection_.status->peer;
  const std::string host = peer.substr(0, peer.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

// As bounds of one address count it.
std::string ScanRunner::who() const {
  error_code unknown;
  const asio::ip::address address = asio::ip::make_address(host(), unknown);
  return unknown ? host() : counted_as(address).to_string();
}

int ScanRunner::yields_now() const {
  // Threads that a scan on a GPU starts work for all scans there.
  if (place_->backend() == numerics::Backend::cuda) return 0;
  if (exempt()) return 0;
  return yields(memory_->scans_beside(), connection_.environment.resources->threads().size());
}

bool ScanRunner::exempt() const {
  error_code unknown;
  const asio::ip::address address = asio::ip::make_address(host(), unknown);
  return unknown || connection_.environment.exempt.names(address);
}

// Where nothing is read meanwhile, a client that is gone would stay in line.
asio::awaitable<void> ScanRunner::wait_in_line() {
  if (watchdog_.holds_back() && connection_.transport->is_reset())
    connection_.lose("the connection was reset while its scan waited");
  else
    co_await connection_.wait_to_look();
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
  place_ = connection_.environment.compute->ask_again(at_.backend, at_.device, connection_.waker(),
                                                      exempt() ? "" : who(), at_.load);
  if (place_->granted())
    go_on();
  else
    tell_of_place_wait();
}

// The scan has its place again.
void ScanRunner::go_on() {
  watchdog_.place_wait_ends();
  place_granted();
  paused_ = false;
  worker_->resume();
  connection_.notify();  // the reader may have waited for this
}

// What came before the session's end is still to be reconstructed.
asio::awaitable<void> ScanRunner::regain_place() {
  if (!paused_) co_return;
  if (!connection_.end.gone) ask_again();
  while (paused_ && !connection_.end.gone && !worker_->done() && !watchdog_.place_wait_over()) {
    if (place_->granted())
      go_on();
    else
      co_await connection_.wait();
  }
  if (!paused_) co_return;
  watchdog_.place_wait_ends();
  worker_->cancel();
}

// A session that has borrowed memory which others wait for takes in no more than what its worker works on. One that
// is paused works on nothing.
bool ScanRunner::busy() const {
  const Environment& environment = connection_.environment;
  const bool give_back = !paused_ && connection_.status->queues->borrows() &&
                         (environment.reservations->calls_back() || environment.memory->left() == 0);
  return (worker_ && worker_->full(give_back)) || regaining();
}

void ScanRunner::check() {
  if (regaining() && place_->granted()) go_on();
  if (paused_ && worker_ && worker_->has_results()) ask_again();
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
  memory_.reset();
  if (worker_ && worker_->failure()) connection_.fail(*worker_->failure());
}

void ScanRunner::cancel() {
  if (!worker_) return;
  if (paused_) watchdog_.place_wait_ends();
  paused_ = false;  // it needs no place to stop
  worker_->cancel();
}

void ScanRunner::abandon() {
  end_trial();
  paused_ = false;
  worker_.reset();
  place_.reset();
  memory_.reset();
}

void ScanRunner::report(ScanSummary& summary) const {
  if (worker_) worker_->report(summary);
}

}  // namespace echotrain::server
