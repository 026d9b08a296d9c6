// Gadgetron's configurations as pipelines: gadgets and properties that go over, what is told of the others, and bounds.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "config/foreign_names.h"
#include "config/yaml_reader.h"
#include "gadgets/engine/gadgetron/gadgetron_gadgets.h"
#include "gadgets/engine/gadgetron/gadgetron_pipeline.h"
#include "gadgets/engine/pipeline.h"
#include "tests/support/sources.h"

namespace echotrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Writes the XML of classes with their properties, "CoilReductionGadget:coils_out=8", in one of Gadgetron's two forms.
std::string xml_of(const std::string& classes, bool second_form = false) {
  std::string text;
  std::istringstream words(classes);
  for (std::string word; words >> word;) {
    std::istringstream parts(word);
    std::string name, property;
    std::getline(parts, name, ':');
    text += fmt::format("<gadget><name>{0}</name><dll>a</dll><classname>{0}</classname>", name);
    while (std::getline(parts, property, ':')) {
      const std::string key = property.substr(0, property.find('=')), value = property.substr(key.size() + 1);
      text += second_form ? fmt::format("<property name=\"{}\" value=\"{}\"/>", key, value)
                          : fmt::format("<property><name>{}</name><value>{}</value></property>", key, value);
    }
    text += "</gadget>\n";
  }
  return second_form
             ? "<?xml version=\"1.0\"?><configuration><version>2</version><stream>" + text + "</stream></configuration>"
             : "<gadgetronStreamConfiguration xmlns=\"http://gadgetron.sf.net/gadgetron\">\n"
               "<reader><slot>1008</slot><classname>GadgetIsmrmrdAcquisitionMessageReader</classname></reader>" +
                   text + "</gadgetronStreamConfiguration>";
}

GadgetronPipeline made_of(const std::string& classes) {
  const auto made = from_gadgetron(xml_of(classes), "a.xml");
  if (!made) throw std::runtime_error(made.error().message);
  return *made;
}

std::string error_of(const std::string& xml) {
  const auto made = from_gadgetron(xml, "a.xml");
  return made ? "no error" : made.error().message;
}

constexpr const char* kPreparing =
    "NoiseAdjustGadget AsymmetricEchoAdjustROGadget RemoveROOversamplingGadget AcquisitionAccumulateTriggerGadget "
    "BucketToBufferGadget GenericReconCartesianReferencePrepGadget GenericReconEigenChannelGadget ";
constexpr const char* kFinishing =
    " GenericReconKSpaceFilteringGadget:filterRO=Gaussian GenericReconFieldOfViewAdjustmentGadget "
    "GenericReconImageArrayScalingGadget ImageArraySplitGadget ComplexToFloatGadget FloatToUShortGadget "
    "ImageFinishGadget";
constexpr const char* kReducing = "NoiseAdjustGadget PCACoilGadget CoilReductionGadget:coils_out=16 ";
constexpr const char* kShowing = " ExtractGadget AutoScaleGadget FloatToUShortGadget ImageFinishGadget";

