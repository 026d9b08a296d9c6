#include "server/console/admin/live_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "protocol/data/text.h"
#include "server/base/log.h"
#include "server/console/live/diagnosis_json.h"
#include "server/console/live/image_view.h"
#include "server/console/live/live_scan_registry.h"
#include "server/console/page/page_files.h"
#include "server/console/pipelines/pipelines_json.h"
#include "server/net/identity.h"

namespace echotrain::server {

namespace {

constexpr unsigned kUnderWay = 202, kFound = 302, kNoLogin = 401, kNotYours = 403, kNoPage = 404, kTooManyTries = 429,
                   kLater = 503;
constexpr std::string_view kFiles = "/page/", kJson = "application/json";

// The page loads nothing from elsewhere and nothing inline, and no script can make markup of a text.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

AdminPage text_page(unsigned status, std::string text) {
  AdminPage page;
  page.status = status;
  page.body = std::move(text);
  return page;
}

AdminPage json_page(std::string text) {
  AdminPage page;
  page.content_type = kJson;
  page.body = std::move(text);
  return page;
}

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  if (name.ends_with(".png")) return "image/png";
  return "text/plain; charset=utf-8";
}

AdminPage file_page(std::string_view name) {
  if (name.empty()) name = "index.html";
  for (const PageFile& file : page_files())
    if (file.name == name) {
      AdminPage page;
      page.content_type = type_of(name);
      page.body = file.bytes;
      page.headers = {{"Content-Security-Policy", std::string(kPolicy)}, {"Referrer-Policy", "no-referrer"}};
      return page;
    }
  return text_page(kNoPage, "the page has no such file\n");
}

/// Memory of an answer, within the one budget.
struct Paid {
  Paid(std::shared_ptr<std::atomic<std::uint64_t>> of_all, std::shared_ptr<numerics::MemoryBudget> its_budget,
       std::uint64_t its_bytes)
      : all(std::move(of_all)), budget(std::move(its_budget)), bytes(its_bytes) {
    *all += bytes;
  }
  ~Paid() {
    *all -= bytes;
    budget->give(bytes);
  }
  Paid(const Paid&) = delete;
  Paid& operator=(const Paid&) = delete;
  const std::shared_ptr<std::atomic<std::uint64_t>> all;
  const std::shared_ptr<numerics::MemoryBudget> budget;
  const std::uint64_t bytes;
};

/// Returns the number of a parameter: 7 for "scan" in "scan=7&z=3". Nothing where it is not there, or is no number.
std::optional<std::uint64_t> number_in(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(query.size(), end + 1));
    if (one.size() <= name.size() || !one.starts_with(name) || one[name.size()] != '=') continue;
    std::uint64_t value = 0;
    const std::string_view digits = one.substr(name.size() + 1);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && stop == digits.data() + digits.size()) return value;
    return std::nullopt;
  }
  return std::nullopt;
}

std::string cookie_name(const LiveRequest& order) { return fmt::format("echotrain_{}", order.port); }

/// True if everybody may have it: the page without its data.
bool is_file(std::string_view path) { return path == "/page" || path.starts_with(kFiles); }

std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  return authorization.starts_with(kScheme) ? authorization.substr(kScheme.size()) : std::string_view();
}

}  // namespace

bool is_live(std::string_view path) {
  return is_file(path) || path == "/login" || path == "/logout" || path.starts_with("/live/");
}

bool is_live_action(std::string_view path) { return path == "/login" || path == "/logout" || path == "/live/replay"; }

bool is_events(std::string_view path) { return path == "/live/events"; }

LivePages::LivePages(const Environment& environment, AddSession add_session)
    : environment_(environment),
      logins_(environment.admin_tokens),
      viewers_(static_cast<std::size_t>(environment.options.admin.viewers)),
      downloads_(environment.memory),
      replays_(std::make_shared<Replays>(environment.options.capture.directory, environment.limits,
                                         std::move(add_session))) {}

const Logins::Login* LivePages::login(const LiveRequest& order) {
  return logins_.possible() ? logins_.find(cookie_value(order.cookie, cookie_name(order))) : nullptr;
}

