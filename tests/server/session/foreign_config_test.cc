// Names of other servers' configurations that stand for pipelines of ours.
#include <gmock/gmock.h>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Conversation sent(const std::string& config) {
  TestServer server;
  Conversation all =
      server.exchange(config + wire::header(wire::xml()) + wire::frame() + wire::frame(1) + wire::close());
  EXPECT_TRUE(all.ended_well());
  return all;
}

TEST(ForeignConfig, ANameOfGadgetronIsAnAlias) {
  const Conversation theirs = sent(wire::config("default_short.xml")), ours = sent(wire::config("cartesian_2d"));
  EXPECT_EQ(theirs.count(1022), 2U);
  EXPECT_EQ(theirs.reproducible_images(), ours.reproducible_images());
  EXPECT_THAT(theirs.texts(), HasSubstr("WARNING  'default_short.xml' stands for 'cartesian_2d': floats"));
  EXPECT_THAT(ours.texts(), Not(HasSubstr("WARNING")));
  EXPECT_THAT(sent(wire::config("default.xml")).texts(), Not(HasSubstr("WARNING"))) << "a pipeline file has the name";
}

TEST(ForeignConfig, OthersAreToldTheNearest) {
  const std::string said = sent(wire::config("MOLLI_T1_Moco.xml")).texts();
  EXPECT_THAT(said, AllOf(HasSubstr("ERROR    unknown-config: "), HasSubstr("'cartesian_grappa': no maps of T1")));
  EXPECT_THAT(said, Not(HasSubstr("stack_of_stars"))) << "a list of all";
}

}  // namespace
}  // namespace echotrain::server
