#include "server/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace echotrain::server {

namespace {

constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v)";

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
  logger->set_pattern(format == LogFormat::json ? kJsonPattern : "%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  log_format = format;
  spdlog::set_default_logger(std::move(logger));
}

void announce(std::string_view line, const LogEvent& event) {
  const bool json = log_format == LogFormat::json;
  spdlog::logger printer("stdout", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  printer.set_pattern(json ? kJsonPattern : "%v");
  const std::string text = json ? rest_of_object(line, std::nullopt, &event) : std::string(line);
  printer.info(spdlog::string_view_t(text.data(), text.size()));
  printer.flush();
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

void LogBounds::Bucket::fill(const Bound& bound, Clock::time_point now) {
  const double s = std::chrono::duration<double>(now - at).count();
  tokens = std::min(bound.at_once, tokens + std::max(0.0, s) * bound.per_s);
  at = now;
}

// A full bucket is like a new one.
void LogBounds::forget_full_ones(Clock::time_point now) {
  for (auto each = buckets_.begin(); each != buckets_.end();) {
    each->second.fill(of_address_, now);
    each = each->second.tokens >= of_address_.at_once ? buckets_.erase(each) : std::next(each);
  }
}

bool LogBounds::may_write(const std::string& address, LogLevel level, Clock::time_point now) {
  constexpr std::size_t kMostAddresses = 4096;  // others share what there is in all
  bool may = false, tells = false;
  {
    const std::scoped_lock lock(mutex_);
    if (buckets_.size() >= kMostAddresses && !buckets_.contains(address)) forget_full_ones(now);
    Bucket* own = nullptr;
    if (const auto found = buckets_.find(address); found != buckets_.end())
      own = &found->second;
    else if (buckets_.size() < kMostAddresses)
      own = &buckets_.emplace(address, Bucket{of_address_.at_once, now}).first->second;
    if (own != nullptr) own->fill(of_address_, now);
    all_.fill(in_all_, now);
    const double kept = level < LogLevel::warning ? 0.5 : 0;
    may =
        all_.tokens >= 1 + kept * in_all_.at_once && (own == nullptr || own->tokens >= 1 + kept * of_address_.at_once);
    if (may) {
      --all_.tokens;
      if (own != nullptr) --own->tokens;
    } else {
      ++left_out_;
    }
    tells = left_out_ > told_ && now - told_at_ >= std::chrono::seconds(10);
  }
  if (tells) tell(now);
  return may;
}

void LogBounds::tell(Clock::time_point now) {
  std::uint64_t count = 0;
  {
    const std::scoped_lock lock(mutex_);
    count = left_out_ - std::exchange(told_, left_out_.load());
    if (count > 0) told_at_ = now;
  }
  if (count > 0)
    write_log(
        LogLevel::warning,
        fmt::format("{} lines about clients were left out: an address may cause {} lines at once and {} a second, "
                    "all together {} and {}",
                    count, of_address_.at_once, of_address_.per_s, in_all_.at_once, in_all_.per_s));
}

bool SessionLog::within_bounds(LogLevel level) const {
  return is_written(level) && (!bounds_ || bounds_->may_write(address_, level));
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
  return before < kMostLines && within_bounds(level);
}

}  // namespace echotrain::server
