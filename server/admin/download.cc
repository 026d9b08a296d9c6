#include "server/admin/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <span>
#include <string>
#include <utility>

#include "protocol/wire/codec.h"

namespace echotrain::server {

namespace {
constexpr std::size_t kPiece = 1 << 20;
}

asio::awaitable<void> send_images(boost::beast::tcp_stream& stream,
                                  std::vector<std::shared_ptr<const KeptImage>> images, bool head_only,
                                  std::chrono::milliseconds patience) {
  const std::uint64_t session = images.empty() ? 0 : images.front()->session;
  // All that differs in length are attributes and pixels.
  protocol::Buffer message;
  if (!images.empty()) protocol::encode_without_pixels(images.front()->image, message);
  const std::size_t each = images.empty() ? 0 : message.size() - images.front()->image.attributes.size();
  std::size_t length = 0;
  std::vector<std::weak_ptr<const KeptImage>> wanted;
  wanted.reserve(images.size());
  for (const auto& image : images) {
    length += each + image->image.attributes.size() + image->image.pixels.bytes.size();
    wanted.push_back(image);
  }
  images = {};
  const std::string head = fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n"
      "Content-Disposition: attachment; filename=\"scan_{}.mrd\"\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
      length, session);
  error_code error;
  stream.expires_after(patience);
  co_await asio::async_write(stream, asio::buffer(head), asio::redirect_error(asio::use_awaitable, error));
  for (std::size_t i = 0; i < wanted.size() && !error && !head_only; ++i) {
    std::size_t sent = 0, pixels = 0;
    do {
      const std::shared_ptr<const KeptImage> image = wanted[i].lock();
      if (!image) co_return;
      message.clear();
      if (sent == 0) protocol::encode_without_pixels(image->image, message);
      pixels = image->image.pixels.bytes.size();
      const std::span<const std::byte> piece = image->image.pixels.bytes.subspan(sent, std::min(kPiece, pixels - sent));
      const std::array<asio::const_buffer, 2> both{asio::buffer(message.data(), message.size()),
                                                   asio::buffer(piece.data(), piece.size())};
      stream.expires_after(patience);
      co_await asio::async_write(stream, both, asio::redirect_error(asio::use_awaitable, error));
      sent += piece.size();
    } while (sent < pixels && !error);
  }
}

}  // namespace echotrain::server
