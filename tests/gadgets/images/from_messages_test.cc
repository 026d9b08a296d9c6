// Gadgets for images after `image`: as if they had stood before it.
#include "gadgets/images/from_messages.h"

#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

using FromMessagesTest = OnEachBackend;
ECHOTRAIN_ON_BACKENDS(FromMessagesTest);

TEST_P(FromMessagesTest, AClientsImagesGoOnAsTheyWouldHave) {
  protocol::Image sent =
      sent_image<std::int16_t>({1, -2, 3, 4, 5, 6}, {3, 2, 1}, {{"IceMiniHead", "x"}, {"own", "y"}}, 3);
  sent.head.read_dir[0] = -1;
  const Outcome plain = run_images("  - orient\n  - image\n", {sent}, here());
  for (const char* chain :
       {"  - image\n  - from_messages\n  - orient\n  - image\n", "  - from_messages\n  - orient\n  - image\n"}) {
    const Outcome out = run_images(chain, {sent}, here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_EQ(pixels<std::int16_t>(out.images[0]), pixels<std::int16_t>(plain.images.at(0)));
    EXPECT_EQ(out.images[0].head.position[0], plain.images[0].head.position[0]);
    EXPECT_EQ(meta_of(out.images[0], "own"), Values{"y"});
    EXPECT_EQ(meta_of(out.images[0], "IceMiniHead"), Values{});
    EXPECT_EQ(meta_of(out.images[0], "ImageRowDir"), (Values{"1", "0", "0"}));
  }
}

TEST_P(FromMessagesTest, ImagesOfReadoutsKeepTheirFrame) {
  std::mt19937 random(2);
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int y = 0; y < 8; ++y) {
      scan.push_back(readout(1, noise(8, random)));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
      scan.back().head.idx.repetition = static_cast<std::uint16_t>(repetition);
    }
  const auto h = header({.encoded = {8, 8, 1}, .limits = step_limit(8)});
  const std::string begin = "  - cartesian_kspace\n  - fft\n";
  const Outcome plain = run(yaml(begin + "  - filter\n  - image: {component: complex}\n"), h, scan, here());
  const Outcome out =
      run(yaml(begin + "  - image: {component: complex, scale: 2}\n  - from_messages\n  - filter\n  - image\n"), h,
          scan, here());
  ASSERT_EQ(out.images.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<cfloat> twice = pixels<cfloat>(plain.images.at(i));
    for (cfloat& v : twice) v *= 2;
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), twice), 1e-6);
    EXPECT_EQ(+out.images[i].head.repetition, i);
    EXPECT_EQ(+out.images[i].head.image_index, i + 1);
    EXPECT_EQ(meta_of(out.images[i], "echotrain_frame"), Values{std::to_string(i)});
    EXPECT_EQ(meta_of(out.images[i], "echotrain_readouts"), Values{"8"});
    EXPECT_EQ(meta_of(out.images[i], "ImageProcessingHistory"), (Values{"ECHOTRAIN", "ECHOTRAIN"}));
  }
}

}  // namespace
}  // namespace echotrain::testing
