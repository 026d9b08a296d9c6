// A question to a server, outside of any scan.
#pragma once

#include <chrono>
#include <string>

#include "clients/cpp/connection/connection.h"

namespace echotrain::client {

/// The server's answer to a QUERY. ConnectionError when it does not answer within the timeout, or answers with an
/// error.
std::string ask(const ServerAddress& server, const std::string& question, std::chrono::duration<double> timeout);

}  // namespace echotrain::client
