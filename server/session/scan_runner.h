// The scan runner starts, pauses, resumes and ends the scan of a session.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>  // the Asio headers below use std::exchange without including it

#include "gadgets/numerics/core/progress.h"
#include "protocol/data/messages.h"
#include "server/base/clock.h"
#include "server/base/signal.h"
#include "server/metrics/metrics.h"
#include "server/metrics/scan_summary.h"
#include "server/scan/scan_admission.h"
#include "server/scan/scan_request.h"
#include "server/scan/worker.h"
#include "server/session/connection.h"
#include "server/session/watchdog.h"

namespace echotrain::server {

/// Runs at most one scan at a time. A new scan is on trial until the next message shows that it stays, because a FIRE
/// client may name another pipeline in the message after the header; during the trial the client gets neither the
/// scan's texts nor its failure. A scan without data for pause_s gives its place back and regains it, with its state,
/// when data come again. A scan that computes and makes no step for max_step_s hangs: the session ends without it. For
/// the session's strand.
class ScanRunner {
 public:
  /// Both arguments must outlive this.
  ScanRunner(Connection& connection, Watchdog& watchdog);

  /// Ends the scan that runs, if any, and asks for memory and then for a place for `request`. Afterwards both are
  /// granted or waited for, or the session is ending.
  asio::awaitable<void> prepare(const ScanRequest& request);
  bool has_place() const { return admission_.has_place(); }
  /// Waits for the place and starts the scan, on trial.
  asio::awaitable<void> run(ScanRequest request);
  /// Ends the trial: the scan stays.
  void confirm();

  /// True if a scan was started, also where it hangs.
  bool started() const { return worker_ || hangs_; }
  /// True after data have come after a pause, while the scan waits for its place.
  bool regaining() const { return paused_ && asked_again_; }
  /// Takes data for the scan, which confirms it. Does nothing where no scan was started.
  void push(Work&& work);
  /// True if the scan can take nothing: its queue is full, or it waits to regain its place.
  bool busy() const;
  /// True if input has to wait (back-pressure): the scan is busy, or far too many messages wait for the client.
  bool input_full() const { return busy() || connection_.outbox->flooded(); }
  /// True if the scan has so much queued that it is better not to read more for a moment.
  bool queue_exceeds_cache() const { return worker_ && worker_->queue_exceeds_cache(); }
  std::size_t queued_bytes() const { return worker_ ? worker_->queued_bytes() : 0; }  ///< that wait for the pipeline
  std::size_t queued_payload_bytes() const { return worker_ ? worker_->queued_payload_bytes() : 0; }  ///< of these
  /// Ends the session if the scan has failed and is not on trial. Goes on with a scan that has regained its place.
  void check();

  /// Ends the scan with its session: lets the pipeline finish what came before, or stops it when the peer is gone.
  asio::awaitable<void> finish();
  /// Stops as soon as possible.
  void cancel();
  /// Gives up worker and place at once. Waits for the worker's thread, unless it hangs: then StuckScans keeps both.
  void abandon();

  /// Adds the scan's counts to `summary`. Precondition: finish() has returned.
  void report(ScanSummary& summary) const;
  /// The meter of the newest scan; null before the first.
  const std::shared_ptr<ScanMeter>& meter() const { return meter_; }

 private:
  ScanAdmission::Needs needs(const ScanRequest& request, numerics::Backend backend) const;
  void tell(const ScanAdmission::Answer& answer);
  void place_granted();
  void look_at_progress(Clock::time_point now);
  void give_up(const Worker& worker);
  void end_trial();
  void pause();
  void end_borrowing(bool idle);
  void end_crawling();
  void give_way();
  void stop(Worker& worker);
  void ask_again();
  void check_admission();
  void go_on();
  asio::awaitable<void> regain_place();
  asio::awaitable<void> wait_in_line();

  Connection& connection_;
  Watchdog& watchdog_;
  ScanAdmission admission_;  // outlives the worker
  std::optional<Clock::time_point> waiting_since_;
  std::shared_ptr<ScanMeter> meter_;
  std::unique_ptr<Worker> worker_, replaced_;      // of the scan, and of the one before it until that has ended
  std::optional<numerics::ProgressAge> progress_;  // of the newest worker
  bool hangs_ = false;                             // the newest worker hangs
  ScanPlace at_;                                   // where the worker runs
  bool servers_pipeline_ = false;                  // the pipeline is one of the server's, not its client's
  bool on_trial_ = false;
  bool paused_ = false;       // the worker does nothing until it has its place again
  bool gives_way_ = false;    // the scan is to end, because others wait for its memory
  bool asked_again_ = false;  // for that place, and for the memory that it gave back
};

}  // namespace echotrain::server
