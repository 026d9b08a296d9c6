// A hostile peer is one connection to the server of a client that does not play by the rules. Nothing here throws: what
// the other side does to a connection is part of the game.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace echotrain::hostile {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The counts of what one kind of attack has done, and heard. Shared by all clients.
struct Counts {
  std::atomic<std::uint64_t> connections = 0;
  std::atomic<std::uint64_t> unreachable = 0;         ///< no connection came about
  std::atomic<std::uint64_t> refused = 0;             ///< the server said that it is busy
  std::atomic<std::uint64_t> errors = 0;              ///< it ended the session with any other error
  std::atomic<std::uint64_t> sent = 0, received = 0;  ///< bytes
};

/// The addresses that clients connect from and to, and the time when all of them end.
struct Target {
  sockaddr_in source{}, server{};
  Clock::time_point end{};
  const std::atomic<bool>* stop = nullptr;
};

class Peer {
 public:
  Peer(const Target& target, Counts& counts);
  ~Peer();  ///< by RST
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Sends all while it reads what comes. False when the server ended the connection, took nothing for 20 s, or when it
  /// is time to end.
  bool send(std::span<const std::byte> bytes) { return exchange(bytes, true, milliseconds(20000)); }
  /// Sends and reads nothing, until the server has taken nothing for `patience`.
  bool send_only(std::span<const std::byte> bytes, milliseconds patience) { return exchange(bytes, false, patience); }
  /// Reads for so long. False when the server ended the connection, or when it is time to end.
  bool read_for(milliseconds time);
  /// Says nothing and reads nothing for so long.
  void wait(milliseconds time) const;
  /// Says that no more comes, and reads until the server ends the connection, or for so long.
  void finish(milliseconds patience);

 private:
  bool exchange(std::span<const std::byte> bytes, bool read, milliseconds patience);
  bool ending() const;
  /// Takes what has come; false at the connection's end.
  bool receive();

  const Target& target_;
  Counts& counts_;
  int fd_ = -1;
  bool complained_ = false;  ///< the server has said ERROR
};

}  // namespace echotrain::hostile
