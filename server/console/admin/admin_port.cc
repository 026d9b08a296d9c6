#include "server/console/admin/admin_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/data/text.h"
#include "server/base/log.h"
#include "server/base/offload.h"
#include "server/base/priority.h"
#include "server/console/admin/admin_pages.h"
#include "server/console/admin/events.h"
#include "server/console/download/stream.h"
#include "server/console/pipelines/pipelines_json.h"
#include "server/net/identity.h"
#include "server/session/listener.h"

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::size_t kMostDrained = 64 << 10, kMostDrainedOfText = 2 * kLongestPipelineText;
constexpr std::string_view kCheck = "/live/check", kYaml = "application/yaml";

using Request = http::request_parser<http::empty_body>;
using Response = http::response<http::string_body>;

Response respond(AdminPage page) {
  Response response(static_cast<http::status>(page.status), 11);
  response.set(http::field::content_type, std::string(page.content_type));
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  for (const auto& [name, value] : page.headers) response.set(name, value);
  response.body() = std::move(page.body);
  return response;
}

AdminPage plain_page(unsigned status, std::string text) {
  AdminPage page;
  page.status = status;
  page.body = std::move(text);
  return page;
}

/// The answer to bytes that are not a valid HTTP request.
Response refuse(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return respond({431, "text/plain", "the request is too long\n"});
  if (error == http::error::body_limit) return respond({413, "text/plain", "the request's body is too long\n"});
  return respond({400, "text/plain", "this is not an HTTP request that this port understands\n"});
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::string address_of(const tcp::socket& socket) {
  error_code unknown;
  const tcp::endpoint peer = socket.remote_endpoint(unknown);
  return unknown ? "unknown" : text_of(peer);
}

bool is_here(const tcp::socket& socket) {
  error_code unknown;
  const asio::ip::address address = socket.remote_endpoint(unknown).address();
  if (unknown) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

/// The name in a Host header, without its port and in lower case; empty for an address. A web page can be made to come
/// from any name whose owner lets it point here (DNS rebinding), but from no address that is not its own.
std::string host_name(std::string_view host) {
  error_code no_address;
  if (const std::size_t end = host.find(']'); host.starts_with('[') && end != std::string_view::npos) {
    asio::ip::make_address_v6(std::string(host.substr(1, end - 1)), no_address);
    const std::string_view port = host.substr(end + 1);
    return no_address || (!port.empty() && !port.starts_with(':')) ? std::string(host) : "";
  }
  std::string name(host.substr(0, host.find(':')));
  asio::ip::make_address_v4(name, no_address);
  if (!no_address) return "";
  if (name.ends_with('.')) name.pop_back();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

bool may_ask(std::string_view host, const std::vector<std::string>& hosts) {
  const std::string name = host_name(host);
  return name.empty() || name == "localhost" ||
         std::any_of(hosts.begin(), hosts.end(), [&name](const std::string& one) { return host_name(one) == name; });
}

/// An answer, or that events are to be streamed, or that a text is to be read and checked first.
struct Answer {
  Response response;
  bool events = false;
  bool checks = false;
  LivePages::Attachments attachments{};
};

struct QueryClient {
  std::string peer;  ///< address:port
  bool here = false;
  std::uint16_t port = 0;  ///< that was asked
};

asio::awaitable<AdminPage> compute(std::function<AdminPage()> work) { co_return work(); }

Answer answer(const Request& parser, const QueryClient& asker, const Environment& environment, LivePages& live,
              const StopSession& stop_session) {
  const auto& request = parser.get();
  const auto [host, end] = request.equal_range(http::field::host);
  for (auto field = host; field != end; ++field) {
    const std::string_view value(field->value().data(), field->value().size());
    if (!may_ask(value, environment.options.admin.hosts))
      return {
          respond({421, "text/plain",
                   fmt::format("this port is not known as '{}'; the server's option admin.hosts names those by which "
                               "it may be asked\n",
                               protocol::quotable(value))})};
  }
  const std::string_view target = view(request.target()), path = target.substr(0, target.find('?'));
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head,
             acts = is_action(path);
  const bool posts = request.method() == http::verb::post, logs = environment.live && is_live_action(path);
  LiveRequest order{path, target.substr(std::min(target.size(), path.size() + 1))};
  order.authorization = view(request[http::field::authorization]);
  order.cookie = view(request[http::field::cookie]);
  order.csrf = view(request["X-Echotrain-CSRF"]);
  order.fetch_site = view(request["Sec-Fetch-Site"]);
  order.posts = posts;
  order.peer = asker.peer;
  order.from_here = asker.here;
  order.port = asker.port;
  if (acts || is_live(path))
    if (const auto later = live.too_many_tries(order)) return {respond(*later)};
  if (acts && posts) {
    Response response =
        respond(admin_action({path, order.authorization, live.may_act(order), asker.peer}, environment, stop_session));
    if (response.result() == http::status::unauthorized) response.set(http::field::www_authenticate, "Bearer");
    return {std::move(response)};
  }
  const bool checks = environment.live && path == kCheck;
  if (checks && posts) {
    if (const auto refusal = live.refusal(order)) return {respond(*refusal)};
    if (const auto forgery = live.forgery(order)) return {respond(*forgery)};
    // Another site's page cannot send this type before its browser has asked, which is answered with 405.
    const std::string_view type = view(request[http::field::content_type]);
    if (type.substr(0, type.find(';')) != kYaml)
      return {respond({415, "text/plain", fmt::format("this takes a text of the Content-Type {}\n", kYaml)})};
    Answer answer;
    answer.checks = true;
    return answer;
  }
  if (is_live(path) && !checks && (logs ? posts : reads)) {
    if (const auto refusal = live.refusal(order)) return {respond(*refusal)};
    Answer answer;
    answer.events = is_events(path) && request.method() == http::verb::get;
    if (!answer.events) answer.response = respond(live.answer(order, answer.attachments));
    return answer;
  }
  if (!reads || acts || logs || checks) {
    const std::string allowed = acts || logs || checks ? "POST" : "GET, HEAD";
    Response response = respond({405, "text/plain", fmt::format("only {} is answered here\n", allowed)});
    response.set(http::field::allow, allowed);
    return {std::move(response)};
  }
  return {respond(admin_page(path, environment))};
}

struct Checked {
  Response response;
  bool whole = false;  ///< the text has been read to its end
};

/// Memory of a text that comes, within the one budget.
struct PaidText {
  PaidText(std::shared_ptr<numerics::MemoryBudget> its_budget, std::uint64_t its_bytes)
      : budget(std::move(its_budget)), bytes(its_bytes), fits(budget->take_if_it_fits(bytes)) {}
  ~PaidText() {
    if (fits) budget->give(bytes);
  }
  PaidText(const PaidText&) = delete;
  PaidText& operator=(const PaidText&) = delete;
  const std::shared_ptr<numerics::MemoryBudget> budget;
  const std::uint64_t bytes;
  const bool fits;
};

/// Returns the loader's answer to the text that follows the header. The text is checked on a thread of `pool`, one text
/// at a time: `checking` says on the strand that one is.
asio::awaitable<Checked> check_text(beast::tcp_stream& stream, beast::flat_buffer& buffer, Request&& head,
                                    const Environment& environment, asio::thread_pool& pool, bool& checking) {
  const Response too_long =
      respond({413, "text/plain",
               fmt::format("the text is too long: at most {} KiB are checked\n", kLongestPipelineText >> 10)});
  if (const auto length = head.content_length(); length && *length > kLongestPipelineText) co_return Checked{too_long};
  // The body, which grows by doubling, and its copy.
  const PaidText paid(environment.memory, 3 * head.content_length().value_or(kLongestPipelineText));
  if (!paid.fits) {
    Response later = respond({503, "text/plain", "the server has no memory left for this text; try again\n"});
    later.set(http::field::retry_after, "1");
    co_return Checked{std::move(later)};
  }
  error_code error;
  if (beast::iequals(head.get()[http::field::expect], "100-continue"))
    co_await asio::async_write(stream, asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")),
                               redirect_error(use_awaitable, error));
  http::request_parser<http::string_body> parser(std::move(head));
  parser.body_limit(kLongestPipelineText);
  if (!error) co_await http::async_read(stream, buffer, parser, redirect_error(use_awaitable, error));
  if (error == http::error::body_limit) co_return Checked{too_long};
  if (error) co_return Checked{refuse(error)};
  if (checking) {
    Response busy = respond({503, "text/plain", "another text is being checked; try again\n"});
    busy.set(http::field::retry_after, "1");
    co_return Checked{std::move(busy), true};
  }
  checking = true;
  const std::string text = std::move(parser.get().body());
  AdminPage page;
  page.content_type = "application/json";
  std::exception_ptr failure;
  try {
    const std::function<void()> check = [&] { page.body = checked_json(environment.catalogue, text); };
    co_await run_offloaded(pool, check);
  } catch (...) {
    failure = std::current_exception();
  }
  checking = false;
  if (failure) std::rethrow_exception(failure);
  co_return Checked{respond(page), true};
}

}  // namespace

tcp::endpoint admin_endpoint(const config::AdminOptions& options, std::int64_t port) {
  error_code error;
  const std::string name = options.bind == "localhost" ? "127.0.0.1" : options.bind;
  const asio::ip::address address = asio::ip::make_address(name, error);
  if (error)
    throw std::runtime_error(fmt::format("admin.bind: '{}' is not an address; write 127.0.0.1, 0.0.0.0 or ::1", name));
  return {address, static_cast<std::uint16_t>(port)};
}

struct AdminPort::Connection {
  explicit Connection(tcp::socket socket) : who(counted_text(address_of(socket))), stream(std::move(socket)) {}
  const std::string who;  ///< its address, as bounds of one address count it
  beast::tcp_stream stream;
  std::list<std::shared_ptr<Connection>>::iterator place;
};

AdminPort::AdminPort(asio::io_context& context, const Environment& environment, const AdminLimits& limits,
                     StopSession stop_session, AddSession add_session)
    : environment_(environment),
      live_(environment, std::move(add_session)),
      limits_(limits),
      stop_session_(std::move(stop_session)),
      strand_(asio::make_strand(context)),
      acceptor_(strand_),
      endpoint_(admin_endpoint(environment.options.admin, environment.options.admin.port)) {
  for (asio::thread_pool* pool : {&computing_, &making_}) asio::post(*pool, [] { lower_priority(1); });
  try {
    acceptor_.open(endpoint_.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint_);
    acceptor_.listen();
    endpoint_ = acceptor_.local_endpoint();
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(fmt::format(
        "cannot serve the admin port on {}: {}; choose another one with --admin-port (0 takes any free one), "
        "or do without: --admin-enabled false",
        text_of(endpoint_), error.code().message()));
  }
  if (!endpoint_.address().is_loopback())
    write_log(LogLevel::warning, fmt::format("the admin port {} asks readers for no token: whoever reaches it sees the "
                                             "addresses of clients and how much they send",
                                             text_of(endpoint_)));
}

std::string AdminPort::address() const { return text_of(endpoint_); }

void AdminPort::start() { asio::co_spawn(strand_, accept(), asio::detached); }

void AdminPort::stop() {
  asio::post(strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& connection : connections_) connection->stream.close();
  });
}

