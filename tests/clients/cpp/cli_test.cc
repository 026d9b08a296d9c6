// Exit codes and texts of the command line: 0 done, 1 failed, 2 wrong usage.
#include "clients/cpp/cli/cli.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

TEST(CommandLine, HelpHasExamplesForEveryCommand) {
  EXPECT_EQ(command({"--help"}).code, 0);
  for (const std::string& name :
       std::vector<std::string>{"send", "scans", "fetch", "recon", "simulate", "compare", "export", "info", "verify",
                                "health", "watch", "convert-config"}) {
    const auto help = command({name, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("Example"), std::string::npos) << name;
    EXPECT_NE(help.out.find("echotrain " + name + " "), std::string::npos) << name;
  }
}

TEST(CommandLine, WrongUsageIsTwoAndSaysWhatToDo) {
  const TemporaryFolder folder;
  const std::string file = (folder / "x.h5").string();
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"reconstruct"},
      {"simulate"},
      {"simulate", "-o", file, "--matrix", "0"},
      {"simulate", "-o", file, "--trajectory", "rosette"},
      {"simulate", "-o", file, "--phantom", "cat"},
      {"simulate", "-o", file, "--angles", "3"},
      {"simulate", "-o", file, "--modality", "xray"},
      {"simulate", "-o", file, "--modality", "ultrasound", "--coils", "3"},
      {"simulate", "-o", file, "--modality", "ultrasound", "--phantom", "shepp_logan"},
      {"simulate", "-o", file, "--modality", "ultrasound", "--phantom", "speckle", "--center-mhz", "100",
       "--sound-speed", "100", "--depth-mm", "1000", "--sampling-mhz", "1"},
      {"simulate", "-o", file, "--noise-scan"},
      {"simulate", "-o", file, "--matrix", "16", "--readouts", "17", "--trajectory", "cartesian"},
      {"simulate", "-o", file, "--frames", "many"},
      {"send", file, "-o", file},
      {"send", file, "-c", "radial_2d", "-o", "y.h5", "-p", "70000"},
      {"compare", file},
      {"recon", file, "-c", "radial_2d", "-o", "y.h5", "--backend", "tpu"},
      {"recon", file, "-c", "no_such_pipeline", "-o", "y.h5"},
  };
  for (const auto& arguments : wrong) {
    const auto result = command(arguments);
    std::string line;
    for (const auto& argument : arguments) line += argument + ' ';
    EXPECT_EQ(result.code, 2) << line << result.err;
    EXPECT_FALSE(result.err.empty()) << line;
  }
  EXPECT_NE(command({"simulate", "-o", file, "--trajectory", "rosette"}).err.find("kooshball"), std::string::npos);
  EXPECT_NE(command({"recon", file, "-c", "no_such_pipeline", "-o", "y.h5"}).err.find("radial_2d"), std::string::npos);
  EXPECT_NE(command({"simualte", "-o", file}).err.find("no command 'simualte'; did you mean 'simulate'?"),
            std::string::npos);
  EXPECT_NE(command({"frobnicate"}).err.find("no command 'frobnicate'; there are: "), std::string::npos);
}

TEST(CommandLine, FailuresAreOne) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing.h5").string(), other = (folder / "out.h5").string();
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"info", missing},
           {"export", missing, "--png", (folder / "png").string()},
           {"compare", missing, missing},
           {"send", missing, "-c", "radial_2d", "-o", other},
           {"recon", missing, "-c", "passthrough", "-o", other},
           {"simulate", "-o", (folder / "no/such/folder.h5").string(), "--matrix", "8"}}) {
    const auto result = command(arguments);
    EXPECT_EQ(result.code, 1) << arguments[0] << result.err;
    EXPECT_FALSE(result.err.empty());
  }
}

TEST(CommandLine, TheInputIsNeverOverwritten) {
  const TemporaryFolder folder;
  const std::string file = (folder / "scan.h5").string();
  ASSERT_EQ(command({"simulate", "-o", file, "--matrix", "8", "--coils", "1", "--trajectory", "cartesian"}).code, 0);
  EXPECT_EQ(command({"recon", file, "-c", "cartesian_plain", "-o", file}).code, 2);
  EXPECT_EQ(command({"send", file, "-c", "cartesian_plain", "-o", file}).code, 2);
  EXPECT_EQ(protocol::DatasetReader(file).acquisitions(), 8u);
}

TEST(CommandLine, AnOutputNamedAsAnotherFormatIsRefused) {
  const TemporaryFolder folder;
  const std::string scan = (folder / "scan.h5").string();
  ASSERT_EQ(command({"simulate", "-o", scan, "--matrix", "8", "--coils", "1", "--trajectory", "cartesian"}).code, 0);
  for (const std::string name : {"o.png", "o.nii.gz", "o.dcm"}) {
    const std::string output = (folder / name).string();
    for (const std::string verb : {"recon", "send"}) {
      const auto result = command({verb, scan, "-c", "cartesian_plain", "-o", output});
      EXPECT_EQ(result.code, 2);
      EXPECT_NE(result.err.find("say -o o.h5, then `echotrain export o.h5 --"), std::string::npos) << result.err;
    }
    EXPECT_FALSE(std::filesystem::exists(output));
  }
}

TEST(CommandLine, PipelineIsConfig) {
  const TemporaryFolder folder;
  const std::string scan = (folder / "scan.h5").string(), out = (folder / "out.h5").string();
  ASSERT_EQ(command({"simulate", "-o", scan, "--matrix", "8", "--coils", "1", "--trajectory", "cartesian"}).code, 0);
  EXPECT_EQ(command({"recon", scan, "--pipeline", "cartesian_plain", "-o", out}).code, 0);
  EXPECT_EQ(protocol::DatasetReader(out).image_series().size(), 1u);
}