/// The classes are those of the configurations in Gadgetron's distribution, the chain what the pipeline must have.
TEST(Gadgetron, KnownConfigurationsBecomePipelinesThatPassTheirChecks) {
  struct Case {
    const char* file;
    std::string classes;
    const char* chain;
  };
  const std::string before = kPreparing, after = kFinishing, coils = kReducing, end = kShowing;
  const Case cases[] = {
      {"default.xml",
       "RemoveROOversamplingGadget AcquisitionAccumulateTriggerGadget BucketToBufferGadget SimpleReconGadget "
       "ImageArraySplitGadget ExtractGadget ImageFinishGadget",
       "cartesian_kspace fft coil_combine image"},
      {"default_optimized.xml", coils + "BucketToBufferGadget SimpleReconGadget ImageArraySplitGadget ExtractGadget",
       "noise_adjust coil_compression cartesian_kspace fft coil_combine image"},
      {"Generic_Cartesian_FFT.xml",
       before + "GenericReconCartesianFFTGadget GenericReconPartialFourierHandlingFilterGadget" + after,
       "noise_adjust coil_compression cartesian_kspace fft partial_fourier filter coil_combine scale image"},
      {"Generic_Cartesian_Grappa.xml",
       before +
           "GenericReconCartesianGrappaGadget:send_out_gfactor=false GenericReconPartialFourierHandlingPOCSGadget:"
           "partial_fourier_POCS_iters=6" +
           after,
       "external_calibration noise_adjust coil_compression cartesian_kspace grappa partial_fourier filter coil_combine "
       "scale image"},
      {"Generic_Cartesian_Grappa_SNR.xml",
       before + "GenericReconCartesianGrappaGadget GenericReconNoiseStdMapComputingGadget" + after,
       "external_calibration noise_adjust coil_compression cartesian_kspace grappa filter scale image"},
      {"Generic_Cartesian_Spirit.xml", before + "GenericReconCartesianSpiritGadget" + after,
       "external_calibration noise_adjust coil_compression cartesian_kspace encoding coil_maps pcg filter scale image"},
      {"Generic_Cartesian_NonLinear_Spirit_RealTimeCine.xml",
       before + "GenericReconCartesianNonLinearSpirit2DTGadget PhysioInterpolationGadget" + after,
       "external_calibration noise_adjust coil_compression cartesian_kspace encoding coil_maps regularised filter "
       "scale "
       "image"},
      {"grappa.xml", coils + "SliceAccumulator AcquisitionFanout ImageAccumulator gpuWeightsCalculator Unmixing" + end,
       "external_calibration noise_adjust coil_compression cartesian_kspace grappa scale image"},
      {"epi.xml",
       "NoiseAdjustGadget EPIReconXGadget EPICorrGadget FFTXGadget BucketToBufferGadget FFTGadget CombineGadget" + end,
       "ramp_regrid epi_phase_correction noise_adjust cartesian_kspace fft coil_combine scale image"},
      {"epi_gtplus_grappa.xml", "NoiseAdjustGadget EPIReconXGadget EPICorrGadget FFTXGadget GtPlusRecon2DTGadget" + end,
       "ramp_regrid epi_phase_correction external_calibration noise_adjust cartesian_kspace grappa coil_combine scale "
       "image"},
      {"Generic_Spiral.xml", coils + "SpiralToGenericGadget GriddingReconGadget ImageArraySplitGadget ExtractGadget",
       "noise_adjust coil_compression density_compensation gridding fft deapodization coil_combine image"},
      {"NFFT2D.xml", "NFFT2DGadget ExtractGadget ImageFinishGadget",
       "density_compensation gridding fft deapodization coil_combine image"},
      {"golden_radial_mode3_gpusense_cg.xml",
       coils +
           "gpuRadialSensePrepGadget:mode=3:profiles_per_frame=32 gpuCgSenseGadget:number_of_iterations=40 "
           "gpuCgSenseGadget:number_of_iterations=40" +
           end,
       "noise_adjust coil_compression radial_trajectory density_compensation fhd coil_maps pcg scale image"},
      {"golden_radial_mode2_gpusense_nlcg.xml", coils + "gpuRadialSensePrepGadget:mode=2 gpuNlcgSenseGadget" + end,
       "noise_adjust coil_compression radial_trajectory density_compensation fhd coil_maps regularised scale image"},
      {"generic_gpu_ktsense_singleshot.xml", coils + "gpuGenericSensePrepGadget gpuCgKtSenseGadget" + end,
       "noise_adjust coil_compression density_compensation fhd coil_maps regularised scale image"},
      {"deblurring_recon_acctrig.xml", "NoiseAdjustGadget BucketToBufferGadget gpuSpiralDeblurGadget ExtractGadget",
       "noise_adjust density_compensation off_resonance coil_combine image"},
      {"CMR_2DT_RTCine_KspaceBinning.xml",
       before + "CmrCartesianKSpaceBinningCineGadget:number_of_output_phases=30:time_tick=2.5" + after,
       "noise_adjust coil_compression cardiac_binning cartesian_kspace fft filter coil_combine scale image"},
      {"stream_float_to_short.xml", "FloatToUShortGadget", "image"},
  };
  for (const Case& each : cases)
    for (const bool second_form : {false, true}) {
      SCOPED_TRACE(each.file);
      const auto made = from_gadgetron(xml_of(each.classes, second_form), each.file);
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_TRUE(made->missing.empty());
      const config::PipelineSpec spec = config::read_pipeline(made->yaml, "made.yaml");
      std::string chain;
      for (const auto& gadget : spec.gadgets) chain += (chain.empty() ? "" : " ") + gadget.name;
      EXPECT_EQ(chain, each.chain);
      EXPECT_THAT(spec.aliases, ElementsAre(each.file));
      EXPECT_NO_THROW(PipelinePlan::check(spec)) << made->yaml;
    }
}

