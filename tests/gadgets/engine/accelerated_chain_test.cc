// The header's R decides which chain of a pipeline a scan goes through.
#include <gmock/gmock.h>

#include "gadgets/engine/ranked_pipeline.h"
#include "tests/gadgets/encoding/parallel_scene.h"
#include "tests/support/sources.h"
#include "tests/support/thread_ranks.h"

namespace echotrain::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kPlainChain =
    "  - cartesian_kspace: {calibration: none}\n  - fft\n  - coil_combine: {method: rss}\n  - image\n";
const std::string kOtherChain = "  - cartesian_kspace\n  - grappa: {otherwise: transform}\n  - image\n";
const std::string kBothChains = yaml(kPlainChain + "accelerated:\n" + kOtherChain);
constexpr const char* kChosen = "takes its chain for accelerated scans (cartesian_kspace, grappa, image)";

std::vector<float> image_of(const Outcome& out) {
  EXPECT_EQ(out.images.size(), 1u);
  return out.images.empty() ? std::vector<float>{} : pixels<float>(out.images[0]);
}

using AcceleratedChainTest = OnEachBackend;

TEST_P(AcceleratedChainTest, TheHeaderChooses) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving all, left{.ry = 2, .band = 12, .separate = true};
  const auto plain = run(kBothChains, scene.header_of(all), scene.scan(all), here());
  EXPECT_EQ(image_of(plain), image_of(run(yaml(kPlainChain), scene.header_of(all), scene.scan(all), here())));
  EXPECT_EQ(plain.said(protocol::Level::info, "takes its chain"), 0);
  const auto accelerated = run(kBothChains, scene.header_of(left), scene.scan(left), here());
  EXPECT_EQ(image_of(accelerated), image_of(run(yaml(kOtherChain), scene.header_of(left), scene.scan(left), here())));
  EXPECT_EQ(accelerated.said(protocol::Level::info, std::string("R=2x1: pipeline 'test' ") + kChosen), 1);
  EXPECT_LT(nrmse(image_of(accelerated), scene.root_sum_of_squares()), 0.05);
  const auto aliased = run(yaml(kPlainChain), scene.header_of(left), scene.scan(left), here());
  EXPECT_GT(nrmse(image_of(aliased), scene.root_sum_of_squares()), 0.3);
  EXPECT_EQ(aliased.warned("image will alias"), 1);
  // A plane has nothing to leave out along z.
  HeaderSpec flat{.encoded = {8, 8, 1}};
  flat.parallel =
      "<accelerationFactor><kspace_encoding_step_1>1</kspace_encoding_step_1><kspace_encoding_step_2>2"
      "</kspace_encoding_step_2></accelerationFactor>";
  EXPECT_EQ(run(kBothChains, header(flat), {}, here()).said(protocol::Level::info, "takes its chain"), 0);
}

TEST_P(AcceleratedChainTest, FramesThatCannotBeFilledAliasWithAWarning) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving left{.ry = 2, .separate = true};
  const auto chosen = run(kBothChains, scene.header_of(left), scene.scan(left), here());
  const auto plain = run(yaml(kPlainChain), scene.header_of(left), scene.scan(left), here());
  EXPECT_LT(nrmse(image_of(chosen), image_of(plain)), 1e-6);
  EXPECT_EQ(chosen.warned("there are no reference lines; send some (flags 20, 21)"), 1);
  EXPECT_EQ(chosen.warned("their images alias"), 1);
  // R that no lattice has ends no scan.
  auto many = scene.header_of(left);
  many.encodings[0].acceleration = {1000, 1};
  const auto odd = run(kBothChains, many, scene.scan(left), here());
  EXPECT_LT(nrmse(image_of(odd), image_of(plain)), 1e-6);
  EXPECT_EQ(odd.warned("R=1000x1 is announced for a matrix of 32 lines"), 1);
}

TEST_P(AcceleratedChainTest, EachChainMayBeTapped) {
  const ParallelScene scene({32, 32, 1}, 4);
  for (const Leaving& left : {Leaving{}, Leaving{.ry = 2, .band = 12}})
    for (const std::string name : {"grappa", "fft", "cartesian_kspace"}) {
      int items = 0;
      RunOptions options = here();
      options.tap = name;
      options.on_item = [&](const Item& item, numerics::Context&) {
        ++items;
        EXPECT_EQ(std::holds_alternative<KSpace>(item), name == "cartesian_kspace");
      };
      const auto out = run(kBothChains, scene.header_of(left), scene.scan(left), options);
      EXPECT_EQ(out.images.size(), 1u);
      const bool there = name == "cartesian_kspace" || (name == "grappa") == (left.ry > 1);
      EXPECT_EQ(items, there ? 1 : 0) << name << left.ry;
    }
}
ECHOTRAIN_ON_BACKENDS(AcceleratedChainTest);

