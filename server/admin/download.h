// Kept images, for somebody who takes them away.
#pragma once

#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <vector>

#include "server/base/signal.h"
#include "server/live/recent_images.h"

namespace echotrain::server {

/// An HTTP answer with a stream file (protocol/files/stream_file.h): the images' messages, one after another;
/// `head_only`: what precedes it. They go out in pieces from where they are kept, and are not kept for this: when one
/// goes because a scan needs its memory, the answer ends, shorter than its Content-Length. It ends as well when a piece
/// (1 MiB) is not taken within `patience`.
asio::awaitable<void> send_images(boost::beast::tcp_stream& stream,
                                  std::vector<std::shared_ptr<const KeptImage>> images, bool head_only,
                                  std::chrono::milliseconds patience);

}  // namespace echotrain::server
