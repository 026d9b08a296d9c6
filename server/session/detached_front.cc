#include "server/session/detached_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "protocol/data/message_id.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"
#include "server/capture/capture_stream.h"
#include "server/detached/scan_record.h"
#include "server/net/tokens.h"

namespace echotrain::server {

using protocol::MessageId;

namespace {

// An acknowledgement stands for all that came before: one for so many bytes, or after so long.
constexpr std::uint64_t kBytesPerAnswer = 1 << 20;
constexpr auto kTimePerAnswer = std::chrono::milliseconds(20);
constexpr auto kLook = std::chrono::milliseconds(250);
constexpr std::size_t kResultsAtOnce = 1 << 20;

/// Whole messages of the results, from `at` on.
struct Results {
  protocol::Buffer bytes;
  std::uint64_t images = 0;
  std::string problem;
};

Results read_results(int descriptor, const protocol::Limits& limits, std::uint64_t& at, std::uint64_t until,
                     std::uint64_t& skip_images, bool with_images) {
  Results out;
  CaptureStream stream(descriptor, until, limits, at);
  while (out.bytes.size() < kResultsAtOnce) {
    const auto message = stream.next();
    if (!message) break;
    const bool image = static_cast<MessageId>(message->id) == MessageId::image;
    const bool skipped = skip_images > 0 || (image && !with_images);
    if (image && skip_images > 0) --skip_images;
    for (std::uint64_t taken = 0; !skipped && taken < message->size;) {
      const auto part =
          stream.bytes(message->offset + taken, std::min<std::uint64_t>(kResultsAtOnce, message->size - taken));
      if (part.empty()) break;
      out.bytes.insert(out.bytes.end(), part.begin(), part.end());
      taken += part.size();
    }
    if (!stream.problem().empty()) break;
    out.images += image && !skipped ? 1 : 0;
    at = message->offset + message->size;
  }
  out.problem = stream.problem();
  return out;
}

}  // namespace

DetachedFront::DetachedFront(Connection& connection, std::shared_ptr<DetachedScan> scan, Kind kind,
                             std::optional<std::uint64_t> correlation_id, std::uint64_t images)
    : connection_(connection),
      scan_(std::move(scan)),
      kind_(kind),
      correlation_id_(correlation_id),
      sends_images_(scan_->record().to_client),
      watch_(scan_->watch(connection.waker())),
      skip_images_(images) {
  if (kind_ != Kind::reads) scan_->take_over(watch_);
  ready_ = kind_ == Kind::begins;
}

DetachedFront::~DetachedFront() { scan_->unwatch(watch_); }

bool DetachedFront::take(const protocol::MessageBuffer::Raw& message) {
  if (closed_) return true;  // bytes after CLOSE are ignored
  switch (static_cast<MessageId>(message.id)) {
    case MessageId::acquisition:
    case MessageId::waveform:
    case MessageId::image:
    case MessageId::text:
    case MessageId::close:
      break;
    default:
      return false;
  }
  if (kind_ == Kind::reads) {
    closed_ = static_cast<MessageId>(message.id) == MessageId::close;
    return closed_;
  }
  if (!ready_) return false;
  protocol::Payload bytes = message.bytes;
  if (static_cast<MessageId>(message.id) == MessageId::text) {
    constexpr std::size_t kBefore = 6;  // id and length
    const std::string text(reinterpret_cast<const char*>(bytes.bytes.data()) + kBefore, bytes.bytes.size() - kBefore);
    if (const std::string token = token_in(text); !token.empty()) {
      protocol::Buffer masked;
      protocol::encode(protocol::Text{without_token_value(text, token)}, masked);
      bytes = protocol::Payload::take(std::move(masked));
    }
  }
  if (run_.owner != bytes.owner || run_.bytes.data() + run_.bytes.size() != bytes.bytes.data()) {
    flush();
    run_ = bytes;
  } else {
    run_.bytes = {run_.bytes.data(), run_.bytes.size() + bytes.bytes.size()};
  }
  ++run_messages_;
  if (static_cast<MessageId>(message.id) == MessageId::close) {
    closed_ = run_closes_ = true;
    flush();
    // From here on the client only reads.
    connection_.said_all = true;
  }
  return true;
}

// What the journal does not take is not acknowledged: deliver() tells the client why.
void DetachedFront::flush() {
  if (run_messages_ == 0) return;
  if (!scan_->append(watch_, std::move(run_), run_messages_, run_closes_)) refused_ = true;
  run_ = {};
  run_messages_ = 0;
}

void DetachedFront::input_ended() {
  if (closed_ || kind_ != Kind::begins || correlation_id_) return;
  flush();
  closed_ = connection_.said_all = true;
  scan_->end_input(watch_);
}

asio::awaitable<void> DetachedFront::ended() const {
  if (!sent_all_ || connection_.end.gone) co_return;
  const std::function<void()> work = [this] { scan_->delivered(); };
  co_await connection_.offload(*connection_.environment.detached_work, work, [] { return false; });
}

bool DetachedFront::full() const { return scan_->full(); }

void DetachedFront::answer(const std::string& text) {
  if (correlation_id_) connection_.outbox->response({*correlation_id_, text});
}

void DetachedFront::acknowledge(const DetachedScan::View& now) {
  if (!correlation_id_ || kind_ == Kind::reads || !ready_ || now.safe <= acknowledged_) return;
  const Clock::time_point at = Clock::now();
  const bool last = now.closed || DetachedScan::is_end(now.state);
  if (!last && now.safe_bytes - acknowledged_bytes_ < kBytesPerAnswer && at < acknowledged_at_ + kTimePerAnswer) return;
  acknowledged_ = now.safe;
  acknowledged_bytes_ = now.safe_bytes;
  acknowledged_at_ = at;
  answer(fmt::format("acknowledged {}", now.safe));
}

// Messages on their way to the disk from the connection before count as soon as they are there.
asio::awaitable<void> DetachedFront::resume() {
  while (!scan_->settled() && !connection_.ending()) co_await connection_.poll_wait();
  if (connection_.ending()) co_return;
  const std::function<void()> work = [this] { scan_->reopen(watch_); };
  std::string problem;
  try {
    co_await connection_.offload(*connection_.environment.detached_work, work, [this] { return connection_.ending(); });
  } catch (const std::exception& error) {
    problem = error.what();
  }
  // What is written, but not yet on the disk, is so in a moment.
  const Clock::time_point last = Clock::now() + seconds(connection_.options.send_timeout_s);
  DetachedScan::View now = scan_->look();
  while (!connection_.ending() && problem.empty() && now.problem.empty() && !scan_->all_safe() && Clock::now() < last) {
    co_await connection_.poll_wait();
    now = scan_->look();
  }
  if (problem.empty()) problem = now.problem;
  if (problem.empty() && !scan_->all_safe()) problem = "the disk does not answer";
  if (!problem.empty() && !DetachedScan::is_end(now.state)) {
    connection_.fail({"capture", "the scan cannot go on now: " + problem});
    co_return;
  }
  now = scan_->look();
  acknowledged_ = now.safe;
  acknowledged_bytes_ = now.safe_bytes;
  ready_ = true;
  if (now.closed) closed_ = connection_.said_all = true;
  answer(fmt::format("resumed {}", now.safe));
}

// Reads and queues results as far as there is room. False: they cannot be read.
asio::awaitable<bool> DetachedFront::send_results(std::uint64_t until) {
  while (results_at_ < until && connection_.outbox->has_room() && !connection_.ending()) {
    Results results;
    const std::function<void()> work = [&] {
      if (results_.get() < 0) results_ = scan_->open_results();
      results =
          read_results(results_.get(), connection_.environment.limits, results_at_, until, skip_images_, sends_images_);
    };
    try {
      const bool read = co_await connection_.offload(*connection_.environment.detached_work, work,
                                                     [this] { return connection_.ending(); });
      if (!read) co_return true;
    } catch (const std::system_error& error) {
      results.problem = error.what();
    }
    if (!results.problem.empty()) {
      connection_.fail({"internal", "the results cannot be read: " + results.problem});
      co_return false;
    }
    if (!results.bytes.empty()) connection_.outbox->relay(std::move(results.bytes), results.images);
  }
  co_return true;
}

asio::awaitable<void> DetachedFront::deliver() {
  delivers_ = true;
  if (kind_ == Kind::resumes) co_await resume();
  if (kind_ == Kind::reads) {
    connection_.said_all = true;
    answer(fmt::format("fetching {}", DetachedScan::to_string(scan_->look().state)));
  }
  bool told = kind_ != Kind::begins;  // that it is detached
  while (!connection_.ending()) {
    const DetachedScan::View now = scan_->look();
    const bool over = DetachedScan::is_end(now.state);
    if (!told && now.begun) {
      answer("detached " + scan_->id());
      told = true;
    }
    if (told) acknowledge(now);
    if (kind_ != Kind::reads && !scan_->sends(watch_)) {
      connection_.fail({"superseded", "another connection has taken this scan over"});
      break;
    }
    if (kind_ != Kind::reads && !over && !now.problem.empty()) {
      connection_.fail({"capture", fmt::format("the raw data cannot be kept: {}; the scan {} stays as far as it was "
                                               "acknowledged, and can be resumed",
                                               now.problem, scan_->id())});
      break;
    }
    if (refused_ && !over && !scan_->thread_ended()) {  // what follows would leave a gap
      connection_.fail({"capture", fmt::format("the raw data were not taken; resume the scan {}", scan_->id())});
      break;
    }
    if (!over && scan_->thread_ended()) {
      connection_.fail({"shutdown", "the server is shutting down; resume the scan later"});
      break;
    }
    if (!co_await send_results(now.results)) break;
    const bool all_acknowledged = !correlation_id_ || kind_ == Kind::reads || acknowledged_ >= now.safe;
    if (over && results_at_ >= now.results && all_acknowledged) {
      sent_all_ = true;
      connection_.end.closed = true;
      connection_.notify();
      break;
    }
    if (connection_.transport->is_reset()) {
      connection_.lose("the connection was reset");
      break;
    }
    co_await connection_.poll_wait(all_acknowledged ? kLook : kTimePerAnswer);
  }
  scan_->unwatch(watch_);
}

}  // namespace echotrain::server
