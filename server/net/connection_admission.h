// A slot admits a connection or a session: the number of each is bounded, in all and by address.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <map>
#include <optional>

#include "protocol/data/result.h"
#include "server/base/clock.h"
#include "server/net/allow_list.h"

namespace echotrain::server {

/// The slots of connections that have not shown what they want, and of sessions (admission, fair share by address).
/// Each kind has slots of its own, so that connections that say nothing never take a session's. Where one address may
/// not have all sessions, an eighth of them, rounded down, is for the first one of an address. Not thread-safe.
class ConnectionAdmission {
 public:
  struct Limits {
    std::int64_t connecting;   ///< connections without a config
    std::int64_t sessions;     ///< in all
    std::int64_t per_address;  ///< sessions of one address, or of one /64 network of IPv6
    std::int64_t for_first() const { return per_address < sessions ? sessions / 8 : 0; }
    /// Connections without a config of one address hold up nobody up to this number.
    std::int64_t half() const { return (connecting + 1) / 2; }
  };
  /// `exempt` are networks of which an address may have all the sessions.
  ConnectionAdmission(Limits limits, AllowList exempt) : limits_(limits), exempt_(std::move(exempt)) {}

  /// Takes a connection that has come. All slots may be taken: make_room() first.
  void connect(std::uint64_t id, const boost::asio::ip::address& address, Clock::time_point now);

  /// Says whether connect() may be called for a connection of `address`, and which one is to be dropped for it. None is
  /// dropped before it has had kGrace for its config, so that a crowd of good clients is served and not driven away;
  /// but an address that has more than half makes room for another one at once.
  struct Room {
    bool there = false;
    std::optional<std::uint64_t> dropped;
    boost::asio::ip::address address;  ///< of that one
  };
  /// Chooses the one that is dropped: the oldest of the address that has most (of several, the oldest of theirs). It
  /// has no slot any more: so one address only drives away its own.
  Room make_room(const boost::asio::ip::address& address, Clock::time_point now);
  static constexpr Clock::duration kGrace = std::chrono::milliseconds(250);

  /// True if a connection for which there is no room may wait for some; it counts as waiting until end_wait(). False
  /// for an address that has more than half of the slots, with those that wait.
  bool wait(const boost::asio::ip::address& address);
  void end_wait(const boost::asio::ip::address& address);

  /// Makes the connection a session, or returns why not: `busy`, with the limit and what to do.
  std::optional<protocol::Error> admit(std::uint64_t id);
  /// Forgets a connection that has ended. Does nothing for one that is not known.
  void remove(std::uint64_t id);

  std::int64_t connecting() const { return connecting_; }
  std::int64_t sessions() const { return sessions_; }

 private:
  enum class Kind { connecting, session, dropped };
  struct Entry {
    boost::asio::ip::address who;  // as counted
    boost::asio::ip::address address;
    Clock::time_point since;
    Kind kind;
  };
  struct Count {
    std::int64_t connecting = 0, sessions = 0, waiting = 0;
  };
  void forget(std::map<boost::asio::ip::address, Count>::iterator count);
  void leave(Entry& entry);

  const Limits limits_;
  const AllowList exempt_;
  std::map<std::uint64_t, Entry> entries_;  // in the order in which they came
  std::map<boost::asio::ip::address, Count> by_address_;
  std::int64_t connecting_ = 0, sessions_ = 0;
};

}  // namespace echotrain::server