TEST(Gadgetron, PropertiesGoOver) {
  EXPECT_THAT(made_of(std::string("CoilReductionGadget:coils_out=8 SimpleReconGadget") + kShowing).yaml,
              AllOf(HasSubstr("coil_compression: {channels: 8}"), HasSubstr("scale: {percentile: 99, to: 2048}"),
                    HasSubstr("image: {component: magnitude, type: uint16}")));
  EXPECT_THAT(made_of("gpuRadialSensePrepGadget:mode=3:profiles_per_frame=32 gpuCgSenseGadget:number_of_iterations=40 "
                      "ExtractGadget:extract_mask=9")
                  .yaml,
              AllOf(HasSubstr("frame: {readouts: 32}"), HasSubstr("{order: tiny_golden_angle, tiny_number: 2}"),
                    HasSubstr("pcg: {iterations: 40,"), HasSubstr("component: magnitude_and_phase")));
  EXPECT_THAT(made_of("SimpleReconGadget").yaml, HasSubstr("component: complex"));
  EXPECT_THAT(made_of("SimpleReconGadget ExtractGadget FloatToIntGadget").yaml,
              AllOf(HasSubstr("  - scale\n"), HasSubstr("type: int32")));
  EXPECT_THAT(made_of("SimpleReconGadget ExtractGadget:extract_mask=9 FloatToUShortGadget").yaml,
              AllOf(HasSubstr("{component: magnitude_and_phase, type: float}"), HasSubstr("#   image: type uint16")));
  EXPECT_THAT(made_of("SimpleReconGadget FloatToUShortGadget").yaml, HasSubstr("{type: uint16, component: magnitude}"));
  const auto filter = [](const std::string& properties) {
    return made_of("SimpleReconGadget GenericReconKSpaceFilteringGadget" + properties).yaml;
  };
  // exp(-(1.5 x)^2 / 2) is a bell of standard deviation 1 / 1.5.
  EXPECT_THAT(filter(":filterRO_sigma=1.5:filterE1_sigma=1.5:filterE2_sigma=1.5"),
              HasSubstr("filter: {shape: gaussian, sigma: 0.667}\n"));
  EXPECT_THAT(filter(":filterRO=None:filterE1=Hanning:filterE2=Hanning"),
              HasSubstr("filter: {shape: hann, axes: yz}\n"));
  EXPECT_THAT(filter(":filterRO=TaperedHanning:filterE1=None:filterE2=Gaussian"),
              AllOf(HasSubstr("filter: {shape: tukey, alpha: 0.3, axes: x}\n"), HasSubstr("filterE2=Gaussian")));
  EXPECT_THAT(filter(":filterRO=None:filterE1=None:filterE2=None"), Not(HasSubstr("- filter")));
}

TEST(Gadgetron, AReferenceIsTheOtherGadgetsValue) {
  EXPECT_THAT(made_of("CoilReductionGadget:coils_out=n@AutoScaleGadget SimpleReconGadget AutoScaleGadget:n=12").yaml,
              HasSubstr("coil_compression: {channels: 12}"));
  EXPECT_THAT(made_of("CoilReductionGadget:coils_out=n@nobody SimpleReconGadget").yaml,
              AllOf(HasSubstr("channels: 16"), HasSubstr("#   CoilReductionGadget: coils_out=n@nobody\n")));
  // Many references to one long value would take memory without bounds.
  EXPECT_THAT(
      made_of("CoilReductionGadget:a=n@AutoScaleGadget SimpleReconGadget AutoScaleGadget:n=" + std::string(257, 'b'))
          .yaml,
      HasSubstr("a=n@AutoScaleGadget\n"));
}

