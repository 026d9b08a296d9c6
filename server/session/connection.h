// A connection is what the parts of one session share: its peer and how the session ends.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "protocol/data/result.h"
#include "server/base/log.h"
#include "server/base/signal.h"
#include "server/detached/origin.h"
#include "server/metrics/session_status.h"
#include "server/net/transport.h"
#include "server/scan/outbox.h"
#include "server/session/environment.h"

namespace echotrain::server {

class DetachedFront;

/// The reasons for which a session ends. The session takes no more data once any of the first four is set.
struct Ending {
  bool closed = false;                   ///< the client has sent CLOSE
  bool broken_off = false;               ///< the client's bytes have ended before CLOSE
  std::optional<protocol::Error> error;  ///< fatal; the client is told
  bool gone = false;                     ///< the peer can no longer be reached
  bool dropped = false;                  ///< and that was our doing, for want of slots
  bool told = false;                     ///< the last message is queued: later errors change nothing

  bool any() const { return closed || broken_off || error || gone; }
  /// It ends because memory is short: others may want what it has.
  bool over_budget() const { return error && error->code == "budget"; }
  /// "complete", "incomplete", "peer gone", or the code of the fatal error.
  std::string outcome() const;
};

/// The socket of one peer, the queue of messages for it, and its names in logs and metrics. It belongs to the session's
/// strand; other threads call waker()'s function only.
class Connection {
  const std::shared_ptr<Signal> changed_;  // first: the outbox wakes it

 public:
  /// `peer` is its address for the log. `environment` outlives the connection.
  Connection(std::unique_ptr<Transport> socket, asio::any_io_executor its_strand, std::string peer, std::uint64_t id,
             const Environment& its_environment);

  /// Waits for the next notify(). See Signal: test the condition before each wait.
  asio::awaitable<void> wait() { return changed_->wait(); }
  /// Waits likewise, for the few milliseconds after which a connection that is not read from has to be looked at again:
  /// only Transport::is_reset() notices that its peer is gone.
  asio::awaitable<void> poll_wait(Clock::duration most = std::chrono::milliseconds(50));
  /// Waits until `work` has been done on a thread of `queue`, in the fair order of addresses. Returns false if
  /// `is_over`, which it asks meanwhile, became true first; the work has then not been done.
  asio::awaitable<bool> offload(FairQueue& queue, std::function<void()> work, std::function<bool()> is_over);
  /// Frees `what` on a thread that reads long texts, by turns of addresses: the threads that move bytes serve others.
  void free_offloaded(std::shared_ptr<void> what) noexcept;
  /// Drops what the client has not read, but for the last words: others want the memory.
  void drop_unsent() noexcept { free_offloaded(outbox->drop_all_but_last_words()); }
  /// Wakes all coroutines of the session, which look at what has changed.
  void notify() { changed_->notify(); }
  /// Returns a function that calls notify() on the strand. Any thread may call it, also after the connection has been
  /// destroyed.
  std::function<void()> waker() const;

  bool ending() const { return end.any(); }
  /// Ends the session with a reason that the client is told. The first reason counts.
  void fail(protocol::Error reason);
  /// Ends the session because of an exception in one of its coroutines.
  void fail(const std::exception_ptr& thrown);
  /// Logs the line about the error that ended the session: with what the client wrote only at debug, and only of a
  /// client that was admitted.
  void log_fatal(const protocol::Error& error) const;
  /// Ends the session without a message, because the peer cannot be reached: drops the queue and resets the connection.
  void lose(const std::string& why);
  /// Does the same, to make room for other connections.
  void drop();

  const Environment& environment;
  const config::ServerOptions& options;
  const asio::any_io_executor strand;
  const std::string address;  ///< the peer's without its port, as bounds of one address count it
  const bool exempt;          ///< such bounds do not hold for it
  const SessionLog log;
  const std::shared_ptr<SessionStatus> status;
  const std::shared_ptr<ScanObserver> observer;  ///< null: it is not observed
  const std::unique_ptr<Transport> transport;
  const std::shared_ptr<Outbox> outbox;
  bool captured = true;                  ///< where the server captures anything
  std::string replayed;                  ///< the capture that its bytes come from; empty: they are its peer's
  std::optional<SessionOrigin> origin;   ///< of a session that serves a detached scan; nothing: a client's own
  std::shared_ptr<DetachedFront> front;  ///< of a client whose scan is detached; null: it is not
  bool said_all = false;                 ///< with a front: no more is waited for, and the client has to read
  bool admitted = false;                 ///< it has a session's slot
  bool opened = false;                   ///< the handshake is done: bytes may be exchanged
  /// Asks for a session's slot; an error when there is none. Until then the connection has one of max_connecting.
  std::function<std::optional<protocol::Error>()> admit = [] { return std::nullopt; };
  Ending end;

 private:
  void cut();
  void fail_internally(const std::exception& error);
};

}  // namespace echotrain::server
