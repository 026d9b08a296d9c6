#include "server/base/offload.h"

#include <boost/asio/co_spawn.hpp>
#include <utility>

namespace echotrain::server {

namespace {
asio::awaitable<void> call(std::function<void()> work) {
  work();
  co_return;
}
}  // namespace

asio::awaitable<void> run_offloaded(asio::thread_pool& pool, std::function<void()> work) {
  co_await asio::co_spawn(pool.get_executor(), call(std::move(work)), asio::use_awaitable);
}

asio::awaitable<void> run_offloaded(asio::any_io_executor executor, std::function<void()> work) {
  co_await asio::co_spawn(std::move(executor), call(std::move(work)), asio::use_awaitable);
}

}  // namespace echotrain::server
