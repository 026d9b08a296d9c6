// A scan session takes a client's messages without sockets.
#pragma once

#include <filesystem>
#include <memory>

#include "server/base/log.h"
#include "server/scan/pipeline_catalogue.h"
#include "tests/support/resources.h"

namespace echotrain::fuzz {

/// The shipped pipelines, with one for clients that name none.
inline const server::PipelineCatalogue& shipped_pipelines() {
  static const server::PipelineCatalogue catalogue(
      config::PipelineLibrary({std::filesystem::path(ECHOTRAIN_SOURCE_DIR) / "config/pipelines"}), "cartesian_2d");
  return catalogue;
}

/// A process without a log.
inline void set_up_process() { server::set_up_log("off"); }

/// Numerics that neither measure this machine nor use all of it; the same for all inputs, as in a server.
inline const std::shared_ptr<numerics::Resources>& resources() {
  static const auto resources = test_resources(1);
  return resources;
}

}  // namespace echotrain::fuzz
