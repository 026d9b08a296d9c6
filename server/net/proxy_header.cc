#include "server/net/proxy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <string>
#include <utility>
#include <vector>

namespace echotrain::server {

using asio::ip::tcp;
using protocol::Error;
using protocol::Result;

namespace {

constexpr unsigned char kSignature[12] = {0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A};
constexpr unsigned kLocal = 0x20, kProxy = 0x21;          // version 2 and the command
constexpr unsigned kTcpOverV4 = 0x11, kTcpOverV6 = 0x21;  // family and transport

unsigned byte_at(std::span<const std::byte> bytes, std::size_t i) { return std::to_integer<unsigned>(bytes[i]); }
std::uint16_t number_at(std::span<const std::byte> bytes, std::size_t i) {
  return static_cast<std::uint16_t>(byte_at(bytes, i) << 8 | byte_at(bytes, i + 1));
}

Error wrong(std::string what) { return {"proxy", std::move(what)}; }

// Source address, destination address, source port, destination port.
template <class Address>
Result<std::optional<tcp::endpoint>> source_of(std::span<const std::byte> rest) {
  typename Address::bytes_type bytes;
  constexpr std::size_t size = std::tuple_size_v<typename Address::bytes_type>;
  if (rest.size() < 2 * size + 4)
    return wrong(fmt::format("{} bytes are too few for two addresses of {} and their ports", rest.size(), size));
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(byte_at(rest, i));
  return std::optional(tcp::endpoint(Address(bytes), number_at(rest, 2 * size)));
}

}  // namespace

Result<std::size_t> proxy_rest_bytes(std::span<const std::byte, kProxyFixedBytes> fixed) {
  if (!std::equal(std::begin(kSignature), std::end(kSignature), fixed.begin(),
                  [](unsigned char expected, std::byte found) { return std::byte{expected} == found; }))
    return wrong("it does not begin with the signature of the PROXY protocol's version 2 (HAProxy: send-proxy-v2)");
  const unsigned command = byte_at(fixed, 12);
  if (command != kLocal && command != kProxy)
    return wrong(fmt::format("version and command are 0x{:02x}; 0x20 and 0x21 are known", command));
  const std::size_t rest = number_at(fixed, 14);
  if (rest > kProxyMostBytes)
    return wrong(fmt::format("it is {} bytes long; at most {} are taken", rest, kProxyMostBytes));
  return rest;
}

Result<std::optional<tcp::endpoint>> parse_proxy_header(std::span<const std::byte, kProxyFixedBytes> fixed,
                                                        std::span<const std::byte> rest) {
  if (byte_at(fixed, 12) == kLocal) return std::optional<tcp::endpoint>();
  switch (const unsigned family = byte_at(fixed, 13)) {
    case kTcpOverV4:
      return source_of<asio::ip::address_v4>(rest);
    case kTcpOverV6:
      return source_of<asio::ip::address_v6>(rest);
    default:
      return wrong(
          fmt::format("family and transport are 0x{:02x}; TCP over IPv4 (0x11) and IPv6 (0x21) are known", family));
  }
}

asio::awaitable<Result<std::optional<tcp::endpoint>>> read_proxy_header(tcp::socket& socket) {
  std::array<std::byte, kProxyFixedBytes> fixed{};
  error_code error;
  std::size_t n =
      co_await asio::async_read(socket, asio::buffer(fixed), asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return wrong(fmt::format("it ended after {} bytes: {}", n, error.message()));
  const Result<std::size_t> length = proxy_rest_bytes(fixed);
  if (!length) co_return length.error();
  std::vector<std::byte> rest(*length);
  n = co_await asio::async_read(socket, asio::buffer(rest), asio::redirect_error(asio::use_awaitable, error));
  if (error)
    co_return wrong(fmt::format("it ended after {} of {} bytes: {}", fixed.size() + n, fixed.size() + rest.size(),
                                error.message()));
  co_return parse_proxy_header(fixed, rest);
}

}  // namespace echotrain::server
