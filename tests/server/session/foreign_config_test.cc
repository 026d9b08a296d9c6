// Configurations of other servers: names that stand for pipelines of ours, and Gadgetron's XML.
#include <gmock/gmock.h>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string xml(const std::string& classes_and_ends) {
  std::string text = "<?xml version=\"1.0\"?><configuration><version>2</version><stream>";
  for (std::size_t at = 0, end = 0; (end = classes_and_ends.find(' ', at)) != std::string::npos; at = end + 1)
    text += "<gadget><classname>" + classes_and_ends.substr(at, end - at) + "</classname></gadget>";
  return text + "</stream></configuration>";
}

Conversation sent(const std::string& config, config::ClientPipelines allowed = config::ClientPipelines::gadgets) {
  config::ServerOptions options;
  options.client_pipelines = allowed;
  TestServer server(options);
  Conversation all =
      server.exchange(config + wire::header(wire::xml()) + wire::frame() + wire::frame(1) + wire::close());
  EXPECT_TRUE(all.ended_well());
  return all;
}

TEST(ForeignConfig, XmlGivesTheImagesOfTheSamePipelineInYaml) {
  const Conversation made = sent(wire::config_text(xml("RemoveROOversamplingGadget SimpleReconGadget ExtractGadget ")));
  const Conversation same = sent(wire::config_text(
      "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - cartesian_kspace: {calibration: none}\n  - fft\n"
      "  - coil_combine: {method: rss}\n  - image: {component: magnitude}\n"));
  EXPECT_EQ(made.count(1022), 2U) << made.texts();
  EXPECT_EQ(made.reproducible_images(), same.reproducible_images());
  EXPECT_THAT(made.texts(), Not(HasSubstr("WARNING")));
}

TEST(ForeignConfig, WhatXmlHasMoreIsTold) {
  const Conversation made = sent(wire::config_text(xml("SimpleReconGadget IsmrmrdDumpGadget ExtractGadget ")));
  EXPECT_EQ(made.count(1022), 2U);
  EXPECT_THAT(made.texts(), AllOf(HasSubstr("WARNING"), HasSubstr("without IsmrmrdDumpGadget (captures")));
}

TEST(ForeignConfig, XmlIsRefusedWhereImagesWouldBeOthers) {
  const Conversation none = sent(wire::config_text(xml("SimpleReconGadget FatWaterGadget ExtractGadget ")));
  EXPECT_EQ(none.count(1022), 0U);
  EXPECT_THAT(none.texts(),
              AllOf(HasSubstr("ERROR    bad-config: "), HasSubstr("FatWaterGadget"), HasSubstr("convert-config")));
}

TEST(ForeignConfig, XmlIsAClientsOwnPipeline) {
  const std::string plain = wire::config_text(xml("SimpleReconGadget ExtractGadget "));
  const Conversation none = sent(plain, config::ClientPipelines::off);
  EXPECT_EQ(none.count(1022), 0U);
  EXPECT_THAT(none.texts(), AllOf(HasSubstr("ERROR    not-allowed: "), HasSubstr("client_pipelines is off")));
  EXPECT_EQ(sent(plain, config::ClientPipelines::all).count(1022), 2U);
  // Not what it lacks, as it would not run without that either.
  const std::string lacking = wire::config_text(xml("SimpleReconGadget FatWaterGadget ExtractGadget "));
  EXPECT_THAT(sent(lacking, config::ClientPipelines::off).texts(),
              AllOf(HasSubstr("ERROR    not-allowed: "), Not(HasSubstr("FatWaterGadget"))));
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
  EXPECT_THAT(said, AllOf(HasSubstr("ERROR    unknown-config: "), HasSubstr("'t1_molli': times in the header")));
  EXPECT_THAT(said, Not(HasSubstr("stack_of_stars"))) << "a list of all";
}

}  // namespace
}  // namespace echotrain::server
