#include "server/session/listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <fstream>
#include <new>
#include <stdexcept>
#include <utility>

#include "server/base/log.h"
#include "server/net/identity.h"

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

// Connections that are told why they are refused at one time; more are simply closed.
constexpr std::int64_t kMostRefusals = 32;
constexpr auto kPauseAfterFailure = std::chrono::milliseconds(100);
constexpr auto kPauseWithoutRoom = std::chrono::milliseconds(5);
constexpr auto kPauseInLine = std::chrono::seconds(1);        // it is woken before
constexpr auto kQuietAboutCrowds = std::chrono::seconds(10);  // between two lines of the log

/// An image of 512 x 512 leaves in one write, before buffers have grown. Where the system caps a size that is asked for
/// below this, it is left as it is.
void make_room_for_image(tcp::socket& socket) {
  constexpr int kBytes = 1 << 20;
  int most = 0;
  error_code ignored;
  asio::socket_base::send_buffer_size now;
  socket.get_option(now, ignored);
  std::ifstream file("/proc/sys/net/core/wmem_max");
  if (file >> most && most >= kBytes && now.value() < kBytes)
    socket.set_option(asio::socket_base::send_buffer_size(kBytes), ignored);
}

void tell_of_failure(const std::string& problem) {
  write_log(LogLevel::error, fmt::format("cannot accept a connection: {}", problem));
}

ConnectionAdmission::Limits admission_limits(const config::ServerOptions& options) {
  const std::int64_t half = (options.max_sessions + 1) / 2;
  const std::int64_t per_address = options.max_sessions_per_address;
  return {options.max_connecting, options.max_sessions, per_address > 0 ? per_address : half};
}

asio::ip::address resolve(asio::io_context& context, const std::string& bind) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(bind, error);
  if (!error) return address;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(tcp::v4(), bind, "", error);
  if (error || found.empty())
    throw std::runtime_error(
        fmt::format("cannot listen on '{}': it is not an address of this machine ({}); try --bind 127.0.0.1, "
                    "or --bind 0.0.0.0 for every interface",
                    bind, error.message()));
  return found.begin()->endpoint().address();
}

}  // namespace

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

Listener::Listener(asio::io_context& context, const Environment& environment, std::function<void()> emptied)
    : context_(context),
      environment_(environment),
      emptied_(std::move(emptied)),
      allow_(environment.options.allow),
      balancers_(environment.options.proxy_from, "proxy_from"),
      strand_(asio::make_strand(context)),
      handshakes_(strand_, seconds(environment.options.connect_timeout_s), environment.log_bounds),
      admission_(admission_limits(environment.options), environment.exempt) {
  const config::ServerOptions& options = environment.options;
  const asio::ip::address address = resolve(context, options.bind);
  if (!options.tls.only) {
    if (!address.is_loopback() && allow_.empty() && !options.insecure)
      throw std::invalid_argument(fmt::format(
          "--bind {} opens the plain port to everybody who can reach this machine; name the networks that may use it "
          "(--allow 10.1.0.0/16), or serve TLS only (--tls-only with --tls-certificate and --tls-key), or say "
          "--insecure",
          options.bind));
    open_port({address, static_cast<std::uint16_t>(options.port)}, false);
  }
  if (environment.certificates) open_port({address, static_cast<std::uint16_t>(options.tls.port)}, true);
}

void Listener::open_port(tcp::endpoint endpoint, bool tls) {
  ListeningPort& port = ports_.emplace_back(ListeningPort{tcp::acceptor(strand_), endpoint, tls});
  try {
    port.acceptor.open(endpoint.protocol());
    port.acceptor.set_option(tcp::acceptor::reuse_address(true));
    if (endpoint.address().is_v6()) port.acceptor.set_option(asio::ip::v6_only(false));
    port.acceptor.bind(endpoint);
    port.acceptor.listen();
    port.endpoint = port.acceptor.local_endpoint();
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(
        fmt::format("cannot listen on {}: {}; stop the program that uses this port, or choose another "
                    "address and port with --bind and {} (0 takes any free port)",
                    text_of(endpoint), error.code().message(), tls ? "--tls-port" : "--port"));
  }
}

