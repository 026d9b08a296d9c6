// Work that takes too long for the threads that move the sessions' bytes.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <utility>  // the Asio headers below use std::exchange without including it

#include "server/base/signal.h"

namespace echotrain::server {

/// Runs `work` on a thread of `pool`; the caller goes on, on its own executor, when it is done. Throws what it throws.
asio::awaitable<void> run_offloaded(asio::thread_pool& pool, std::function<void()> work);
/// The same on a thread of `executor`.
asio::awaitable<void> run_offloaded(asio::any_io_executor executor, std::function<void()> work);

}  // namespace echotrain::server
