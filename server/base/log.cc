#include "server/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <nlohmann/json.hpp>

namespace echotrain::server {

namespace {

std::atomic<LogFormat> log_format = LogFormat::text;

spdlog::level::level_enum spd_level(LogLevel level) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

bool is_written(LogLevel level) { return spdlog::default_logger_raw()->should_log(spd_level(level)); }

/// The part of a JSON line that follows time and level.
std::string rest_of_object(std::string_view line, std::optional<std::uint64_t> session, const LogEvent* event) {
  nlohmann::ordered_json object;
  if (session) object["session"] = *session;
  if (event != nullptr) object["event"] = event->name;
  object["message"] = line;
  if (event != nullptr) object.update(event->facts);
  return object.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace).substr(1);
}

}  // namespace

void set_up_log(const std::string& level, LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>("echotrain", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(format == LogFormat::json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v)"
                                                : "%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  log_format = format;
  spdlog::set_default_logger(std::move(logger));
}

void write_log(LogLevel level, std::string_view line, std::optional<std::uint64_t> session, const LogEvent* event) {
  if (!is_written(level)) return;
  std::string text;
  if (log_format == LogFormat::json)
    text = rest_of_object(line, session, event);
  else
    text = session ? fmt::format("[session {}] {}", *session, line) : std::string(line);
  spdlog::default_logger_raw()->log(spd_level(level), spdlog::string_view_t(text.data(), text.size()));
}

bool SessionLog::may_write(LogLevel level) const {
  if (!is_written(level)) return false;    // and is not counted
  if (*lines_ > kMostLines) return false;  // the count does not wrap
  const std::uint32_t before = (*lines_)++;
  if (before == kMostLines)
    write_log(LogLevel::warning,
              fmt::format("this session has written {} lines; what it has to say further is left out, but for errors "
                          "and the summary",
                          kMostLines),
              id_);
  return before < kMostLines;
}

}  // namespace echotrain::server
