// This part is the ports for those who watch over the server, and the live page.
#include <memory>
#include <utility>

#include "server/console/admin/admin_port.h"
#include "server/console/admin/haproxy_agent.h"
#include "server/console/live/live_scan_registry.h"
#include "server/parts/parts.h"

namespace echotrain::server {

namespace {

std::unique_ptr<ServicePort> admin_port(asio::io_context& context, const Environment& environment,
                                        StopSession stop_session, AddSession add_session) {
  return std::make_unique<AdminPort>(context, environment, AdminLimits{}, std::move(stop_session),
                                     std::move(add_session));
}

std::unique_ptr<ServicePort> agent_port(asio::io_context& context, const Environment& environment) {
  return std::make_unique<HaproxyAgent>(context, environment);
}

void make_live(Environment& environment) {
  const config::ServerOptions& options = environment.options;
  if (!options.admin.enabled || options.admin.page == config::AdminOptions::Page::off) return;
  environment.live = std::make_shared<LiveScanRegistry>(static_cast<std::uint64_t>(options.recent_images_mib) << 20,
                                                        options.admin.show_subject, environment.memory);
  environment.observers = environment.live;
}

}  // namespace

void add_admin(OptionalParts& to) {
  to.admin = admin_port;
  to.agent = agent_port;
  to.live = make_live;
}

}  // namespace echotrain::server
