#include "server/net/tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "config/yaml_reader.h"
#include "server/base/log.h"

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

using DayEnd = std::chrono::system_clock::time_point;

[[noreturn]] void refuse_line(const std::string& place, const std::string& why) {
  throw std::runtime_error(
      fmt::format("{}: {}; a line is NAME:SCOPE:EXPIRY:SHA256, as 'echotrain token console' makes it", place, why));
}

/// Returns the four fields of "NAME:SCOPE:EXPIRY:SHA256"; nothing for a line that is a token itself.
std::optional<std::array<std::string, 4>> fields_of(const std::string& line) {
  std::array<std::string, 4> fields;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t end = line.find(':', begin);
    if ((end == std::string::npos) != (i == 3)) return std::nullopt;
    fields[i] = line.substr(begin, end - begin);
    begin = end + 1;
  }
  const bool is_hash = fields[3].find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  return is_hash && !fields[3].empty() ? std::optional(fields) : std::nullopt;
}

unsigned rights_of(std::string_view scope, const std::string& place) {
  unsigned rights = 0;
  while (true) {
    const std::string_view word = scope.substr(0, scope.find(','));
    if (word == "scan")
      rights |= static_cast<unsigned>(Right::scan);
    else if (word == "read")
      rights |= static_cast<unsigned>(Right::read);
    else if (word == "admin")
      rights |= static_cast<unsigned>(Right::read) | static_cast<unsigned>(Right::admin);
    else
      refuse_line(place, fmt::format("the scope is scan, read or admin, or several with commas, not '{}'", word));
    if (word.size() == scope.size()) return rights;
    scope.remove_prefix(word.size() + 1);
  }
}

/// The end of a day; nothing for "never".
std::optional<DayEnd> expiry_of(const std::string& text, const std::string& place) {
  if (text == "never") return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t digits) {
    int value = -1;
    const char* const first = text.data() + begin;
    if (text.size() == 10 && std::from_chars(first, first + digits, value).ptr != first + digits) value = -1;
    return value;
  };
  const int y = number(0, 4), m = number(5, 2), d = number(8, 2);
  const std::chrono::year_month_day day{std::chrono::year(y), std::chrono::month(static_cast<unsigned>(m)),
                                        std::chrono::day(static_cast<unsigned>(d))};
  if (text.size() != 10 || text[4] != '-' || text[7] != '-' || y < 0 || m < 0 || d < 0 || !day.ok())
    refuse_line(place, fmt::format("the expiry is a day, as 2027-01-31, or never, not '{}'", text));
  return std::chrono::sys_days(day) + std::chrono::days(1);
}

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

Tokens::Tokens(std::string file) : file_(std::move(file)) {
  reload();
  if (const auto plain = std::ranges::count_if(lines_, &Line::plain); plain > 0)
    write_log(LogLevel::warning,
              fmt::format("the token file '{}' has {} token{} as they are, with all rights and without an end; "
                          "'echotrain token NAME' makes lines with a hash, a scope and an expiry",
                          file_, plain, plain == 1 ? "" : "s"));
}

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
  const auto set_pipelines = [&](Line& of) {
    if (pipelines) of.grant.client_pipelines = config::read_client_pipelines(*pipelines);
    if (pipelines && !of.grant.client_pipelines)
      throw std::runtime_error(fmt::format("{}: client_pipelines is off, gadgets or all, not '{}'", place, *pipelines));
  };
  if (const auto fields = fields_of(line)) {
    const auto& [whose, scope, expiry, hash] = *fields;
    if (name) refuse_line(place, fmt::format("the name, '{}', stands first", whose));
    if (whose.empty()) refuse_line(place, "the name is missing");
    Line out{{}, {"token:" + whose, {}, rights_of(scope, place), expiry_of(expiry, place)}};
    if (hash.size() != 2 * out.digest.size())
      refuse_line(place,
                  fmt::format("a SHA-256 has {} hexadecimal digits, not {}", 2 * out.digest.size(), hash.size()));
    for (std::size_t i = 0; i < out.digest.size(); ++i)
      std::from_chars(hash.data() + 2 * i, hash.data() + 2 * i + 2, out.digest[i], 16);
    if (out.grant.until && *out.grant.until <= std::chrono::system_clock::now())
      write_log(LogLevel::warning, fmt::format("{}: the token '{}' has expired ({})", place, whose, expiry));
    set_pipelines(out);
    return out;
  }
  if (line.size() < kShortest)
    throw std::runtime_error(
        fmt::format("{}: a token has at least {} characters; 'openssl rand -hex 16' makes one", place, kShortest));
  Line out{digest_of(line), {}, true};
  out.grant.identity = name ? "token:" + *name : fmt::format("token#{:02x}", fmt::join(out.digest, ""));
  set_pipelines(out);
  return out;
}

std::optional<Tokens::Grant> Tokens::find(const Digest& digest, Right right) const {
  const std::scoped_lock lock(mutex_);
  const Line* found = nullptr;
  for (const Line& line : lines_)
    if (CRYPTO_memcmp(line.digest.data(), digest.data(), digest.size()) == 0) found = &line;
  if (found == nullptr || (found->grant.rights & static_cast<unsigned>(right)) == 0) return std::nullopt;
  if (found->grant.until && *found->grant.until <= std::chrono::system_clock::now()) return std::nullopt;
  return found->grant;
}

Tokens::Digest Tokens::digest_of(std::string_view token) {
  Digest digest{};
  if (EVP_Digest(token.data(), token.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  return digest;
}

}  // namespace echotrain::server