std::optional<tcp::endpoint> Listener::endpoint_of(bool tls) const {
  for (const ListeningPort& port : ports_)
    if (port.tls == tls) return port.endpoint;
  return std::nullopt;
}

void Listener::start() {
  for (ListeningPort& port : ports_) asio::co_spawn(strand_, accept(port), asio::detached);
}

asio::awaitable<void> Listener::accept(ListeningPort& port) {
  while (port.acceptor.is_open()) {
    error_code error;
    std::string problem;
    try {
      tcp::socket socket(asio::make_strand(context_));
      co_await port.acceptor.async_accept(socket, redirect_error(use_awaitable, error));
      if (!error)
        co_await take(std::move(socket), port.tls);
      else if (error != asio::error::operation_aborted && error != asio::error::connection_aborted)
        problem = error.message();
    } catch (const std::exception& thrown) {
      problem = thrown.what();
    }
    if (!problem.empty()) {
      // Most likely out of descriptors or memory: sessions that end give some back.
      tell_of_failure(problem);
      co_await wait(kPauseAfterFailure);
    }
  }
}

asio::awaitable<void> Listener::wait(Clock::duration time) {
  asio::steady_timer timer(strand_, time);
  error_code ignored;
  co_await timer.async_wait(redirect_error(use_awaitable, ignored));
}

// Takes a connection; others are accepted while one waits for room, or for its balancer.
asio::awaitable<void> Listener::take(tcp::socket socket, bool tls) {
  error_code gone;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  bool waits = false, began = false;  // both true: it has a place in the line
  if (!balancers_.names(peer.address()) && try_to_add(socket, tls, peer, waits)) co_return;
  try {
    auto shared = std::make_shared<tcp::socket>(std::move(socket));
    while (!(began = begin_handshake(waits))) {
      if (!waits) handshakes_.make_room();
      co_await wait(kPauseWithoutRoom);
    }
    asio::co_spawn(strand_, handshake(std::move(shared), tls, peer, waits), asio::detached);
  } catch (const std::exception&) {
    if (began) end_handshake(waits);
    end_wait(peer, waits);
    throw;
  }
}

bool Listener::begin_handshake(bool waits) {
  const std::scoped_lock lock(mutex_);
  std::int64_t& count = waits ? came_to_wait_ : handshaking_;
  if (count >= environment_.options.max_connecting) return false;
  ++count;
  return true;
}

void Listener::end_handshake(bool waited) {
  bool empty = false;
  {
    const std::scoped_lock lock(mutex_);
    --(waited ? came_to_wait_ : handshaking_);
    empty = stopping_ && is_empty();
  }
  if (empty) emptied_();
}

/// The wait of a connection in the line for room, on strand_: the first one looks for room now and then, and so does
/// the first one of another address, for which there may be some; who leaves wakes those that are first then.
class Listener::WaitInLine {
 public:
  WaitInLine(Listener& listener, const asio::ip::address& address)
      : line_(listener.line_),
        entry_(line_.insert(line_.end(), {counted_as(address), asio::steady_timer(listener.strand_)})) {}
  ~WaitInLine() {
    const bool first = looks();
    line_.erase(entry_);
    if (!first || line_.empty()) return;
    line_.front().timer.cancel();
    if (const auto other = of_another_address(); other != line_.end()) other->timer.cancel();
  }
  WaitInLine(const WaitInLine&) = delete;
  WaitInLine& operator=(const WaitInLine&) = delete;

  asio::awaitable<void> wait() {
    do {
      entry_->timer.expires_after(looks() ? kPauseWithoutRoom : kPauseInLine);
      error_code ignored;
      co_await entry_->timer.async_wait(redirect_error(use_awaitable, ignored));
    } while (!looks());
  }

 private:
  bool looks() const { return entry_ == line_.begin() || entry_ == of_another_address(); }
  std::list<Waiting>::iterator of_another_address() const {
    return std::find_if(line_.begin(), line_.end(), [&](const Waiting& each) { return each.who != line_.front().who; });
  }
  std::list<Waiting>& line_;
  const std::list<Waiting>::iterator entry_;
};

