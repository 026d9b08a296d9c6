#include "server/net/connection_admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/net/identity.h"

namespace echotrain::server {

namespace ip = boost::asio::ip;

void ConnectionAdmission::connect(std::uint64_t id, const ip::address& address, Clock::time_point now) {
  const ip::address who = counted_as(address);
  Count& count = by_address_[who];  // first: what follows may run out of memory
  entries_[id] = {who, address, now, Kind::connecting};
  ++count.connecting;
  ++connecting_;
}

ConnectionAdmission::Room ConnectionAdmission::make_room(const ip::address& address, Clock::time_point now) {
  if (connecting_ < limits_.connecting) return {true, {}, {}};
  std::int64_t most = 0;
  for (const auto& [who, count] : by_address_) most = std::max(most, count.connecting);
  const auto oldest = std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) {
    return each.second.kind == Kind::connecting && by_address_.at(each.second.who).connecting == most;
  });
  Entry& entry = oldest->second;
  const bool crowds = most > limits_.half() && entry.who != counted_as(address) && !exempt_.names(entry.address);
  if (!crowds && now - entry.since < kGrace) return {};
  leave(entry);
  return {true, oldest->first, entry.address};
}

bool ConnectionAdmission::wait(const ip::address& address) {
  Count& count = by_address_[counted_as(address)];
  if (count.connecting + count.waiting > limits_.half() && !exempt_.names(address)) return false;
  ++count.waiting;
  return true;
}

void ConnectionAdmission::end_wait(const ip::address& address) {
  const auto count = by_address_.find(counted_as(address));
  --count->second.waiting;
  forget(count);
}

std::optional<protocol::Error> ConnectionAdmission::admit(std::uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.kind == Kind::dropped)
    return protocol::Error{"busy", "too many connections wait for their config; send the measurement again"};
  Entry& entry = found->second;
  if (entry.kind == Kind::session) return std::nullopt;
  if (sessions_ >= limits_.sessions)
    return protocol::Error{
        "busy", fmt::format("the server already runs {} sessions, its limit; try again later", limits_.sessions)};
  Count& count = by_address_[entry.who];
  const bool exempt = exempt_.names(entry.address);
  if (sessions_ >= limits_.sessions - limits_.for_first() && count.sessions > 0 && !exempt)
    return protocol::Error{"busy", fmt::format("the server already runs {} sessions, and the last {} that it may run "
                                               "(max_sessions = {}) are for addresses that have none; try again later",
                                               sessions_, limits_.for_first(), limits_.sessions)};
  if (count.sessions >= limits_.per_address && !exempt)
    return protocol::Error{
        "busy", fmt::format("{} already has {} sessions, the limit for one address (max_sessions_per_address of the "
                            "server); end one of them or try again later; who runs the server can exempt the address "
                            "(per_address_exempt)",
                            counted_text(entry.who), limits_.per_address)};
  --count.connecting;
  --connecting_;
  ++count.sessions;
  ++sessions_;
  entry.kind = Kind::session;
  return std::nullopt;
}

void ConnectionAdmission::remove(std::uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  leave(found->second);
  entries_.erase(found);
}

// Gives back the entry's slot.
void ConnectionAdmission::leave(Entry& entry) {
  if (entry.kind == Kind::dropped) return;
  const auto count = by_address_.find(entry.who);
  if (entry.kind == Kind::connecting) {
    --count->second.connecting;
    --connecting_;
  } else {
    --count->second.sessions;
    --sessions_;
  }
  forget(count);
  entry.kind = Kind::dropped;
}

void ConnectionAdmission::forget(std::map<ip::address, Count>::iterator count) {
  const Count& all = count->second;
  if (all.connecting == 0 && all.sessions == 0 && all.waiting == 0) by_address_.erase(count);
}

}  // namespace echotrain::server
