#include "server/console/admin/noise_page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace echotrain::server {
namespace {

TEST(NoisePage, TellsWhatIsKnown) {
  auto record = std::make_shared<NoiseRecord>();
  record->coils = 2;
  record->covariance = {8.0, {0.0, 1.0}, {0.0, -1.0}, 2.0};
  record->dwell_us = 30;
  record->samples = 4096;
  record->labels = {"Body \"1\"", "Spine"};
  record->made_unix_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count() -
      100;
  const auto page = nlohmann::json::parse(noise_json({{"1f03d28c", record}}));
  ASSERT_EQ(page.at("noise").size(), 1u);
  const auto& one = page.at("noise").at(0);
  EXPECT_EQ(one.at("id_digest"), "1f03d28c");
  EXPECT_GE(one.at("age_s"), 100);
  EXPECT_LE(one.at("age_s"), 160);
  EXPECT_EQ(one.at("coils"), 2);
  EXPECT_EQ(one.at("samples"), 4096);
  EXPECT_EQ(one.at("dwell_us"), 30.0);
  EXPECT_EQ(one.at("labels"), (std::vector<std::string>{"Body \"1\"", "Spine"}));
  EXPECT_EQ(one.at("std"), (std::vector<double>{2.0, 1.0}));
  EXPECT_NEAR(one.at("largest_correlation").get<double>(), 0.25, 1e-12);
  EXPECT_EQ(nlohmann::json::parse(noise_json({})), nlohmann::json::parse("{\"noise\": []}"));
}

TEST(CalibrationPage, TellsWhatIsKnown) {
  auto record = std::make_shared<CalibrationRecord>();
  record->coils = 2;
  record->labels = {"Body \"1\"", "Spine"};
  record->lines.resize(2);
  record->lines[0].heads.resize(3);
  record->lines[1].heads.resize(1);
  record->lines[1].data.resize(1000);
  record->made_unix_s = unix_seconds() - 100;
  const auto page = nlohmann::json::parse(calibration_json({{"1f03d28c", record}}));
  ASSERT_EQ(page.at("calibration").size(), 1u);
  const auto& one = page.at("calibration").at(0);
  EXPECT_EQ(one.at("id_digest"), "1f03d28c");
  EXPECT_GE(one.at("age_s"), 100);
  EXPECT_LE(one.at("age_s"), 160);
  EXPECT_EQ(one.at("coils"), 2);
  EXPECT_EQ(one.at("lines"), 4);
  EXPECT_GE(one.at("bytes"), 8000 + 4 * 340);
  EXPECT_EQ(one.at("labels"), (std::vector<std::string>{"Body \"1\"", "Spine"}));
  EXPECT_EQ(nlohmann::json::parse(calibration_json({})), nlohmann::json::parse("{\"calibration\": []}"));
}

}  // namespace
}  // namespace echotrain::server
