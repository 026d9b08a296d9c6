// Fields that registration finds, against closed-form motion of a closed-form torso.
#include "gadgets/numerics/mri/registration/registration.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/mri/registration/displacement.h"
#include "tests/support/backends.h"
#include "tests/support/moving_torso.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Displacement;
using testing::MotionField;
using testing::MovingTorso;
using testing::torso_image;
using Values = std::vector<float>;

constexpr std::int64_t kNy = MovingTorso::kNy, kNx = MovingTorso::kNx, kSize = kNy * kNx;
constexpr double kSnr = 20;

double percentile(std::vector<double> of, double q) {
  std::sort(of.begin(), of.end());
  return of[static_cast<std::size_t>(q * static_cast<double>(of.size() - 1))];
}

/// The errors of a field, those of the zero field, at voxels of the body that `chosen` takes.
struct Errors {
  std::vector<double> found, zero;
  Errors(const float* field, const MotionField& truth, const std::function<bool(double x, double y)>& chosen = {}) {
    for (std::int64_t y = 0; y < kNy; ++y)
      for (std::int64_t x = 0; x < kNx; ++x) {
        const auto px = static_cast<double>(x), py = static_cast<double>(y);
        if (MovingTorso::inside(px, py, 80, 96, 68, 86) < 0.5 || (chosen && !chosen(px, py))) continue;
        const Displacement u = truth(px, py);
        const float* at = field + y * kNx + x;
        found.push_back(std::hypot(static_cast<double>(at[0]) - u.x, static_cast<double>(at[kSize]) - u.y));
        zero.push_back(std::hypot(u.x, u.y));
      }
  }
  void print(const char* what) const {
    printf("%-28s median %.3f  95 %% %.3f voxels; the zero field's: %.3f  %.3f\n", what, percentile(found, 0.5),
           percentile(found, 0.95), percentile(zero, 0.5), percentile(zero, 0.95));
  }
};

template <class B>
class RegistrationTest : public testing::OnBackend<B> {
 protected:
  Values fields_of(const Values& images, const Values& reference, const RegistrationOptions& options,
                   Shape each = {kNy, kNx}) {
    const std::int64_t batch = static_cast<std::int64_t>(images.size()) / each.size();
    const bool for_all = static_cast<std::int64_t>(reference.size()) == each.size();
    const auto from = this->upload(images, {batch, each[0], each[1]});
    const auto to = for_all ? this->upload(reference, each) : this->upload(reference, {batch, each[0], each[1]});
    Array<float> fields = this->context().template allocate<float>({batch, 2, each[0], each[1]});
    register_images(this->context(), from.cview(), to.cview(), options, fields.view());
    return this->download(fields);
  }
  float least_jacobian(const Values& fields) {
    const auto batch = static_cast<std::int64_t>(fields.size()) / (2 * kSize);
    const auto on_device = this->upload(fields, {batch, 2, kNy, kNx});
    Array<float> out = this->context().template allocate<float>({batch, kNy, kNx});
    jacobian(this->context(), on_device.cview(), out.view());
    const Values values = this->download(out);
    return *std::min_element(values.begin(), values.end());
  }
  Context& with() { return this->context(); }
};
TYPED_TEST_SUITE(RegistrationTest, Backends, testing::BackendNames);

TYPED_TEST(RegistrationTest, BreathingIsFound) {
  const MotionField truth = MovingTorso::breathing(8);
  const Values moving = torso_image({}, kSnr, 1), reference = torso_image(truth, kSnr, 2);
  // Tissue without edges shows no motion of its own: its field is what is around it.
  const auto edgeless = [&](double x, double y) {
    const Displacement u = truth(x, y);
    double least = 1e9, most = 0;
    for (int j = -4; j <= 4; j += 2)
      for (int i = -4; i <= 4; i += 2) {
        const double value = MovingTorso::intensity(x + u.x + i, y + u.y + j);
        least = std::min(least, value), most = std::max(most, value);
      }
    return most - least < 0.02;
  };
  for (const Motion motion : {Motion::fast, Motion::robust}) {
    const Values field = this->fields_of(moving, reference, {.motion = motion});
    const Errors all(field.data(), truth);
    all.print(motion == Motion::fast ? "fast" : "robust");
    // What the project asks for at 8 voxels and SNR 20; SimpleITK's demons on such images: 0.34 and 1.0
    // (tests/bench/peers).
    EXPECT_LE(percentile(all.found, 0.5), 0.3);
    EXPECT_LE(percentile(all.found, 0.95), 1.0);
    EXPECT_GT(percentile(all.zero, 0.95), 3.0);
    EXPECT_GT(this->least_jacobian(field), 0.0f);
    const Errors without_edges(field.data(), truth, edgeless);
    without_edges.print("  edgeless tissue");
    EXPECT_GT(without_edges.found.size(), 500u);
    EXPECT_LE(percentile(without_edges.found, 0.5), 0.5);
  }
}

