// Optional parts of the server (docs/build.md). server/parts has a source for each.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline_spec.h"
#include "config/server_options.h"
#include "gadgets/api/registry.h"
#include "protocol/data/result.h"
#include "server/base/service_port.h"
#include "server/session/environment.h"

namespace echotrain::server {

/// The parts that this build has: each function is null where its part was left out.
struct OptionalParts {
  /// Ends the session of a number with a reason that its client is told. False: there is none. Any thread may call it.
  using StopSession = std::function<bool(std::uint64_t, const protocol::Error&)>;
  /// Takes a connected socket, over which a capture comes, as a client's, and gives its session's number.
  using AddSession =
      std::function<protocol::Result<std::uint64_t>(int socket, const std::string& peer, const std::string& capture)>;

  /// Opens the admin port, with all that it shows. Throws std::runtime_error that says what to do when it cannot be
  /// served.
  std::unique_ptr<ServicePort> (*admin)(asio::io_context&, const Environment&, StopSession, AddSession) = nullptr;
  /// Opens the port for HAProxy's agent-check, likewise.
  std::unique_ptr<ServicePort> (*agent)(asio::io_context&, const Environment&) = nullptr;
  /// Adds the live page's view of scans.
  void (*live)(Environment&) = nullptr;

  /// Reads the names of DICOM peers; the next one adds what sends images to them.
  std::vector<std::string> (*dicom_peers)(const config::DicomOptions&) = nullptr;
  void (*dicom)(Environment&) = nullptr;

  std::vector<std::string> (*load_plugins)(const std::vector<std::string>& folders, Registry&) = nullptr;
  std::string (*openrecon_label)(const std::vector<const config::PipelineSpec*>&, const Registry&) = nullptr;

  static const OptionalParts& built();
};

/// Returns the error for options that ask for what this build leaves out: "--openrecon-label: this build has no ...".
std::string not_built(std::string_view asked, std::string_view what);

}  // namespace echotrain::server
