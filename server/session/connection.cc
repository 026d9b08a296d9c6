#include "server/session/connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/data/text.h"
#include "server/net/identity.h"

namespace echotrain::server {

std::string Ending::outcome() const {
  if (dropped) return "dropped";
  if (gone) return "peer gone";
  if (error) return error->code;
  return broken_off ? "incomplete" : "complete";
}

namespace {

bool is_exempt(const std::string& peer, const AllowList& networks) {
  const auto address = address_of(peer);
  return !address || networks.names(*address);
}

/// True for errors whose texts may quote what the client has written.
bool may_quote_client(const std::string& code) {
  for (const char* each : {"bad-config", "unknown-config", "bad-header", "bad-data", "unknown-message", "recon-failed"})
    if (code == each) return true;
  return false;
}

/// Ends a job whose work uses what lies in the coroutine that waits for it: an exception there, or the end of all
/// coroutines, takes it out of the line, or waits until it is done.
struct EndsJob {
  FairQueue::Job& job;
  ~EndsJob() {
    if (job.cancel()) return;
    while (!job.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

}  // namespace

Connection::Connection(std::unique_ptr<Transport> socket, asio::any_io_executor its_strand, std::string peer,
                       std::uint64_t id, const Environment& its_environment)
    : changed_(std::make_shared<Signal>(its_strand)),
      environment(its_environment),
      options(its_environment.options),
      strand(std::move(its_strand)),
      address(counted_text(peer)),
      exempt(is_exempt(peer, its_environment.exempt)),
      log(id, its_environment.log_bounds, address),
      status(its_environment.session_registry->add(id, std::move(peer), its_environment.memory)),
      observer(its_environment.observers ? its_environment.observers->observe(status) : nullptr),
      transport(std::move(socket)),
      outbox(std::make_shared<Outbox>(static_cast<std::size_t>(options.queue_mib) << 20, waker(), status->queues)) {}

std::function<void()> Connection::waker() const {
  return [weak = std::weak_ptr<Signal>(changed_), strand = strand] {
    asio::post(strand, [weak] {
      if (const auto changed = weak.lock()) changed->notify();
    });
  };
}

asio::awaitable<void> Connection::poll_wait(Clock::duration most) {
  asio::steady_timer look_again(strand, most);
  look_again.async_wait([wake = waker()](const error_code& cancelled) {
    if (!cancelled) wake();
  });
  co_await wait();
}

asio::awaitable<bool> Connection::offload(FairQueue& queue, std::function<void()> work, std::function<bool()> is_over) {
  const auto job = queue.add(address, std::move(work), waker());
  const EndsJob ends{*job};
  while (!job->done()) {
    if (is_over() && job->cancel()) co_return false;
    if (!job->done()) co_await poll_wait();
  }
  job->rethrow();
  co_return true;
}

void Connection::free_offloaded(std::shared_ptr<void> what) noexcept {
  if (!what) return;
  try {
    const auto held = std::make_shared<std::shared_ptr<void>>(std::move(what));
    environment.long_texts->add(
        address, [held] { held->reset(); }, waker());
  } catch (const std::bad_alloc&) {  // it is freed here
  }
}

void Connection::fail(protocol::Error reason) {
  if (observer) observer->error(reason);
  if (!end.error && !end.gone && !end.told) end.error = std::move(reason);
  notify();
}

void Connection::fail(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    fail({"resources", "the server is out of memory"});
  } catch (const std::system_error& error) {
    // Only the start of the worker's thread can throw this for a reason that lies with the machine.
    if (error.code() != std::errc::resource_unavailable_try_again) return fail_internally(error);
    fail({"resources", "the server cannot start another thread"});
  } catch (const std::exception& error) {
    fail_internally(error);
  }
}

void Connection::fail_internally(const std::exception& error) {
  log.error("internal error: {}", protocol::printable(error.what()));
  fail({"internal", "internal error, see the server's log"});
}

void Connection::log_fatal(const protocol::Error& error) const {
  const std::string line = may_quote_client(error.code)
                               ? fmt::format("fatal {}", error.code)
                               : fmt::format("fatal {}: {}", error.code, protocol::printable(error.message));
  const bool no_scan = error.code == "unknown-message" || error.code == "out-of-order" || error.code == "timeout";
  if (admitted || !no_scan)  // else somebody connected who need not have had one
    log.error("{}", line);
  else
    log.warn("{}", line);
  if (may_quote_client(error.code) && admitted) log.debug("{}: {}", error.code, protocol::printable(error.message));
}

void Connection::lose(const std::string& why) {
  if (end.gone) return;
  log.warn("{}", why);
  if (observer) observer->error({"peer-gone", why});
  cut();
}

void Connection::drop() {
  if (end.gone) return;
  end.dropped = true;
  cut();
}

void Connection::cut() {
  end.gone = true;
  free_offloaded(outbox->discard());
  transport->reset();
  notify();
}

}  // namespace echotrain::server
