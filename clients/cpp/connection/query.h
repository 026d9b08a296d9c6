// A question to a server, outside of any scan.
#pragma once

#include <chrono>
#include <string>

#include "clients/cpp/connection/connection.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

/// The server's answer to a QUERY. ConnectionError when it does not answer within the timeout, or answers with an
/// error. `config`: a message that goes before it, for questions that only a client with a session may ask.
std::string ask(const ServerAddress& server, const std::string& question, std::chrono::duration<double> timeout,
                const protocol::Buffer& config = {});

}  // namespace echotrain::client
