// The admin pages are the port's read-only answers: health, metrics, sessions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/session/environment.h"

namespace echotrain::server {

struct AdminPage {
  unsigned status = 200;
  std::string_view content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};  ///< further ones
};

/// Returns the page at a path without query ("/metrics"), or 404 where there is none.
AdminPage admin_page(std::string_view path, const Environment& environment);

}  // namespace echotrain::server
