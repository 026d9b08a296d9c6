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

config::OptionTable<RemoteOptions> remote_options() {
  using O = RemoteOptions;
  const auto tls =
      config::OptionTable<TlsSettings>()
          .path("ca", &TlsSettings::ca, "FILE.pem", "certificates to trust (default: those of this system)")
          .path("cert", &TlsSettings::certificate, "FILE.pem", "our own certificate, for servers that want one")
          .path("key", &TlsSettings::key, "FILE.pem", "its private key");
  return config::OptionTable<O>()
      .text("address", &O::address, "host of the server")
      .letter('a')
      .integer("port", &O::port, 1, 65535, "its port")
      .letter('p')
      .flag("tls", &O::tls, "connect with TLS, to the server's TLS port")
      .group("", &O::tls_settings, tls)
      .path("token_file", &O::token_file, "FILE",
            "file with the token, for servers that want one (or ECHOTRAIN_TOKEN in the environment)");
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