bool LivePages::may_look(const LiveRequest& order) {
  if (environment_.options.admin.page == config::AdminOptions::Page::loopback && order.from_here) return true;
  return knows(order);
}

/// True if the request shows a token, or its browser did when logging in.
bool LivePages::knows(const LiveRequest& order) {
  const std::string_view token = bearer(order.authorization);
  return login(order) != nullptr ||
         (environment_.admin_tokens && environment_.admin_tokens->contain(token, Right::read));
}

/// True if the request comes from the page that has logged in.
bool LivePages::is_from_page(const LiveRequest& order) {
  const Logins::Login* const login = this->login(order);
  return login != nullptr && same_secret(login->csrf, order.csrf);
}

bool LivePages::may_act(const LiveRequest& order) {
  return is_from_page(order) && environment_.admin_tokens->contain(login(order)->token, Right::admin);
}

std::optional<AdminPage> LivePages::too_many_tries(const LiveRequest& order) {
  const std::string_view token = bearer(order.authorization);
  if (!environment_.admin_tokens || token.empty() || is_file(order.path)) return std::nullopt;
  const std::string peer(order.peer);
  const auto address = address_of(peer);
  const bool right = environment_.admin_tokens->contain(token, Right::read);
  const Clock::duration wait = logins_.wait_of(address ? counted_text(*address) : peer, right);
  if (wait <= Clock::duration::zero()) return std::nullopt;
  const auto s = std::chrono::ceil<std::chrono::seconds>(wait).count();
  AdminPage page = text_page(kTooManyTries,
                             fmt::format("your address has shown too many wrong tokens; try again in {} s with one of "
                                         "admin.token_file\n",
                                         s));
  page.headers = {{"Retry-After", std::to_string(s)}};
  return page;
}

std::optional<AdminPage> LivePages::forgery(const LiveRequest& order) {
  const bool shows =
      environment_.admin_tokens && environment_.admin_tokens->contain(bearer(order.authorization), Right::read);
  if (shows || login(order) == nullptr || is_from_page(order)) return std::nullopt;
  return text_page(kNotYours, "this is not the page that has logged in\n");
}

std::optional<AdminPage> LivePages::refusal(const LiveRequest& order) {
  if (!environment_.live) return text_page(kNoPage, "this server has no page: its option admin.page is off\n");
  if (is_file(order.path)) return std::nullopt;
  // Browsers say who has caused a request; other programs say nothing.
  if (!order.fetch_site.empty() && order.fetch_site != "same-origin" && order.fetch_site != "none")
    return text_page(kNotYours, "pages of other sites get no answer here\n");
  const bool login = order.path == "/login" || order.path == "/logout" || order.path == "/live/login";
  if (login || may_look(order)) return std::nullopt;
  return text_page(kNoLogin, logins_.possible()
                                 ? "log in with a token of admin.token_file to look\n"
                                 : "only programs of the server's machine may look here; with the option "
                                   "admin.token_file others can log in\n");
}

