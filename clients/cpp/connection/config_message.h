// The config message begins a session.
#pragma once

#include <string>

#include "protocol/wire/codec.h"

namespace echotrain::client {

/// Returns the message that asks for a pipeline: by its name, or with its text for a .yaml file or if `text_wanted`.
/// Throws UsageError when there is no such file.
protocol::Buffer config_message(const std::string& config, bool text_wanted, const std::string& token);

}  // namespace echotrain::client
