// A delivery brings a scan to a server and its images back: over one connection, or, where the server detaches the scan
// from it, over as many as it takes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/connection/query.h"
#include "clients/cpp/send/collector.h"

namespace echotrain::client {

struct DeliveryOptions {
  ServerAddress server;
  std::string token;  ///< for questions about a detached scan
  ExchangeTimeouts patience;
  double rate = 0;            ///< readouts/s, 0 for no limit
  bool detach = false;        ///< ask the server to detach the scan
  bool no_wait = false;       ///< leave once all of it is safe with the server
  bool images_wanted = true;  ///< there is a place for images: without one, a refused detach with `no_wait` is an error
  double resume_for_s = 600;  ///< how long to try again, from the loss of a connection on [s]
};

/// Use one of send(), resume() and fetch(), once; each ends early after an Interruption. Each returns why it failed,
/// and nothing when all is well; an ERROR of the server is in the collector, though. They throw ConnectionError when
/// the first connection cannot be made.
class Delivery {
 public:
  /// Images and texts go to `got`, the scan's ID to `out`, and what happens to connections to `err`.
  Delivery(DeliveryOptions options, Collector& got, Progress& progress, std::ostream& out, std::ostream& err);

  /// Sends a scan: `opening` (configuration and header), then `source`.
  std::string send(protocol::Buffer opening, ScanSource& source);
  /// Sends what the server does not have yet of a detached scan, and receives its images from the first one on.
  std::string resume(std::string id, ScanSource& source);
  /// Receives the images of a detached scan.
  std::string fetch(std::string id);

  const std::string& id() const { return id_; }  ///< empty: the scan is not detached
  const Sent& sent() const { return sent_; }
  std::size_t readouts() const { return lost_at_; }    ///< of the scan, up to where the last connection has come
  bool imaging_sent() const { return imaging_sent_; }  ///< readouts that are not noise
  bool left_early() const { return left_; }            ///< as `no_wait` asks for
  std::size_t connections() const { return connections_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string run();
  std::unique_ptr<Exchange> connect();
  std::unique_ptr<Exchange> begin();
  std::unique_ptr<Exchange> resumed_at(std::uint64_t message, OpenConnection open);
  /// Takes what comes until the connection is over or not needed any more. Returns why it was lost.
  std::string follow(Exchange& exchange);
  std::string how_it_ended(Exchange& exchange);
  std::span<const char* const> passing() const;
  void note_silence();
  void take(Event& event);
  void take(const protocol::Response& response);
  void refuse(std::string_view why);
  bool safe(const Exchange& exchange) const;
  bool pause_after(const std::string& why);
  void tell_of_return();
  void refuse_tls() const;     // of a server that has never said a word
  std::string way_on() const;  // for a scan that the server keeps
  std::string interrupted() const;

  DeliveryOptions options_;
  Collector& got_;
  Progress& progress_;
  std::ostream& out_;
  std::ostream& err_;

  protocol::Buffer opening_;
  ScanSource* source_ = nullptr;
  std::string id_;
  bool detach_;            // wanted, and not refused
  bool fetching_ = false;  // the scan has ended, or is only to be fetched
  bool left_ = false, imaging_sent_ = false, heard_ = false, ever_heard_ = false, nothing_left_ = false;
  std::size_t connections_ = 0, unanswered_ = 0, unheard_ = 0;
  Clock::time_point unanswered_since_;
  std::uint64_t first_ = 0;         // message with which this connection began
  std::uint64_t acknowledged_ = 0;  // messages that are safe with the server
  std::size_t readouts_before_ = 0;
  Sent sent_;
  std::string failure_, passing_error_;

  struct Loss {
    Clock::time_point since;
    std::size_t readout = 0;
    std::string why;
    bool told = false, quiet = false;
  };
  std::optional<Loss> loss_;
  std::size_t lost_at_ = 0;
  bool silent_ = false, moved_ = false;  // moved: something new is safe or has come
  std::optional<Clock::time_point> stuck_since_;
  std::chrono::duration<double> pause_{};
};

}  // namespace echotrain::client
