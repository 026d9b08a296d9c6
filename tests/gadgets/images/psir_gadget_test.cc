// psir in chains: which reference an image gets, the sign and the size of what leaves, and what is refused.
#include "gadgets/images/contrast/psir_gadget.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kNx = 24, kNy = 20;

/// Magnetization from -1 on the left to 1 on the right, where there is an object.
double along(int x) { return (x - 11.5) / 12; }
bool object(int x, int y) { return std::hypot(x - 11.5, y - 9.5) < 9; }

/// Two coils' image of `signal` in the object, turned by a phase that depends on the place.
template <class Signal>
protocol::Image coils(const Signal& signal, int set, int repetition, double turn = 0) {
  std::vector<cfloat> values;
  for (const double coil : {0.7, -1.1})
    for (int y = 0; y < kNy; ++y)
      for (int x = 0; x < kNx; ++x)
        values.emplace_back(object(x, y) ? std::polar(1 + 0.02 * coil * x, coil * y * 0.1 + 0.05 * x + turn) * signal(x)
                                         : cdouble(0));
  protocol::Image image = sent_image(values, {kNx, kNy, 1}, {}, 5);
  image.head.set = static_cast<std::uint16_t>(set);
  image.head.repetition = static_cast<std::uint16_t>(repetition);
  return image;
}
protocol::Image inverted(int repetition = 0, double turn = 0) { return coils(along, 0, repetition, turn); }
protocol::Image reference(int repetition = 0, double turn = 0) {
  return coils([](int) { return 0.25; }, 1, repetition, turn);
}

class PsirGadgetTest : public OnEachBackend {
 protected:
  Outcome signs(const std::string& parameters, std::vector<protocol::Image> images) const {
    return run_images("  - psir: {" + parameters + "}\n  - image: {component: real, type: float}\n", std::move(images),
                      here());
  }
  static void expect_signed(const protocol::Image& image, double factor, double tolerance) {
    const auto values = pixels<float>(image);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(kNx * kNy));
    for (int y = 0; y < kNy; ++y)
      for (int x = 0; x < kNx; ++x)
        ASSERT_NEAR(static_cast<double>(values[static_cast<std::size_t>(y * kNx + x)]),
                    object(x, y) ? factor * along(x) : 0.0, tolerance)
            << x << ' ' << y;
  }
};

// Magnetization over the reference's, though phases turn by 2.3 rad from repetition to repetition.
TEST_P(PsirGadgetTest, ImagesAreSignedByTheReferenceOfTheirRepetition) {
  const auto out = signs(
      "smooth: 0", {inverted(), reference(), inverted(1, 2.3), reference(1, 2.3), reference(2, -1), inverted(2, -1)});
  ASSERT_EQ(out.images.size(), 3u);
  for (const auto& image : out.images) {
    expect_signed(image, 4, 1e-5);
    EXPECT_EQ(image.head.channels, 1);
    EXPECT_EQ(image.head.image_type, ISMRMRD::ISMRMRD_IMTYPE_REAL);
    EXPECT_EQ(meta_of(image, "psir_reference"), Values{"set 1"});
    EXPECT_EQ(meta_of(image, "ImageProcessingHistory"), (Values{"PSIR", "ECHOTRAIN"}));
  }
}

// A mean over 5 x 5 voxels of a phase that turns by up to 0.12 rad from voxel to voxel, and of an object's edge: the
// worst voxel is off by the phase at the window's corner, 1 - cos(0.31), and the mean's shrinking.
TEST_P(PsirGadgetTest, SmoothingKeepsTheObjectsEdge) {
  const auto out = signs("", {inverted(), reference()});
  ASSERT_EQ(out.images.size(), 1u);
  expect_signed(out.images[0], 4, 0.35);
  const auto plain = signs("normalize: false, smooth: 0, over: set, reference: 1", {inverted(), reference()});
  const auto values = pixels<float>(plain.images.at(0));
  const double coil_power = std::pow(1 + 0.02 * 0.7 * 12, 2) + std::pow(1 - 0.02 * 1.1 * 12, 2);
  EXPECT_NEAR(values.at(10 * kNx + 12), along(12) * std::sqrt(coil_power), 1e-6);
}

TEST_P(PsirGadgetTest, OneReferenceServesAllRepetitionsWhereNoOtherComes) {
  for (const char* wait : {"wait: 0, ", "wait: 2, ", ""}) {
    const auto out = signs(std::string(wait) + "smooth: 0",
                           {inverted(0), reference(0), inverted(1), inverted(2), inverted(3), inverted(4)});
    ASSERT_EQ(out.images.size(), 5u) << wait;
    for (int r = 0; r < 5; ++r) {
      EXPECT_EQ(out.images[static_cast<std::size_t>(r)].head.repetition, r) << wait;
      expect_signed(out.images[static_cast<std::size_t>(r)], 4, 1e-5);
    }
  }
}

// Three images wait, one more than may: the oldest leaves then, before what another slice's reference lets go.
TEST_P(PsirGadgetTest, WaitIsKeptOnceThereIsAReference) {
  std::vector<protocol::Image> images{inverted(0), reference(0), inverted(1), inverted(2), inverted(3)};
  for (auto image : {inverted(9), reference(9)}) {
    image.head.slice = 1;
    images.push_back(image);
  }
  std::vector<int> order;
  for (const auto& image : signs("wait: 2, smooth: 0", images).images) order.push_back(image.head.repetition);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 9, 2, 3}));
}

TEST_P(PsirGadgetTest, SaysWhatIsMissing) {
  EXPECT_EQ(signs("", {inverted()}).warned("1 images are left out, as no reference of their slice has come (set 1)"),
            1);
  std::vector<protocol::Image> many;
  for (int r = 0; r < 10; ++r) many.push_back(inverted(r));
  EXPECT_THAT(client_error([&] { signs("wait: 8", many); }), HasSubstr("no reference, whose set is 1"));
  auto magnitude = sent_image(std::vector<float>(kNx * kNy, 1), {kNx, kNy, 1});
  EXPECT_THAT(client_error([&] { signs("", {magnitude}); }), HasSubstr("without a phase"));
  auto small = sent_image(std::vector<cfloat>(16), {4, 4, 1}, {}, 5);
  EXPECT_THAT(client_error([&] { signs("wait: 0", {reference(), small}); }), HasSubstr("must be alike"));
}

ECHOTRAIN_ON_BACKENDS(PsirGadgetTest);

}  // namespace
}  // namespace echotrain::testing
