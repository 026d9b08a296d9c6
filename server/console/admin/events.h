// The event stream tells the live page what changes, as server-sent events.
#pragma once

#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <functional>

#include "server/base/signal.h"
#include "server/console/admin/live_pages.h"

namespace echotrain::server {

/// Sends events (WHATWG HTML, "Server-sent events") until the viewer is gone, does not take an event within `patience`,
/// or `go_on` says no:
///   event: hello   data: {"viewer": 3}                     once; the number to ask for images with
///   event: state   data: the object of /live/state         every 250 ms
///   event: image   data: {"scan": 7, "image": 12}          whenever there is a newer image; only the newest is told
/// Each event is made when the one before it has been taken (flow control): a slow viewer misses some, and holds no
/// other up.
asio::awaitable<void> stream_events(boost::beast::tcp_stream& stream, LivePages& pages, const Environment& environment,
                                    std::chrono::milliseconds patience, std::function<bool()> go_on);

}  // namespace echotrain::server
