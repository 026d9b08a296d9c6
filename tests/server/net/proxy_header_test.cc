// Headers written by hand from haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2.
#include "server/net/proxy_header.h"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>

namespace echotrain::server {
namespace {

using asio::ip::tcp;
using testing::HasSubstr;

const std::string kSignatureBytes("\r\n\r\n\0\r\nQUIT\n", 12);
const std::string kV4Addresses("\xcb\x00\x71\x07\x0a\x00\x00\x01\xd4\x31\x23\x2a",
                               12);  // 203.0.113.7:54321 to 10.0.0.1

std::string header(unsigned char command, unsigned char family, const std::string& rest) {
  const auto length = static_cast<std::uint16_t>(rest.size());
  return kSignatureBytes +
         std::string{static_cast<char>(command), static_cast<char>(family), static_cast<char>(length >> 8),
                     static_cast<char>(length & 0xff)} +
         rest;
}

/// "203.0.113.7:54321", "local", or the error.
std::string parsed(const std::string& bytes) {
  const auto all = std::as_bytes(std::span(bytes));
  const auto fixed = all.first<kProxyFixedBytes>();
  const auto rest = proxy_rest_bytes(fixed);
  if (!rest) return rest.error().code + ": " + rest.error().message;
  EXPECT_EQ(*rest, all.size() - kProxyFixedBytes);
  const auto client = parse_proxy_header(fixed, all.subspan(kProxyFixedBytes));
  if (!client) return client.error().code + ": " + client.error().message;
  if (!*client) return "local";
  return (**client).address().to_string() + ":" + std::to_string((**client).port());
}

TEST(ProxyHeader, NamesTheClient) {
  EXPECT_EQ(parsed(header(0x21, 0x11, kV4Addresses)), "203.0.113.7:54321");
  std::string v6 = std::string("\x20\x01\x0d\xb8", 4) + std::string(11, '\0') + "\x05";
  v6 += std::string(15, '\0') + "\x01" + std::string("\x00\x50\x23\x2a", 4);
  EXPECT_EQ(parsed(header(0x21, 0x21, v6)), "2001:db8::5:80");
}

TEST(ProxyHeader, WhatElseIsSaidIsSkipped) {
  const std::string unique_id("\x05\x00\x04\x01\x02\x03\x04", 7), crc("\x03\x00\x04\xff\xff\xff\xff", 7);
  EXPECT_EQ(parsed(header(0x21, 0x11, kV4Addresses + unique_id + crc)), "203.0.113.7:54321");
  EXPECT_EQ(parsed(header(0x21, 0x11, kV4Addresses + std::string(kProxyMostBytes - 12, '\xff'))), "203.0.113.7:54321");
}

TEST(ProxyHeader, ABalancerMaySpeakForItself) {
  EXPECT_EQ(parsed(header(0x20, 0x00, "")), "local");
  EXPECT_EQ(parsed(header(0x20, 0x11, kV4Addresses)), "local");  // addresses are to be ignored
  EXPECT_EQ(parsed(header(0x20, 0xff, "abc")), "local");
}

TEST(ProxyHeader, WhatIsWrongIsNamed) {
  EXPECT_THAT(parsed("PROXY TCP4 203.0.113.7 10.0.0.1 54321 9002\r\n"), HasSubstr("proxy: it does not begin with"));
  EXPECT_THAT(parsed(std::string(kProxyFixedBytes, '\0')), HasSubstr("send-proxy-v2"));
  for (std::size_t i = 0; i < 12; ++i) {
    std::string bytes = header(0x21, 0x11, kV4Addresses);
    bytes[i] ^= 1;
    EXPECT_THAT(parsed(bytes), HasSubstr("does not begin")) << i;
  }
  for (const int command : {0x00, 0x11, 0x22, 0x2f, 0x31, 0xff})
    EXPECT_THAT(parsed(header(static_cast<unsigned char>(command), 0x11, kV4Addresses)),
                HasSubstr("version and command are 0x"));
  for (const int family : {0x00, 0x01, 0x10, 0x12, 0x20, 0x22, 0x31, 0x32, 0xff})
    EXPECT_THAT(parsed(header(0x21, static_cast<unsigned char>(family), kV4Addresses)),
                HasSubstr("family and transport are 0x"));
  EXPECT_THAT(parsed(header(0x21, 0x11, kV4Addresses.substr(1))), HasSubstr("11 bytes are too few"));
  EXPECT_THAT(parsed(header(0x21, 0x11, "")), HasSubstr("0 bytes are too few"));
  EXPECT_THAT(parsed(header(0x21, 0x21, std::string(35, '\0'))), HasSubstr("35 bytes are too few"));
  EXPECT_THAT(parsed(header(0x21, 0x11, std::string(kProxyMostBytes + 1, '\0'))), HasSubstr("at most 4096"));
  EXPECT_THAT(parsed(header(0x20, 0x00, std::string(0xffff, '\0'))), HasSubstr("65535 bytes long"));
}

/// Returns the result of read_proxy_header() for `bytes` and the end of the stream, and the bytes that it leaves.
std::pair<std::string, std::string> read_from_socket(const std::string& bytes) {
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  tcp::socket sender(context), receiver(context);
  sender.connect(acceptor.local_endpoint());
  acceptor.accept(receiver);
  asio::write(sender, asio::buffer(bytes));
  sender.shutdown(tcp::socket::shutdown_send);
  std::string result;
  const auto read = [&]() -> asio::awaitable<void> {
    const auto client = co_await read_proxy_header(receiver);
    result = !client ? client.error().message : !*client ? "local" : (**client).address().to_string();
  };
  asio::co_spawn(context, read(), asio::detached);
  context.run();
  std::string rest;
  error_code end;
  asio::read(receiver, asio::dynamic_buffer(rest), end);
  return {result, rest};
}

TEST(ProxyHeader, IsReadAndNotAByteMore) {
  const std::string whole = header(0x21, 0x11, kV4Addresses + "abc");
  EXPECT_EQ(read_from_socket(whole + "hello"), std::make_pair(std::string("203.0.113.7"), std::string("hello")));
  EXPECT_EQ(read_from_socket(whole), std::make_pair(std::string("203.0.113.7"), std::string()));
  EXPECT_EQ(read_from_socket(header(0x20, 0, "") + "x"), std::make_pair(std::string("local"), std::string("x")));
}

TEST(ProxyHeader, ThatIsCutOffIsNone) {
  const std::string whole = header(0x21, 0x11, kV4Addresses + "abc");
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THAT(read_from_socket(whole.substr(0, n)).first, HasSubstr("it ended after " + std::to_string(n))) << n;
}

}  // namespace
}  // namespace echotrain::server