std::string refusal_of(const std::string& accelerated) {
  try {
    PipelinePlan::check(config::read_pipeline(yaml(kPlainChain + "accelerated:\n" + accelerated), "p.yaml"));
  } catch (const config::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(AcceleratedChain, IsCheckedAtLoad) {
  EXPECT_EQ(refusal_of(kOtherChain), "");
  EXPECT_THAT(refusal_of("  - cartesian_kspace\n  - grapa\n  - image\n"),
              AllOf(StartsWith("p.yaml:11:5: "), HasSubstr("did you mean 'grappa'?")));
  EXPECT_THAT(refusal_of("  - cartesian_kspace\n  - image\n"),
              AllOf(StartsWith("p.yaml:11:5: "), HasSubstr("'image' takes")));
  EXPECT_THAT(refusal_of("  - cartesian_kspace\n  - grappa: {kernel: 3}\n  - image\n"), StartsWith("p.yaml:11:14: "));
  EXPECT_THAT(refusal_of("  - cartesian_kspace\n  - grappa\n"), HasSubstr("the pipeline ends with CoilImages"));
  EXPECT_THAT(refusal_of("  - passthrough\n"),
              AllOf(StartsWith("p.yaml:10:5: "), HasSubstr("both must take the same")));
}

TEST(AcceleratedChain, IsShown) {
  const auto plan = PipelinePlan::check(config::read_pipeline(kBothChains, "p.yaml"));
  EXPECT_THAT(plan->describe(), AllOf(StartsWith("cartesian_kspace: Readouts -> KSpace\nfft: "),
                                      HasSubstr("\naccelerated scans (R > 1):\n  cartesian_kspace: Readouts -> KSpace\n"
                                                "  grappa: KSpace -> CoilImages\n")));
  EXPECT_THAT(PipelinePlan::check(config::read_pipeline(yaml(kPlainChain), "p.yaml"))->describe(),
              Not(HasSubstr("accelerated")));
}

TEST(AcceleratedChain, RanksChooseAlike) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving left{.ry = 2, .band = 12};
  const auto scan = [&](Followers* followers) {
    std::vector<protocol::Image> images;
    numerics::Context compute(Backend::cpu, test_resources());
    PipelineSink sink;
    sink.image = [&](protocol::Image&& image, const ImageTimes&) { images.push_back(std::move(image)); };
    sink.text = [](protocol::Level, const std::string&) {};
    RankedPipeline pipeline(followers, PipelinePlan::check(config::read_pipeline(kBothChains, "p.yaml")), compute,
                            std::move(sink));
    int items = 0;
    EXPECT_TRUE(pipeline.tap("grappa", [&](const Item&) { ++items; }));
    pipeline.start(scene.header_of(left));
    pipeline.push(scene.scan(left));
    pipeline.finish(End::complete);
    pipeline.wait();
    EXPECT_EQ(items, 1);
    return images;
  };
  const auto alone = scan(nullptr);
  ASSERT_EQ(alone.size(), 1u);
  const auto errors = errors_of_ranks(2, [&](ThreadRanks& ranks) {
    if (ranks.rank() > 0) return follow(ranks, test_resources());
    Followers followers(ranks);
    const auto images = scan(&followers);
    EXPECT_TRUE(followers.dismiss());
    ASSERT_EQ(images.size(), 1u);
    EXPECT_EQ(pixels<float>(images[0]), pixels<float>(alone[0]));
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

// The chain by which cartesian_2d and its kin treat accelerated scans differs from cartesian_grappa in what follows the
// images only, and in that hearts have their lines sorted and filled before they are collected.
TEST(AcceleratedChain, OfShippedPipelinesIsThatOfCartesianGrappa) {
  const config::PipelineLibrary library({shipped_pipelines()});
  const auto& grappa = library.find("cartesian_grappa")->gadgets;
  for (const std::string name : {"2d", "plain", "3d", "cine", "cine_ecg", "display", "edges"}) {
    const config::PipelineSpec& spec = *library.find("cartesian_" + name);
    std::vector<config::GadgetSpec> accelerated = spec.accelerated;
    std::erase_if(accelerated, [](const auto& g) { return g.name == "cardiac_binning"; });
    const auto of_grappa = std::find_if(grappa.begin(), grappa.end(), [](const auto& g) { return g.name == "grappa"; });
    ASSERT_GT(accelerated.size(), static_cast<std::size_t>(of_grappa - grappa.begin())) << name;
    for (std::size_t i = 0; i <= static_cast<std::size_t>(of_grappa - grappa.begin()); ++i) {
      EXPECT_EQ(accelerated[i].name, grappa[i].name) << name;
      if (grappa[i].name == "coil_compression") {
        EXPECT_EQ(accelerated[i].parameters.get("channels").as_int(), grappa[i].parameters.get("channels").as_int());
      }
    }
    std::vector<std::string> plain, other;  // after the images are made
    for (const auto& gadget : spec.gadgets) plain.push_back(gadget.name);
    for (const auto& gadget : spec.accelerated) other.push_back(gadget.name);
    plain.erase(plain.begin(), std::find(plain.begin(), plain.end(), "fft") + 1);
    std::erase(plain, "coil_combine");  // partial Fourier is completed before, coil by coil
    other.erase(other.begin(), std::find(other.begin(), other.end(), "grappa") + 1);
    EXPECT_EQ(plain, other) << name;
  }
}

}  // namespace
}  // namespace echotrain::testing
