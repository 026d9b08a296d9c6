// Names of other servers' configurations: which are aliases, and what is said of the others.
#include "config/foreign_names.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "config/pipeline_spec.h"
#include "config/yaml_reader.h"
#include "tests/support/sources.h"

namespace echotrain::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ForeignNames, PatternsStandForNames) {
  EXPECT_THAT(expanded("a b{,_c}.xml {x,y}{1,2}"), ElementsAre("a", "b.xml", "b_c.xml", "x1", "x2", "y1", "y2"));
  EXPECT_TRUE(expanded("").empty());
}

TEST(ForeignNames, ThereAreAllOfGadgetronsAndEachOnce) {
  std::set<std::string> names;
  for (const ForeignNames& each : foreign_names())
    for (const std::string& name : expanded(each.patterns)) EXPECT_TRUE(names.insert(name).second) << name;
  // `git ls-tree -r --name-only COMMIT | grep -c '[.]xml$'` has one more, a template of their tests; the page says
  // which commit.
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const auto& name) { return name.ends_with(".xml"); }), 130);
}

TEST(ForeignNames, ShippedPipelinesHaveThemAsAliases) {
  const PipelineLibrary library({shipped_pipelines()});
  for (const ForeignNames& each : foreign_names()) {
    EXPECT_EQ(library.find(each.pipeline) == nullptr, each.pipeline.empty()) << each.pipeline;
    for (const std::string& name : expanded(each.patterns)) {
      const PipelineSpec* found = library.find(name);
      ASSERT_EQ(found != nullptr, each.alias) << name;
      EXPECT_EQ(each.alias ? found->name : each.pipeline, each.pipeline) << name;
    }
  }
  for (const char* of_files : {"default.xml", "simplefft", "invertcontrast"}) {
    EXPECT_NE(library.find(of_files), nullptr);
    EXPECT_EQ(library.remark_on(of_files), "") << "a pipeline file has the name";
  }
  EXPECT_THAT(library.remark_on("grappa_cpu.xml"), StartsWith("'grappa_cpu.xml' stands for 'cartesian_grappa': "));
  EXPECT_EQ(library.remark_on("cartesian_grappa"), "");
}

TEST(ForeignNames, OthersAreToldTheNearest) {
  const PipelineLibrary library({shipped_pipelines()});
  EXPECT_EQ(library.unknown("Generic_Cartesian_Grappa_FatWater.xml"),
            "no pipeline is called 'Generic_Cartesian_Grappa_FatWater.xml'; nearest to Gadgetron's is "
            "'cartesian_grappa': fat and water are not separated");
  EXPECT_THAT(library.unknown("report"), HasSubstr("nearest to python-ismrmrd-server's is 'images_display': "));
  EXPECT_THAT(library.unknown("CMRT.xml"), HasSubstr("none does what Gadgetron's does; no spectroscopy"));
  EXPECT_THAT(library.unknown("Generic_Cartesian_Grapa.xml"),
              HasSubstr("did you mean 'Generic_Cartesian_Grappa.xml'?"));
  EXPECT_THAT(library.unknown("my_hospitals_chain.xml"), HasSubstr("echotrain convert-config"));
  for (const char* name : {"Generic_Cartesian_Grappa_FatWater.xml", "report", "CMRT.xml", "Generic_Cartesian_Grapa.xml",
                           "my_hospitals_chain.xml", "cartesian_2e"})
    EXPECT_THAT(library.unknown(name), Not(HasSubstr("stack_of_stars"))) << "a list of all pipelines";
  EXPECT_THAT(library.unknown("xyz"), AllOf(HasSubstr("there are: "), HasSubstr("stack_of_stars")));
  EXPECT_THAT(PipelineLibrary().unknown("grappa.xml"), HasSubstr("'cartesian_grappa', which is not here"));
}

TEST(ForeignNames, AFileThatClaimsANameHasIt) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "echotrain_foreign_names";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const auto& [name, key] : {std::pair{"mine", "aliases: [grappa.xml]\n"}, std::pair{"epi", ""}})
    std::ofstream(folder / (std::string(name) + ".yaml")) << "echotrain: 1\nname: " << name << "\ndescription: d\n"
                                                          << key << "pipeline: [fft]\n";
  const PipelineLibrary library({shipped_pipelines(), folder});
  EXPECT_EQ(library.find("grappa.xml")->name, "mine");
  EXPECT_EQ(library.find("epi.xml")->name, "epi");
  EXPECT_EQ(library.find("grappa_cpu.xml")->name, "cartesian_grappa");
  EXPECT_EQ(library.remark_on("grappa.xml"), "");
  std::filesystem::remove_all(folder);
}

TEST(ForeignNames, ThePageHasTheTable) {
  std::string table = "|configuration|pipeline|what differs, or what to do|\n|---|---|---|\n";
  for (const ForeignNames& each : foreign_names()) {
    std::string names, rest(each.patterns);
    for (std::size_t at = 0; (at = rest.find(' ', at)) != std::string::npos; at += 4) rest.replace(at, 1, "`, `");
    table += fmt::format("|`{}`|{}|{}|\n", rest,
                         each.pipeline.empty() ? "*none*"
                         : each.alias          ? fmt::format("`{}`", each.pipeline)
                                               : fmt::format("*near:* `{}`", each.pipeline),
                         each.differs);
  }
  const std::string page = read_text_file(source_path("docs/from-gadgetron.md"), 1 << 20);
  EXPECT_THAT(page, HasSubstr(table)) << "the page must have this table:\n" << table;
}

}  // namespace
}  // namespace echotrain::config