TEST(Gadgetron, AllStreamsAreRead) {
  const auto gadget = [](const std::string& name) { return "<gadget><classname>" + name + "</classname></gadget>"; };
  const auto parallel = [&](const std::string& branch, const std::string& one, const std::string& other) {
    return "<configuration><stream><parallel><branch><classname>" + branch + "</classname></branch><stream key=\"a\">" +
           one + "</stream><stream key=\"b\">" + other + "</stream><merge><classname>Unmixing</classname></merge>" +
           "</parallel>" + gadget("ExtractGadget") + "</stream></configuration>";
  };
  const auto grappa = from_gadgetron(
      parallel("AcquisitionFanout", gadget("ImageAccumulator"), gadget("cpuWeightsCalculator")), "a.xml");
  ASSERT_TRUE(grappa);
  EXPECT_TRUE(grappa->missing.empty());
  EXPECT_THAT(grappa->yaml, HasSubstr("- grappa"));
  const auto branches = from_gadgetron(parallel("AcquisitionFanout", "",
                                                gadget("SimpleReconGadget") +
                                                    "<parallel><branch><classname>ImageFanout"
                                                    "</classname></branch><stream>" +
                                                    gadget("ImageInverter") + "</stream></parallel>"),
                                       "a.xml");
  ASSERT_TRUE(branches);
  EXPECT_THAT(branches->missing, ElementsAre(HasSubstr("ImageFanout (branch)"), HasSubstr("stands in a branch")));
  EXPECT_THAT(branches->yaml, Not(HasSubstr("- invert_contrast")));
  const auto shared =
      from_gadgetron("<configuration><stream><puredistributed><purestream>" + gadget("SimpleReconGadget") +
                         "</purestream></puredistributed><external><execute name=\"m\" "
                         "type=\"python\"/></external></stream></configuration>",
                     "a.xml");
  ASSERT_TRUE(shared);
  EXPECT_THAT(shared->missing, ElementsAre(StartsWith("external python m (")));
}

TEST(Gadgetron, WhatIsMissingIsTold) {
  const GadgetronPipeline made =
      made_of("SimpleReconGadget FatWaterGadget:range=3 PythonGadget MyGadget IsmrmrdDumpGadget ExtractGadget");
  EXPECT_THAT(made.missing, ElementsAre("FatWaterGadget (nothing here is like it)",
                                        "PythonGadget (python, with a module written anew)", HasSubstr("MyGadget (")));
  EXPECT_THAT(made.left_out, ElementsAre(StartsWith("IsmrmrdDumpGadget (captures")));
  EXPECT_THAT(made.refusal(), AllOf(HasSubstr("FatWaterGadget"), HasSubstr("MyGadget"), Not(HasSubstr("Dump"))));
  EXPECT_THAT(made.remark(), HasSubstr("IsmrmrdDumpGadget"));
  for (const char* named : {"#   FatWaterGadget: ", "#   PythonGadget: ", "#   MyGadget: ", "#   IsmrmrdDumpGadget: "})
    EXPECT_THAT(made.yaml, HasSubstr(named));
  EXPECT_EQ(made_of("SimpleReconGadget ExtractGadget").remark(), "");
  EXPECT_EQ(made_of("SimpleReconGadget ExtractGadget").refusal(), "");
}

TEST(Gadgetron, WhatMakesNoImagesIsRefused) {
  EXPECT_THAT(error_of(xml_of("")), HasSubstr("no gadget that makes images"));
  EXPECT_THAT(error_of(xml_of("NoiseAdjustGadget")), HasSubstr("no gadget that makes images"));
  EXPECT_THAT(error_of(xml_of("CMRTGadget")), HasSubstr("CMRTGadget (nothing here is like it)"));
  EXPECT_THAT(error_of(xml_of("ImageFFTGadget ExtractGadget")), HasSubstr("ImageFFTGadget"));
}

