#include "server/console/download/stream.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/wire/codec.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/offload.h"

namespace echotrain::server {

namespace {
constexpr std::size_t kPiece = 1 << 20;
/// A file is made for this long before the server looks whether the client is still there.
constexpr std::chrono::milliseconds kLook{50};

/// True if the client takes no more: the client has closed its side or reset the connection, or the server has closed.
bool is_gone(boost::beast::tcp_stream& stream) {
  if (!stream.socket().is_open()) return true;
  pollfd state{stream.socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}
}  // namespace

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

asio::awaitable<std::optional<DownloadError>> send_download(boost::beast::tcp_stream& stream,
                                                            std::shared_ptr<Download> download, asio::thread_pool& pool,
                                                            StreamOptions how) {
  std::string piece;
  bool whole = false;
  std::optional<DownloadError> failure;
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (const DownloadError& error) {
      failure = error;
    } catch (const std::exception& error) {
      failure = DownloadError(503, fmt::format("the file cannot be made: {}", error.what()));
    }
  };
  const std::function<void()> begin = [&] { guarded([&] { download->plan(); }); };
  const std::function<void()> make = [&] {
    guarded([&] {
      const Clock::time_point until = Clock::now() + kLook;
      while (piece.empty() && !whole && Clock::now() < until) whole = !download->next(piece);
    });
  };
  // The next bytes; none when the file is whole, cannot be made, or is not wanted any more.
  const auto go_on = [&]() -> asio::awaitable<void> {
    piece.clear();
    stream.expires_never();
    while (piece.empty() && !whole && !failure && !is_gone(stream)) co_await run_offloaded(pool, make);
  };
  stream.expires_never();
  co_await run_offloaded(pool, begin);
  if (!failure && !how.head_only) co_await go_on();
  if (failure) co_return failure;
  if (!how.head_only && piece.empty() && !whole) co_return std::nullopt;
  error_code error;
  const std::string head = fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Disposition: attachment; filename=\"{}\"\r\n"
      "{}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
      download->type(), download->name(), how.pieces ? "Transfer-Encoding: chunked\r\n" : "");
  stream.expires_after(how.patience);
  co_await asio::async_write(stream, asio::buffer(head), asio::redirect_error(asio::use_awaitable, error));
  while (!how.head_only && !error && !failure && !piece.empty()) {
    for (std::size_t sent = 0; sent < piece.size() && !error;) {
      const std::size_t size = std::min(kPiece, piece.size() - sent);
      const std::string before = how.pieces ? fmt::format("{:x}\r\n", size) : "", after = how.pieces ? "\r\n" : "";
      const std::array<asio::const_buffer, 3> parts{asio::buffer(before), asio::buffer(piece.data() + sent, size),
                                                    asio::buffer(after)};
      stream.expires_after(how.patience);
      co_await asio::async_write(stream, parts, asio::redirect_error(asio::use_awaitable, error));
      sent += size;
    }
    if (!error) co_await go_on();
  }
  if (failure)
    write_log(LogLevel::warning, fmt::format("the download {} ended early: {}", download->name(), failure->what()));
  if (!how.head_only && !error && whole && how.pieces) {
    stream.expires_after(how.patience);
    co_await asio::async_write(stream, asio::buffer(std::string_view("0\r\n\r\n")),
                               asio::redirect_error(asio::use_awaitable, error));
  }
  co_return std::nullopt;
}

}  // namespace echotrain::server
