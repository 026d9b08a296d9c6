// Gadgetron's XML as pipeline files: `echotrain convert-config`.
#include <gmock/gmock.h>

#include <fstream>

#include "config/pipeline_spec.h"
#include "config/yaml_reader.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConvertConfig : public testing::Test {
 protected:
  std::string file(const std::string& stream) const {
    const std::string path = (folder_ / "My_Recon.xml").string();
    std::ofstream(path) << "<configuration><stream>" << stream << "</stream></configuration>";
    return path;
  }
  static std::string gadget(const std::string& name, const std::string& properties = "") {
    return "<gadget><classname>" + name + "</classname>" + properties + "</gadget>";
  }
  const TemporaryFolder folder_;
};

TEST_F(ConvertConfig, WritesAPipelineAndSaysWhatIsLeftOut) {
  const std::string xml =
      file(gadget("NoiseAdjustGadget") + gadget("SimpleReconGadget", "<property name=\"odd\" value=\"3\"/>") +
           gadget("IsmrmrdDumpGadget") + gadget("FatWaterGadget") + gadget("ExtractGadget"));
  const auto printed = command({"convert-config", xml});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.err, AllOf(HasSubstr("warning: missing: FatWaterGadget"),
                                 HasSubstr("left out: IsmrmrdDumpGadget"), HasSubstr("left out: 1 properties")));
  const std::string out = (folder_ / "mine.yaml").string();
  const auto written = command({"convert-config", xml, out});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(config::read_text_file(out, 1 << 20), printed.out);
  const config::PipelineSpec spec = config::read_pipeline_file(out);
  EXPECT_EQ(spec.name, "my_recon");
  EXPECT_THAT(spec.aliases, ElementsAre("My_Recon.xml"));
}

TEST_F(ConvertConfig, FailsWhereThereIsNoPipeline) {
  const auto none = command({"convert-config", file(gadget("CMRTGadget"))});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("My_Recon.xml: "), HasSubstr("CMRTGadget")));
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(command({"convert-config", (folder_ / "absent.xml").string()}).code, 1);
  const std::string xml = file(gadget("SimpleReconGadget"));
  EXPECT_EQ(command({"convert-config", xml, (folder_ / "no/such/folder.yaml").string()}).code, 1);
  EXPECT_EQ(command({"convert-config", xml, xml}).code, 2) << "its input would be lost";
  EXPECT_EQ(command({"convert-config"}).code, 2);
}

TEST_F(ConvertConfig, AValueThatIsNotAllowedIsTold) {
  const std::string xml = file(gadget("CoilReductionGadget", "<property name=\"coils_out\" value=\"5000\"/>") +
                               gadget("SimpleReconGadget"));
  const auto done = command({"convert-config", xml});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, AllOf(HasSubstr("needs changes"), HasSubstr("5000")));
  EXPECT_THAT(done.out, HasSubstr("channels: 5000"));
}

}  // namespace
}  // namespace echotrain::client
