// The front of a detached scan is the connection of a client that sends it, or reads its results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>  // the Asio headers below use std::exchange without including it

#include "protocol/wire/message_buffer.h"
#include "server/base/signal.h"
#include "server/detached/detached_scan.h"
#include "server/session/connection.h"

namespace echotrain::server {

/// Takes the client's messages for the journal, says which of them are safe, and sends results. It goes with its
/// connection; the scan stays. For the session's strand.
class DetachedFront {
 public:
  enum class Kind { begins, resumes, reads };
  /// `correlation_id` of the query that is answered; nothing: the client has not asked, and gets no answers. Results
  /// come from behind the image of this number.
  DetachedFront(Connection& connection, std::shared_ptr<DetachedScan> scan, Kind kind,
                std::optional<std::uint64_t> correlation_id, std::uint64_t images);
  ~DetachedFront();
  DetachedFront(const DetachedFront&) = delete;
  DetachedFront& operator=(const DetachedFront&) = delete;

  /// Sends acknowledgements and results, until all is sent or the session ends.
  asio::awaitable<void> deliver();
  bool delivers() const { return delivers_; }  ///< deliver() was called

  /// Notes, when the session has ended, whether the client has got all.
  asio::awaitable<void> ended() const;

  /// Takes a message of the client's after the header; flush() hands on what was taken. False: it has no place there.
  bool take(const protocol::MessageBuffer::Raw& message);
  void flush();
  /// True if no more bytes may be taken for the moment.
  bool full() const;
  /// The client's bytes have ended. One that did not ask for this cannot resume: it gets what its scan gives so far.
  void input_ended();
  /// True after the client's CLOSE, behind which its stream may end.
  bool closed() const { return closed_; }

 private:
  asio::awaitable<void> resume();
  asio::awaitable<bool> send_results(std::uint64_t until);
  void acknowledge(const DetachedScan::View& now);
  void answer(const std::string& text);

  Connection& connection_;
  const std::shared_ptr<DetachedScan> scan_;
  const Kind kind_;
  const std::optional<std::uint64_t> correlation_id_;
  const bool sends_images_;
  DetachedScan::Watch watch_;
  Descriptor results_;  // once they are read

  protocol::Payload run_;  // whole messages that follow one another
  std::uint64_t run_messages_ = 0;
  bool run_closes_ = false, closed_ = false;
  bool ready_ = false;  // the client knows where it stands, and may send
  bool delivers_ = false, sent_all_ = false, refused_ = false;

  std::uint64_t skip_images_, results_at_ = 0;
  std::uint64_t acknowledged_ = 0, acknowledged_bytes_ = 0;
  Clock::time_point acknowledged_at_;
};

}  // namespace echotrain::server