// Asks who the client is: `peer` waits for room, or is a balancer, which says who its client is.
asio::awaitable<void> Listener::handshake(std::shared_ptr<tcp::socket> socket, bool tls, tcp::endpoint peer,
                                          bool waits) {
  const bool waited = waits;
  try {
    std::optional<tcp::endpoint> client = peer;
    if (!waits) client = co_await handshakes_.client_of(socket, peer);
    if (client) {
      peer = *client;
      if (waits || !try_to_add(*socket, tls, peer, waits)) {
        WaitInLine line(*this, peer.address());
        do co_await line.wait();
        while (!try_to_add(*socket, tls, peer, waits));
      }
    }
  } catch (const std::exception& thrown) {
    tell_of_failure(thrown.what());
  }
  end_wait(peer, waits);
  end_handshake(waited);
}

void Listener::end_wait(const tcp::endpoint& peer, bool& waits) {
  if (!std::exchange(waits, false)) return;
  const std::scoped_lock lock(mutex_);
  admission_.end_wait(peer.address());
}

// One thread that spins serves all connections; where there are several, one may write while another one reads.
asio::any_io_executor Listener::off_strand_executor() const {
  if (environment_.busy_polling) return {};
  return context_.get_executor();
}

// False when there is no room for the moment, and it may wait, as `waits` then says. One that may not is closed by the
// caller, with its socket. One that waits goes on waiting, though others of its address have come since.
bool Listener::try_to_add(tcp::socket& socket, bool tls, const tcp::endpoint& peer, bool& waits) {
  std::uint64_t id = 0;
  std::shared_ptr<Session> session;
  std::optional<protocol::Error> refusal;
  {
    const std::scoped_lock lock(mutex_);
    refusal = refusal_of(peer, tls);
    if (refusal && refused_ >= kMostRefusals) return true;
    if (!refusal && !make_room(peer.address())) {
      waits = waits || admission_.wait(peer.address());
      if (!waits) log_overload(peer.address());
      return !waits;
    }
    id = ++last_id_;
    // The kernel's buffers grow by themselves: an explicit size would be capped below what they can reach.
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (environment_.busy_polling) make_room_for_image(socket);
    const asio::any_io_executor strand = socket.get_executor();
    std::unique_ptr<Transport> transport =
        tls ? environment_.certificates->context()->make_transport(std::move(socket))
            : make_plain_transport(std::move(socket), false, {off_strand_executor()});
    session = std::make_shared<Session>(
        std::move(transport), strand, peer.address().is_unspecified() ? "unknown" : text_of(peer), id, environment_,
        [this, id, refused = refusal.has_value()] { remove(id, refused); }, [this, id] { return admit(id); });
    if (!refusal) admission_.connect(id, peer.address(), Clock::now());
    try {
      sessions_[id] = session;
    } catch (const std::bad_alloc&) {
      admission_.remove(id);
      throw;
    }
    if (refusal) ++refused_;
  }
  start(session, id, refusal);
  return true;
}

protocol::Result<std::uint64_t> Listener::add_own(int socket, const std::string& peer, const std::string& capture) {
  const asio::any_io_executor strand = asio::make_strand(context_);
  asio::local::stream_protocol::socket own(strand, asio::local::stream_protocol(), socket);
  const asio::ip::address address = address_of(peer).value_or(asio::ip::address_v4::loopback());
  std::uint64_t id = 0;
  std::shared_ptr<Session> session;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return protocol::Error{"shutdown", "the server is shutting down"};
    if (!make_room(address)) return protocol::Error{"busy", "the server has no room for another connection; try again"};
    id = ++last_id_;
    session = std::make_shared<Session>(
        make_plain_transport(std::move(own), /*authenticated=*/true), strand, peer, id, environment_,
        [this, id] { remove(id, false); }, [this, id] { return admit(id); });
    session->is_replay(capture);
    admission_.connect(id, address, Clock::now());
    try {
      sessions_[id] = session;
    } catch (const std::bad_alloc&) {
      admission_.remove(id);
      throw;
    }
  }
  start(session, id, std::nullopt);
  return id;
}

