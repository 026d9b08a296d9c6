// A chain plan says which trees of gadgets fit together, where and why the rest is refused, and how they are shown.
#include "gadgets/engine/chain/chain_plan.h"

#include <gmock/gmock.h>

#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/engine/ranked_pipeline.h"
#include "tests/gadgets/engine/chain/contrasts.h"
#include "tests/support/resources.h"
#include "tests/support/thread_ranks.h"

namespace echotrain::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kFlat = "  - cartesian_kspace\n  - fft\n";

std::string refusal_of_tree(const std::string& gadgets, const std::string& keys = "") {
  try {
    PipelinePlan::check(config::read_pipeline(yaml(gadgets, keys), "p.yaml"));
  } catch (const config::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ChainPlan, FollowsTypesIntoBranches) {
  for (const std::string& good : std::vector<std::string>{
           kFlat + "  - branch: {pipeline: [resize: {crop_x: 8}, image]}\n  - image\n",
           kFlat + "  - branch: {pipeline: [image]}\n",
           kFlat + "  - image\n  - branch: {pipeline: [from_messages, image]}\n",
           "  - branch: {pipeline: [cartesian_kspace, fft, image]}\n  - density_compensation\n  - gridding\n  - fft\n  "
           "- "
           "deapodization\n  - image\n",
           "  - branch: {when: {item: images}, pipeline: [image]}\n  - passthrough\n",
           "  - branch: {when: {item: images}, pipeline: [branch: {pipeline: [orient, image]}, image]}\n" + kFlat +
               "  - image\n"})
    EXPECT_EQ(refusal_of_tree(good), "") << good;
  EXPECT_EQ(refusal_of_tree("  - branch: {when: {item: images, series: 2}, pipeline: [orient, image]}\n  - image\n",
                            "input: images\n"),
            "");
}

TEST(ChainPlan, RefusesWhatDoesNotFitWhereItStands) {
  for (const auto& [gadgets, place, words] : std::vector<std::array<std::string, 3>>{
           {kFlat + "  - branch: {pipeline: [deapodization, image]}\n", "7:25",
            "'deapodization' takes OversampledImages, but the branch gets CoilImages"},
           {kFlat + "  - branch: {pipeline: [orient]}\n  - image\n", "7:25",
            "the branch ends with CoilImages, which nobody takes"},
           {kFlat + "  - branch: {pipeline: [imag]}\n", "7:25", "did you mean 'image'?"},
           {kFlat + "  - branhc: {pipeline: [image]}\n", "7:5", "did you mean 'branch'?"},
           {kFlat + "  - branch: {pipeline: [image: {tipe: float}]}\n", "7:33", "did you mean 'type'?"},
           {"  - cartesian_kspace\n  - branch: {pipeline: [fft, image]}\n  - image\n", "7:5",
            "'image' takes CoilImages, but 'cartesian_kspace' before it gives KSpace; put 'fft'"},
           {"  - branch: {pipeline: [passthrough]}\n", "5:25",
            "'passthrough' takes RawBatch, but the branch gets Readouts"},
           {"  - branch: {pipeline: [cartesian_kspace, fft, image]}\n  - passthrough\n", "6:5",
            "'passthrough' takes RawBatch, but behind a branch there are Readouts"},
           {"  - branch: {when: {item: images}, pipeline: [image]}\n", "5:5", "write 'input: images'"},
           {"  - noise_adjust\n  - branch: {when: {item: images}, pipeline: [image]}\n" + kFlat, "6:5",
            "put this branch before the first gadget"},
           {"  - branch: {pipeline: [branch: {when: {item: images}, pipeline: [image]}, noise_adjust]}\n", "5:25",
            "put this branch before the first gadget"},
           {"  - branch: {when: {item: images}, pipeline: [fft, image]}\n" + kFlat, "5:47",
            "'fft' takes KSpace or Grid, but the branch gets CoilImages"},
           {"  - branch: {when: {image_type: phase}, pipeline: [noise_adjust]}\n", "5:21", "but here are Readouts"},
           {kFlat + "  - branch: {when: {kind: noise}, pipeline: [image]}\n", "7:21",
            "'kind' tells readouts apart, but here are CoilImages"},
           {kFlat + "  - branch: {when: {series: 1}, pipeline: [image]}\n", "7:21", "'series' is known once there are"},
           {kFlat + "  - branch: {when: {item: readouts}, pipeline: [image]}\n", "7:21", "'item' asks for readouts"},
           {"  - cartesian_kspace\n  - branch: {when: {content: snr}, pipeline: [fft, image]}\n", "6:21",
            "'content' tells images apart, but here are KSpace"},
           {"  - cartesian_kspace\n  - branch: {when: {meta: {a: b}}, pipeline: [fft, image]}\n", "6:21",
            "'meta' tells images apart"},
           {"  - branch: {when: {item: images, encoding: 1}, pipeline: [image]}\n" + kFlat, "5:35",
            "'encoding' is known of images made of readouts, but here are images that a client sent"}})
    EXPECT_THAT(refusal_of_tree(gadgets), AllOf(StartsWith("p.yaml:" + place + ": "), HasSubstr(words))) << gadgets;
  EXPECT_THAT(
      refusal_of_tree("  - branch: {when: {item: readouts}, pipeline: [image]}\n  - image\n", "input: images\n"),
      AllOf(StartsWith("p.yaml:6:21: "), HasSubstr("asks for readouts")));
}

TEST(ChainPlan, BridgesWithNoGadgetThatNeedsParameters) {
  EXPECT_THAT(refusal_of_tree("  - density_compensation\n  - coil_combine\n  - image\n"),
              AllOf(HasSubstr("'coil_combine' takes CoilImages, but 'density_compensation' before it gives Samples"),
                    Not(HasSubstr("python"))));
}

TEST(ChainPlan, IsShownAsATree) {
  const auto plan = PipelinePlan::check(config::read_pipeline(
      yaml("  - branch: {when: {item: images}, pipeline: [image]}\n" + kFlat +
           "  - branch: {when: {contrast: {from: 1}}, pass_on: false, series_offset: 5, pipeline: [orient, branch: "
           "{role: reference, pipeline: [image]}, image]}\n  - branch: {pipeline: [image]}\n  - image\n"),
      "p.yaml"));
  EXPECT_EQ(plan->describe(),
            "branch: CoilImages -> series + 1000, when item is images\n"
            "  image: CoilImages -> Image\n"
            "cartesian_kspace: Readouts -> KSpace\n"
            "fft: KSpace -> CoilImages\n"
            "branch: CoilImages -> series + 5, when contrast is 1 and above; not passed on\n"
            "  orient: CoilImages -> CoilImages\n"
            "  branch: CoilImages -> role reference\n"
            "    image: CoilImages -> Image\n"
            "  image: CoilImages -> Image\n"
            "branch: CoilImages -> series + 4000\n"
            "  image: CoilImages -> Image\n"
            "image: CoilImages -> Image\n"
            "as one on the CPU: cartesian_kspace, fft\n");
}

TEST(ChainPlan, DeliveryIsWhatAllBranchesCanTake) {
  const auto of = [](const std::string& branch) {
    return PipelinePlan::check(config::read_pipeline(yaml("  - density_compensation: {method: from_data}\n" + branch +
                                                          "  - gridding\n  - fft\n  - deapodization\n  - image\n"),
                                                     "p.yaml"))
        ->delivery();
  };
  EXPECT_EQ(of(""), Delivery::windows);
  EXPECT_EQ(of("  - branch: {pipeline: [fhd, pcg, image]}\n"), Delivery::parts);
  EXPECT_EQ(of("  - branch: {pipeline: [gridding: {incremental: false}, fft, deapodization, image]}\n"),
            Delivery::frames);
  // A branch that does not see every position of a window must not get what entered since the one before.
  const std::string same = "gridding, fft, deapodization, image]}\n";
  EXPECT_EQ(of("  - branch: {pipeline: [" + same), Delivery::windows);
  EXPECT_EQ(of("  - branch: {when: {repetition: 1}, pipeline: [" + same), Delivery::parts);
}

TEST(ChainPlan, RanksRunTheWholeTree) {
  const Contrasts scene(1);
  const auto scan = [&](Followers* followers, const std::string& gadgets) {
    std::vector<protocol::Image> images;
    numerics::Context compute(Backend::cpu, test_resources());
    PipelineSink sink;
    sink.image = [&](protocol::Image&& image, const ImageTimes&) { images.push_back(std::move(image)); };
    sink.text = [](protocol::Level, const std::string&) {};
    RankedPipeline pipeline(followers, PipelinePlan::check(config::read_pipeline(yaml(gadgets), "p.yaml")), compute,
                            std::move(sink));
    pipeline.start(scene.measurement);
    pipeline.push(std::vector<Acquisition>(scene.scan));
    pipeline.finish(End::complete);
    pipeline.wait();
    return images;
  };
  const std::string tree = kFlat + "  - branch: {pipeline: [image: {component: phase}]}\n  - image\n";
  const auto alone = scan(nullptr, tree);
  ASSERT_EQ(alone.size(), 2u);
  const auto errors = errors_of_ranks(2, [&](ThreadRanks& ranks) {
    if (ranks.rank() > 0) return follow(ranks, test_resources());
    Followers followers(ranks);
    EXPECT_THAT(
        client_error([&] { scan(&followers, kFlat + "  - branch: {pipeline: [image, python: {module: a}]}\n"); }),
        HasSubstr("'python' runs in one process only"));
    EXPECT_TRUE(same_pixels(scan(&followers, tree), alone));
    EXPECT_TRUE(followers.dismiss());
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

/// Passes items on, and counts how often its parameters are read.
class Counted final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::int64_t number = 0;
  };
  static constexpr std::string_view kName = "counted";
  static constexpr std::string_view kSummary = "Counts how often its parameters are read.";
  static Parameters<Options> parameters() {
    ++reads;
    return Parameters<Options>().integer("number", &Options::number, 0, 9, "remembered");
  }
  explicit Counted(const Options& options) { number = options.number; }
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override { emit(std::move(readouts)); }

  static inline int reads = 0;
  static inline std::int64_t number = 0;
};

TEST(ChainPlan, ParametersAreReadOnceForAllScans) {
  Registry registry = Registry::builtin();
  registry.add<Counted>();
  const auto plan = PipelinePlan::check(
      config::read_pipeline(yaml("  - counted: {number: 7}\n  - cartesian_kspace\n  - fft\n  - image\n"), "p.yaml"),
      registry);
  const int reads = std::exchange(Counted::reads, 0);
  EXPECT_GT(reads, 0);
  for (int scan = 0; scan < 3; ++scan) {
    Counted::number = 0;
    numerics::Context compute(Backend::cpu, test_resources());
    const Pipeline pipeline(plan, compute, {});
    EXPECT_EQ(Counted::number, 7);
  }
  EXPECT_EQ(Counted::reads, 0);
}

}  // namespace
}  // namespace echotrain::testing
