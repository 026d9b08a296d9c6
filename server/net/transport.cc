#include "server/net/transport.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/clock.h"
#include "server/base/offload.h"

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

constexpr std::size_t kWriteChunk = 1 << 20;
constexpr int kReadsInARow = 4;  // then it is the turn of others

/// Bytes that are to be written, whatever part of them the kernel takes at a time.
class Rest {
 public:
  explicit Rest(const std::vector<asio::const_buffer>& buffers) {
    for (const asio::const_buffer& buffer : buffers)
      if (buffer.size() > 0) parts_.push_back({const_cast<void*>(buffer.data()), buffer.size()});
  }
  bool empty() const { return first_ == parts_.size(); }
  /// Sends what the kernel takes now without waiting; returns as sendmsg(2) does.
  ssize_t send(int socket) {
    constexpr std::size_t kMostParts = 64;
    msghdr message{};
    message.msg_iov = &parts_[first_];
    message.msg_iovlen = std::min(parts_.size() - first_, kMostParts);
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void sent(std::size_t n) {
    while (n > 0) {
      iovec& part = parts_[first_];
      const std::size_t taken = std::min(n, part.iov_len);
      part = {static_cast<std::byte*>(part.iov_base) + taken, part.iov_len - taken};
      n -= taken;
      if (part.iov_len == 0) ++first_;
    }
  }

 private:
  std::vector<iovec> parts_;
  std::size_t first_ = 0;
};

class PlainTransport : public Transport {
 public:
  PlainTransport(StreamSocket socket, bool authenticated, OffStrandWriter off_strand)
      : Transport(std::move(socket)), authenticated_(authenticated), off_strand_(std::move(off_strand)) {}
  const char* name() const override { return "plain"; }
  bool authenticated() const override { return authenticated_; }

  asio::awaitable<void> open(const Offload&, error_code&, std::string&) override { co_return; }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer room, error_code& error) override {
    error = {};
    std::size_t n = read_at_once(room, error);
    if (n == 0 && !error) n = co_await socket_.async_read_some(room, redirect_error(use_awaitable, error));
    note(n);
    co_return n;
  }

  asio::awaitable<void> write(const std::vector<asio::const_buffer>& buffers, const Progress& progress,
                              error_code& error) override {
    if (off_strand_.executor && is_dense()) {
      co_await write_beside(buffers, progress, error);
      co_return;
    }
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
  // Reads at once: in a dense stream there is more already. Asio would hand even that on by way of another thread,
  // which it wakes.
  std::size_t read_at_once(asio::mutable_buffer room, error_code& error) {
    if (!dense_ || ++in_a_row_ == kReadsInARow || !is_open()) {
      in_a_row_ = 0;
      return 0;
    }
    const ssize_t n = ::recv(socket_.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
    // Errors are told here: the kernel tells an error once, and then that the stream has ended. Ends are for Asio to
    // tell.
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      error = error_code(errno, asio::error::get_system_category());
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }

  void note(std::size_t n) {
    seen_ += n;
    if (seen_ < off_strand_.bytes) return;
    const Clock::time_point now = Clock::now();
    dense_ = since_ && now - *since_ < off_strand_.time;
    since_ = now;
    seen_ = 0;
  }
  bool is_dense() const { return dense_ && Clock::now() - *since_ < off_strand_.time; }

  // Sends on another thread while the strand goes on reading a dense stream: else sending and reading would share one
  // thread's time.
  asio::awaitable<void> write_beside(const std::vector<asio::const_buffer>& buffers, const Progress& progress,
                                     error_code& error) {
    Rest rest(buffers);
    std::uint64_t written = 0;
    while (!rest.empty() && !error) {
      if (!is_open()) {
        error = asio::error::operation_aborted;
        break;
      }
      ssize_t n = 0;
      int failed = 0;
      const std::function<void()> send = [&, socket = socket_.native_handle()] {
        n = rest.send(socket);
        failed = n < 0 ? errno : 0;
      };
      {
        const DeferredClose deferred(*this);
        co_await run_offloaded(off_strand_.executor, send);
      }
      if (n >= 0) {
        rest.sent(static_cast<std::size_t>(n));
        progress(written += static_cast<std::uint64_t>(n));
      } else if (failed == EAGAIN || failed == EWOULDBLOCK) {
        co_await socket_.async_wait(asio::socket_base::wait_write, redirect_error(use_awaitable, error));
      } else if (failed != EINTR) {
        error = error_code(failed, asio::error::get_system_category());
      }
    }
  }

  const bool authenticated_;
  const OffStrandWriter off_strand_;
  int in_a_row_ = 0;      // reads that did not wait
  bool dense_ = false;    // so many bytes came within the time
  std::size_t seen_ = 0;  // bytes since then
  std::optional<Clock::time_point> since_{};
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(StreamSocket socket, bool authenticated, OffStrandWriter off_strand) {
  return std::make_unique<PlainTransport>(std::move(socket), authenticated, std::move(off_strand));
}

bool Transport::is_reset() const {
  // Asio's own waiting for errors would cost each read of this socket a turn of the loop.
  pollfd state{const_cast<StreamSocket&>(socket_).native_handle(), 0, 0};
  return socket_.is_open() && ::poll(&state, 1, 0) > 0 && (state.revents & POLLERR) != 0;
}

bool Transport::has_ended() const {
  const int fd = const_cast<StreamSocket&>(socket_).native_handle();
  pollfd state{fd, POLLRDHUP, 0};
  int left = 0;
  return socket_.is_open() && !holds_input() && ::poll(&state, 1, 0) > 0 && (state.revents & POLLRDHUP) != 0 &&
         ::ioctl(fd, FIONREAD, &left) == 0 && left == 0;
}

Transport::DeferredClose::~DeferredClose() {
  transport_.close_deferred_ = false;
  if (std::exchange(transport_.closing_, false)) transport_.close_now();
}

void Transport::close() {
  if (!close_deferred_) return close_now();
  // Its number may be another connection's as soon as it is closed.
  closing_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void Transport::reset() {
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

void Transport::close_now() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace echotrain::server
