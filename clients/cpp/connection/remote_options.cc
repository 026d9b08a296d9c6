#include "clients/cpp/connection/remote_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {

namespace {

ServerAddress address_of(std::string host, std::uint16_t port, bool tls, const TlsSettings& t) {
  if (!tls && !(t.ca.empty() && t.certificate.empty() && t.key.empty()))
    throw UsageError("--ca, --cert and --key are for TLS; add --tls");
  if (t.certificate.empty() != t.key.empty()) throw UsageError("--cert and --key belong together; give both");
  ServerAddress server{std::move(host), port, {}};
  if (tls) server.tls = t;
  return server;
}

}  // namespace

ServerAddress RemoteOptions::server_address() const {
  return address_of(address, static_cast<std::uint16_t>(port), tls, tls_settings);
}

ServerAddress parse_server(const std::string& text, bool tls, const TlsSettings& settings) {
  const bool bracketed = text.starts_with('[') && text.find(']') != std::string::npos;
  const std::size_t end = bracketed ? text.find(']') + 1 : std::min(text.find(':'), text.size());
  const std::string host = bracketed ? text.substr(1, end - 2) : text.substr(0, end), rest = text.substr(end);
  int port = protocol::kDefaultPort;
  const char* const last = rest.data() + rest.size();
  const auto read = rest.empty() ? std::from_chars_result{last, {}} : std::from_chars(rest.data() + 1, last, port);
  const bool good = rest.empty() || (rest[0] == ':' && rest.size() > 1 && read.ptr == last && read.ec == std::errc());
  if (host.empty() || !good || port < 1 || port > 65535)
    throw UsageError(fmt::format("--server {} is neither HOST nor HOST:PORT", text));
  return address_of(host, static_cast<std::uint16_t>(port), tls, settings);
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

config::OptionTable<TlsSettings> tls_options() {
  return config::OptionTable<TlsSettings>()
      .path("ca", &TlsSettings::ca, "FILE.pem", "certificates to trust (default: those of this system)")
      .path("cert", &TlsSettings::certificate, "FILE.pem", "our own certificate, for servers that want one")
      .path("key", &TlsSettings::key, "FILE.pem", "its private key");
}

config::OptionTable<RemoteOptions> remote_options() {
  using O = RemoteOptions;
  return config::OptionTable<O>()
      .text("address", &O::address, "host of the server")
      .letter('a')
      .text("host", &O::address, "the same as --address")
      .default_in_help()
      .integer("port", &O::port, 1, 65535, "its port")
      .letter('p')
      .flag("tls", &O::tls, "connect with TLS, to the server's TLS port")
      .group("", &O::tls_settings, tls_options())
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
