// An allow list holds the networks of an option, such as those that may use the plain port.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <string>
#include <string_view>
#include <utility>  // Boost 1.74's Asio headers use std::exchange without including it.
#include <vector>

namespace echotrain::server {

class AllowList {
 public:
  /// Takes networks ("10.1.0.0/16", "fd00::/8") and single addresses; "::ffff:10.1.0.0/112" is 10.1.0.0/16. Throws
  /// std::invalid_argument, naming the `option` and the one that is neither.
  explicit AllowList(const std::vector<std::string>& networks, std::string_view option = "allow");
  /// True if an address is in one of the networks; always when there are none.
  bool contains(const boost::asio::ip::address& address) const { return empty() || names(address); }
  /// True if an address is in one of the networks. An IPv4 address that comes over IPv6 ("::ffff:10.1.2.3") counts as
  /// IPv4.
  bool names(boost::asio::ip::address address) const;
  bool empty() const { return v4_.empty() && v6_.empty(); }

 private:
  std::vector<boost::asio::ip::network_v4> v4_;
  std::vector<boost::asio::ip::network_v6> v6_;
};

}  // namespace echotrain::server