// The suggestion is tried: it must take the scan and give an image.
TEST(CommandLine, InfoEndsWithAPipelineThatTakesTheScan) {
  const TemporaryFolder folder;
  const std::string scan = (folder / "scan.h5").string(), out = (folder / "out.h5").string();
  using Words = std::vector<std::string>;
  const std::vector<std::pair<Words, std::string>> scans = {{{"cartesian"}, "cartesian_2d"},
                                                            {{"epi"}, "epi_2d"},
                                                            {{"radial", "--readouts", "13"}, "radial_2d"},
                                                            {{"golden_radial", "--readouts", "13"}, "radial_2d"},
                                                            {{"spiral", "--readouts", "4"}, "spiral_2d"},
                                                            {{"kooshball", "--readouts", "100"}, "kooshball_3d"},
                                                            {{"stack_of_stars", "--readouts", "13"}, "stack_of_stars"}};
  for (const auto& [trajectory, pipeline] : scans) {
    Words words = {"simulate", "-o", scan, "--matrix", "8", "--coils", "2", "--trajectory"};
    words.insert(words.end(), trajectory.begin(), trajectory.end());
    ASSERT_EQ(command(words).code, 0) << trajectory.front() << command(words).err;
    const auto told = command({"info", scan});
    EXPECT_TRUE(told.out.ends_with("\ntry: -c " + pipeline + "\n")) << told.out;
    const auto done = command({"recon", scan, "-c", pipeline, "-o", out, "--backend", "cpu"});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(protocol::DatasetReader(out).image_series().size(), 1u) << pipeline;
  }
}

TEST(CommandLine, InfoNamesWhatAFileHolds) {
  const TemporaryFolder folder;
  const std::string file = (folder / "scan.h5").string();
  ASSERT_EQ(command({"simulate", "-o", file, "--matrix", "8", "--coils", "3", "--trajectory", "radial", "--readouts",
                     "5", "--samples", "16", "--noise", "1", "--noise-scan"})
                .code,
            0);
  const auto result = command({"info", file});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const std::string fact :
       {"group dataset", "radial", "8 x 8 x 1 voxels, 256 x 256 x 5 mm", "receiver channels: 3", "readouts: 37",
        "imaging: 5", "noise: 32", "3 channels x 16 samples", "trajectory 0: -0.5 ..", "LAST_IN_MEASUREMENT"}) {
    EXPECT_NE(result.out.find(fact), std::string::npos) << fact << "\n" << result.out;
  }
}

TEST(CommandLine, InfoNamesTheMeasurementAndWhatItDependsOn) {
  const TemporaryFolder folder;
  const std::string file = (folder / "scan.h5").string();
  const std::string space =
      "<matrixSize><x>8</x><y>8</y><z>1</z></matrixSize><fieldOfView_mm><x>8</x><y>8</y><z>1</z></fieldOfView_mm>";
  protocol::DatasetWriter(file).header_xml(
      "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><measurementInformation><measurementID>42_7"
      "</measurementID><patientPosition>HFS</patientPosition><measurementDependency><dependencyType>Noise</"
      "dependencyType><measurementID>42_6</measurementID>"
      "</measurementDependency></measurementInformation><experimentalConditions><H1resonanceFrequency_Hz>63870000"
      "</H1resonanceFrequency_Hz></experimentalConditions><encoding><encodedSpace>" +
      space + "</encodedSpace><reconSpace>" + space +
      "</reconSpace><encodingLimits/><trajectory>cartesian</trajectory><parallelImaging><accelerationFactor>"
      "<kspace_encoding_step_1>3</kspace_encoding_step_1><kspace_encoding_step_2>1</kspace_encoding_step_2>"
      "</accelerationFactor><calibrationMode>embedded</calibrationMode></parallelImaging></encoding></ismrmrdHeader>");
  const auto result = command({"info", file});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const std::string fact :
       {"measurement: 42_7\n", "noise scan: 42_6\n", "acceleration 3 x 1, calibration embedded"}) {
    EXPECT_NE(result.out.find(fact), std::string::npos) << fact << "\n" << result.out;
  }
}

TEST(CommandLine, ARefusedReconLeavesAnEarlierOutputAlone) {
  const TemporaryFolder folder;
  const std::string scan = (folder / "scan.h5").string(), out = (folder / "out.h5").string(),
                    stage = (folder / "stage.h5").string();
  ASSERT_EQ(
      command({"simulate", "-o", scan, "--matrix", "8", "--coils", "1", "--trajectory", "cartesian", "--no-truth"})
          .code,
      0);
  ASSERT_EQ(command({"recon", scan, "-c", "cartesian_plain", "-o", out, "--save-after", "fft", stage}).code, 0);
  const auto bytes = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string images = bytes(out), arrays = bytes(stage);
  ASSERT_FALSE(images.empty() || arrays.empty());
  const std::vector<std::string> again = {"recon", scan, "-o", out, "--save-after", "fft", stage};
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"-c", "radial_2d"},  // another trajectory
                                             {"-c", "cartesian_plain", "--save-after", "gird", out},  // no such gadget
                                             {"-c", "cartesian_plain", "--truth"}}) {  // the scan has none
    std::vector<std::string> arguments = again;
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_NE(command(arguments).code, 0) << more.back();
    EXPECT_TRUE(bytes(out) == images && bytes(stage) == arrays) << more.back();
  }
}

}  // namespace
}  // namespace echotrain::client
