// The loader accepts some texts, and says where and why it refuses the rest.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "config/branch_spec.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::testing {
namespace {

using ::testing::Test;

/// The ConfigError's text that checking `text` gives, or empty when it is accepted.
std::string refusal(const std::string& text) {
  try {
    PipelinePlan::check(config::read_pipeline(text, "p.yaml"));
  } catch (const config::ConfigError& error) {
    EXPECT_GT(error.mark().line, 0) << error.what();
    EXPECT_GT(error.mark().column, 0) << error.what();
    EXPECT_EQ(std::string(error.what()).rfind(error.mark().text() + ": ", 0), 0u) << error.what();
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<config::PipelineSpec> shipped() { return config::PipelineLibrary({shipped_pipelines()}).all(); }

/// Those whose chains have no branches.
std::vector<config::PipelineSpec> shipped_chains() {
  std::vector<config::PipelineSpec> chains = shipped();
  std::erase_if(chains,
                [](const auto& spec) { return config::gadgets_in(spec.gadgets).size() != spec.gadgets.size(); });
  return chains;
}

/// Empty when the gadgets of `spec` in this order are a pipeline.
std::string refusal(config::PipelineSpec spec, const std::vector<std::size_t>& order) {
  std::vector<config::GadgetSpec> gadgets;
  for (std::size_t i : order) gadgets.push_back(spec.gadgets[i]);
  spec.gadgets = gadgets;
  try {
    PipelinePlan::check(std::move(spec));
  } catch (const config::ConfigError& error) {
    EXPECT_GT(error.mark().line, 0) << error.what();
    EXPECT_GT(error.mark().column, 0) << error.what();
    return error.what();
  }
  return "";
}

TEST(LoaderTest, EveryShippedPipelineLoads) {
  std::set<std::string> names, files;
  for (const auto& spec : shipped()) {
    names.insert(spec.name);
    EXPECT_NO_THROW(PipelinePlan::check(spec)) << spec.name;
  }
  for (const auto& file : std::filesystem::directory_iterator(shipped_pipelines())) files.insert(file.path().stem());
  EXPECT_EQ(names, files);  // each is named like its file
  EXPECT_GE(names.size(), 18u);
}

/// True if a gadget gives the type that it takes, so that a chain fits together without it.
bool keeps_type(const std::string& name) {
  const std::vector<GadgetForm>& forms = Registry::builtin().find(name)->forms;
  return std::any_of(forms.begin(), forms.end(), [](const GadgetForm& form) { return form.takes == form.gives; });
}

/// What the gadgets of `spec` make in this order, or nothing where one has no form for what reaches it. A pipeline of
/// readouts may take the messages, too, one of images complex images of coils.
std::optional<ItemType> given(const config::PipelineSpec& spec, const std::vector<std::size_t>& order) {
  std::set<ItemType> types = {ItemType::readouts, ItemType::raw_batch};
  if (spec.input == config::Input::images) types = {ItemType::image, ItemType::coil_images};
  for (std::size_t i : order) {
    std::set<ItemType> next;
    for (const GadgetForm& form : Registry::builtin().find(spec.gadgets[i].name)->forms)
      if (types.contains(form.takes)) next.insert(form.gives);
    types = std::move(next);
  }
  return types.empty() ? std::nullopt : std::optional(*types.begin());
}

// All orders of up to six gadgets; of more, of which there are up to millions, 720 that are drawn.
TEST(LoaderTest, OtherOrdersOfAShippedPipelineAreRefused) {
  std::mt19937 random(1);
  for (const auto& spec : shipped_chains()) {
    std::vector<std::size_t> order(spec.gadgets.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto images = given(spec, order);
    ASSERT_TRUE(images.has_value()) << spec.name;
    const bool all = order.size() <= 6;
    int orders = 0;
    while (all ? std::next_permutation(order.begin(), order.end()) : orders < 720) {
      if (!all) std::shuffle(order.begin(), order.end(), random);
      ++orders;
      std::string text;
      for (std::size_t i : order) text += spec.gadgets[i].name + " ";
      // Gadgets that take and give the same type may change places: types do not tell them apart.
      EXPECT_EQ(refusal(spec, order).empty(), given(spec, order) == images) << text;
    }
    if (all) {
      EXPECT_EQ(orders + 1, std::lround(std::tgamma(static_cast<double>(order.size()) + 1)));
    }
  }
}

TEST(LoaderTest, OnlyOptionalGadgetsMayBeLeftOut) {
  for (const auto& spec : shipped_chains())
    for (std::size_t without = 0; without < spec.gadgets.size(); ++without) {
      std::vector<std::size_t> order(spec.gadgets.size());
      std::iota(order.begin(), order.end(), 0u);
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(without));
      const std::string& name = spec.gadgets[without].name;
      const bool optional = keeps_type(name) || name == "partition_fft";  // the gadget after it takes its input, too
      EXPECT_EQ(refusal(spec, order).empty(), optional) << spec.name << " without " << name;
    }
}

TEST(LoaderTest, PlanesOfAStackAreATypeOfTheirOwn) {
  const std::string gridded = "  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image\n";
  EXPECT_EQ(refusal(yaml("  - noise_adjust\n  - partition_fft\n  - radial_trajectory\n" + gridded)), "");
  EXPECT_EQ(refusal(yaml("  - radial_trajectory\n  - partition_fft\n" + gridded)), "");
  std::string text = refusal(yaml("  - partition_fft\n  - noise_adjust\n" + gridded));
  EXPECT_TRUE(has(text, "'noise_adjust' takes Readouts, but 'partition_fft' before it gives PlaneReadouts")) << text;
  text = refusal(yaml("  - partition_fft\n  - partition_fft\n" + gridded));
  EXPECT_TRUE(has(text, "'partition_fft' takes Readouts, but 'partition_fft' before it gives PlaneReadouts")) << text;
  text = refusal(yaml("  - partition_fft\n  - density_compensation\n  - fhd\n  - pcg\n  - image\n"));
  EXPECT_TRUE(has(text, "'fhd' takes Samples, but 'density_compensation' before it gives PlaneSamples")) << text;
}

TEST(LoaderTest, AnUnknownGadgetGetsTheNearestName) {
  const std::string text = refusal(yaml("  - noise_adjust\n  - griding\n"));
  EXPECT_TRUE(has(text, "p.yaml:6:5: ")) << text;
  EXPECT_TRUE(has(text, "did you mean 'gridding'?")) << text;
  EXPECT_TRUE(has(refusal(yaml("  - zzzzzzzzz\n")), "--list-gadgets"));
}

TEST(LoaderTest, AMissingLinkIsNamed) {
  const std::string text = refusal(yaml("  - density_compensation\n  - fft\n  - image\n"));
  EXPECT_TRUE(has(text, "p.yaml:6:5: ")) << text;
  EXPECT_TRUE(
      has(text, "'fft' takes KSpace or Grid, but 'density_compensation' before it gives Samples; put 'gridding'"))
      << text;
  EXPECT_TRUE(has(refusal(yaml("  - fft\n")), "p.yaml:5:5: a pipeline begins with readouts"));
  EXPECT_TRUE(has(refusal(yaml("  - cartesian_kspace\n  - fft\n")), "ends with CoilImages"));
}

TEST(LoaderTest, ParametersAreChecked) {
  const auto gridding = [](const std::string& parameters) {
    return refusal(
        yaml("  - density_compensation\n  - gridding: {" + parameters + "}\n  - fft\n  - deapodization\n  - image\n"));
  };
  EXPECT_EQ(gridding("kernel_width: 8, oversampling: 1.25"), "");
  for (const std::string wrong :
       {"kernel_widht: 5", "kernel_width: five", "kernel_width: 9", "kernel_width: 1", "kernel_width: 5.5",
        "oversampling: 1.2", "oversampling: 2.1", "oversampling: .nan", "oversampling: [1.5]", "dimensions: 4"})
    EXPECT_TRUE(has(gridding(wrong), "p.yaml:6:")) << wrong << ": " << gridding(wrong);
  EXPECT_TRUE(has(gridding("kernel_widht: 5"), "kernel_width")) << gridding("kernel_widht: 5");
  EXPECT_TRUE(has(gridding("kernel_width: 9"), "8")) << gridding("kernel_width: 9");
  const std::string method = refusal(yaml("  - density_compensation: {method: rampp}\n"));
  EXPECT_TRUE(has(method, "p.yaml:5:") && has(method, "ramp")) << method;
  EXPECT_NE(refusal(yaml("  - deapodization: {x: 1}\n")), "");
}

TEST(LoaderTest, Uint16HoldsMagnitudesOnly) {
  for (const std::string component : {"complex", "phase", "real", "imag", "magnitude"}) {
    const std::string text =
        refusal(yaml("  - cartesian_kspace\n  - fft\n  - image: {type: uint16, component: " + component + "}\n"));
    if (component == "magnitude")
      EXPECT_EQ(text, "");
    else
      EXPECT_TRUE(has(text, "p.yaml:7:5: 'image': type uint16")) << text;
  }
}

TEST(LoaderTest, ExplainShowsEveryParameterAndForm) {
  const Registry& registry = Registry::builtin();
  EXPECT_GE(registry.names().size(), 26u);
  for (const auto& name : registry.names()) {
    const std::string text = registry.explain(name);
    const GadgetEntry& entry = *registry.find(name);
    EXPECT_TRUE(has(text, entry.summary));
    for (const auto& p : entry.parameters) {
      EXPECT_TRUE(has(text, p.name + ": " + p.type())) << text;
      EXPECT_TRUE(has(text, p.help)) << text;
      EXPECT_TRUE(has(text, "default " + p.fallback)) << text;
    }
    for (const auto& form : entry.forms)
      EXPECT_TRUE(has(text, fmt::format("{} -> {}", to_string(form.takes), to_string(form.gives)))) << text;
  }
  EXPECT_TRUE(has(registry.explain("image"), "scale: number 1e-12 .. 1e+12, default 1")) << registry.explain("image");
  EXPECT_TRUE(has(registry.explain("gridding"), "kernel_width: integer 2 .. 8 grid cells, default 5"));
  EXPECT_TRUE(has(registry.explain("fft"), "Grid -> OversampledImages"));
  EXPECT_THROW(registry.explain("nothing"), std::out_of_range);
}

TEST(LoaderTest, DescribeFollowsTheTypes) {
  const auto plan = PipelinePlan::check(config::read_pipeline(
      yaml("  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image\n"), "p.yaml"));
  EXPECT_EQ(plan->describe(),
            "density_compensation: Readouts -> Samples\ngridding: Samples -> Grid\nfft: Grid -> OversampledImages\n"
            "deapodization: OversampledImages -> CoilImages\nimage: CoilImages -> Image\nas one: gridding, fft, "
            "deapodization\n");
}

TEST(LoaderTest, BackendsAreNeverExchangedSilently) {
  using config::BackendChoice;
  config::PipelineSpec spec;
  spec.name = "p";
  const bool gpu = numerics::available(Backend::cuda);
  const Backend best = gpu ? Backend::cuda : Backend::cpu;
  EXPECT_EQ(choose_backend(spec, BackendChoice::automatic), best);
  EXPECT_EQ(choose_backend(spec, BackendChoice::cpu), Backend::cpu);
  spec.backend = BackendChoice::cpu;
  EXPECT_EQ(choose_backend(spec, BackendChoice::cuda), Backend::cpu);  // the pipeline's own choice wins
  if (gpu) GTEST_SKIP() << "a GPU works here: an unavailable one cannot be tried";
  spec.backend = BackendChoice::cuda;
  for (auto server : {BackendChoice::automatic, BackendChoice::cpu, BackendChoice::cuda})
    EXPECT_THROW(choose_backend(spec, server), ResourceError);
  spec.backend = BackendChoice::automatic;
  EXPECT_THROW(choose_backend(spec, BackendChoice::cuda), ResourceError);
}

}  // namespace
}  // namespace echotrain::testing