TYPED_TEST(RegistrationTest, ContrastMayChange) {
  const MotionField truth = MovingTorso::breathing(8);
  const Values reference = torso_image(truth, kSnr, 3);
  const auto coil = [](double value, double x, double) { return value * (0.9 + 0.8 * x / kNx); };
  const auto tissue = [](double value, double x, double y) {
    return value * (1 - 0.8 * MovingTorso::blood(x, y)) + 0.4 * MovingTorso::liver(x, y);
  };
  const auto inverted = [](double value, double, double) { return 1.5 - value; };
  const struct {
    const char* what;
    Motion motion;
    std::function<double(double, double, double)> recolour;
  } cases[] = {{"fast, another coil", Motion::fast, coil},
               {"robust, another coil", Motion::robust, coil},
               {"robust, other tissue", Motion::robust, tissue},
               {"robust, inverted", Motion::robust, inverted}};
  for (const auto& c : cases) {
    const Values field = this->fields_of(torso_image({}, kSnr, 4, c.recolour), reference, {.motion = c.motion});
    const Errors all(field.data(), truth);
    all.print(c.what);
    EXPECT_LE(percentile(all.found, 0.5), 0.3) << c.what;
    EXPECT_LE(percentile(all.found, 0.95), 1.0) << c.what;
    EXPECT_GT(this->least_jacobian(field), 0.0f) << c.what;
  }
}

TYPED_TEST(RegistrationTest, AWallThatSlidesIsSmoothedOver) {
  const MotionField truth = MovingTorso::sliding(6);
  const Values moving = torso_image({}, kSnr, 5), reference = torso_image(truth, kSnr, 6);
  for (const Motion motion : {Motion::fast, Motion::robust}) {
    const Values field = this->fields_of(moving, reference, {.motion = motion});
    const Errors inside(field.data(), truth,
                        [](double x, double y) { return MovingTorso::distance_to_wall(x, y) > 8; });
    const Errors at_wall(field.data(), truth,
                         [](double x, double y) { return std::abs(MovingTorso::distance_to_wall(x, y)) <= 8; });
    inside.print(motion == Motion::fast ? "fast, 8 voxels off the wall" : "robust, 8 voxels off");
    at_wall.print("  at the wall");
    EXPECT_LE(percentile(inside.found, 0.5), 0.3);
    EXPECT_LE(percentile(inside.found, 0.95), 2.0);  // the smooth field reaches as far as windows and regularisation
    EXPECT_LT(percentile(at_wall.found, 0.5), 6.0);
    EXPECT_GT(this->least_jacobian(field), 0.0f);
  }
}

TYPED_TEST(RegistrationTest, RigidMotionIsFound) {
  const struct { double degrees, x, y; } cases[] = {{0, 0.3, -0.4}, {3, 4.6, -6.3}, {-8, -5.5, 3.2}, {0.5, 0, 9}};
  Values images, references;
  for (const auto& c : cases) {
    const Values a = torso_image({}, kSnr, 7),
                 b = torso_image(MovingTorso::rigid(c.degrees * std::numbers::pi / 180, c.x, c.y), kSnr, 8);
    images.insert(images.end(), a.begin(), a.end());
    references.insert(references.end(), b.begin(), b.end());
  }
  const Values fields = this->fields_of(images, references, {.motion = Motion::rigid});
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const float* ux = fields.data() + 2 * i * kSize;
    const float* uy = ux + kSize;
    // The field is the motion's, so its corners and mean say all.
    const double turned =
        std::atan2(static_cast<double>(uy[kNx - 1] - uy[0]), static_cast<double>(ux[kNx - 1] - ux[0]) + kNx - 1);
    double x = 0, y = 0;
    for (std::int64_t p = 0; p < kSize; ++p)
      x += static_cast<double>(ux[p]) / kSize, y += static_cast<double>(uy[p]) / kSize;
    printf("rigid: off by %.4f degrees, %.4f and %.4f voxels\n", turned * 180 / std::numbers::pi - cases[i].degrees,
           x - cases[i].x, y - cases[i].y);
    EXPECT_NEAR(turned * 180 / std::numbers::pi, cases[i].degrees, 0.05);
    EXPECT_NEAR(x, cases[i].x, 0.05);
    EXPECT_NEAR(y, cases[i].y, 0.05);
  }
}

TYPED_TEST(RegistrationTest, WithoutMotionThereIsNone) {
  const Values image = torso_image({}, kSnr, 9);
  for (const Motion motion : {Motion::rigid, Motion::fast, Motion::robust}) {
    const Values field = this->fields_of(image, image, {.motion = motion});
    float most = 0;
    for (const float u : field) most = std::max(most, std::abs(u));
    EXPECT_LE(most, 1e-4f);  // rounding of the correlation, 1 - 1e-6 and less
  }
}

