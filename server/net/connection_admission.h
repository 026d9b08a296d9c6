// Connection admission bounds the numbers of connections and of sessions, in all and by address.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <map>
#include <optional>

#include "protocol/data/result.h"
#include "server/base/clock.h"
#include "server/net/allow_list.h"

namespace echotrain::server {

/// Counts the slots of connections that have not sent their config, and those of sessions (fair share by address). Each
/// kind has slots of its own, so that connections that say nothing never take a session's. Where one address may not
/// have all sessions, the last eighth of them, rounded down, is for addresses that have none. Not thread-safe.
class ConnectionAdmission {
 public:
  struct Limits {
    std::int64_t connecting;   ///< connections without a config
    std::int64_t sessions;     ///< in all
    std::int64_t per_address;  ///< sessions of one address, or of one /64 network of IPv6
    std::int64_t for_first() const { return per_address < sessions ? sessions / 8 : 0; }
    /// An address that has more connections without a config than this makes room for others at once.
    std::int64_t half() const { return (connecting + 1) / 2; }
  };
  /// `exempt` are networks of which an address may have all the sessions.
  ConnectionAdmission(Limits limits, AllowList exempt) : limits_(limits), exempt_(std::move(exempt)) {}

  /// Takes a connection that has come. All slots may be taken: make_room() first.
  void connect(std::uint64_t id, const boost::asio::ip::address& address, Clock::time_point now);

  /// The outcome of make_room(): `there` if connect() may be called, and the connection that the caller has to drop for
  /// that.
  struct Room {
    bool there = false;
    std::optional<std::uint64_t> dropped;  ///< its id; it has no slot any more
    boost::asio::ip::address address;      ///< of the dropped one
  };
  /// Makes room for a connection of `address`. Where all slots are taken, the oldest connection of the address that has
  /// most loses its slot (of several such addresses, the oldest of theirs), so that an address only drives away its
  /// own. It has had kGrace for its config by then, so that a crowd of good clients is served; but where its address
  /// has more than half of the slots, it makes room for another address at once.
  Room make_room(const boost::asio::ip::address& address, Clock::time_point now);
  static constexpr Clock::duration kGrace = std::chrono::milliseconds(250);

  /// True if a connection for which there is no room may wait for it; it counts as waiting until end_wait(). False if
  /// the connections of its address, with those that wait, are more than half of the slots.
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
