// A query asks a server a question, outside of any scan.
#pragma once

#include <chrono>
#include <string>

#include "clients/cpp/connection/server_connection.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

/// Returns the server's answer to a QUERY. Throws ConnectionError when it does not answer within the timeout, or
/// answers with an error. `config` is a message that goes first, for questions that only a client with a session may
/// ask.
std::string ask(const ServerAddress& server, const std::string& question, std::chrono::duration<double> timeout,
                const protocol::Buffer& config = {});

}  // namespace echotrain::client
