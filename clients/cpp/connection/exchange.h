// An exchange is one scan over one connection: a thread that sends, a thread that receives, and events for its caller.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "clients/cpp/connection/scan_source.h"
#include "clients/cpp/connection/server_connection.h"
#include "protocol/data/messages.h"
#include "protocol/wire/message_buffer.h"

namespace echotrain::client {

/// An image from the server, and the time since its last readout was given to the connection: the readout named in the
/// meta attribute echotrain_last_readout, else the last one sent so far with the image's counters.
struct ReceivedImage {
  protocol::Image image;
  std::optional<std::chrono::duration<double>> latency;
};
using Event = std::variant<ReceivedImage, protocol::Text, protocol::Response>;

/// The times that an exchange may go without progress.
struct ExchangeTimeouts {
  std::chrono::duration<double> sending = std::chrono::seconds(60);  ///< to connect, and until everything has been sent
  std::optional<std::chrono::duration<double>> after_close;  ///< after everything has been sent; empty: no limit
};

/// A connection, and what has been read from it beyond the answer that was asked for.
struct OpenConnection {
  std::unique_ptr<ServerConnection> connection;
  std::unique_ptr<protocol::MessageBuffer> received;
};

/// The data that an exchange sends: a scan from the message on at which its source stands.
struct Sending {
  ScanSource* source = nullptr;     ///< outlives the exchange; null: nothing is sent, and no CLOSE
  double rate = 0;                  ///< readouts/s, 0 for no limit
  std::size_t readouts_before = 0;  ///< readouts of the scan before that message
};

class Exchange {
 public:
  /// Connects (or throws ConnectionError) and starts. `preamble`: configuration and header messages. `rate`:
  /// readouts/s, 0 for no limit. The source must outlive this.
  Exchange(const ServerAddress& server, ExchangeTimeouts patience, protocol::Buffer preamble, ScanSource& source,
           double rate);
  /// As above, on a connection that there is.
  Exchange(OpenConnection open, ExchangeTimeouts patience, protocol::Buffer preamble, Sending sending);
  ~Exchange();

  /// Returns the next event; nothing when none came within `wait` or when the exchange is over.
  std::optional<Event> next(std::chrono::milliseconds wait);
  /// True if next() will give nothing more.
  bool over();

  std::size_t readouts_sent() const { return readouts_sent_; }
  std::size_t messages_sent() const { return messages_sent_; }  ///< of the source
  bool imaging_sent();                                          ///< readouts that are not noise
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::chrono::duration<double> sending_time() const;  ///< from the first to the last byte; call it when over or sent
  bool sent_all() const { return sent_all_; }
  bool closed_by_server() const { return closed_; }  ///< with CLOSE, as the protocol asks
  /// Returns why sending or receiving failed; empty when they did not. Call it when over.
  std::string failure() const;
  bool lost() const { return lost_; }  ///< the connection has failed, and nothing else

 private:
  using Clock = std::chrono::steady_clock;
  void send_all(const protocol::Buffer& preamble);
  bool send_data();
  bool send_chunk(const ScanChunk& chunk, Clock::time_point begin);
  void note_sending(const ScanChunk::Piece& piece);
  std::optional<Clock::time_point> sent_at(const protocol::Image& image);
  void receive_all();
  bool handle(protocol::Message&& message);
  void post(Event&& event, std::size_t bytes);

  Sending sending_;
  ExchangeTimeouts patience_;
  OpenConnection open_;
  std::atomic<bool> stop_{false}, sent_all_{false}, closed_{false}, lost_{false};
  std::atomic<std::size_t> readouts_sent_{0}, messages_sent_{0};
  std::atomic<std::uint64_t> bytes_sent_{0};
  std::atomic<Clock::rep> last_progress_;
  std::atomic<Clock::time_point> send_begin_{Clock::time_point()}, send_end_{Clock::time_point()};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Event, std::size_t>> events_;
  std::size_t event_bytes_ = 0;
  bool receiver_done_ = false, abandoned_ = false;
  std::map<CounterKey, Clock::time_point> last_sent_;
  std::vector<Clock::time_point> sent_;  // of each readout
  std::string send_failure_, receive_failure_;
  std::thread sender_, receiver_;
};

}  // namespace echotrain::client
