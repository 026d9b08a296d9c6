// The HTTP answers that carry images are sent piece by piece.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "server/base/signal.h"
#include "server/console/download/download.h"
#include "server/console/live/recent_images.h"

namespace echotrain::server {

/// Sends a stream file (protocol/files/stream_file.h) as an HTTP answer: the images' messages, one after another;
/// `head_only`: only what precedes it. They go out in pieces from where they are stored, and this keeps none alive:
/// when one goes because a scan needs its memory, the answer ends, shorter than its Content-Length. It ends as well
/// when a piece (1 MiB) is not taken within `patience`.
asio::awaitable<void> send_images(boost::beast::tcp_stream& stream,
                                  std::vector<std::shared_ptr<const KeptImage>> images, bool head_only,
                                  std::chrono::milliseconds patience);

struct StreamOptions {
  bool head_only = false;
  bool pieces = true;  ///< the client knows HTTP/1.1, so that it can tell a file that ends early from a whole one
  std::chrono::milliseconds patience{};
};

/// Sends a file that is made piece by piece, on threads of `pool`, as an HTTP answer. Nothing is sent before its first
/// bytes are made; the result says why there are none. Later, the answer ends early, without its last chunk: when an
/// image goes, or when a MiB is not taken within `patience`. A client that has closed its side of the connection gets
/// nothing more, and no more is made for it. `head_only`: only whether there is a file, and its name.
asio::awaitable<std::optional<DownloadError>> send_download(boost::beast::tcp_stream& stream,
                                                            std::shared_ptr<Download> download, asio::thread_pool& pool,
                                                            StreamOptions how);

}  // namespace echotrain::server
