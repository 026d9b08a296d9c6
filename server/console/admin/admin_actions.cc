#include "server/console/admin/admin_actions.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "server/base/log.h"
#include "server/detached/detached_store.h"

namespace echotrain::server {

namespace {

constexpr unsigned kAccepted = 202, kUnauthorized = 401, kForbidden = 403, kNoSession = 404;

/// The number in "/sessions/7/stop".
std::optional<std::uint64_t> session_to_stop(std::string_view path) {
  constexpr std::string_view kBefore = "/sessions/", kAfter = "/stop";
  if (!path.starts_with(kBefore) || !path.ends_with(kAfter) || path.size() <= kBefore.size() + kAfter.size())
    return std::nullopt;
  const std::string_view number = path.substr(kBefore.size(), path.size() - kBefore.size() - kAfter.size());
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return id;
}

/// The ID in "/detached/ID/cancel".
std::string detached_to_cancel(std::string_view path) {
  constexpr std::string_view kBefore = "/detached/", kAfter = "/cancel";
  if (!path.starts_with(kBefore) || !path.ends_with(kAfter) || path.size() <= kBefore.size() + kAfter.size()) return {};
  path.remove_prefix(kBefore.size());
  path.remove_suffix(kAfter.size());
  return is_scan_id(path) ? std::string(path) : std::string();
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  return authorization.starts_with(kScheme) ? authorization.substr(kScheme.size()) : std::string_view();
}

AdminPage page(unsigned status, std::string text) {
  AdminPage page;
  page.status = status;
  page.body = std::move(text);
  return page;
}

}  // namespace

bool is_action(std::string_view path) { return session_to_stop(path).has_value() || !detached_to_cancel(path).empty(); }

AdminPage admin_action(const AdminRequest& order, const Environment& environment, const StopSession& stop_session) {
  if (!environment.admin_tokens)
    return page(kForbidden, "nobody may stop sessions here; the option admin.token_file names those who may\n");
  if (!order.logged_in && !environment.admin_tokens->contain(bearer_token(order.authorization), Right::admin)) {
    if (environment.log_bounds->may_write("admin port"))
      write_log(LogLevel::warning,
                fmt::format("admin port: {} asked for {} without a valid token", order.peer, order.path));
    return page(kUnauthorized,
                "this takes a header 'Authorization: Bearer TOKEN' with a token of admin.token_file (scope "
                "admin)\n");
  }
  if (const std::string scan = detached_to_cancel(order.path); !scan.empty()) {
    if (!environment.detached || !environment.detached->cancel(scan, nullptr))
      return page(kNoSession, fmt::format("there is no detached scan {}\n", scan));
    write_log(LogLevel::warning, fmt::format("admin port: {} cancels the detached scan {}", order.peer, scan));
    return page(kAccepted, fmt::format("the detached scan {} is being cancelled\n", scan));
  }
  const std::uint64_t id = session_to_stop(order.path).value();
  if (!stop_session || !stop_session(id, {"stopped", "an administrator of the server has stopped this session"}))
    return page(kNoSession, fmt::format("there is no session {}\n", id));
  write_log(LogLevel::warning, fmt::format("admin port: {} stops session {}", order.peer, id));
  return page(kAccepted, fmt::format("session {} is being stopped\n", id));
}

}  // namespace echotrain::server
