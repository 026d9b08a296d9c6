// Images that are not finite, cut or zero say so: in their meta attributes, in one text per scan and kind, in counts.
#include <cmath>
#include <limits>

#include "protocol/data/meta.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

const char* const kNotFinite = "echotrain_not_finite_pixels";
const char* const kSaturated = "echotrain_saturated_pixels";
const char* const kAllZero = "echotrain_all_zero";

/// Two frames, 16 x 8, of two coils: noise of this size.
std::vector<Acquisition> noisy_scan(double size) {
  std::mt19937 random(3);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 16; ++y) {
    auto data = noise(32, random);
    for (cfloat& v : data) v *= static_cast<float>(size);
    scan.push_back(readout(2, data));
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y % 8);
    scan.back().head.idx.repetition = static_cast<std::uint16_t>(y / 8);
  }
  return scan;
}

Outcome images_of(const std::string& image, double size, const RunOptions& options,
                  const std::string& combine = "rss") {
  const std::string gadgets =
      "  - cartesian_kspace\n  - fft\n  - coil_combine: {method: " + combine + "}\n  - image: {" + image + "}\n";
  return run(yaml(gadgets), header({.encoded = {16, 8, 1}}), noisy_scan(size), options);
}

std::string attribute(const protocol::Image& image, const char* name) {
  return protocol::meta_value(image.attributes, name);
}

std::string none_if_zero(std::uint64_t count) { return count == 0 ? "" : std::to_string(count); }

class OddImagesTest : public OnEachBackend {};

TEST_P(OddImagesTest, OrdinaryImagesSayNothing) {
  for (const char* image : {"", "component: complex", "component: phase", "type: uint16, scale: 1000",
                            "component: magnitude_and_phase", "component: complex, scale: 3"}) {
    const Outcome out = images_of(image, 1, here());
    for (const auto& one : out.images)
      EXPECT_EQ(attribute(one, kNotFinite) + attribute(one, kSaturated) + attribute(one, kAllZero), "") << image;
    EXPECT_TRUE(out.texts.empty()) << out.texts.front().second;
    EXPECT_EQ(out.counts.work.images_not_finite + out.counts.work.images_saturated + out.counts.work.images_all_zero,
              0u);
  }
}

/// The pixels that arrive tell how many of them are not finite.
TEST_P(OddImagesTest, InfinitePixelsAreCounted) {
  for (const double size : {1e30, 3e37}) {  // squares, and sums, beyond single precision
    const Outcome out = images_of("", size, here());
    ASSERT_EQ(out.images.size(), 2u);
    std::uint64_t in_all = 0;
    for (const auto& image : out.images) {
      std::uint64_t odd = 0;
      for (const float v : pixels<float>(image)) odd += std::isfinite(v) ? 0 : 1;
      in_all += odd;
      EXPECT_EQ(attribute(image, kNotFinite), none_if_zero(odd)) << size;
      EXPECT_EQ(attribute(image, kAllZero), "");
      EXPECT_EQ(std::size_t{image.head.attribute_string_len}, image.attributes.size());  // a packed member: by value
    }
    EXPECT_GT(in_all, 0u) << size;
    EXPECT_EQ(out.warned("not finite"), 1) << size;
    EXPECT_EQ(out.counts.work.images_not_finite, 2u);
  }
}

/// Finite pixels that are sent can still come from values that were not.
TEST_P(OddImagesTest, NoComponentHidesThem) {
  const auto complex = images_of("component: complex", 1e38, here(), "none");
  ASSERT_EQ(complex.images.size(), 2u);
  for (const char* image : {"component: complex", "component: phase", "component: real", "component: imag",
                            "type: uint16", "component: complex, scale: 0.5", "component: real, scale: 0.5"}) {
    const Outcome out = images_of(image, 1e38, here(), "none");
    ASSERT_EQ(out.images.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      std::uint64_t odd = 0;
      for (const cfloat z : pixels<cfloat>(complex.images[i]))
        odd += std::isfinite(z.real()) && std::isfinite(z.imag()) ? 0 : 1;
      ASSERT_GT(odd, 0u);
      EXPECT_GE(std::stoull("0" + attribute(out.images[i], kNotFinite)), odd) << image;
    }
    EXPECT_EQ(out.warned("not finite"), 1) << image;
  }
}

TEST_P(OddImagesTest, CutPixelsAreCounted) {
  const Outcome out = images_of("type: uint16, scale: 4e5", 1, here());  // magnitudes are about 0.2
  ASSERT_EQ(out.images.size(), 2u);
  for (const auto& image : out.images) {
    std::uint64_t cut = 0;
    for (const std::uint16_t v : pixels<std::uint16_t>(image)) cut += v == 65535 ? 1 : 0;
    EXPECT_GT(cut, 0u);
    EXPECT_LT(cut, 128u);
    EXPECT_EQ(attribute(image, kSaturated), std::to_string(cut));  // none is between 65534.5 and 65535.5 here
  }
  EXPECT_EQ(out.warned("larger than 65535"), 1);
  EXPECT_EQ(out.counts.work.images_saturated, 2u);
}

