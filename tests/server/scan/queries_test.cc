#include "server/scan/queries.h"

#include <gtest/gtest.h>

#include <chrono>

#include "gadgets/shared/store/noise_store.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

TEST(Queries, SayWhetherNoiseIsKnown) {
  const auto resources = test_resources(1);
  const Catalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const auto ask = [&](const std::string& name) { return answer_query(name, catalogue, *resources); };
  EXPECT_EQ(ask("echotrain::noise/1.2.3"), "unknown");
  NoiseRecord record;
  record.coils = 2;
  record.covariance = {2.0, 0.5, 0.5, 1.0};
  record.dwell_us = 7.5;
  record.samples = 100;
  record.made_unix_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count() -
      2 * 3600;
  resources->get<NoiseStore>().add("1.2.3", record);
  EXPECT_EQ(ask("echotrain::noise/1.2.3"), "known 2 coils 7.5 us 2.0 h");
  EXPECT_EQ(ask("echotrain::noise/1.2.30"), "unknown");
  EXPECT_EQ(ask("echotrain::noise/"), "unknown");
  EXPECT_EQ(ask("echotrain::noise"), "Unknown query");
}

}  // namespace
}  // namespace echotrain::server
