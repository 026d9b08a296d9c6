#include "server/scan/queries.h"

#include <gmock/gmock.h>

#include <chrono>

#include "gadgets/shared/store/calibration_store.h"
#include "gadgets/shared/store/noise_store.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Queries, SayWhetherNoiseIsKnown) {
  const auto resources = test_resources(1);
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const auto ask = [&](const std::string& name) { return answer_query(name, catalogue, *resources, {"A", {}}); };
  EXPECT_EQ(ask("echotrain::noise/1.2.3"), "unknown");
  NoiseRecord record;
  record.coils = 2;
  record.covariance = {2.0, 0.5, 0.5, 1.0};
  record.dwell_us = 7.5;
  record.samples = 100;
  record.made_unix_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count() -
      2 * 3600;
  resources->get<NoiseStore>().add({"A", "", "1.2.3"}, record);
  EXPECT_EQ(ask("echotrain::noise/1.2.3"), "known 2 coils 7.5 us 2.0 h");
  EXPECT_EQ(ask("echotrain::noise/1.2.30"), "unknown");
  EXPECT_EQ(ask("echotrain::noise/"), "unknown");
  EXPECT_EQ(ask("echotrain::noise"), "Unknown query");
}

TEST(Queries, TellTheNoiseOfEachCoil) {
  const auto resources = test_resources(1);
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const auto ask = [&](const std::string& name) { return answer_query(name, catalogue, *resources, {"A", {}}); };
  EXPECT_EQ(ask("echotrain::noise_matrix/a/b"), "unknown");
  NoiseRecord record;
  record.coils = 2;
  record.covariance = {2.0, {0.5, -0.25}, {0.5, 0.25}, 1.0};
  record.dwell_us = 7.5;
  record.samples = 100;
  record.made_unix_s = unix_seconds();
  resources->get<NoiseStore>().add({"A", "", "unlabelled"}, record);
  record.labels = {"Head 1", "Neck"};
  resources->get<NoiseStore>().add({"A", "", "a/b"}, record);
  EXPECT_THAT(ask("echotrain::noise_matrix/a/b"),
              MatchesRegex("coils 2 samples 100 us 7.5 age_s [0-9]+\nlabel Head 1\nlabel Neck\n"
                           "2 0\n0.5 0.25 1 0\n"));
  EXPECT_THAT(ask("echotrain::noise_matrix/unlabelled"), HasSubstr("label \nlabel \n2 0\n"));
}

/// Who asks pays for the longest text that the numbers may have.
TEST(Queries, LongAnswersArePaidForBeforeTheyAreMade) {
  const auto resources = test_resources(1);
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  NoiseRecord record;
  record.coils = 32;
  record.covariance.assign(32 * 32, {-1.234567e-300, -1.234567e-300});
  record.made_unix_s = unix_seconds();
  record.labels.assign(32, std::string(64, 'x'));
  resources->get<NoiseStore>().add({"A", "", "1"}, record);
  std::uint64_t paid = 0;
  const auto ask = [&](const std::function<void(std::uint64_t)>& pay) {
    return answer_query("echotrain::noise_matrix/1", catalogue, *resources, {"A", {}, pay});
  };
  EXPECT_THROW(ask([](std::uint64_t) { throw numerics::OverBudget("no"); }), numerics::OverBudget);
  const std::string answer = ask([&](std::uint64_t bytes) { paid += bytes; });
  const std::size_t first_line = answer.find('\n') + 1;
  EXPECT_EQ(paid, 3 * (answer.size() - first_line)) << "kept for who asks again; the answer; what is sent";
}

TEST(Queries, SayWhetherReferenceLinesAreKnown) {
  const auto resources = test_resources(1);
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const auto ask = [&](const std::string& name) { return answer_query(name, catalogue, *resources, {"A", {}}); };
  CalibrationRecord record;
  record.coils = 2;
  record.spaces.resize(1);
  record.lines.resize(1);
  record.lines[0].heads.resize(3);
  for (auto& head : record.lines[0].heads) head.number_of_samples = 4;
  record.lines[0].data.resize(3 * 2 * 4);
  record.made_unix_s = unix_seconds() - 3600;
  ASSERT_EQ(resources->get<CalibrationStore>().add({"A", "", "1.2.3"}, record), ScanStore::Added::fresh);
  EXPECT_EQ(ask("echotrain::calibration/1.2.3"), "known 2 coils 3 lines 1.0 h");
  EXPECT_EQ(ask("echotrain::calibration/1.2"), "unknown");
  EXPECT_EQ(ask("echotrain::noise/1.2.3"), "unknown");
}

/// A stranger hears the same of what is there and of what is not.
TEST(Queries, AreAnsweredToTheOwnerOnly) {
  const auto resources = test_resources(1);
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  NoiseRecord record;
  record.coils = 1;
  record.covariance = {2.0};
  record.made_unix_s = unix_seconds();
  resources->get<NoiseStore>().add({"A", "serial 1", "1"}, record);
  const auto ask = [&](const std::string& name, const QueryClient& asker) {
    return answer_query(name, catalogue, *resources, asker);
  };
  for (const std::string name : {"echotrain::noise/", "echotrain::noise_matrix/"}) {
    for (const QueryClient& owner : {QueryClient{"A", {}}, QueryClient{"A", "serial 1"}})
      EXPECT_NE(ask(name + "1", owner), "unknown");
    for (const QueryClient& other :
         {QueryClient{"B", {}}, QueryClient{"B", "serial 1"}, QueryClient{"A", "serial 2"}, QueryClient{"A", ""}})
      EXPECT_EQ(ask(name + "1", other), ask(name + "2", other)) << other.owner;
  }
}

/// An answer made for one client is kept for the next question, which may be another client's about the same ID.
TEST(Queries, GiveEachOwnerItsOwnMatrix) {
  const auto resources = test_resources(1);
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const auto leave = [&](const std::string& owner, double power) {
    NoiseRecord record;
    record.coils = 1;
    record.covariance = {power};
    record.made_unix_s = unix_seconds();
    resources->get<NoiseStore>().add({owner, "", "1"}, record);
  };
  const auto ask = [&](const std::string& owner) {
    return answer_query("echotrain::noise_matrix/1", catalogue, *resources, {owner, {}});
  };
  leave("A", 2);
  leave("B", 3);
  for (int i = 0; i < 2; ++i) {
    for (int again = 0; again < 2; ++again) EXPECT_THAT(ask("A"), HasSubstr("\n2 0\n"));
    for (int again = 0; again < 2; ++again) EXPECT_THAT(ask("B"), HasSubstr("\n3 0\n"));
    EXPECT_EQ(ask("C"), "unknown");
  }
  leave("A", 4);
  EXPECT_THAT(ask("A"), HasSubstr("\n4 0\n")) << "of a newer scan";
}

}  // namespace
}  // namespace echotrain::server
