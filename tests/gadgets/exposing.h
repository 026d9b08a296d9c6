// A pipeline that exposes parameters to hosts, and the errors that it gives.
#pragma once

#include <functional>
#include <string>

#include "config/pipeline_spec.h"

namespace echotrain::testing {

inline std::string exposing(const std::string& entries, const std::string& denoise = "denoise") {
  return "echotrain: 1\nname: quiet\ndescription: Less noise\ninput: images\nexpose:\n" + entries + "pipeline:\n  - " +
         denoise + "\n  - image\n";
}

inline config::PipelineSpec spec_of(const std::string& text) { return config::read_pipeline(text, "p.yaml"); }

/// The text of the ConfigError that `act` throws, or "none".
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const config::ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace echotrain::testing
