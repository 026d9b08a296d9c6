// The server's log: one line per event on stderr, each line of a session with its id.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace echotrain::server {

/// Sends log lines to stderr from `level` ("trace" ... "critical", "off") on.
void set_up_log(const std::string& level);

enum class LogLevel { debug, info, warning, error };
void write_log(LogLevel level, std::string_view line);

/// Writes lines that begin with a session's id. Text from peers must have gone through protocol::printable().
class SessionLog {
 public:
  explicit SessionLog(std::uint64_t id) : id_(id) {}
  std::uint64_t id() const { return id_; }

  template <class... A>
  void debug(fmt::format_string<A...> format, A&&... args) const {
    line(LogLevel::debug, fmt::format(format, std::forward<A>(args)...));
  }
  template <class... A>
  void info(fmt::format_string<A...> format, A&&... args) const {
    line(LogLevel::info, fmt::format(format, std::forward<A>(args)...));
  }
  template <class... A>
  void warn(fmt::format_string<A...> format, A&&... args) const {
    line(LogLevel::warning, fmt::format(format, std::forward<A>(args)...));
  }
  template <class... A>
  void error(fmt::format_string<A...> format, A&&... args) const {
    line(LogLevel::error, fmt::format(format, std::forward<A>(args)...));
  }

 private:
  void line(LogLevel level, const std::string& text) const {
    write_log(level, fmt::format("[session {}] {}", id_, text));
  }

  std::uint64_t id_;
};

}  // namespace echotrain::server
