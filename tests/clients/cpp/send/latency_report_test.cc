#include "clients/cpp/send/latency_report.h"

#include <gtest/gtest.h>

namespace echotrain::client {
namespace {

TEST(LatencyReport, QuantilesAreNearestRanks) {
  const std::vector<double> four = {1, 2, 3, 4};
  EXPECT_EQ(quantile(four, 0.5), 2);
  EXPECT_EQ(quantile(four, 0.51), 3);
  EXPECT_EQ(quantile(four, 0), 1);
  EXPECT_EQ(quantile(four, 1), 4);
  std::vector<double> thousand;
  for (int i = 1; i <= 1000; ++i) thousand.push_back(i);
  EXPECT_EQ(quantile(thousand, 0.99), 990);
  EXPECT_EQ(quantile({7}, 0.99), 7);
}

TEST(LatencyReport, StepsCoverTheValuesAndBordersBelongToTheUpperStep) {
  EXPECT_EQ(histogram({}), "");
  EXPECT_EQ(histogram({0.5, 0.7, 0.99, 1.0, 4.9, 5.0}),
            "      0.5 - 1       ms       3  ##################################################\n"
            "        1 - 2       ms       1  #################\n"
            "        2 - 5       ms       1  #################\n"
            "        5 - 10      ms       1  #################\n");
  EXPECT_EQ(histogram({0.02, 200}).substr(0, 34), "     0.02 - 0.05    ms       1  ##");
}

TEST(LatencyReport, EmptyStepsHaveNoBarAndRareValuesHaveOne) {
  std::vector<double> values(1000, 1.5);
  values.push_back(15);
  const std::string text = histogram(values);
  EXPECT_NE(text.find("        5 - 10      ms       0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("       10 - 20      ms       1  #\n"), std::string::npos) << text;
}

TEST(LatencyReport, OddValuesAreKeptInTheLowestStep) {
  EXPECT_EQ(histogram({0, -1, 1e-7}).substr(0, 27), "    0.001 - 0.002   ms     ");
}

TEST(LatencyReport, TellsTheServersParts) {
  LatencyReport report;
  report.add(2.0, {{"echotrain_queue_ms", "0.25"}, {"echotrain_compute_ms", "1.5"}, {"echotrain_latency_ms", "1.75"}});
  report.add(4.0,
             {{"echotrain_queue_ms", "0.5"}, {"echotrain_last_send_ms", "0.125"}, {"echotrain_copy_ms", "nonsense"}});
  report.add(std::nullopt, {{"echotrain_queue_ms", "1000"}});
  const std::string text = report.text();
  EXPECT_EQ(text.find("latency of 2 images"), 0u) << text;
  EXPECT_NE(text.find("p50 2.000 ms, p90 4.000 ms, p99 4.000 ms, max 4.000 ms\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  queue                          0.250     0.500     0.500     0.500\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  compute                        1.500 "), std::string::npos) << text;
  EXPECT_NE(text.find("  until ready to send            1.750 "), std::string::npos) << text;
  EXPECT_NE(text.find("  send (of all but the last)     0.125 "), std::string::npos) << text;
  EXPECT_EQ(text.find("copy"), std::string::npos) << text;
}

TEST(LatencyReport, SaysWhenTheServerToldNothing) {
  LatencyReport report;
  report.add(2.0, {});
  EXPECT_NE(report.text().find("the server said nothing"), std::string::npos);
  EXPECT_EQ(LatencyReport().text().find("latency of 0 images"), 0u);
}

}  // namespace
}  // namespace echotrain::client
