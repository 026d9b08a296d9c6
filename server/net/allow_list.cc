#include "server/net/allow_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace echotrain::server {

namespace ip = boost::asio::ip;

AllowList::AllowList(const std::vector<std::string>& networks, std::string_view option) {
  for (const std::string& text : networks) {
    boost::system::error_code error;
    const bool is_network = text.find('/') != std::string::npos;
    if (text.find(':') == std::string::npos) {
      const ip::network_v4 network = ip::make_network_v4(is_network ? text : text + "/32", error);
      if (!error) v4_.push_back(network.canonical());
    } else {
      const ip::network_v6 network = ip::make_network_v6(is_network ? text : text + "/128", error);
      constexpr unsigned short kMapped = 96;  // bits of ::ffff:0:0, before an IPv4 address
      if (!error && network.address().is_v4_mapped() && network.prefix_length() >= kMapped)
        v4_.push_back(ip::network_v4(ip::make_address_v4(ip::v4_mapped, network.address()),
                                     static_cast<unsigned short>(network.prefix_length() - kMapped))
                          .canonical());
      else if (!error)
        v6_.push_back(network.canonical());
    }
    if (error)
      throw std::invalid_argument(fmt::format(
          "{}: '{}' is neither a network nor an address; write 10.1.0.0/16, fd00::/8 or 10.1.2.3", option, text));
  }
}

bool AllowList::names(ip::address address) const {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) address = ip::make_address_v4(ip::v4_mapped, address.to_v6());
  // A network of one address, masked by the list's length, is the list's network when it lies in it.
  if (address.is_v4())
    return std::any_of(v4_.begin(), v4_.end(), [&](const ip::network_v4& network) {
      return ip::network_v4(address.to_v4(), network.prefix_length()).canonical() == network;
    });
  return std::any_of(v6_.begin(), v6_.end(), [&](const ip::network_v6& network) {
    return ip::network_v6(address.to_v6(), network.prefix_length()).canonical() == network;
  });
}

}  // namespace echotrain::server
