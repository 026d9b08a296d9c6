// The server's log goes to stderr: one line per event, as text or as JSON.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"

namespace echotrain::server {

/// text: "2026-01-02 03:04:05.678 info [session 7] what happened".
/// json: {"time":"2026-01-02T03:04:05.678+01:00","level":"info","session":7,"message":"what happened"}, and for an
/// event that has facts "event" and those, numbers as numbers.
enum class LogFormat { text, json };

/// Sends log lines of `level` ("trace" ... "critical", "off") and above to stderr. Call it while no thread logs.
void set_up_log(const std::string& level, LogFormat format = LogFormat::text);

enum class LogLevel { debug, info, warning, error };

/// An event for the log, with facts for programs that read the log.
struct LogEvent {
  std::string_view name;                ///< "summary"
  const nlohmann::ordered_json& facts;  ///< an object, flat but for maps of counts
};

/// Prints a line to stdout, whatever level is logged: as it stands, or as a line of the JSON log.
void announce(std::string_view line, const LogEvent& event);

/// Writes a line. `line` must have gone through protocol::printable() where it holds text from peers.
void write_log(LogLevel level, std::string_view line, std::optional<std::uint64_t> session = std::nullopt,
               const LogEvent* event = nullptr);

/// A rate limit for lines that clients cause: token buckets, one for each address and one for all. What is left out is
/// counted, and a line says how many from time to time. Thread-safe.
class LogBounds {
 public:
  struct Bound {
    double at_once;  ///< lines
    double per_s;
  };
  explicit LogBounds(Bound of_address = {2000, 20}, Bound in_all = {10000, 100})
      : of_address_(of_address), in_all_(in_all), all_{in_all.at_once, {}} {}

  /// True if one more line about this address may be written; it counts as written, or as left out. Below `warning`,
  /// half of what may be written at once stays for what is worse.
  bool may_write(const std::string& address, LogLevel level = LogLevel::warning, Clock::time_point now = Clock::now());
  /// Returns how many lines were left out so far.
  std::uint64_t left_out() const { return left_out_; }
  /// Writes how many were left out since the previous call, if any.
  void tell(Clock::time_point now = Clock::now());

 private:
  struct Bucket {
    double tokens;
    Clock::time_point at;
    void fill(const Bound& bound, Clock::time_point now);
  };
  void forget_full_ones(Clock::time_point now);

  const Bound of_address_, in_all_;
  std::mutex mutex_;
  Bucket all_;
  std::map<std::string, Bucket> buckets_;
  std::atomic<std::uint64_t> left_out_ = 0;
  std::uint64_t told_ = 0;
  Clock::time_point told_at_{};
};

/// Writes the lines of one session, of which copies share a bound. Text from peers must have gone through
/// protocol::printable().
class SessionLog {
 public:
  /// The most lines below `error` that one session may write, so that no client fills the disk; one more says so. Lines
  /// below the log's level do not count.
  static constexpr std::uint32_t kMostLines = 1000;

  /// `bounds` are those of the peer's address; null: none.
  explicit SessionLog(std::uint64_t id, std::shared_ptr<LogBounds> bounds = nullptr, std::string address = {})
      : id_(id), bounds_(std::move(bounds)), address_(std::move(address)) {}
  std::uint64_t id() const { return id_; }

  template <class... A>
  void debug(fmt::format_string<A...> format, A&&... args) const {
    if (may_write(LogLevel::debug)) write_log(LogLevel::debug, fmt::format(format, std::forward<A>(args)...), id_);
  }
  template <class... A>
  void info(fmt::format_string<A...> format, A&&... args) const {
    if (may_write(LogLevel::info)) write_log(LogLevel::info, fmt::format(format, std::forward<A>(args)...), id_);
  }
  template <class... A>
  void warn(fmt::format_string<A...> format, A&&... args) const {
    if (may_write(LogLevel::warning)) write_log(LogLevel::warning, fmt::format(format, std::forward<A>(args)...), id_);
  }
  template <class... A>
  void error(fmt::format_string<A...> format, A&&... args) const {
    if (within_bounds(LogLevel::error)) write_log(LogLevel::error, fmt::format(format, std::forward<A>(args)...), id_);
  }
  /// Writes a line for people, and the same as facts for programs.
  void event(LogLevel level, std::string_view line, const LogEvent& event) const {
    if (within_bounds(level)) write_log(level, line, id_, &event);
  }

 private:
  bool may_write(LogLevel level) const;
  bool within_bounds(LogLevel level) const;

  std::uint64_t id_;
  std::shared_ptr<LogBounds> bounds_;
  std::string address_;
  std::shared_ptr<std::atomic<std::uint32_t>> lines_ = std::make_shared<std::atomic<std::uint32_t>>(0);
};

}  // namespace echotrain::server
