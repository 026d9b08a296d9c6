// A query asks a server a question, outside of any scan.
#pragma once

#include <chrono>
#include <string>

#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/connection/server_connection.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

/// Returns the server's answer to a QUERY. Throws ConnectionError when it does not answer within the timeout, or
/// answers with an error. `config` is a message that goes first, for questions that only a client with a session may
/// ask.
std::string ask(const ServerAddress& server, const std::string& question, std::chrono::duration<double> timeout,
                const protocol::Buffer& config = {});

/// There was no connection at all.
class NoConnection : public ConnectionError {
 public:
  using ConnectionError::ConnectionError;
};

/// Connects, for what servers answer and send. Throws NoConnection.
OpenConnection open_connection(const ServerAddress& server, std::chrono::duration<double> timeout);

/// An answer on a connection that stays open.
struct OpenAnswer {
  std::string text;
  OpenConnection open;
};

/// An ERROR of the server, in place of an answer.
class ServerError : public ConnectionError {
 public:
  using ConnectionError::ConnectionError;
};

/// As ask(), where more follows on the connection.
OpenAnswer ask_and_stay(const ServerAddress& server, const std::string& question,
                        std::chrono::duration<double> timeout);

}  // namespace echotrain::client
