// Where a server is and how to be let in: options that all commands have that speak to one.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "clients/cpp/connection/connection.h"
#include "protocol/data/message_id.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

struct RemoteOptions {
  std::string address = "127.0.0.1";
  int port = protocol::kDefaultPort;
  bool tls = false;
  TlsSettings tls_settings;
  std::filesystem::path token_file;  ///< empty: no token, or that of the environment variable ECHOTRAIN_TOKEN

  /// UsageError for options that do not fit together.
  ServerAddress server_address() const;
  /// The first line of the token file, or ECHOTRAIN_TOKEN; empty when there is neither. UsageError when the file cannot
  /// be read or is empty.
  std::string token() const;
};

void add_remote_options(CLI::App& app, RemoteOptions& options);

/// The message that asks for a pipeline: `name`, or its `text` when that is not empty. A token makes it a text, in
/// which a server looks for it.
void encode_config(const std::string& name, const std::string& text, const std::string& token, protocol::Buffer& out);

}  // namespace echotrain::client