AdminPage LivePages::answer(const LiveRequest& order, Attachments& attachments) {
  const std::string_view path = order.path;
  if (path == "/page") {
    AdminPage page = text_page(kFound, "");
    page.headers = {{"Location", "/page/"}};
    return page;
  }
  if (path.starts_with(kFiles)) return file_page(path.substr(kFiles.size()));
  if (path == "/login" && order.posts) return log_in(order);
  if (path == "/logout" && order.posts) {
    if (!is_from_page(order)) return text_page(kNotYours, "this is not the page that has logged in\n");
    logins_.log_out(cookie_value(order.cookie, cookie_name(order)));
    return text_page(200, "logged out\n");
  }
  if (path == "/live/login") {
    const Logins::Login* const login = this->login(order);
    return json_page(nlohmann::ordered_json{{"possible", logins_.possible()},
                                            {"logged_in", login != nullptr},
                                            {"may_look", may_look(order)},
                                            {"csrf", login != nullptr ? login->csrf : ""}}
                         .dump());
  }
  if (path == "/live/state") return json_page(state_.text(environment_));
  if (path == "/live/pipelines") return json_page(pipelines_json(environment_.catalogue));
  if (path == "/live/pipeline") {
    protocol::Result<std::string> found = pipeline_json(environment_.catalogue, text_in(order.query, "name"));
    return found ? json_page(*std::move(found)) : text_page(kNoPage, found.error().message + "\n");
  }
  if (path == "/live/image") return image(order, attachments);
  if (path == "/live/diagnose") return diagnose(order, attachments);
  if (is_events(path)) {  // asked for its head only
    AdminPage page;
    page.content_type = "text/event-stream";
    return page;
  }
  if (path == "/live/download") return download(order, attachments);
  if (path == "/live/captures" || path == "/live/replay") return replay(order, attachments);
  if (const auto& images = environment_.live->images(); path == "/live/images" && images) {
    attachments.work = [images, scan = number_in(order.query, "scan").value_or(0),
                        after = number_in(order.query, "after").value_or(0)] {
      return json_page(images_json(*images, scan, after));
    };
    return {};
  }
  return text_page(kNoPage, "the page has no such data\n");
}

AdminPage LivePages::log_in(const LiveRequest& order) {
  if (!logins_.possible())
    return text_page(kNotYours, "nobody can log in here; the option admin.token_file names those who may\n");
  const Logins::Login* const login = logins_.log_in(bearer(order.authorization));
  if (login == nullptr) {
    if (environment_.log_bounds->may_write("admin port"))
      write_log(LogLevel::warning, fmt::format("admin port: {} tried to log in without a valid token", order.peer));
    return text_page(kNoLogin, "this is no token of admin.token_file\n");
  }
  AdminPage page = json_page(nlohmann::ordered_json{{"csrf", login->csrf}}.dump());
  page.headers = {{"Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}", cookie_name(order),
                                             login->cookie, std::chrono::seconds(Logins::kLasts).count())}};
  return page;
}

AdminPage LivePages::download(const LiveRequest& order, Attachments& attachments) {
  if (!knows(order)) return text_page(kNoLogin, "log in with a token of admin.token_file to take images away\n");
  const RecentImages* const recent = environment_.live->images().get();
  const std::uint64_t scan = number_in(order.query, "scan").value_or(0);
  const std::string format = text_in(order.query, "format"), wanted = text_in(order.query, "series");
  const auto series = number_in(order.query, "series");
  if (!series && !wanted.empty())
    return text_page(kNoPage, fmt::format("'{}' is no number of a series\n", protocol::quotable(wanted)));
  if (recent != nullptr && !format.empty() && format != "mrd") {
    try {
      attachments.file = downloads_.begin({scan, format, series}, *recent, environment_.live->origin(scan));
    } catch (const DownloadError& error) {
      return text_page(error.status, std::string(error.what()) + "\n");
    }
    return {};
  }
  if (recent != nullptr) attachments.images = recent->of(scan);
  return text_page(kNoPage,
                   "no image of this scan is kept (any more)\n");  // where there are images, they go out instead
}

AdminPage LivePages::replay(const LiveRequest& order, Attachments& attachments) {
  if (!knows(order)) return text_page(kNoLogin, "log in with a token of admin.token_file to see and replay captures\n");
  if (!order.posts) {
    attachments.work = [replays = replays_] { return json_page(replays->json()); };
    return {};
  }
  if (auto forged = forgery(order)) return *std::move(forged);
  if (!may_act(order) && !environment_.admin_tokens->contain(bearer(order.authorization), Right::admin))
    return text_page(kNotYours, "this token may look, but start nothing: its scope is not admin\n");
  const std::string pipeline = text_in(order.query, "pipeline");
  if (const auto known = environment_.catalogue.by_name(pipeline); pipeline.empty() || !known)
    return text_page(kNoPage, (pipeline.empty() ? "say which pipeline" : known.error().message) + "\n");
  attachments.work = [replays = replays_, pipeline, capture = text_in(order.query, "capture"),
                      peer = std::string(order.peer)] {
    ReplayRefusal refusal;
    const std::uint64_t session = replays->start(capture, pipeline, peer, refusal);
    if (session == 0) return text_page(refusal.status, refusal.text + "\n");
    AdminPage page = json_page(nlohmann::ordered_json{{"session", session}}.dump());
    page.status = kUnderWay;
    return page;
  };
  return {};
}