protocol::Result<std::uint64_t> Listener::add_detached(int socket, const SessionOrigin& origin) {
  const asio::any_io_executor strand = asio::make_strand(context_);
  asio::local::stream_protocol::socket own(strand, asio::local::stream_protocol(), socket);
  std::uint64_t id = 0;
  std::shared_ptr<Session> session;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return protocol::Error{"shutdown", "the server is shutting down"};
    id = ++last_id_;
    session = std::make_shared<Session>(make_plain_transport(std::move(own), /*authenticated=*/true), strand,
                                        origin.peer, id, environment_, [this, id] { remove(id, false); });
    session->is_of(origin);
    sessions_[id] = session;
  }
  start(session, id, std::nullopt);
  return id;
}

std::optional<protocol::Error> Listener::refusal_of(const tcp::endpoint& peer, bool tls) const {
  if (stopping_) return protocol::Error{"shutdown", "the server is shutting down; send the measurement again later"};
  if (tls || allow_.contains(peer.address())) return std::nullopt;
  return protocol::Error{
      "not-allowed",
      fmt::format("the address {} is in none of the networks that this port serves (option allow of the server)",
                  peer.address().to_string())};
}

// Makes room, by dropping another connection where that is needed.
bool Listener::make_room(const asio::ip::address& address) {
  const ConnectionAdmission::Room room = admission_.make_room(address, Clock::now());
  if (!room.dropped) return room.available;
  if (const auto dropped = sessions_.find(*room.dropped); dropped != sessions_.end()) dropped->second->drop();
  log_overload(room.address);
  return true;
}

void Listener::log_overload(const asio::ip::address& address) {
  const Clock::time_point now = Clock::now();
  if (logged_overload_ && now - *logged_overload_ < kQuietAboutCrowds) return;
  logged_overload_ = now;
  write_log(LogLevel::warning,
            fmt::format("{} connections have not sent a config (max_connecting): for further ones the oldest of the "
                        "address that has most is dropped, and those of an address that has more than half are closed; "
                        "{} now",
                        environment_.options.max_connecting, address.to_string()));
}

// Starts a session, whose members belong to its strand. One that cannot be started must not keep its place.
void Listener::start(const std::shared_ptr<Session>& session, std::uint64_t id,
                     const std::optional<protocol::Error>& refusal) {
  const auto begin = [this, id, session, refusal] {
    try {
      if (refusal)
        session->refuse(*refusal);
      else
        session->start();
    } catch (const std::exception&) {
      remove(id, refusal.has_value());
      throw;
    }
  };
  try {
    asio::post(session->executor(), begin);
  } catch (const std::exception&) {
    remove(id, refusal.has_value());
    throw;
  }
}

std::optional<protocol::Error> Listener::admit(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  return admission_.admit(id);
}

void Listener::remove(std::uint64_t id, bool refused) {
  bool idle = false, empty = false;
  {
    const std::scoped_lock lock(mutex_);
    if (sessions_.erase(id) == 0) return;
    admission_.remove(id);
    if (refused) --refused_;
    idle = sessions_.empty();
    empty = stopping_ && is_empty();
  }
  environment_.heap_trimmer->session_ended(idle);
  if (empty) emptied_();
}

void Listener::stop() {
  asio::post(strand_, [this] {
    error_code ignored;
    for (ListeningPort& port : ports_) port.acceptor.close(ignored);
    handshakes_.stop();
    bool empty = false;
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      empty = is_empty();
    }
    shut_down_sessions(false);
    if (empty) emptied_();
  });
}

void Listener::stop_sessions_now() { shut_down_sessions(true); }

void Listener::cut_sessions_off() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, session] : sessions_)
    session->cut_off("the server ends, and the session has not: the connection is reset");
}

bool Listener::stop_session(std::uint64_t id, const protocol::Error& reason) {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  found->second->stop(reason);
  return true;
}

void Listener::shut_down_sessions(bool now) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, session] : sessions_) session->shut_down(now);
}

}  // namespace echotrain::server
