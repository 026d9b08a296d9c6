// An identity names a client: a server tells by it whose data are whose.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/net/allow_list.h"

namespace echotrain::server {

/// A client as the server knows it. What it leaves for later scans is found by clients of the same identity only.
struct Identity {
  /// "token:NAME", "token#DIGEST" of one without a name, "certificate:SUBJECT", "address:10.1.2.3", "group:NAME", or
  /// "program:WHAT" for one that comes from none. One kind never looks like another.
  std::string text;
  /// The client in whose part of bounded things (fair share) this one counts: the same as `text`, but for an address of
  /// IPv6 its network: all addresses that one machine may take for itself have one part ("address:2001:db8:0:7::/64").
  std::string part;
  /// Returns the text for logs: empty for an address or a program; of a token's digest the first digits.
  std::string name() const;
  bool operator==(const Identity&) const = default;
};

/// Makes identities, and joins those that the operator says are one. Immutable, so thread-safe.
class Identities {
 public:
  /// Takes groups "NAME=MEMBER;MEMBER;...", whose members are "token:NAME", "certificate:SUBJECT" and
  /// "address:NETWORK". Throws std::invalid_argument that says which one is wrong, and what is right.
  explicit Identities(const std::vector<std::string>& share = {});

  /// Returns the first that is known: a token's identity, a certificate's subject, the address of `peer`
  /// ("10.1.2.3:4711").
  Identity of(const std::string& token, const std::string& subject, const std::string& peer) const;

 private:
  struct Group {
    std::string identity;
    std::vector<std::string> names;  // "token:NAME", "certificate:SUBJECT"
    AllowList addresses;
  };
  std::vector<Group> groups_;
};

/// Returns the address in "10.1.2.3:4711" or "[fe80::1]:4711"; nothing where there is none. An IPv4 address that came
/// over IPv6 is an IPv4 address.
std::optional<boost::asio::ip::address> address_of(const std::string& peer);

/// Returns the address that stands for all of one machine where clients are counted: of IPv6 its network's (/64), of
/// which it may have as many as it likes. An IPv4 address that came over IPv6 is an IPv4 address.
boost::asio::ip::address counted_as(const boost::asio::ip::address& address);
/// Returns the same as text: "10.1.2.3", "2001:db8:0:7::/64". Of a peer as for address_of(), or as it is without an
/// address.
std::string counted_text(const boost::asio::ip::address& address);
std::string counted_text(const std::string& peer);

}  // namespace echotrain::server