TYPED_TEST(RegistrationTest, ABatchIsEachImageByItself) {
  const Values reference = torso_image({}, kSnr, 10);
  Values images;
  for (const double peak : {2.0, 5.0, 8.0, -3.0, 6.0}) {
    const Values one = torso_image(MovingTorso::breathing(peak), kSnr, 11);
    images.insert(images.end(), one.begin(), one.end());
  }
  for (const Motion motion : {Motion::rigid, Motion::fast, Motion::robust}) {
    const Values all = this->fields_of(images, reference, {.motion = motion});
    for (std::size_t b = 0; b < 5; ++b) {
      const Values image(images.begin() + static_cast<std::ptrdiff_t>(b * kSize),
                         images.begin() + static_cast<std::ptrdiff_t>((b + 1) * kSize));
      const Values one = this->fields_of(image, reference, {.motion = motion});
      EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(2 * b * kSize))) << b;
    }
  }
}

TYPED_TEST(RegistrationTest, ExtentsMayBeOddAndSmall) {
  // A bright disc in a corner of an odd image, moved by (1, -1) voxels.
  const Shape n{45, 16};
  Values a, b;
  for (std::int64_t y = 0; y < n[0]; ++y)
    for (std::int64_t x = 0; x < n[1]; ++x) {
      const auto disc = [&](double cx, double cy) {
        return static_cast<float>(MovingTorso::inside(static_cast<double>(x), static_cast<double>(y), cx, cy, 5, 8));
      };
      a.push_back(disc(8, 21)), b.push_back(disc(7, 22));
    }
  for (const Motion motion : {Motion::rigid, Motion::robust}) {
    const Values field = this->fields_of(a, b, {.motion = motion}, n);
    EXPECT_NEAR(field[22 * 16 + 7], 1, 0.3) << "u_x";
    EXPECT_NEAR(field[static_cast<std::size_t>(n.size()) + 22 * 16 + 7], -1, 0.3) << "u_y";
  }
}

TYPED_TEST(RegistrationTest, WhatIsNotFiniteOrDarkMovesNothing) {
  const Values reference = torso_image({}, kSnr, 12), good = torso_image(MovingTorso::breathing(4), kSnr, 13);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 0.0f}) {
    Values images = good;
    images.insert(images.end(), good.begin(), good.end());
    if (bad == 0)
      std::fill(images.begin() + kSize, images.end(), 3.0f);
    else
      images[kSize + 100 * kNx + 80] = bad;
    for (const Motion motion : {Motion::rigid, Motion::fast, Motion::robust}) {
      const Values fields = this->fields_of(images, reference, {.motion = motion});
      EXPECT_EQ(std::count(fields.begin() + 2 * kSize, fields.end(), 0.0f), 2 * kSize);
      EXPECT_NE(std::count(fields.begin(), fields.begin() + 2 * kSize, 0.0f), 2 * kSize);
    }
    const auto on_device = this->upload(images, {2, kNy, kNx});
    if (bad == 0)
      check_registrable(this->with(), on_device.cview());
    else
      EXPECT_THROW(check_registrable(this->with(), on_device.cview()), std::invalid_argument);
  }
}

TYPED_TEST(RegistrationTest, WhatDoesNotFitIsRefused) {
  Context& context = this->with();
  const auto images = context.zeros<float>({2, 32, 32}), small = context.zeros<float>({2, 32, 15});
  auto fields = context.allocate<float>({2, 2, 32, 32}), small_fields = context.allocate<float>({2, 2, 32, 15});
  EXPECT_THROW(register_images(context, small.cview(), small.cview(), {}, small_fields.view()), std::invalid_argument);
  EXPECT_THROW(check_registrable(context, small.cview()), std::invalid_argument);
  EXPECT_THROW(register_images(context, images.cview(), images.cview().part(0, {1, 32, 32}), {}, fields.view()),
               std::invalid_argument);
  EXPECT_THROW(register_images(context, images.cview(), images.cview(), {}, fields.view().part(0, {1, 2, 32, 32})),
               std::invalid_argument);
  for (const float sigma : {-1.0f, 0.2f, 5.0f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(register_images(context, images.cview(), images.cview(), {Motion::fast, sigma}, fields.view()),
                 std::invalid_argument)
        << sigma;
}

TYPED_TEST(RegistrationTest, TheMedianIsThatOfEachVoxel) {
  testing::Random random(14);
  for (const std::int64_t batch : {1, 4, 7}) {
    Values images;
    for (std::int64_t i = 0; i < batch * 20; ++i)
      images.push_back(static_cast<float>(std::round(random.uniform(-3, 3))));
    const auto from = this->upload(images, {batch, 4, 5});
    Array<float> to = this->with().template allocate<float>({4, 5});
    median_image(this->with(), from.cview(), to.view());
    const Values median = this->download(to);
    for (std::size_t v = 0; v < 20; ++v) {
      Values sorted;
      for (std::int64_t b = 0; b < batch; ++b) sorted.push_back(images[static_cast<std::size_t>(b) * 20 + v]);
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(median[v], sorted[static_cast<std::size_t>(batch - 1) / 2]);
    }
  }
}

}  // namespace
}  // namespace echotrain::numerics
