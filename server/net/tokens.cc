#include "server/net/tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "config/yaml_reader.h"

namespace echotrain::server {

namespace {
constexpr std::size_t kShortest = 16;
constexpr std::string_view kName = "name=", kPipelines = "client_pipelines=";

/// Reads JSON up to the member "token" of the outermost object.
class TokenOfJson : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string token;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    if (!is_next_) return true;
    token = text;
    return false;
  }
  bool key(string_t& name) override {
    is_next_ = depth_ == 1 && name == "token";
    return true;
  }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool enter() {
    is_next_ = false;
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  int depth_ = 0;
  bool is_next_ = false;
};

std::string token_of_line(std::string_view line) {
  try {
    const config::Node root = config::read_yaml(line, "config");
    return root.kind() == config::Node::Kind::map ? root.get("token").as_string() : "";
  } catch (const config::ConfigError&) {
    return "";
  }
}
}  // namespace

std::string token_in(std::string_view config_text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // that editors put before UTF-8
  std::string_view text = config_text.substr(0, kTokenBytes);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    TokenOfJson reader;
    nlohmann::json::sax_parse(text, &reader);
    return reader.token;
  }
  for (int line = 0; line < kTokenLines && !text.empty(); ++line) {
    const std::size_t end = std::min(text.size(), text.find('\n'));
    if (text.starts_with("token:")) {
      std::string_view line_text = text.substr(0, end);
      if (line_text.ends_with('\r')) line_text.remove_suffix(1);
      return token_of_line(line_text);
    }
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return "";
}

Tokens::Tokens(std::string file) : file_(std::move(file)) { reload(); }

void Tokens::reload() {
  std::ifstream in(file_);
  std::vector<Line> lines;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (!line.empty() && line.front() != '#') lines.push_back(read(line, fmt::format("{}:{}", file_, number)));
  }
  if (lines.empty())
    throw std::runtime_error(fmt::format(
        "the token file '{}' cannot be read or has no token; write one per line ('openssl rand -hex 16' makes one)",
        file_));
  const std::scoped_lock lock(mutex_);
  lines_ = std::move(lines);
}

/// Reads a line. Tokens may have blanks in them: what stands behind one is taken from the end of the line.
Tokens::Line Tokens::read(std::string line, const std::string& place) {
  std::optional<std::string> name, pipelines;
  for (std::size_t blank; (blank = line.find_last_of(" \t")) != std::string::npos;) {
    const std::string word = line.substr(blank + 1);
    std::optional<std::string>* const given = word.starts_with(kName)        ? &name
                                              : word.starts_with(kPipelines) ? &pipelines
                                                                             : nullptr;
    if (given == nullptr) break;
    if (*given) throw std::runtime_error(fmt::format("{}: '{}' is given twice", place, word));
    *given = word.substr(word.find('=') + 1);
    if ((*given)->empty()) throw std::runtime_error(fmt::format("{}: nothing follows '{}'", place, word));
    line.erase(line.find_last_not_of(" \t", blank) + 1);
  }
  if (line.size() < kShortest)
    throw std::runtime_error(
        fmt::format("{}: a token has at least {} characters; 'openssl rand -hex 16' makes one", place, kShortest));
  Line out{digest_of(line), {}};
  out.grant.identity = name ? "token:" + *name : fmt::format("token#{:02x}", fmt::join(out.digest, ""));
  if (pipelines) out.grant.client_pipelines = config::read_client_pipelines(*pipelines);
  if (pipelines && !out.grant.client_pipelines)
    throw std::runtime_error(fmt::format("{}: client_pipelines is off, gadgets or all, not '{}'", place, *pipelines));
  return out;
}

std::optional<Tokens::Grant> Tokens::find(const Digest& digest) const {
  const std::scoped_lock lock(mutex_);
  const Line* found = nullptr;
  for (const Line& line : lines_)
    if (CRYPTO_memcmp(line.digest.data(), digest.data(), digest.size()) == 0) found = &line;
  return found == nullptr ? std::nullopt : std::optional<Grant>(found->grant);
}

Tokens::Digest Tokens::digest_of(std::string_view token) {
  Digest digest{};
  if (EVP_Digest(token.data(), token.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  return digest;
}

}  // namespace echotrain::server
