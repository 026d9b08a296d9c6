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
class HttpClient {
 public:
  /// `from`: which loopback address it comes from, as 2 of 127.0.0.2.
  explicit HttpClient(std::uint16_t port, std::uint32_t from = 1) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
    if (from != 1 && ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("bind: " + std::string(std::strerror(errno)));
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("connect: " + std::string(std::strerror(errno)));
  }
  ~HttpClient() { ::close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }
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
    return closed_ && buffer_.empty();
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
  bool receive_some() {
    pollfd poll_fd{fd_, POLLIN, 0};
    if (::poll(&poll_fd, 1, 20000) <= 0) return false;
    char bytes[4096];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    closed_ = n <= 0;
    if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }

  int fd_;
  bool closed_ = false;
  std::string buffer_;
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
