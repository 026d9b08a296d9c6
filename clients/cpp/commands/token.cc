// The command token.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/commands/commands.h"

namespace echotrain::client {
namespace {

struct TokenOptions {
  std::string name, scope = "scan", until = "never";
};

config::OptionTable<TokenOptions> token_options() {
  return config::OptionTable<TokenOptions>()
      .text("name", &TokenOptions::name, "the client's name: letters, digits and ._@-")
      .positional()
      .required()
      .text("scope", &TokenOptions::scope, "scan, read or admin, or several with commas")
      .text("until", &TokenOptions::until, "its last day, as 2027-01-31, or never");
}

std::string hex(const unsigned char* bytes, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += fmt::format("{:02x}", bytes[i]);
  return out;
}

void make_token(const TokenOptions& options, std::ostream& out) {
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._@-").find(c) != std::string_view::npos;
  };
  if (options.name.empty() || !std::ranges::all_of(options.name, is_of_name))
    throw UsageError(fmt::format("'{}' is no name: letters, digits and ._@- are", options.name));
  for (const std::string& field : {options.scope, options.until})
    if (field.empty() || field.find_first_of(": \t\n") != std::string::npos)
      throw UsageError(fmt::format("'{}' can be no field of a line", field));
  std::array<unsigned char, 24> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1)
    throw std::runtime_error("this system gives no random numbers");
  const std::string token = hex(random.data(), random.size());
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(token.data(), token.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  out << token << '\n'
      << fmt::format("{}:{}:{}:{}\n", options.name, options.scope, options.until, hex(digest.data(), digest.size()));
}

}  // namespace

void add_token(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("token", "make a token for a client, and below it the line for the server's file of tokens");
  command.examples(
      "Examples:\n"
      "  echotrain token console\n"
      "  echotrain token operator --scope read,admin --until 2027-01-31");
  command.act([tools, given = command.add(token_options())] {
    make_token(given.read(), tools.out);
    return 0;
  });
}

}  // namespace echotrain::client
