#include "server/net/transport.h"

#include <poll.h>

#include <boost/asio/socket_base.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

constexpr std::size_t kWriteChunk = 1 << 20;

class PlainTransport : public Transport {
 public:
  PlainTransport(StreamSocket socket, bool authenticated)
      : Transport(std::move(socket)), authenticated_(authenticated) {}
  const char* name() const override { return "plain"; }
  bool authenticated() const override { return authenticated_; }

  asio::awaitable<void> open(error_code&, std::string&) override { co_return; }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer room, error_code& error) override {
    co_return co_await socket_.async_read_some(room, redirect_error(use_awaitable, error));
  }

  asio::awaitable<void> write(const std::vector<asio::const_buffer>& buffers, const Progress& progress,
                              error_code& error) override {
    const auto again = [&progress](const error_code& failed, std::size_t n) -> std::size_t {
      progress(n);
      return failed ? 0 : kWriteChunk;
    };
    co_await asio::async_write(socket_, buffers, again, redirect_error(use_awaitable, error));
  }

  asio::awaitable<void> finish_writing() override {
    error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    co_return;
  }

 private:
  const bool authenticated_;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(StreamSocket socket, bool authenticated) {
  return std::make_unique<PlainTransport>(std::move(socket), authenticated);
}

bool Transport::is_reset() const {
  // Asio's own waiting for errors would cost each read of this socket a turn of the loop.
  pollfd state{const_cast<StreamSocket&>(socket_).native_handle(), 0, 0};
  return socket_.is_open() && ::poll(&state, 1, 0) > 0 && (state.revents & POLLERR) != 0;
}

void Transport::close() {
  error_code ignored;
  socket_.close(ignored);
}

void Transport::reset() {
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

}  // namespace echotrain::server
