// Lines of the log, read back by a JSON parser.
#include "server/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "server/metrics/scan_summary.h"

namespace echotrain::server {
namespace {

class Log : public testing::Test {
 protected:
  ~Log() override { set_up_log("off"); }
  static std::vector<nlohmann::json> objects(const std::string& text) {
    std::vector<nlohmann::json> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(Log, TextIsALinePerEvent) {
  testing::internal::CaptureStderr();
  set_up_log("info");
  SessionLog(7).warn("{} of {}", 3, 4);
  SessionLog(7).debug("unseen");
  write_log(LogLevel::error, "all over");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("....-..-.. ..:..:.{6} warning \\[session 7\\] 3 of 4\n"
                                    "....-..-.. ..:..:.{6} error all over\n"));
}

TEST_F(Log, JsonIsAnObjectPerEvent) {
  testing::internal::CaptureStderr();
  set_up_log("info", LogFormat::json);
  SessionLog(7).warn("{} of {}", 3, 4);
  SessionLog(7).debug("unseen");
  write_log(LogLevel::info, "quote \" backslash \\ newline \n tab \t nul \x01 latin \xe9 euro \xe2\x82\xac");
  const auto lines = objects(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("level"), "warning");
  EXPECT_EQ(lines[0].at("session"), 7);
  EXPECT_EQ(lines[0].at("message"), "3 of 4");
  EXPECT_EQ(lines[0].size(), 4U);
  // RFC 3339: date, time and zone.
  const std::regex time(
      "2[0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}[+-][0-9]{2}:[0-9]{2}");
  EXPECT_TRUE(std::regex_match(lines[0].at("time").get<std::string>(), time)) << lines[0];
  EXPECT_EQ(lines[1].at("message"),
            "quote \" backslash \\ newline \n tab \t nul \x01 latin \xef\xbf\xbd euro \xe2\x82\xac");
  EXPECT_FALSE(lines[1].contains("session"));
}

TEST_F(Log, LinesOfASessionAreBounded) {
  testing::internal::CaptureStderr();
  set_up_log("info");
  const SessionLog log(7), copy = log, other(8);
  for (std::uint32_t i = 0; i < SessionLog::kMostLines; ++i) (i % 2 == 0 ? log : copy).info("{}", i);
  for (int i = 0; i < 5000; ++i) (i % 2 == 0 ? log : copy).warn("too much");
  log.error("an error");
  other.info("another session");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), SessionLog::kMostLines + 3);
  EXPECT_THAT(text, testing::HasSubstr("[session 7] 999\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("too much")));
  EXPECT_THAT(text, testing::HasSubstr("this session has written 1000 lines"));
  EXPECT_THAT(text, testing::HasSubstr("an error"));
  EXPECT_THAT(text, testing::HasSubstr("another session"));
}

TEST_F(Log, LinesThatTheLevelLeavesOutDoNotCount) {
  testing::internal::CaptureStderr();
  set_up_log("info");
  const SessionLog log(7);
  for (std::uint32_t i = 0; i < 2 * SessionLog::kMostLines; ++i) log.debug("{}", i);
  log.info("what matters");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::EndsWith("[session 7] what matters\n"));
}

TEST_F(Log, SummaryIsNumbersInJson) {
  ScanSummary summary;
  summary.outcome = "complete";
  summary.peer = "127.0.0.1:5";
  summary.pipeline = "radial_2d";
  summary.backend = "cpu";
  summary.scan.readouts = 302;
  summary.bytes_in = (5ULL << 32) + 1;
  summary.images = 8;
  summary.scan.skipped = {{"samples", 2}, {"nan", 1}};
  summary.latencies = {{.queue = 1, .send = 2}, {.compute = 1}, {.copy = 2}};  // 3, 1 and 2 ms
  summary.scan.work.weights_made = 2;
  summary.scan.work.weights_reused = 5;
  summary.scan.work.weights_ms = 31.25;
  summary.scan.work.frames_refused = 1;
  summary.duration_s = 1.25;
  testing::internal::CaptureStderr();
  set_up_log("info", LogFormat::json);
  SessionLog(9).event(LogLevel::info, summary.text(), {"summary", summary.facts()});
  set_up_log("info", LogFormat::text);
  SessionLog(9).event(LogLevel::info, summary.text(), {"summary", summary.facts()});
  const std::string captured = testing::internal::GetCapturedStderr();
  const std::size_t end = captured.find('\n') + 1;
  const auto line = objects(captured.substr(0, end)).at(0);
  EXPECT_EQ(line.at("event"), "summary");
  EXPECT_EQ(line.at("session"), 9);
  EXPECT_EQ(line.at("outcome"), "complete");
  EXPECT_EQ(line.at("pipeline"), "radial_2d");
  EXPECT_EQ(line.at("readouts"), 302);
  EXPECT_EQ(line.at("bytes_in"), (5ULL << 32) + 1);
  EXPECT_EQ(line.at("images"), 8);
  EXPECT_EQ(line.at("skipped").at("samples"), 2);
  EXPECT_EQ(line.at("duration_s"), 1.25);
  EXPECT_EQ(line.at("after_last_readout_ms").at("median"), 2);
  EXPECT_EQ(line.at("after_last_readout_ms").at("max"), 3);
  EXPECT_EQ(line.at("send_ms").at("max"), 2);
  EXPECT_EQ(line.at("copy_ms").at("median"), 0);
  EXPECT_EQ(line.at("weights_made"), 2);
  EXPECT_EQ(line.at("weights_reused"), 5);
  EXPECT_EQ(line.at("weights_ms"), 31.25);
  EXPECT_EQ(line.at("frames_refused"), 1);
  EXPECT_THAT(summary.text(), testing::HasSubstr(" weights_made=2 (31.2 ms) weights_reused=5 frames_refused=1 "));
  EXPECT_EQ(line.at("message"), summary.text());
  EXPECT_THAT(captured.substr(end), testing::HasSubstr("[session 9] summary: complete peer=127.0.0.1:5"));
}

TEST_F(Log, LinesAboutAnAddressAreBoundedAndCounted) {
  testing::internal::CaptureStderr();
  set_up_log("info");
  const auto bounds = std::make_shared<LogBounds>(LogBounds::Bound{3, 2}, LogBounds::Bound{5, 100});
  const Clock::time_point now = Clock::now();
  int written = 0;
  for (int i = 0; i < 100; ++i) written += bounds->may_write("a", LogLevel::error, now) ? 1 : 0;
  EXPECT_EQ(written, 3);
  for (int i = 0; i < 100; ++i) written += bounds->may_write("b", LogLevel::error, now) ? 1 : 0;
  EXPECT_EQ(written, 5) << "all addresses together";
  EXPECT_EQ(bounds->left_out(), 195U);
  EXPECT_TRUE(bounds->may_write("a", LogLevel::error, now + std::chrono::seconds(1)));
  EXPECT_TRUE(bounds->may_write("a", LogLevel::error, now + std::chrono::seconds(1)));
  EXPECT_FALSE(bounds->may_write("a", LogLevel::error, now + std::chrono::seconds(1)));
  bounds->tell(now + std::chrono::seconds(1));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr(" 1 lines about clients were left out"));
  EXPECT_THAT(text, testing::HasSubstr(" 195 lines about clients were left out"));
}

TEST_F(Log, ManyLinesOfNoConcernLeaveRoomForWarnings) {
  LogBounds bounds({4, 0}, {100, 0});
  int infos = 0;
  for (int i = 0; i < 10; ++i) infos += bounds.may_write("a", LogLevel::info) ? 1 : 0;
  EXPECT_EQ(infos, 2);
  EXPECT_TRUE(bounds.may_write("a", LogLevel::warning));
  EXPECT_TRUE(bounds.may_write("a", LogLevel::error));
  EXPECT_FALSE(bounds.may_write("a", LogLevel::error));
}

TEST_F(Log, EverythingThatASessionWritesIsBounded) {
  testing::internal::CaptureStderr();
  set_up_log("info");
  const auto bounds = std::make_shared<LogBounds>(LogBounds::Bound{3, 0}, LogBounds::Bound{100, 0});
  const SessionLog log(1, bounds, "a");
  log.debug("is not counted");
  log.info("first");
  log.error("second");
  log.warn("also");
  log.error("third");
  log.event(LogLevel::info, "fourth", {"x", nlohmann::ordered_json()});
  SessionLog(2, bounds, "b").info("fifth");
  const std::string text = testing::internal::GetCapturedStderr();
  for (const char* word : {"first", "second", "also", "fifth"}) EXPECT_THAT(text, testing::HasSubstr(word));
  for (const char* word : {"third", "fourth"}) EXPECT_THAT(text, testing::Not(testing::HasSubstr(word)));
}

}  // namespace
}  // namespace echotrain::server
