// An action of the admin port changes something in the server, such as stopping a session; it takes a token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/data/result.h"
#include "server/console/admin/admin_pages.h"

namespace echotrain::server {

/// Ends the session of a number with a reason that its client is told. False: there is none. Any thread may call it.
using StopSession = std::function<bool(std::uint64_t, const protocol::Error&)>;

/// A request for an action, with what shows that its sender may ask for it.
struct AdminRequest {
  std::string_view path;           ///< without query
  std::string_view authorization;  ///< the header of this name
  bool logged_in = false;          ///< by the page, and the request shows that it comes from it
  std::string peer;                ///< address:port, for the log
};

/// True if there is an action at this path: "/sessions/7/stop", "/detached/ID/cancel".
bool is_action(std::string_view path);

/// Does the action where a token of admin.token_file is shown. Precondition: is_action(order.path). Returns 202 when it
/// is under way, 401 without a token, 403 where there is no such file, 404 where there is no such session or scan.
AdminPage admin_action(const AdminRequest& order, const Environment& environment, const StopSession& stop_session);

}  // namespace echotrain::server
