#include "clients/cpp/connection/remote_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "clients/cpp/base/errors.h"

namespace echotrain::client {

ServerAddress RemoteOptions::server_address() const {
  const TlsSettings& t = tls_settings;
  if (!tls && !(t.ca.empty() && t.certificate.empty() && t.key.empty()))
    throw UsageError("--ca, --cert and --key are for TLS; add --tls");
  if (t.certificate.empty() != t.key.empty()) throw UsageError("--cert and --key belong together; give both");
  ServerAddress server{address, static_cast<std::uint16_t>(port), {}};
  if (tls) server.tls = t;
  return server;
}

std::string RemoteOptions::token() const {
  if (token_file.empty()) {
    const char* token = std::getenv("ECHOTRAIN_TOKEN");
    return token != nullptr ? token : "";
  }
  std::ifstream file(token_file);
  std::string line;
  std::getline(file, line);
  line.erase(line.find_last_not_of(" \t\r") + 1);
  if (line.empty())
    throw UsageError(
        fmt::format("--token-file {}: it cannot be read, or its first line is empty", token_file.string()));
  return line;
}

void add_remote_options(CLI::App& app, RemoteOptions& o) {
  app.add_option("-a,--address", o.address, "host of the server")->capture_default_str();
  app.add_option("-p,--port", o.port, "its port")->check(CLI::Range(1, 65535))->capture_default_str();
  app.add_flag("--tls", o.tls, "connect with TLS, to the server's TLS port");
  app.add_option("--ca", o.tls_settings.ca, "certificates to trust (default: those of this system)")
      ->type_name("FILE.pem");
  app.add_option("--cert", o.tls_settings.certificate, "our own certificate, for servers that want one")
      ->type_name("FILE.pem");
  app.add_option("--key", o.tls_settings.key, "its private key")->type_name("FILE.pem");
  app.add_option("--token-file", o.token_file,
                 "file with the token, for servers that want one (or ECHOTRAIN_TOKEN in the environment)")
      ->type_name("FILE");
}

void encode_config(const std::string& name, const std::string& text, const std::string& token, protocol::Buffer& out) {
  if (token.empty() && text.empty()) {
    protocol::encode(protocol::ConfigFile{name}, out);
    return;
  }
  // In YAML's single quotes, only a single quote must be doubled.
  const auto quoted = [](const std::string& plain) {
    std::string result = "'";
    for (const char c : plain) result += c == '\'' ? "''" : std::string(1, c);
    return result + "'";
  };
  std::string config = text.empty() ? fmt::format("use: {}\n", quoted(name)) : text;
  // A line "---" begins a document; the token goes below it.
  const std::size_t at = config.starts_with("---") ? config.find('\n') + 1 : 0;
  if (!token.empty()) config.insert(at, fmt::format("token: {}\n", quoted(token)));
  protocol::encode(protocol::ConfigText{config}, out);
}

}  // namespace echotrain::client
