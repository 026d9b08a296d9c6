// The HTTP client uses plain sockets, with a strict reader of Prometheus' text format.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/server/raw_client.h"

namespace echotrain::server {

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
};

/// One connection that may carry several requests.
class HttpClient : public Loopback {
 public:
  using Loopback::Loopback;
  /// The next response, by its Content-Length; nothing when the connection ends before it is whole.
  std::optional<HttpResponse> receive(bool has_body = true) {
    std::size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!receive_some()) return std::nullopt;
    HttpResponse response = parse(buffer_.substr(0, end + 2));
    buffer_.erase(0, end + 4);
    const std::size_t length = has_body ? std::stoul(response.headers.at("content-length")) : 0;
    while (buffer_.size() < length)
      if (!receive_some()) return std::nullopt;
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }
  /// The server ends the connection, in time, without a further byte.
  bool ended() {
    while (receive_some()) {
    }
    return (eof_ || reset_) && buffer_.empty();
  }
  std::optional<HttpResponse> get(const std::string& path) {
    send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path));
    return receive();
  }

 private:
  static HttpResponse parse(const std::string& head) {
    static const std::regex kStatus("HTTP/1\\.[01] ([0-9]{3}) [ -~]+"), kHeader("([A-Za-z-]+): ([ -~]*)");
    HttpResponse response;
    std::istringstream lines(head);
    std::string line;
    std::smatch found;
    while (std::getline(lines, line)) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (response.status == 0 && std::regex_match(line, found, kStatus)) {
        response.status = std::stoi(found[1]);
      } else if (std::regex_match(line, found, kHeader)) {
        std::string name = found[1];
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
        response.headers[name] = found[2];
      } else {
        ADD_FAILURE() << "no line of HTTP: '" << line << "'";
      }
    }
    return response;
  }
};

/// "name{label="value",...}" -> value, of a text in Prometheus' format 0.0.4 (prometheus.io/docs/instrumenting/
/// exposition_formats). Adds a failure for anything that is not in that format.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    static const std::regex kComment("# (HELP|TYPE) ([a-z_][a-z0-9_]*) (.+)");
    static const std::regex kSample(R"re(([a-z_][a-z0-9_]*)(\{([a-z_]+="[^"\\\n]*",?)*\})? (\S+))re");
    std::istringstream lines(text);
    std::string line;
    std::smatch found;
    while (std::getline(lines, line)) {
      if (std::regex_match(line, found, kComment)) {
        if (found[1] == "TYPE") {
          EXPECT_TRUE(types_.emplace(found[2], found[3]).second) << "two types: " << line;
        }
      } else if (std::regex_match(line, found, kSample)) {
        EXPECT_TRUE(types_.contains(family(found[1]))) << "no type: " << line;
        const std::string number = found[4];
        char* end = nullptr;
        const double value = std::strtod(number.c_str(), &end);
        EXPECT_EQ(*end, '\0') << line;
        EXPECT_TRUE(samples_.emplace(found[1].str() + found[2].str(), value).second) << "twice: " << line;
      } else {
        ADD_FAILURE() << "not in the format: " << line;
      }
    }
    EXPECT_TRUE(text.ends_with('\n'));
  }

  /// 0 where there is none, as a counter that was never touched.
  double operator[](const std::string& sample) const {
    const auto found = samples_.find(sample);
    return found == samples_.end() ? 0 : found->second;
  }
  const std::map<std::string, double>& samples() const { return samples_; }
  const std::map<std::string, std::string>& types() const { return types_; }

 private:
  /// A histogram's samples have names of their own.
  std::string family(const std::string& name) const {
    for (const char* ending : {"_bucket", "_sum", "_count"})
      if (name.ends_with(ending)) {
        std::string base = name.substr(0, name.size() - std::strlen(ending));
        if (const auto type = types_.find(base); type != types_.end() && type->second == "histogram") return base;
      }
    return name;
  }

  std::map<std::string, std::string> types_;
  std::map<std::string, double> samples_;
};

inline Exposition scrape(std::uint16_t admin_port) {
  const auto response = HttpClient(admin_port).get("/metrics");
  EXPECT_TRUE(response && response->status == 200);
  return Exposition(response ? response->body : "");
}

/// Waits, for at most 20 s, until `condition` holds.
template <class F>
testing::AssertionResult eventually(const F& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return testing::AssertionFailure() << "not within 20 s";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return testing::AssertionSuccess();
}

}  // namespace echotrain::server
