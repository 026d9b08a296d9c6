#include "server/console/admin/events.h"

#include <fmt/format.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "server/console/live/live_scan_registry.h"

namespace echotrain::server {

namespace {

constexpr std::chrono::milliseconds kLook{20}, kState{250};
constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n";
constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 5\r\nConnection: close\r\n"
    "Content-Length: 56\r\n\r\nas many as may look on do already: option admin.viewers\n";

/// Takes a viewer's place and gives it back.
struct ViewerPlace {
  ViewerPlace(Viewers& its_viewers, std::optional<std::uint64_t> its_number)
      : viewers(its_viewers), number(its_number) {}
  ~ViewerPlace() {
    if (number) viewers.leave(*number);
  }
  ViewerPlace(const ViewerPlace&) = delete;
  ViewerPlace& operator=(const ViewerPlace&) = delete;
  Viewers& viewers;
  const std::optional<std::uint64_t> number;
};

}  // namespace

asio::awaitable<void> stream_events(boost::beast::tcp_stream& stream, LivePages& pages, const Environment& environment,
                                    std::chrono::milliseconds patience, std::function<bool()> go_on) {
  const ViewerPlace place(pages.viewers(), pages.viewers().enter());
  error_code error;
  std::string text;
  const auto write = [&]() -> asio::awaitable<void> {
    stream.expires_after(patience);
    co_await asio::async_write(stream, asio::buffer(text), asio::redirect_error(asio::use_awaitable, error));
    stream.expires_never();
  };
  if (!place.number) {
    text = kFull;
    co_await write();
    co_return;
  }
  text = fmt::format("{}retry: 1000\n\nevent: hello\ndata: {{\"viewer\":{}}}\n\n", kHead, *place.number);
  co_await write();
  asio::steady_timer timer(stream.get_executor());
  RecentImages::Newest told;
  Clock::time_point next_state{};
  while (!error && go_on()) {
    text.clear();
    const RecentImages* const images = environment.live->images().get();
    if (const auto newest = images != nullptr ? images->newest() : told; newest != told) {
      told = newest;
      text += fmt::format("event: image\ndata: {{\"scan\":{},\"image\":{}}}\n\n", newest.session, newest.number);
    }
    if (const auto now = Clock::now(); now >= next_state) {
      next_state = now + kState;
      text += fmt::format("event: state\ndata: {}\n\n", pages.state());
    }
    if (!text.empty()) co_await write();
    if (error) break;
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace echotrain::server