asio::awaitable<void> AdminPort::accept() {
  asio::steady_timer pause(strand_);
  while (acceptor_.is_open()) {
    tcp::socket socket(strand_);
    error_code error;
    co_await acceptor_.async_accept(socket, redirect_error(use_awaitable, error));
    if (!error && acceptor_.is_open()) {  // one that comes during stop() would be served for long
      admit(std::move(socket));
    } else if (acceptor_.is_open()) {  // out of descriptors, most likely
      pause.expires_after(kPauseAfterError);
      co_await pause.async_wait(redirect_error(use_awaitable, error));
    }
  }
}

// Admission by address: an address that holds all connections neither keeps others out nor cuts theirs; its own make
// room.
void AdminPort::admit(tcp::socket socket) {
  constexpr std::size_t kOfViewer = 4;    // events, and images one after another
  constexpr int kSendBuffer = 256 << 10;  // so that the time that an image takes to leave tells of the link
  error_code ignored;
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  if (connections_.size() >= limits_.connections + kOfViewer * live_.viewers().count()) {
    std::map<std::string_view, std::size_t> held;
    std::size_t most = 0;
    for (const auto& each : connections_) most = std::max(most, ++held[each->who]);
    const auto found = std::ranges::find_if(connections_, [&](const auto& each) { return held[each->who] == most; });
    const std::shared_ptr<Connection> oldest = *found;
    connections_.erase(found);
    oldest->place = connections_.end();
    oldest->stream.close();
  }
  auto connection = std::make_shared<Connection>(std::move(socket));
  connection->place = connections_.insert(connections_.end(), connection);
  asio::co_spawn(strand_, serve(connection), [this, connection](std::exception_ptr) {
    connection->stream.close();
    if (connection->place != connections_.end()) connections_.erase(connection->place);
  });
}

