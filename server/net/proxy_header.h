// The PROXY protocol, version 2 (haproxy.org/download/3.0/doc/proxy-protocol.txt), lets a balancer say who the client
// is, before the client's first byte.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <optional>
#include <span>

#include "protocol/data/result.h"
#include "server/base/signal.h"

namespace echotrain::server {

/// The length of the fixed part: signature (12 bytes), version and command, family and transport, length of the rest
/// (big-endian).
inline constexpr std::size_t kProxyFixedBytes = 16;
/// The most bytes of the rest: addresses (12 or 36 bytes) and what else the balancer may add, which is skipped.
inline constexpr std::size_t kProxyMostBytes = 4096;

/// Returns how many bytes follow the fixed part, at most kProxyMostBytes. An error (code "proxy") says what is wrong
/// with it.
protocol::Result<std::size_t> proxy_rest_bytes(std::span<const std::byte, kProxyFixedBytes> fixed);

/// Returns the client that a whole header names: TCP over IPv4 or IPv6. Nothing when the balancer speaks for itself
/// (LOCAL: a health check, say). `rest` is what follows the fixed part. Precondition: proxy_rest_bytes(fixed) ==
/// rest.size().
protocol::Result<std::optional<asio::ip::tcp::endpoint>> parse_proxy_header(
    std::span<const std::byte, kProxyFixedBytes> fixed, std::span<const std::byte> rest);

/// Reads a header and not a byte more; returns as parse_proxy_header() does. It is also an error when the connection
/// ends before.
asio::awaitable<protocol::Result<std::optional<asio::ip::tcp::endpoint>>> read_proxy_header(
    asio::ip::tcp::socket& socket);

}  // namespace echotrain::server
