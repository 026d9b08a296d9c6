#include "server/admin/download.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "protocol/wire/codec.h"

namespace echotrain::server {

asio::awaitable<void> send_images(boost::beast::tcp_stream& stream,
                                  const std::vector<std::shared_ptr<const KeptImage>>& images,
                                  std::chrono::milliseconds patience) {
  std::vector<protocol::Buffer> heads(images.size());
  std::size_t length = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    protocol::encode_without_pixels(images[i]->image, heads[i]);
    length += heads[i].size() + images[i]->image.pixels.bytes.size();
  }
  const std::string head = fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n"
      "Content-Disposition: attachment; filename=\"scan_{}.mrd\"\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
      length, images.empty() ? 0 : images.front()->session);
  error_code error;
  stream.expires_after(patience);
  co_await asio::async_write(stream, asio::buffer(head), asio::redirect_error(asio::use_awaitable, error));
  for (std::size_t i = 0; i < images.size() && !error; ++i) {
    const auto& pixels = images[i]->image.pixels.bytes;
    const std::array<asio::const_buffer, 2> message{asio::buffer(heads[i].data(), heads[i].size()),
                                                    asio::buffer(pixels.data(), pixels.size())};
    stream.expires_after(patience);
    co_await asio::async_write(stream, message, asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace echotrain::server
