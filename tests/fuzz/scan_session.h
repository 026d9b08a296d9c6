// What a client's messages do to a session, without sockets.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "server/base/log.h"
#include "server/scan/catalogue.h"

namespace echotrain::fuzz {

/// The shipped pipelines, with one for clients that name none.
inline const server::Catalogue& shipped_pipelines() {
  static const server::Catalogue catalogue(
      config::PipelineLibrary({std::filesystem::path(ECHOTRAIN_SOURCE_DIR) / "config/pipelines"}), "cartesian_2d");
  return catalogue;
}

/// A process without a log, whose numerics neither measure this machine nor use all of it.
inline void set_up_process() {
  ::setenv("ECHOTRAIN_AUTOTUNE", "off", 1);
  ::setenv("ECHOTRAIN_THREADS", "1", 1);
  server::set_up_log("off");
}

}  // namespace echotrain::fuzz
