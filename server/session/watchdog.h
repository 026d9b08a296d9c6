// The watchdog is the clock of a session: it ends sessions whose peer stalls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "protocol/data/result.h"
#include "server/base/clock.h"
#include "server/base/signal.h"
#include "server/session/connection.h"

namespace echotrain::server {

/// A scan crawls when too few data have come for this many times idle_timeout_s: its client may pause for almost
/// idle_timeout_s.
inline constexpr double kCrawl = 3;

/// Keeps all deadlines of a session by one clock, so that reads and writes need no timers of their own. The other parts
/// tell it what they do. Neither bytes that drip in or out nor messages without data keep a session alive, and large
/// messages on slow links have the time they need (docs/protocol.md, "Deadlines"). For the session's strand.
class Watchdog {
 public:
  explicit Watchdog(Connection& connection);

  /// Looks at the clock until stop().
  asio::awaitable<void> watch();
  void stop();
  /// Ends the session if a deadline has passed at `now`. watch() calls this several times in the shortest timeout.
  void check(Clock::time_point now);

  /// Notes that a read from the socket is under way (true) or has returned.
  void set_reading(bool reading) { reading_ = reading; }
  /// The party at fault when the session takes no bytes: the client if it does not read the answers to its queries.
  enum class Fault { server, client };
  /// Notes that the session stops taking bytes from the socket; the client then has to read what it is sent.
  void hold_back(Clock::time_point now = Clock::now(), Fault fault = Fault::server);
  /// Notes that the session takes bytes again. The time between does not count if it was the server's fault and the
  /// client has sent its header.
  void release(Clock::time_point now = Clock::now());
  bool holds_back() const { return held_since_.has_value(); }
  /// While input goes to the capture only, the client is not watched, and the time does not count. A client that sends
  /// (almost) nothing for idle_timeout_s meanwhile has to read what it is sent.
  void set_spilling(bool spilling, Clock::time_point now = Clock::now());
  /// Notes that `bytes` more have gone to the capture only.
  void spilled(std::uint64_t bytes);

  /// The message that a client has to send next.
  enum class Awaited { config, header, data };
  /// The state of the input after the session has looked at the bytes that came.
  struct Received {
    Clock::time_point at;
    bool whole_message;         ///< at least one message was complete
    bool data;                  ///< at least one of them was a readout or an image
    std::size_t pending_bytes;  ///< of the partly received message
    Awaited awaited;
    /// The error of a config that cannot be used: the client is told it when it falls silent.
    std::optional<protocol::Error> config_error;
  };
  void received(Received state);

  /// Notes that samples that came in `bytes` are expanded to `plain` bytes.
  void compressed(std::uint64_t bytes, std::uint64_t plain);

  void write_begins();
  /// Notes that `bytes` of the write under way have been given to the network.
  void wrote(std::uint64_t bytes) { written_ = bytes; }
  void write_ends() { write_.reset(); }

  /// What a scan waits for: memory first, then a place.
  enum class Lacks { memory, place };
  /// Notes that a scan waits for its memory and place from `since` on, for what it lacks now. After wait_timeout_s the
  /// session ends and place_wait_over() is true.
  void place_wait_begins(Clock::time_point since, Lacks lacks = Lacks::place);
  void place_wait_ends(Clock::time_point now = Clock::now());
  bool place_wait_over() const { return place_wait_over_; }
  /// Calls `ring` once when the clock has passed `when`. There is one alarm; a later one replaces it.
  void set_alarm(Clock::time_point when, std::function<void()> ring);
  void clear_alarm() { alarm_.reset(); }
  /// Calls `ring` again and again while no data have come for pause_s. While others wait for memory, it also does so
  /// when in that time too little has come: for a scan that borrows, less than 16 KiB/s; for others, less than would
  /// fill what is reserved and not used within four hours. Compressed samples count as what they are expanded to, up to
  /// four times what came.
  void on_pause(std::function<void()> ring) { pause_ = std::move(ring); }

  /// Calls `ring` again and again while the scan crawls: in the last whole period of kCrawl times idle_timeout_s, and
  /// since then, less has come than would fill within two days what it uses.
  void on_crawl(std::function<void()> ring) { crawl_ = std::move(ring); }

  /// Calls `look` at each look at the clock, also when the peer is lost.
  void on_look(std::function<void(Clock::time_point)> look) { look_ = std::move(look); }

  /// Notes that the last message has been sent: the peer has drain_timeout_s to hang up.
  void drain_begins();
  bool draining() const { return drain_until_.has_value(); }
  bool drain_over() const { return drain_over_; }

 private:
  // A transfer must move enough bytes in each period of its timeout; this is the period's beginning.
  struct Period {
    Clock::time_point began;
    std::uint64_t bytes = 0;
  };
  struct Alarm {
    Clock::time_point when;
    std::function<void()> ring;
  };
  static bool stalled(Period& period, Clock::time_point now, double timeout_s, std::uint64_t bytes, double slowest);
  double slowest_pace() const;
  std::uint64_t data_in() const;
  bool over() const { return stopped_ || connection_.end.gone; }
  void excuse(std::optional<Clock::time_point>& since, Clock::time_point now, Fault fault);
  void check_alarm(Clock::time_point now);
  void check_pause(Clock::time_point now);
  void check_crawl(Clock::time_point now);
  void excuse_crawl(Clock::time_point since, Clock::time_point now);
  void check_spill(Clock::time_point now);
  bool need_not_read() const;
  bool is_watched() const;
  void check_input(Clock::time_point now);
  double patience_s() const;
  protocol::Error overdue() const;

  Connection& connection_;
  const config::ServerOptions& options_;
  asio::steady_timer timer_;
  bool stopped_ = false, reading_ = false;
  const Clock::time_point began_ = Clock::now();

  std::optional<Clock::time_point> held_since_, spilling_since_;
  std::optional<Period> spill_;  // while input spills
  std::uint64_t spilled_ = 0;
  bool spill_is_silent_ = false;  // in the last whole period
  bool crawls_ = false;           // in the last period of crawled_, and since then
  Fault fault_ = Fault::server;   // since held_since_
  Awaited awaited_ = Awaited::config;
  Clock::time_point awaited_since_ = began_;  // of data: since the last ones
  Period message_{began_};
  Clock::time_point message_began_ = began_;  // of the partly received message
  std::size_t pending_bytes_ = 0;
  std::optional<protocol::Error> config_error_;

  std::optional<Period> write_;
  std::uint64_t written_ = 0;  // of the write under way
  std::optional<Alarm> alarm_;
  std::function<void()> pause_, crawl_;
  std::function<void(Clock::time_point)> look_;
  Period pace_{began_};                   // of data_in() while the session takes it
  Period crawled_{began_};                // the same, of kCrawl times idle_timeout_s
  std::uint64_t expanded_ = 0;            // what compressed samples are beyond what came
  Clock::time_point last_data_ = began_;  // or the beginning of the scan, or of its going on; less what is excused
  std::optional<Clock::time_point> place_until_, drain_until_;
  Lacks lacks_ = Lacks::place;  // until place_until_
  bool place_wait_over_ = false, drain_over_ = false;
};

}  // namespace echotrain::server