TEST_P(OddImagesTest, ImagesOfZerosAreNoticed) {
  for (const char* image : {"", "type: uint16", "component: magnitude_and_phase", "component: complex"}) {
    const Outcome out = images_of(image, 1e-42, here());
    ASSERT_GE(out.images.size(), 2u);
    for (const auto& one : out.images) {
      for (const std::byte b : one.pixels.bytes) ASSERT_EQ(b, std::byte{0});
      EXPECT_EQ(attribute(one, kAllZero), "1") << image;
    }
    EXPECT_EQ(out.warned("is zero everywhere"), 1) << image;
    EXPECT_EQ(out.counts.work.images_all_zero, out.images.size());
  }
}

/// A scale that is found from the images keeps them from looking well.
TEST_P(OddImagesTest, AScaleHidesNothing) {
  const std::string gadgets = "  - cartesian_kspace\n  - fft\n  - coil_combine\n  - scale\n  - image: {type: uint16}\n";
  const Outcome out = run(yaml(gadgets), header({.encoded = {16, 8, 1}}), noisy_scan(1e30), here());
  ASSERT_EQ(out.images.size(), 2u);
  for (const auto& image : out.images) EXPECT_NE(attribute(image, kNotFinite), "");
  EXPECT_EQ(out.warned("not finite"), 1);
}

ECHOTRAIN_ON_BACKENDS(OddImagesTest);

template <class T>
protocol::Image clients_image(std::uint16_t type, std::vector<T> values, std::size_t parts = 1) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = type;
  image.head.matrix_size[0] = static_cast<std::uint16_t>(values.size() / parts);
  image.head.matrix_size[1] = image.head.matrix_size[2] = image.head.channels = 1;
  image.pixels = protocol::Payload::take(std::move(values));
  return image;
}

/// The client's own images come back unchanged, and are looked at all the same.
TEST(PassedImagesTest, AreCountedAndStayAsTheyWere) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<float> large(60001, 1.0f);
  large.back() = nan;
  RunOptions options;
  options.images = {
      clients_image<float>(ISMRMRD::ISMRMRD_FLOAT, large),
      clients_image<double>(ISMRMRD::ISMRMRD_DOUBLE, {1, -infinity}),
      clients_image<float>(ISMRMRD::ISMRMRD_CXFLOAT, {1, nan, 0, 0}, 2),
      clients_image<double>(ISMRMRD::ISMRMRD_CXDOUBLE, {1, 2, infinity, 0}, 2),
      clients_image<std::uint16_t>(ISMRMRD::ISMRMRD_USHORT, {0, 0, 0}),
      clients_image<float>(ISMRMRD::ISMRMRD_FLOAT, {0, -0.0f}),
      clients_image<std::int16_t>(ISMRMRD::ISMRMRD_SHORT, {0, -1}),
      clients_image<std::int32_t>(ISMRMRD::ISMRMRD_INT, {0, 1 << 20}),
      clients_image<std::uint32_t>(ISMRMRD::ISMRMRD_UINT, {0, 1}),
      clients_image<double>(ISMRMRD::ISMRMRD_DOUBLE, {0, 1e-320}),
  };
  const Outcome out = run(yaml("  - passthrough\n"), header({.encoded = {4, 4, 1}}), {}, options);
  ASSERT_EQ(out.images.size(), options.images.size());
  for (std::size_t i = 0; i < out.images.size(); ++i) {
    EXPECT_EQ(out.images[i].attributes, "");
    EXPECT_TRUE(std::ranges::equal(out.images[i].pixels.bytes, options.images[i].pixels.bytes));
  }
  EXPECT_EQ(out.counts.work.images_not_finite, 4u);
  EXPECT_EQ(out.counts.work.images_all_zero, 2u);
  EXPECT_EQ(out.counts.work.images_saturated, 0u);
  // Nothing is promised of attributes, and there are no samples to scale.
  EXPECT_EQ(out.warned("1 of 60001 pixels of image 0 of series 0, which the client sent, are not finite (infinite or "
                       "not a number); further ones are only counted"),
            1);
  EXPECT_EQ(out.warned("image 0 of series 0, which the client sent, is zero everywhere; further ones are only counted"),
            1);
  EXPECT_EQ(out.warned("meta attributes") + out.warned("samples"), 0);
}

}  // namespace
}  // namespace echotrain::testing
