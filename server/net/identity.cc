#include "server/net/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace echotrain::server {

namespace ip = boost::asio::ip;

namespace {

constexpr std::string_view kAddress = "address:";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

/// Returns a text's parts between semicolons; one with a backslash before it (RFC 2253) belongs to its part.
std::vector<std::string> members_of(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '\\') {
      ++at;
    } else if (at == text.size() || text[at] == ';') {
      parts.emplace_back(trimmed(text.substr(begin, at - begin)));
      begin = at + 1;
    }
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& group, const std::string& why) {
  throw std::invalid_argument(
      fmt::format("share: '{}' {}; write NAME=MEMBER;MEMBER with members token:NAME, certificate:SUBJECT or "
                  "address:10.1.2.3, as mr1=token:console;address:10.1.2.3",
                  group, why));
}

}  // namespace

std::string Identity::name() const {
  constexpr std::string_view kDigest = "token#";
  constexpr std::size_t kDigits = 8;
  if (text.starts_with(kAddress) || text.starts_with("program:")) return "";
  if (text.starts_with(kDigest)) return text.substr(0, kDigest.size() + kDigits);
  std::string out = text;
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~' || c == '\''; }, '?');
  return out;
}

std::optional<ip::address> address_of(const std::string& peer) {
  std::string host = peer.substr(0, peer.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code unknown;
  const ip::address address = ip::make_address(host, unknown);
  if (unknown) return std::nullopt;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return address;
}

ip::address counted_as(const ip::address& address) {
  if (address.is_v4()) return address;
  if (address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  return ip::network_v6(address.to_v6(), 64).network();
}

std::string counted_text(const ip::address& address) {
  const ip::address counted = counted_as(address);
  return counted.to_string() + (counted.is_v6() ? "/64" : "");
}

std::string counted_text(const std::string& peer) {
  const std::optional<ip::address> address = address_of(peer);
  return address ? counted_text(*address) : peer;
}

Identities::Identities(const std::vector<std::string>& share) {
  std::set<std::string> known;
  const auto once = [&](const std::string& group, const std::string& what) {
    if (!known.insert(what).second) refuse(group, fmt::format("has {}, which another group has, too", what));
  };
  for (const std::string& text : share) {
    const std::size_t equals = text.find('=');
    const std::string name(trimmed(text.substr(0, equals)));
    if (equals == std::string::npos || name.empty()) refuse(text, "has no name");
    std::vector<std::string> names, networks;
    for (const std::string& member : members_of(std::string_view(text).substr(equals + 1))) {
      const bool is_address = member.starts_with(kAddress);
      if (!is_address && !member.starts_with("token:") && !member.starts_with("certificate:"))
        refuse(text, fmt::format("has the member '{}', which is none", member));
      once(text, member);
      if (is_address)
        networks.push_back(member.substr(kAddress.size()));
      else
        names.push_back(member);
    }
    once(text, "the name " + name);
    groups_.push_back({"group:" + name, std::move(names), AllowList(networks, "share")});
  }
}

Identity Identities::of(const std::string& token, const std::string& subject, const std::string& peer) const {
  const std::optional<ip::address> address = address_of(peer);
  const bool by_address = token.empty() && subject.empty() && address;
  const std::string text = !token.empty()     ? token
                           : !subject.empty() ? "certificate:" + subject
                           : address          ? std::string(kAddress) + address->to_string()
                                              : "program:" + peer;
  for (const Group& group : groups_)
    if (by_address ? group.addresses.names(*address)
                   : std::find(group.names.begin(), group.names.end(), text) != group.names.end())
      return {group.identity, group.identity};
  return {text, by_address ? std::string(kAddress) + counted_text(*address) : text};
}

}  // namespace echotrain::server