AdminPage LivePages::diagnose(const LiveRequest& order, Attachments& attachments) {
  const auto scan = environment_.live->diagnoses()->find(number_in(order.query, "scan").value_or(0));
  if (!scan) return text_page(kNoPage, "this scan is not known (any more)\n");
  const bool coils = number_in(order.query, "coils").value_or(0) == 1;
  // Memory of the text, and of what it is made of: a number of the covariance becomes some 20 bytes, then 6.
  const std::uint64_t bytes = (1 << 20) + 8 * scan->bytes();
  constexpr std::uint64_t kMostAnswering = 64 << 20;
  if ((*answering_ > 0 && *answering_ + bytes > kMostAnswering) || !environment_.memory->take_if_it_fits(bytes)) {
    AdminPage page = text_page(kLater, "the server has no memory left for this answer; ask again\n");
    page.headers = {{"Retry-After", "1"}};
    return page;
  }
  attachments.paid = std::make_shared<Paid>(answering_, environment_.memory, bytes);
  attachments.work = [scan, coils, images = environment_.live->images()] {
    if (coils) scan->want_coil_images();
    return json_page(diagnosis_json(*scan, images.get(), coils));
  };
  return {};
}

AdminPage LivePages::image(const LiveRequest& order, Attachments& attachments) {
  const RecentImages* const images = environment_.live->images().get();
  if (images == nullptr) return text_page(kNoPage, "this server keeps no images: its option recent_images_mib is 0\n");
  const std::uint64_t scan = number_in(order.query, "scan").value_or(0);
  const std::uint64_t number = number_in(order.query, "image").value_or(0);  // 0: the newest
  const auto kept = number == 0 ? images->newest(scan) : images->find(scan, number);
  if (!kept) return text_page(kNoPage, "this image is not kept (any more)\n");
  constexpr std::uint64_t kMost = 1 << 20;
  ViewRequest wish;
  wish.z = static_cast<int>(std::min(kMost, number_in(order.query, "z").value_or(0)));
  wish.channel = static_cast<int>(std::min(kMost, number_in(order.query, "channel").value_or(0)));
  if (number_in(order.query, "phase").value_or(0) == 1) wish.part = ViewPart::phase;
  // A viewer that names itself lets the server choose the size.
  attachments.viewer = number_in(order.query, "viewer");
  if (attachments.viewer) wish.shrink = viewers_.shrink(*attachments.viewer);
  // A thumbnail: halved until it is within so many pixels.
  const auto within = static_cast<int>(std::min(kMost, number_in(order.query, "within").value_or(kMost)));
  const int most = std::max<int>(kept->image.head.matrix_size[0], kept->image.head.matrix_size[1]);
  while (wish.shrink < 8 && most > within * wish.shrink) wish.shrink *= 2;
  // Planes that are on their way to slow readers take no memory that scans could have; one may be larger than all.
  constexpr std::uint64_t kMostAnswering = 128 << 20;
  const std::uint64_t bytes = view_bytes(*kept, wish);
  if ((*answering_ > 0 && *answering_ + bytes > kMostAnswering) || !environment_.memory->take_if_it_fits(bytes)) {
    AdminPage page = text_page(kLater, "the server has no memory left for this image; ask again\n");
    page.headers = {{"Retry-After", "1"}};
    return page;
  }
  attachments.paid = std::make_shared<Paid>(answering_, environment_.memory, bytes);
  attachments.work = [kept, wish] {
    AdminPage page;
    page.content_type = "application/octet-stream";
    page.body = view_of(*kept, wish);
    return page;
  };
  return {};
}

}  // namespace echotrain::server
