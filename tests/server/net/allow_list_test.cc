#include "server/net/allow_list.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace echotrain::server {
namespace {

bool allows(const std::vector<std::string>& networks, const char* address) {
  return AllowList(networks).contains(boost::asio::ip::make_address(address));
}

TEST(AllowList, ANetworkHoldsItsAddressesAndNoOthers) {
  for (const char* inside : {"10.1.0.0", "10.1.255.255", "10.1.2.3", "::ffff:10.1.2.3"})
    EXPECT_TRUE(allows({"10.1.2.3/16"}, inside)) << inside;  // bits behind the mask are ignored
  for (const char* outside : {"10.0.255.255", "10.2.0.0", "11.1.0.0", "::ffff:10.2.0.0", "::1", "fd00::1"})
    EXPECT_FALSE(allows({"10.1.2.3/16"}, outside)) << outside;
  EXPECT_TRUE(allows({"fd00::/8"}, "fdff:ffff::1"));
  EXPECT_FALSE(allows({"fd00::/8"}, "fe00::1"));
  EXPECT_FALSE(allows({"fd00::/8"}, "10.1.2.3"));
}

TEST(AllowList, SeveralNetworksAndSingleAddresses) {
  const std::vector<std::string> networks{"192.0.2.7", "10.0.0.0/8", "::1"};
  EXPECT_TRUE(allows(networks, "192.0.2.7"));
  EXPECT_FALSE(allows(networks, "192.0.2.6"));
  EXPECT_TRUE(allows(networks, "10.9.8.7"));
  EXPECT_TRUE(allows(networks, "::1"));
  EXPECT_FALSE(allows(networks, "::2"));
  EXPECT_TRUE(allows({"0.0.0.0/0"}, "203.0.113.9"));
  EXPECT_FALSE(allows({"0.0.0.0/0"}, "2001:db8::1"));
}

/// Clients over IPv6's form of IPv4 addresses count as IPv4, and so do networks that are written in it.
TEST(AllowList, Ipv4MayBeWrittenAsIpv6) {
  EXPECT_TRUE(allows({"::ffff:10.1.2.3"}, "10.1.2.3"));
  EXPECT_TRUE(allows({"::ffff:10.1.2.3"}, "::ffff:10.1.2.3"));
  EXPECT_FALSE(allows({"::ffff:10.1.2.3"}, "10.1.2.4"));
  EXPECT_TRUE(allows({"::ffff:10.1.2.3/112"}, "10.1.255.255"));
  EXPECT_FALSE(allows({"::ffff:10.1.2.3/112"}, "10.2.0.0"));
}

TEST(AllowList, NoneAllowsAll) { EXPECT_TRUE(allows({}, "203.0.113.9")); }

TEST(AllowList, WhatIsNoNetworkIsNamed) {
  for (const char* text : {"10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "fd00::/129", "scanner", "10.0.0.0/x", "/8", ""})
    EXPECT_THROW(AllowList{{text}}, std::invalid_argument) << text;
}

}  // namespace
}  // namespace echotrain::server
