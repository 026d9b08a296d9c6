#include "config/pipeline_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/sources.h"

namespace echotrain::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kHead = "echotrain: 1\nname: spiral_2d\ndescription: a test\n";
const std::string kTail = "pipeline:\n  - noise_adjust\n";

std::string error_of(const std::string& text) {
  try {
    read_pipeline(text, "p.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PipelineSpec, HasABoundOfGadgets) {
  std::string text = kHead + "pipeline:\n";
  for (std::size_t i = 0; i < kMostGadgets; ++i) text += "  - noise_adjust\n";
  EXPECT_EQ(read_pipeline(text, "p.yaml").gadgets.size(), kMostGadgets);
  EXPECT_THAT(error_of(text + "  - noise_adjust\n"),
              AllOf(StartsWith("p.yaml:69:5: "), HasSubstr("at most 64 gadgets")));
}

TEST(PipelineSpec, NamesDicomPeers) {
  EXPECT_THAT(read_pipeline(kHead + kTail, "p.yaml").dicom_peers, ElementsAre());
  EXPECT_THAT(read_pipeline(kHead + "dicom: {send_to: pacs}\n" + kTail, "p.yaml").dicom_peers, ElementsAre("pacs"));
  const PipelineSpec two = read_pipeline(kHead + "dicom: {send_to: [a, b]}\n" + kTail, "p.yaml");
  EXPECT_THAT(two.dicom_peers, ElementsAre("a", "b"));
  EXPECT_EQ(two.dicom_mark.text(), "p.yaml:4:8");
  for (const char* wrong : {"dicom: {}", "dicom: {send_to: []}", "dicom: {send_to: ''}"})
    EXPECT_THAT(error_of(kHead + wrong + "\n" + kTail), HasSubstr("name a DICOM peer")) << wrong;
  EXPECT_THAT(error_of(kHead + "dicom: {sent_to: a}\n" + kTail), HasSubstr("send_to"));
  EXPECT_THAT(error_of(kHead + "dicom: pacs\n" + kTail), StartsWith("p.yaml:4:8: "));
}

TEST(PipelineSpec, MayOutliveItsConnection) {
  EXPECT_FALSE(read_pipeline(kHead + kTail, "p.yaml").detach);
  const auto detach = [](const std::string& text) {
    return read_pipeline(kHead + "detach: " + text + "\n" + kTail, "p.yaml").detach.value();
  };
  EXPECT_EQ(detach("{}").keep_h, 24);
  EXPECT_TRUE(detach("{}").to_client && detach("{}").to_dicom && !detach("{}").power);
  const DetachSpec all = detach("{keep_h: 0.5, deliver: [dicom], durable: power}");
  EXPECT_EQ(all.keep_h, 0.5);
  EXPECT_TRUE(!all.to_client && all.to_dicom && all.power);
  for (const char* wrong :
       {"{deliver: []}", "{deliver: [pacs]}", "{durable: maybe}", "{keep_h: -1}", "{keep: 1}", "yes"})
    EXPECT_THAT(error_of(kHead + "detach: " + wrong + "\n" + kTail), StartsWith("p.yaml:4:")) << wrong;
}

TEST(PipelineSpec, ReadsEveryKey) {
  const PipelineSpec spec = read_pipeline(R"(echotrain: 1
name: spiral_2d
description: 2D spiral, gridding reconstruction
aliases: [default.xml, simplefft]
backend: cuda
frame: {readouts: 55, stride: 5}
trajectory_unit: radians_per_pixel
pipeline:
  - noise_adjust
  - gridding: {kernel_width: 5, oversampling: 1.5}
  - fft:
)",
                                          "p.yaml");
  EXPECT_EQ(spec.name, "spiral_2d");
  EXPECT_EQ(spec.description, "2D spiral, gridding reconstruction");
  EXPECT_THAT(spec.aliases, ElementsAre("default.xml", "simplefft"));
  EXPECT_EQ(spec.backend, BackendChoice::cuda);
  EXPECT_EQ(spec.backend_mark.text(), "p.yaml:5:10");
  EXPECT_EQ(spec.frame.kind, FrameRule::Kind::readouts);
  EXPECT_EQ(spec.frame.readouts, 55);
  EXPECT_EQ(spec.frame.stride, 5);
  EXPECT_EQ(spec.frame.mark.text(), "p.yaml:6:8");
  EXPECT_EQ(spec.trajectory_unit, TrajectoryUnit::radians_per_pixel);
  ASSERT_EQ(spec.gadgets.size(), 3U);
  EXPECT_EQ(spec.gadgets[0].name, "noise_adjust");
  EXPECT_EQ(spec.gadgets[0].parameters.kind(), Node::Kind::null);
  EXPECT_EQ(spec.gadgets[0].mark.text(), "p.yaml:9:5");
  EXPECT_EQ(spec.gadgets[1].name, "gridding");
  EXPECT_EQ(spec.gadgets[1].mark.text(), "p.yaml:10:5");
  EXPECT_EQ(spec.gadgets[1].parameters.get("oversampling").as_double(), 1.5);
  EXPECT_EQ(spec.gadgets[2].name, "fft");
  EXPECT_EQ(spec.gadgets[2].parameters.kind(), Node::Kind::null);
}

TEST(PipelineSpec, HasDefaults) {
  const PipelineSpec spec = read_pipeline(kHead + kTail, "p.yaml");
  EXPECT_TRUE(spec.aliases.empty());
  EXPECT_EQ(spec.backend, BackendChoice::automatic);
  EXPECT_EQ(spec.backend_mark.line, 0);
  EXPECT_EQ(spec.frame.kind, FrameRule::Kind::automatic);
  EXPECT_EQ(spec.trajectory_unit, TrajectoryUnit::cycles_per_pixel);
}

TEST(PipelineSpec, Frames) {
  const auto frame = [](const std::string& text) {
    return read_pipeline(kHead + "frame: " + text + "\n" + kTail, "p").frame;
  };
  const auto error = [](const std::string& text) { return error_of(kHead + "frame: " + text + "\n" + kTail); };
  EXPECT_EQ(frame("auto").kind, FrameRule::Kind::automatic);
  EXPECT_EQ(frame("{until: last_in_slice}").kind, FrameRule::Kind::until);
  EXPECT_EQ(frame("{until: last_in_slice}").until, "last_in_slice");
  EXPECT_EQ(frame("{readouts: 55}").stride, 55);
  for (const std::string& flag : until_flags()) EXPECT_EQ(frame("{until: " + flag + "}").until, flag);
  EXPECT_EQ(until_flags().size(), 10U);

  EXPECT_THAT(error("{until: last_in_slce}"),
              AllOf(StartsWith("p.yaml:4:16: "), HasSubstr("did you mean 'last_in_slice'?")));
  EXPECT_THAT(error("{readout: 55}"), AllOf(StartsWith("p.yaml:4:9: "), HasSubstr("did you mean 'readouts'?")));
  EXPECT_THAT(error("{readouts: 0}"), AllOf(StartsWith("p.yaml:4:19: "), HasSubstr("allowed is 1 to")));
  EXPECT_THAT(error("{readouts: 10, stride: 11}"), HasSubstr("'11' is out of range; allowed is 1 to 10"));
  EXPECT_THAT(error("{readouts: 10, stride: 0}"), HasSubstr("out of range"));
  EXPECT_THAT(error("{readouts: 10, until: last_in_slice}"), HasSubstr("a frame is one of"));
  EXPECT_THAT(error("{until: last_in_slice, stride: 2}"), HasSubstr("a frame is one of"));
  EXPECT_THAT(error("{stride: 5}"), HasSubstr("a frame is one of"));
  EXPECT_THAT(error("{}"), HasSubstr("a frame is one of"));
  EXPECT_THAT(error("whole"), HasSubstr("a frame is auto"));
  EXPECT_THAT(error(""), AllOf(StartsWith("p.yaml:4:"), HasSubstr("a frame is auto")));
  EXPECT_THAT(error("[auto]"), HasSubstr("a frame is auto"));
}

TEST(PipelineSpec, AcceleratedScansMayHaveAChainOfTheirOwn) {
  const std::string begin = kHead + kTail + "accelerated:";
  EXPECT_TRUE(read_pipeline(kHead + kTail, "p.yaml").accelerated.empty());
  const PipelineSpec spec = read_pipeline(begin + "\n  - cartesian_kspace\n  - grappa: {kernel_y: 2}\n", "p.yaml");
  ASSERT_EQ(spec.gadgets.size(), 1U);
  ASSERT_EQ(spec.accelerated.size(), 2U);
  EXPECT_EQ(spec.accelerated[0].name, "cartesian_kspace");
  EXPECT_EQ(spec.accelerated[1].name, "grappa");
  EXPECT_EQ(spec.accelerated[1].mark.text(), "p.yaml:8:5");
  EXPECT_EQ(spec.accelerated[1].parameters.get("kernel_y").as_int(), 2);
  EXPECT_THAT(error_of(begin + " []\n"), AllOf(StartsWith("p.yaml:6:14: "), HasSubstr("'accelerated' is empty")));
  EXPECT_THAT(error_of(begin + "\n"), AllOf(StartsWith("p.yaml:6:"), HasSubstr("a list is expected")));
  EXPECT_THAT(error_of(begin + " cartesian_grappa\n"), HasSubstr("a list is expected"));
  EXPECT_THAT(error_of(begin + "\n  - {grappa: {}, image: {}}\n"), HasSubstr("at the same level"));
  EXPECT_THAT(error_of(kHead + kTail + "acelerated:\n  - grappa\n"), HasSubstr("did you mean 'accelerated'?"));
  std::string many = begin + "\n";
  for (std::size_t i = 0; i <= kMostGadgets; ++i) many += "  - fft\n";
  EXPECT_THAT(error_of(many), HasSubstr("at most 64 gadgets"));
}

TEST(PipelineSpec, EveryRequiredKeyIsMissed) {
  EXPECT_THAT(error_of("name: a\ndescription: b\n" + kTail), HasSubstr("p.yaml:1:1: the key 'echotrain' is missing"));
  EXPECT_THAT(error_of("echotrain: 1\ndescription: b\n" + kTail), HasSubstr("'name' is missing"));
  EXPECT_THAT(error_of("echotrain: 1\nname: a\n" + kTail), HasSubstr("'description' is missing"));
  EXPECT_THAT(error_of(kHead), HasSubstr("'pipeline' is missing"));
}

TEST(PipelineSpec, UnknownKeysAndWrongTypesSayWhereAndWhat) {
  EXPECT_EQ(error_of(kHead + "piepline: []\n" + kTail), "p.yaml:4:1: unknown key 'piepline'; did you mean 'pipeline'?");
  EXPECT_THAT(error_of("echotrain: 2\nname: a\ndescription: b\n" + kTail), HasSubstr("p.yaml:1:12: format version 2"));
  EXPECT_THAT(error_of("echotrain: \"1\"\nname: a\ndescription: b\n" + kTail), HasSubstr("a whole number is expected"));
  for (const char* name : {"Spiral", "2d", "a-b", "_a", "a b", "\"\"", "../x"}) {
    EXPECT_THAT(error_of("echotrain: 1\nname: " + std::string(name) + "\ndescription: b\n" + kTail),
                AllOf(StartsWith("p.yaml:2:7: "), HasSubstr("is no name")))
        << name;
  }
  EXPECT_THAT(error_of("echotrain: 1\nname: a\ndescription: \"\"\n" + kTail), HasSubstr("description is empty"));
  EXPECT_THAT(error_of(kHead + "backend: gpu\n" + kTail), HasSubstr("'gpu' is not one of auto, cpu, cuda"));
  EXPECT_THAT(error_of(kHead + "backend:\n" + kTail), HasSubstr("not nothing"));
  EXPECT_THAT(error_of(kHead + "trajectory_unit: cycles_per_pixl\n" + kTail),
              HasSubstr("did you mean 'cycles_per_pixel'?"));
  EXPECT_THAT(error_of(kHead + "aliases: default.xml\n" + kTail), HasSubstr("a list is expected"));
  EXPECT_THAT(error_of(kHead + "aliases: [a, a]\n" + kTail), AllOf(StartsWith("p.yaml:4:14: "), HasSubstr("twice")));
  EXPECT_THAT(error_of(kHead + "aliases: [../etc/passwd]\n" + kTail), HasSubstr("is no alias"));
  EXPECT_THAT(error_of(""), HasSubstr("a pipeline file is expected"));
  EXPECT_THAT(error_of("- a\n"), HasSubstr("a pipeline file is expected"));
}

TEST(PipelineSpec, GadgetsAreNamesOrMapsOfOneKey) {
  EXPECT_THAT(error_of(kHead + "pipeline: []\n"), AllOf(StartsWith("p.yaml:4:11: "), HasSubstr("at least one gadget")));
  EXPECT_THAT(error_of(kHead + "pipeline: noise_adjust\n"), HasSubstr("a list is expected"));
  EXPECT_THAT(error_of(kHead + "pipeline:\n"), HasSubstr("a list is expected, not nothing"));
  EXPECT_THAT(
      error_of(kHead + "pipeline:\n  - fft:\n    direction: inverse\n"),
      AllOf(StartsWith("p.yaml:6:5: "), HasSubstr("'direction' is at the same level as the gadget 'fft'; indent")));
  EXPECT_THAT(error_of(kHead + "pipeline:\n  - fft: inverse\n"), AllOf(StartsWith("p.yaml:5:10: "), HasSubstr("map")));
  EXPECT_THAT(error_of(kHead + "pipeline:\n  - [fft]\n"), HasSubstr("a gadget is expected"));
  EXPECT_THAT(error_of(kHead + "pipeline:\n  -\n"), HasSubstr("a gadget is expected"));
  EXPECT_THAT(error_of(kHead + "pipeline:\n  - {}\n"), HasSubstr("a gadget is expected"));
}

TEST(PipelineSpec, XmlIsRefusedByName) {
  EXPECT_THAT(error_of("<?xml version=\"1.0\"?>\n<!-- <configuration> -->\n<gadgetronStreamConfiguration xmlns=\"x\">"),
              AllOf(StartsWith("p.yaml:1:1: this is a Gadgetron XML configuration (<gadgetronStreamConfiguration>)"),
                    HasSubstr("YAML"), HasSubstr("by name")));
  EXPECT_THAT(error_of("\xEF\xBB\xBF\n  <gt:configuration>"),
              StartsWith("p.yaml:2:3: this is a Gadgetron XML configuration (<configuration>)"));
  EXPECT_THAT(error_of("<html></html>"), StartsWith("p.yaml:1:1: this is XML;"));
  for (const char* odd : {"<", "<!-- <a>", "<>", "<?xml", "<!"}) EXPECT_THAT(error_of(odd), HasSubstr("this is XML;"));
}

TEST(Backend, HasANameForPeople) {
  EXPECT_EQ(to_string(BackendChoice::automatic), "auto");
  EXPECT_EQ(to_string(BackendChoice::cpu), "cpu");
  EXPECT_EQ(to_string(BackendChoice::cuda), "cuda");
  EXPECT_EQ(to_string(TrajectoryUnit::cycles_per_fov), "cycles_per_fov");
  EXPECT_EQ(to_string(TrajectoryUnit::cycles_per_m), "cycles_per_m");
}

TEST(PipelineSpec, InputIsReadoutsOrImages) {
  EXPECT_EQ(read_pipeline(kHead + kTail, "p.yaml").input, Input::readouts);
  EXPECT_EQ(read_pipeline(kHead + "input: readouts\nframe: auto\n" + kTail, "p.yaml").input, Input::readouts);
  EXPECT_EQ(read_pipeline(kHead + "input: images\n" + kTail, "p.yaml").input, Input::images);
  EXPECT_THAT(error_of(kHead + "input: image\n" + kTail), AllOf(StartsWith("p.yaml:4:8: "), HasSubstr("images")));
  for (const char* key : {"frame: auto\n", "trajectory_unit: cycles_per_fov\n"})
    EXPECT_THAT(error_of(kHead + "input: images\n" + key + kTail), HasSubstr("are for readouts")) << key;
}

class Library : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) / (std::string("echotrain_library_") + info->name());
    std::filesystem::remove_all(root_);
    for (const char* folder : {"one", "two"}) std::filesystem::create_directories(root_ / folder);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& name, const std::string& aliases,
             const std::string& description = "d") const {
    std::ofstream(root_ / file) << "echotrain: 1\nname: " << name << "\ndescription: " << description << "\naliases: ["
                                << aliases << "]\npipeline: [fft]\n";
  }

  PipelineLibrary load() const { return PipelineLibrary({root_ / "one", root_ / "two"}); }
  std::string load_error() const {
    try {
      load();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path root_;
};

TEST_F(Library, FindsByNameAndAlias) {
  write("one/a.yaml", "cartesian_2d", "default.xml, simplefft");
  write("two/b.yaml", "spiral_2d", "");
  std::ofstream(root_ / "one/notes.txt") << "not a pipeline";
  const PipelineLibrary library = load();
  EXPECT_THAT(library.names(), ElementsAre("cartesian_2d", "spiral_2d"));
  for (const char* name : {"cartesian_2d", "default.xml", "simplefft", "simplefft.xml", "cartesian_2d.yaml"}) {
    ASSERT_NE(library.find(name), nullptr) << name;
    EXPECT_EQ(library.find(name)->name, "cartesian_2d");
  }
  for (const char* name : {"", "default", ".xml", "one/a.yaml", "../one/a", "cartesian", "SPIRAL_2D"}) {
    EXPECT_EQ(library.find(name), nullptr) << name;
  }
}

TEST_F(Library, ANameOfManyEndingsIsLookedUpAtOnce) {
  write("one/a.yaml", "cartesian_2d", "");
  std::string name = "cartesian_2d";
  for (int i = 0; i < 1 << 18; ++i) name += ".xml";  // as long as a client's text is allowed to be
  EXPECT_EQ(load().find(name), nullptr);
  EXPECT_EQ(load().find("cartesian_2d.yaml.xml"), nullptr);
}

TEST_F(Library, ALaterFolderReplaces) {
  write("one/a.yaml", "cartesian_2d", "mine.xml", "first");
  write("two/other_file.yaml", "cartesian_2d", "simplefft", "second");
  const PipelineLibrary library = load();
  ASSERT_EQ(library.all().size(), 1U);
  EXPECT_EQ(library.find("cartesian_2d")->description, "second");
  EXPECT_EQ(library.find("mine.xml"), nullptr);
}

TEST_F(Library, RefusesConflicts) {
  write("one/a.yaml", "aa", "default.xml");
  write("two/b.yaml", "bb", "default.xml");
  EXPECT_THAT(load_error(), HasSubstr("alias 'default.xml' is also claimed by"));
  write("two/b.yaml", "bb", "aa");
  EXPECT_THAT(load_error(), AllOf(HasSubstr("b.yaml:1:1: "), HasSubstr("alias 'aa' is also claimed by 'aa'")));
  write("two/b.yaml", "cc", "");
  write("two/c.yaml", "cc", "");
  EXPECT_THAT(load_error(), AllOf(HasSubstr("c.yaml:1:1: "), HasSubstr("'cc' is also that of")));
}

TEST_F(Library, RefusesBadFilesAndFolders) {
  std::ofstream(root_ / "two/bad.yaml") << "echotrain: 1\nnam: x\n";
  EXPECT_THAT(load_error(), HasSubstr("bad.yaml:2:1: unknown key 'nam'; did you mean 'name'?"));
  std::filesystem::remove_all(root_ / "two");
  EXPECT_THAT(load_error(), HasSubstr("two: the pipeline folder cannot be read"));
}

TEST(ShippedPipelines, LoadAndAnswerToStockNames) {
  const PipelineLibrary library({shipped_pipelines()});
  for (const char* name : {"cartesian_2d", "radial_2d", "spiral_2d", "kooshball_3d", "passthrough", "default.xml",
                           "simplefft", "invertcontrast"}) {
    EXPECT_NE(library.find(name), nullptr) << name;
  }
  EXPECT_EQ(library.find("default.xml"), library.find("cartesian_2d"));  // finished, as Gadgetron's default is
  for (const char* name : {"simplefft", "invertcontrast"})
    EXPECT_EQ(library.find(name), library.find("cartesian_plain")) << name;
}

TEST(ClientConfig, IsAPipelineOrTheNameOfOneWithATokenOrWithout) {
  const std::string pipeline = "echotrain: 1\nname: a\ndescription: b\npipeline: [passthrough]\n";
  for (const std::string token : {"", "token: 'it''s'\n"}) {
    const ClientConfig whole = read_client_config(token + pipeline, "config");
    ASSERT_TRUE(whole.pipeline);
    EXPECT_EQ(whole.pipeline->name, "a");
    EXPECT_EQ(whole.pipeline->text, pipeline);  // without the secret
    EXPECT_EQ(whole.use, "");
    const ClientConfig named = read_client_config(token + "use: radial_2d\n", "config");
    EXPECT_FALSE(named.pipeline);
    EXPECT_EQ(named.use, "radial_2d");
    EXPECT_EQ(named.token, token.empty() ? "" : "it's");
  }
  const ClientConfig alone = read_client_config("token: abc\n", "config");
  EXPECT_EQ(alone.token, "abc");
  EXPECT_EQ(alone.use, "");
  EXPECT_FALSE(alone.pipeline);
}

TEST(ClientConfig, SaysWhatIsWrongWithoutTheToken) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      read_client_config(text, "config");
    } catch (const ConfigError& thrown) {
      return thrown.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("token: secret\nuse: a\nbackend: cpu\n"), testing::HasSubstr("3:1: unknown key 'backend'"));
  EXPECT_THAT(error("use:\n"), testing::HasSubstr("1:"));
  EXPECT_THAT(error("use: ''\n"), testing::HasSubstr("name a pipeline"));
  for (const char* text : {"token: secret\nname: a\n", "token: secret\npipeline: 3\n", "token: [secret]\nuse: a\n",
                           "token: {secret: 1}\nuse: a\n", "token: secret\ntoken: secret\n"}) {
    EXPECT_NE(error(text), "no error") << text;
    EXPECT_EQ(error(text).find("secret"), std::string::npos) << error(text);
  }
}

}  // namespace
}  // namespace echotrain::config
