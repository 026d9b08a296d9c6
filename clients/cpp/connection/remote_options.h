// The remote options hold a server's address and the client's credentials, for all commands that talk to a server.
#pragma once

#include <filesystem>
#include <string>

#include "clients/cpp/connection/server_connection.h"
#include "config/option.h"
#include "protocol/data/message_id.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

struct RemoteOptions {
  std::string address = "127.0.0.1";
  int port = protocol::kDefaultPort;
  bool tls = false;
  TlsSettings tls_settings;
  std::filesystem::path token_file;  ///< empty: the token in the environment variable ECHOTRAIN_TOKEN, or none

  /// Throws UsageError for options that do not fit together.
  ServerAddress server_address() const;
  /// Returns the first line of the token file, or ECHOTRAIN_TOKEN; empty when there is neither. Throws UsageError when
  /// the file cannot be read or is empty.
  std::string token() const;
};

config::OptionTable<RemoteOptions> remote_options();
/// Returns the options of TLS alone.
config::OptionTable<TlsSettings> tls_options();
/// Reads "host", "host:port", "[address]" or "[address]:port" of a server, which `tls` says how to talk to. Throws
/// UsageError for anything else, and for options that do not fit together.
ServerAddress parse_server(const std::string& text, bool tls, const TlsSettings& settings);

/// Appends the message that asks for a pipeline: `name`, or its `text` when that is not empty. With a token it is
/// always a text, where servers look for the token.
void encode_config(const std::string& name, const std::string& text, const std::string& token, protocol::Buffer& out);

}  // namespace echotrain::client