asio::awaitable<void> AdminPort::serve(std::shared_ptr<Connection> connection) {
  beast::tcp_stream& stream = connection->stream;
  beast::flat_buffer buffer(limits_.request_bytes);
  error_code error;
  std::size_t most_drained = kMostDrained;
  for (bool keep = true; keep;) {
    if (buffer.size() == 0) {
      stream.expires_after(limits_.idle_time);
      const std::size_t n =
          co_await stream.async_read_some(buffer.prepare(limits_.request_bytes), redirect_error(use_awaitable, error));
      if (error) co_return;
      buffer.commit(n);
    }
    stream.expires_after(limits_.request_time);
    Request parser;
    parser.header_limit(static_cast<std::uint32_t>(limits_.request_bytes));
    co_await http::async_read_header(stream, buffer, parser, redirect_error(use_awaitable, error));
    if (error == http::error::end_of_stream || error == beast::error::timeout ||
        error == asio::error::operation_aborted || error == asio::error::connection_reset)
      co_return;
    const bool keeps = !error && parser.get().keep_alive(), head = !error && parser.get().method() == http::verb::head;
    const unsigned version = error ? 11 : parser.get().version();
    Answer answered = error ? Answer{refuse(error)}
                            : answer(parser, {address_of(stream.socket()), is_here(stream.socket()), endpoint_.port()},
                                     environment_, live_, stop_session_);
    if (answered.events) {
      co_await stream_events(stream, live_, environment_, limits_.request_time, [this, connection] {
        const bool wanted = acceptor_.is_open() && connection->place != connections_.end();
        if (wanted) connections_.splice(connections_.end(), connections_, connection->place);
        return wanted;
      });
      co_return;
    }
    if (!answered.attachments.images.empty()) {
      co_await send_images(stream, std::move(answered.attachments.images), parser.get().method() == http::verb::head,
                           limits_.request_time);
      co_return;
    }
    if (answered.attachments.file) {
      const auto failure = co_await send_download(stream, std::move(answered.attachments.file), making_,
                                                  {head, version >= 11, limits_.request_time});
      if (!failure) co_return;
      answered.response = respond(plain_page(failure->status, std::string(failure->what()) + "\n"));
    }
    if (answered.attachments.work)
      answered.response = respond(
          co_await asio::co_spawn(computing_, compute(std::move(answered.attachments.work)), asio::use_awaitable));
    // The bodies of other requests are not read, so that after one with a body the next one's beginning is unknown.
    bool whole = !error && parser.is_done();
    if (answered.checks) {
      Checked checked = co_await check_text(stream, buffer, std::move(parser), environment_, computing_, checking_);
      answered.response = std::move(checked.response);
      whole = checked.whole;
      most_drained = kMostDrainedOfText;
    }
    Response& response = answered.response;
    keep = keeps && whole;
    response.keep_alive(keep);
    response.version(version);
    response.prepare_payload();
    // Large images may take longer: a second for each MiB.
    stream.expires_after(limits_.request_time + std::chrono::seconds(response.body().size() >> 20));
    const Clock::time_point began = Clock::now();
    if (head) {
      http::response_serializer<http::string_body> serializer(response);
      co_await http::async_write_header(stream, serializer, redirect_error(use_awaitable, error));
    } else {
      co_await http::async_write(stream, response, redirect_error(use_awaitable, error));
    }
    if (answered.attachments.viewer)
      live_.viewers().sent(*answered.attachments.viewer,
                           std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began));
    if (error) co_return;
    if (connection->place == connections_.end()) co_return;
    connections_.splice(connections_.end(), connections_, connection->place);
  }
  // Reads the rest: otherwise the kernel would send a reset, and the other side might lose the answer.
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
  buffer.clear();
  for (std::size_t drained = 0; !error && drained < most_drained;)
    drained +=
        co_await stream.async_read_some(buffer.prepare(limits_.request_bytes), redirect_error(use_awaitable, error));
}

}  // namespace echotrain::server