/// Names and values of the XML stand in comments, in values that are numbers, and nowhere else.
TEST(Gadgetron, NothingInTheXmlBecomesYaml) {
  const std::string evil = "x}\n  - python: {module: os}\n# &#10;  - sobel";
  const auto made = from_gadgetron(
      "<configuration><stream><gadget><classname>SimpleReconGadget</classname></gadget><gadget><classname>"
      "CoilReductionGadget</classname><property name=\"coils_out\" value=\"8" +
          evil + "\"/><property name=\"" + evil + "\" value=\"" + evil + "\"/></gadget><gadget><classname>" + evil +
          "</classname></gadget></stream>"
          "</configuration>",
      evil + ".xml");
  ASSERT_TRUE(made);
  const config::PipelineSpec spec = config::read_pipeline(made->yaml, "made");
  ASSERT_EQ(spec.gadgets.size(), 5U) << made->yaml;
  EXPECT_TRUE(spec.aliases.empty());
  EXPECT_THAT(made->yaml, AllOf(Not(HasSubstr("\n  - python")), Not(HasSubstr("\n  - sobel"))));
}

TEST(Gadgetron, XmlHasBounds) {
  EXPECT_THAT(error_of("<html/>"), HasSubstr("none of Gadgetron's"));
  EXPECT_THAT(error_of("<configuration>"), HasSubstr("not read"));
  EXPECT_THAT(error_of("<configuration><stream></configuration>"), HasSubstr("not read"));
  EXPECT_THAT(error_of("<!DOCTYPE a [<!ENTITY b \"c\">]><configuration>&b;</configuration>"),
              HasSubstr("a document type or entity declaration"));
  std::string deep, many;
  for (int i = 0; i < 25; ++i) deep += "<stream>";
  EXPECT_THAT(error_of("<configuration>" + deep), HasSubstr("nested more than 24 deep"));
  for (int i = 0; i < 1 << 14; ++i) many += "<a/>";
  EXPECT_THAT(error_of("<configuration>" + many + "</configuration>"), HasSubstr("more than 16384 tags"));
  EXPECT_THAT(error_of("<configuration>" + std::string(256 << 10, ' ') + "</configuration>"),
              HasSubstr("bytes, more than 262144"));
  // In UTF-16 these tags are nested too deep, and hidden from the check of bytes by the one that looks like a quote.
  std::string wide;
  for (const char c : "<configuration>" + deep) wide += {c, '\0'};
  EXPECT_THAT(error_of(wide.insert(2, "\x00\x22", 2)), HasSubstr("not read"));
  // Every beginning of a configuration is answered.
  const std::string whole = xml_of(std::string(kPreparing) + "SimpleReconGadget" + kFinishing, true);
  for (std::size_t size = 0; size < whole.size(); size += 7) EXPECT_NE(error_of(whole.substr(0, size)), "no error");
}

TEST(Gadgetron, TheTableNamesGadgetsThatThereAre) {
  for (const GadgetronGadgets& each : gadgetron_gadgets()) {
    const config::Node map = config::read_yaml(fmt::format("{{{}}}", each.gadgets), "table");
    for (const auto& entry : map.as_map()) EXPECT_NE(Registry::builtin().find(entry.key), nullptr) << entry.key;
    EXPECT_EQ(find_gadgetron(config::expanded(each.classes).front()), &each) << each.classes;
  }
  EXPECT_EQ(find_gadgetron("Nobody"), nullptr);
}

TEST(Gadgetron, ThePageHasTheTable) {
  std::string table = "|gadget|ours|\n|---|---|\n";
  for (const GadgetronGadgets& each : gadgetron_gadgets()) {
    std::string classes(each.classes);
    for (std::size_t at = 0; (at = classes.find(' ', at)) != std::string::npos; at += 4) classes.replace(at, 1, "`, `");
    table += fmt::format("|`{}`|{}|\n", classes, each.ours);
  }
  const std::string page = config::read_text_file(source_path("docs/from-gadgetron.md"), 1 << 20);
  EXPECT_THAT(page, HasSubstr(table)) << "the page must have this table:\n" << table;
}

}  // namespace
}  // namespace echotrain
