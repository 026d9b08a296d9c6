#include "server/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace echotrain::server {

void set_up_log(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("echotrain", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void write_log(LogLevel level, std::string_view line) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  spdlog::default_logger_raw()->log(kLevels[static_cast<int>(level)], spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace echotrain::server
