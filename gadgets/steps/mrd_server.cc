#include "gadgets/steps/mrd_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/steps/server_peer.h"

namespace echotrain {

Parameters<MrdServer::Options> MrdServer::parameters() {
  using O = Options;
  return Parameters<O>()
      .text("address", &O::address, "HOST:PORT of the server, one of those that the option mrd_servers names")
      .text("config", &O::config, "name of the configuration that the server is to run")
      .flag(
          "host_parameters", &O::host_parameters,
          "whether the server gets what the scan's host has sent as JSON, {\"parameters\": {...}}, as a text after the "
          "header")
      .choice("gives", &O::gives, {"images", "readouts"},
              "what it answers with; readouts: one for each that it takes, in the same order")
      .number("connect_timeout_s", &O::connect_timeout_s, 0.1, 3600, "longest wait for the connection")
      .unit("s")
      .number("timeout_s", &O::timeout_s, 0.1, 86400,
              "how long it may neither take nor give anything while the scan waits for it")
      .unit("s");
}

void MrdServer::check(const Options& options) {
  if (!is_server_address(options.address))
    throw std::invalid_argument(
        fmt::format("address: '{}' is not HOST:PORT, as in address: gadgetron:9002", options.address));
  if (options.config.empty() || options.config.size() > 1023 || options.config.find('\0') != std::string::npos)
    throw std::invalid_argument("config: the name of the server's configuration is missing, as in config: default.xml");
}

std::string MrdServer::who(const Options& options) { return fmt::format("MRD server {}", options.address); }

std::unique_ptr<Peer> MrdServer::open(const Options& options, Scan& scan, const PeerScan& peer) {
  numerics::Resources& resources = scan.compute.resources();
  const auto& servers = resources.get<StepSettings>().servers;
  if (std::find(servers.begin(), servers.end(), options.address) == servers.end())
    throw ClientError(
        fmt::format("mrd_server: {} is not one of the servers that pipelines may name here (option "
                    "mrd_servers: {})",
                    options.address, servers.empty() ? "none" : fmt::format("{}", fmt::join(servers, ", "))));
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options.connect_timeout_s));
  return resources.get<PeerSource>().server(options.address, timeout, scan.compute.stop_token(), peer);
}

StepBytes MrdServer::greeting(const Options& options, const protocol::Header& header, const std::string& host_json) {
  StepBytes bytes;
  protocol::encode(protocol::ConfigFile{options.config}, bytes.head);
  protocol::encode(protocol::HeaderText{header.xml}, bytes.head);
  if (options.host_parameters && !host_json.empty()) protocol::encode(protocol::Text{host_json}, bytes.head);
  return bytes;
}

}  // namespace echotrain
