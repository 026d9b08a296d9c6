// Kept images, for somebody who takes them away.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <vector>

#include "server/base/signal.h"
#include "server/live/recent_images.h"

namespace echotrain::server {

/// An HTTP answer with a stream file (protocol/files/stream_file.h): the images' messages, one after another. They go
/// out image by image from where they are kept. Ends when one is not taken within `patience`.
asio::awaitable<void> send_images(boost::beast::tcp_stream& stream,
                                  const std::vector<std::shared_ptr<const KeptImage>>& images,
                                  std::chrono::milliseconds patience);

}  // namespace echotrain::server
