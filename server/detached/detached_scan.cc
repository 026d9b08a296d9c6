#include "server/detached/detached_scan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "protocol/data/text.h"
#include "protocol/wire/codec.h"
#include "server/base/log.h"
#include "server/base/priority.h"
#include "server/detached/detached_run.h"

namespace echotrain::server {

namespace fs = std::filesystem;

namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr std::uint64_t kLittle = 1 << 20;
constexpr int kMostFailures = 3;  // of what may pass, but need not
constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{30};

Descriptor open_or_throw(const fs::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (file.get() < 0) throw std::system_error(errno, std::generic_category(), "cannot open a file of the scan");
  return file;
}

}  // namespace

std::string_view DetachedScan::to_string(State state) {
  switch (state) {
    case State::receiving:
      return "receiving";
    case State::waiting:
      return "waiting";
    case State::running:
      return "running";
    case State::done:
      return "done";
    case State::failed:
      return "failed";
    case State::incomplete:
      return "incomplete";
    case State::cancelled:
      return "cancelled";
  }
  return "unknown";
}

bool ClientBytes::take(std::uint64_t bytes) {
  std::uint64_t used = used_;
  do {
    if (used > most_ || bytes > most_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

std::uint64_t ClientBytes::left() const { return most_ - std::min<std::uint64_t>(most_, used_); }

DetachedScan::DetachedScan(DetachedCommon& common, ScanRecord record, const Found& found,
                           std::shared_ptr<ClientBytes> of_client)
    : common_(common),
      of_client_(std::move(of_client)),
      id_(record.id),
      record_(std::move(record)),
      head_bytes_(found.head_bytes),
      appended_bytes_(found.journal_bytes),
      appended_(found.messages),
      safe_(found.messages),
      safe_bytes_(found.journal_bytes),
      synced_(found.journal_bytes),
      closed_(found.closed),
      close_safe_(found.closed),
      results_bytes_(found.results_bytes),
      images_(found.images),
      in_time_(found.head_bytes == 0),
      client_left_(Clock::now()) {
  for (const State each : {State::done, State::failed, State::incomplete, State::cancelled})
    if (record_.end == to_string(each)) end_ = each;
  const bool ended = is_end(end_);
  delivered_ = ended && record_.delivered;
  thread_ended_ = ended;
  try {
    if (!ended) open_files(found);
  } catch (...) {
    if (capture_) capture_->finish(true);  // which would wake this
    throw;
  }
  count_again();
}

void DetachedScan::open_files(const Found& found) {
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake_.get() < 0) throw std::system_error(errno, std::generic_category(), "no event descriptor");
  const std::string name = journal_name(id_);
  capture_ = common_.captures->open_file(name, found.journal_bytes, [this] { wake_all(); });
  journal_ = open_or_throw(common_.folder / name, O_RDONLY);
  if (record_.power && common_.sync(journal_.get()) != 0)  // a killed server may have left it in the cache
    throw std::system_error(errno, std::generic_category(), "cannot synchronise the journal");
  results_ = open_or_throw(common_.folder / results_name(id_), O_RDWR | O_CREAT);
  if (::ftruncate(results_.get(), static_cast<off_t>(results_bytes_)) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot cut the results");
}

// The thread has ended: many scans that are kept would hold as many files.
void DetachedScan::close_files() {
  journal_ = Descriptor();
  results_ = Descriptor();
  const std::scoped_lock lock(watchers_mutex_);
  wake_ = Descriptor();
}

Descriptor DetachedScan::open_results() const { return open_or_throw(common_.folder / results_name(id_), O_RDONLY); }

DetachedScan::~DetachedScan() {
  join(true);
  if (capture_) capture_->finish(true);
  is_removed();
}

// --- its bytes -------------------------------------------------------------------------------------------------------

// With the lock held. False: the client has too many.
bool DetachedScan::count(std::uint64_t bytes) {
  if (!of_client_->take(bytes)) return false;
  counted_ += bytes;
  return true;
}

// With the lock held: what is there counts, whether it fits or not.
void DetachedScan::count_again() {
  of_client_->give_back(counted_);
  counted_ = appended_bytes_ + results_bytes_;
  of_client_->add(counted_);
}

void DetachedScan::is_removed() {
  const std::scoped_lock file(record_file_mutex_);
  const std::scoped_lock lock(mutex_);
  removed_ = true;
  of_client_->give_back(std::exchange(counted_, 0));
}

std::string DetachedScan::bound_reached() const {
  return fmt::format(
      "this client's detached scans have reached {} GiB (detached.max_gib); cancel one that is no longer "
      "needed",
      of_client_->most() >> 30);
}

// Why the disk has no room for a result.
std::string DetachedScan::why_no_room(std::uint64_t bytes) const {
  if (!common_.free_bytes) return {};
  const std::optional<std::uint64_t> free = common_.free_bytes(results_.get());
  if (!free || *free >= common_.reserve_bytes + bytes) return {};
  return fmt::format("{} MiB are left on the disk, of which detached.reserve_mib = {} stay free", *free >> 20,
                     common_.reserve_bytes >> 20);
}

void DetachedScan::begin(protocol::Payload head) {
  const std::scoped_lock lock(mutex_);
  static_cast<void>(count(head.bytes.size()));
  head_bytes_ = appended_bytes_ = head.bytes.size();
  marks_.push_back({appended_bytes_, 0, false});
  capture_->written(appended_bytes_);
  capture_->append(std::move(head));
}

void DetachedScan::start() {
  thread_ = std::thread([this] {
    lower_priority(0);
    try {
      work();
    } catch (const std::exception& error) {  // the machine has no more memory: the next server goes on
      write_log(LogLevel::error, fmt::format("detached scan {}: {}", id(), error.what()));
    }
    close_files();
    thread_ended_ = true;
  });
}

ScanRecord DetachedScan::record() const {
  const std::scoped_lock lock(mutex_);
  return record_;
}

// --- who sends and reads ---------------------------------------------------------------------------------------------

DetachedScan::Watch DetachedScan::watch(std::function<void()> wake) {
  const std::scoped_lock lock(watchers_mutex_);
  watchers_[++last_watch_] = std::move(wake);
  return last_watch_;
}

void DetachedScan::unwatch(Watch watch) {
  {
    const std::scoped_lock lock(watchers_mutex_);
    watchers_.erase(watch);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (sender_ != watch) return;
    sender_ = 0;
    *live_ = false;
    client_left_ = Clock::now();
  }
  wake_all();
}

void DetachedScan::take_over(Watch watch) {
  {
    const std::scoped_lock lock(mutex_);
    if (input_ended_ && running_) return;  // all that it has was given to its session
    input_ended_ = false;
    sender_ = watch;
    *live_ = true;
  }
  wake_all();
}

bool DetachedScan::too_late() const {
  const std::scoped_lock lock(mutex_);
  return input_ended_ && running_;
}

bool DetachedScan::append(Watch watch, protocol::Payload bytes, std::uint64_t messages, bool close) {
  const std::scoped_lock lock(mutex_);
  if (sender_ != watch || closed_ || !capture_ || capture_->stopped()) return false;
  if (!count(bytes.bytes.size())) {
    capture_->stop(bound_reached());
    return false;
  }
  appended_bytes_ += bytes.bytes.size();
  appended_ += messages;
  closed_ = close;
  marks_.push_back({appended_bytes_, messages, close});
  // The oldest: while more comes than is written, what is written counts already. Asked before it can be: else no wake.
  capture_->written(marks_.front().end);
  capture_->append(std::move(bytes));
  return true;
}

void DetachedScan::end_input(Watch watch) {
  {
    const std::scoped_lock lock(mutex_);
    if (sender_ != watch) return;
    input_ended_ = true;
  }
  wake_all();
}

bool DetachedScan::full() const {
  const std::scoped_lock lock(mutex_);
  return capture_ && capture_->full();
}

bool DetachedScan::settled() const {
  const std::scoped_lock lock(mutex_);
  return !capture_ || capture_->settled();
}

void DetachedScan::reopen(Watch watch) {
  std::unique_lock lock(mutex_);
  refresh();
  if (sender_ != watch || !capture_ || !capture_->stopped() || !capture_->settled() || reopening_) return;
  reopening_ = true;  // the lock is not held while the disk is looked at: sockets' threads take it
  const std::uint64_t from = safe_bytes_;
  lock.unlock();
  // Messages that are in the file without being safe (durable: power) are sent again.
  std::shared_ptr<Capture> again;
  try {
    if (of_client_->left() < kLittle && common_.make_room) common_.make_room(record().identity);
    again = common_.captures->open_file(journal_name(id_), from, [this] { wake_all(); });
  } catch (...) {
    lock.lock();
    reopening_ = false;
    throw;
  }
  lock.lock();
  reopening_ = false;
  if (!capture_) return again->finish(true);  // it has ended
  capture_->finish(true);
  capture_ = std::move(again);
  marks_.clear();
  problem_.clear();
  appended_bytes_ = safe_bytes_;
  count_again();
  synced_ = std::min(synced_, safe_bytes_);
  appended_ = safe_;
  closed_ = close_safe_;
}

bool DetachedScan::all_safe() {
  const std::scoped_lock lock(mutex_);
  refresh();
  return !capture_ || marks_.empty();
}

// With the lock held.
void DetachedScan::refresh() {
  if (!capture_ || reopening_) return;
  for (bool more = true; more;) {  // until who writes is asked for a wake
    const std::uint64_t limit = record_.power ? std::min(synced_, capture_->saved()) : capture_->saved();
    for (; !marks_.empty() && marks_.front().end <= limit; marks_.pop_front()) {
      safe_ += marks_.front().messages;
      safe_bytes_ = marks_.front().end;
      close_safe_ = close_safe_ || marks_.front().close;
    }
    more = !marks_.empty() && capture_->written(marks_.front().end) && !record_.power && !capture_->stopped();
  }
  if (problem_.empty() && capture_->stopped()) problem_ = capture_->failure();
}

DetachedScan::View DetachedScan::look() {
  const std::scoped_lock lock(mutex_);
  refresh();
  return {state(), safe_bytes_ >= head_bytes_, safe_, safe_bytes_, close_safe_, problem_, results_bytes_, images_};
}

// With the lock held.
DetachedScan::State DetachedScan::state() const {
  if (is_end(end_)) return end_;
  if (!closed_ && sender_ != 0) return State::receiving;
  return running_ && (closed_ || input_ended_) ? State::running : State::waiting;
}

std::uint64_t DetachedScan::bytes() {
  const std::scoped_lock lock(mutex_);
  return appended_bytes_ + results_bytes_;
}

std::string DetachedScan::json() {
  const View now = look();
  const ScanRecord facts = record();
  std::string trouble;
  {
    const std::scoped_lock lock(mutex_);
    trouble = now.problem.empty() ? trouble_ : now.problem;
  }
  return json_of(facts, now.state, now.safe, now.images, facts.failure.empty() ? trouble : facts.failure);
}

std::string json_of(const ScanRecord& facts, DetachedScan::State state, std::uint64_t received, std::uint64_t images,
                    const std::string& problem) {
  return nlohmann::ordered_json{{"id", facts.id},
                                {"state", DetachedScan::to_string(state)},
                                {"pipeline", facts.pipeline},
                                {"begun", facts.begun},
                                {"received", received},
                                {"images", images},
                                {"keep_until", facts.keep_until},
                                {"failure", problem}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void DetachedScan::delivered() {
  const std::scoped_lock file(record_file_mutex_);
  ScanRecord noted;
  {
    const std::scoped_lock lock(mutex_);
    if (!is_end(end_) || record_.delivered || removed_) return;
    record_.delivered = true;
    noted = record_;
  }
  // Where that fails, it stays until its time is over.
  static_cast<void>(write_record(common_.folder, noted, false));
  delivered_ = true;  // from now on it may be removed
}

void DetachedScan::cancel() {
  cancelled_ = true;
  wake_all();
}

void DetachedScan::stop() {
  stopping_ = true;
  wake_all();
}

void DetachedScan::join(bool now) {
  if (now) {
    stopping_ = cut_off_ = true;
    wake_thread();
  }
  const std::scoped_lock lock(join_mutex_);  // several may wait for it
  if (thread_.joinable()) thread_.join();
}

// The captures' lock may be held.
void DetachedScan::wake_all() {
  wake_thread();
  const std::scoped_lock lock(watchers_mutex_);
  for (const auto& [watch, wake] : watchers_) wake();
}

void DetachedScan::wake_thread() const {
  const std::scoped_lock lock(watchers_mutex_);
  if (wake_.get() < 0) return;  // the thread has ended
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
}

// --- the thread ------------------------------------------------------------------------------------------------------

protocol::Result<std::uint64_t> DetachedScan::add_session(int socket) const {
  SessionOrigin origin;
  {
    const std::scoped_lock lock(mutex_);
    origin = {record_.peer,     record_.identity, record_.granted, record_.occasion,
              record_.to_dicom, images_ == 0,     in_time_,        live_};
  }
  if (!common_.add_session) {
    ::close(socket);
    return protocol::Error{"shutdown", "this server runs no sessions of its own"};
  }
  return common_.add_session(socket, origin);
}

bool DetachedScan::input_ended() {
  const std::scoped_lock lock(mutex_);
  refresh();
  if (close_safe_) return true;
  const bool whole = capture_ && capture_->stopped() ? close_safe_ : closed_;  // a CLOSE that is not written is none
  if (!whole && sender_ == 0 && !input_ended_ && Clock::now() > client_left_ + common_.resume_within)
    input_ended_ = true;
  return input_ended_ && (marks_.empty() || !capture_ || capture_->stopped());  // all that came is in the file
}

void DetachedScan::sync_journal() {
  std::uint64_t written = 0;
  std::shared_ptr<Capture> of;
  {
    const std::scoped_lock lock(mutex_);
    if (!record_.power || !capture_) return;
    of = capture_;
    written = capture_->saved();
    if (written <= synced_) return;
  }
  const bool synced = common_.sync(journal_.get()) == 0;
  const int error = errno;
  {
    const std::scoped_lock lock(mutex_);
    if (capture_ != of) return;  // reopened meanwhile: bytes behind the last safe one were cut
    if (synced)
      synced_ = written;
    else
      capture_->stop("synchronising failed: " + system_text(error));
  }
  wake_all();
}

std::string DetachedScan::add_result(std::span<const std::byte> message, bool image, bool last_words) {
  const auto counts = [&] {
    const std::scoped_lock lock(mutex_);
    return count(message.size());
  };
  if (!last_words && !counts()) {
    while (common_.make_room && common_.make_room(record_.identity))
      if (counts()) return add_counted_result(message, image);
    results_full_ = true;
    return "the results cannot be kept: " + bound_reached();
  }
  return add_counted_result(message, image);
}

std::string DetachedScan::add_counted_result(std::span<const std::byte> message, bool image) {
  const auto waits = [&](std::string why) {
    const std::scoped_lock lock(mutex_);
    count_again();
    room_awaited_ = message.size();
    trouble_ = "the results cannot be written: " + why;
    return trouble_;
  };
  if (std::string why = why_no_room(message.size()); !why.empty()) return waits(std::move(why));
  std::uint64_t at = results_bytes_;  // only this thread changes it
  for (auto rest = message; !rest.empty();) {
    const ssize_t n = ::pwrite(results_.get(), rest.data(), rest.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string why = n == 0 ? "no byte was written" : system_text(errno);
      [[maybe_unused]] const int cut = ::ftruncate(results_.get(), static_cast<off_t>(results_bytes_));
      return waits(why);
    }
    at += static_cast<std::uint64_t>(n);
    rest = rest.subspan(static_cast<std::size_t>(n));
  }
  {
    const std::scoped_lock lock(mutex_);
    results_bytes_ = at;
    images_ += image ? 1 : 0;
    room_awaited_ = 0;
    trouble_.clear();
  }
  wake_all();
  return {};
}

// A scan whose client may still come back has its session begun by the client only: it would hold memory for nothing.
bool DetachedScan::may_run(Clock::time_point since, bool& has_turn) {
  if (!look().begun) return false;
  if (room_awaited_ > 0 && !why_no_room(room_awaited_).empty()) return false;  // only this thread changes it
  if (has_sender()) return true;
  if (!input_ended()) return false;
  has_turn = !common_.take_turn || common_.take_turn(Clock::now() - since);
  return has_turn;
}

RunOutcome DetachedScan::run() {
  try {
    return run_detached(*this);
  } catch (const std::bad_alloc&) {
    return {RunOutcome::Kind::again, true, "no memory is left", {}};
  } catch (const std::exception& error) {
    return {RunOutcome::Kind::again, false, error.what(), {}};
  }
}

void DetachedScan::work() {
  Clock::time_point since = Clock::now(), not_before = since;
  std::chrono::seconds pause = kFirstPause;
  for (int failures = 0;;) {
    sync_journal();
    if (cancelled_) return end(State::cancelled, "", {});
    if (stopping_) return;
    bool has_turn = false;
    if (Clock::now() < not_before || !may_run(since, has_turn)) {
      pollfd one{wake_.get(), POLLIN, 0};
      ::poll(&one, 1, static_cast<int>(kLook.count()));
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
      continue;
    }
    {
      const std::scoped_lock lock(mutex_);
      running_ = true;
      in_time_ = in_time_ && sender_ != 0;
    }
    const RunOutcome outcome = run();
    if (has_turn && common_.end_turn) common_.end_turn();
    if (outcome.kind == RunOutcome::Kind::again) {  // in all other cases it is too late for more
      const std::scoped_lock lock(mutex_);
      running_ = in_time_ = false;
    }
    switch (outcome.kind) {
      case RunOutcome::Kind::complete:
        return end(State::done, "", {});
      case RunOutcome::Kind::incomplete:
        return end(State::incomplete, "the client did not come back in time, before its CLOSE", {});
      case RunOutcome::Kind::cancelled:
        return end(State::cancelled, "", {});
      case RunOutcome::Kind::failed:
        return end(State::failed, outcome.why, outcome.last_text);
      case RunOutcome::Kind::stopped:
        return;
      case RunOutcome::Kind::again:
        break;
    }
    if (!outcome.patient && ++failures >= kMostFailures) return end(State::failed, outcome.why, outcome.last_text);
    if (!stopping_)
      write_log(LogLevel::warning, fmt::format("detached scan {} runs again in {} s: {}", id(), pause.count(),
                                               protocol::printable(outcome.why)));
    since = Clock::now();
    not_before = since + pause;
    pause = std::min(2 * pause, kLongestPause);
  }
}

void DetachedScan::end(State state, const std::string& failure, std::span<const std::byte> last_text) {
  protocol::Buffer told(last_text.begin(), last_text.end());
  const std::string name(to_string(state));
  if (told.empty() && state != State::done)
    protocol::encode(
        protocol::Text{protocol::format_log_text(
            protocol::Level::error, failure.empty() ? name + ": the scan was cancelled" : name + ": " + failure)},
        told);
  if (!told.empty()) static_cast<void>(add_result(told, false, true));  // a full disk: its state says it as well
  ScanRecord ended = record();
  ended.end = name;
  ended.failure = failure;
  ended.keep_until = unix_now() + static_cast<std::int64_t>(ended.keep_h * 3600);
  ended.received = look().safe;
  ended.images = images_;
  ended.results_bytes = results_bytes_;
  ended.delivered = state == State::cancelled;  // nobody wants it: it goes first where room is short
  // Where that fails, the next server runs it again, which finds its images there.
  std::string problem;
  if (ended.power && common_.sync(results_.get()) != 0)
    problem = "synchronising the results failed: " + system_text(errno);
  else
    problem = write_record(common_.folder, ended, ended.power);
  std::shared_ptr<Capture> capture;
  {
    const std::scoped_lock lock(mutex_);
    end_ = state;
    record_ = std::move(ended);
    delivered_ = record_.delivered;
    count_again();
    capture = std::exchange(capture_, nullptr);
  }
  if (capture) capture->finish(true);
  if (!problem.empty()) write_log(LogLevel::error, fmt::format("detached scan {}: {}", id(), problem));
  write_log(LogLevel::info, fmt::format("detached scan {}: {}{}{}", id(), name, failure.empty() ? "" : ": ",
                                        protocol::printable(failure)));
  wake_all();
}

}  // namespace echotrain::server
