// PNG files, read back by libpng.
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>

#include "clients/cpp/images/image_report.h"
#include "clients/cpp/images/png_writer.h"
#include "protocol/data/meta.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

struct Picture {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};

Picture read_png(const std::filesystem::path& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, file.c_str()) == 0) throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_GRAY;
  Picture picture{image.width, image.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  if (png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  return picture;
}

TEST(Png, HoldsThePixelsThatWereWritten) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> pixels = {0, 50, 255, 7, 128, 200};
  write_png(folder / "p.png", 3, 2, pixels);
  const Picture read = read_png(folder / "p.png");
  EXPECT_EQ(read.width, 3u);
  EXPECT_EQ(read.height, 2u);
  EXPECT_EQ(read.pixels, pixels);
  EXPECT_THROW(write_png(folder / "no" / "p.png", 3, 2, pixels), std::runtime_error);
}

TEST(Png, PercentileIgnoresOutliersAndNan) {
  std::vector<float> values(1000, 2);
  values[3] = 1000;
  values[4] = NAN;
  EXPECT_EQ(percentile(values, 99.5), 2);
  EXPECT_EQ(percentile(values, 100), 1000);
  EXPECT_EQ(percentile(std::vector<float>{}, 50), 0);
}

TEST(ImageReport, ComparesWithTheTruthAndDrawsTheTriptych) {
  const TemporaryFolder folder;
  ImageReport report({StoredArray{{1, 2}, {1.0f, 0.5f}}}, folder / "png");
  // A complex image whose magnitudes are 1 and 0.6.
  report.add(make_image<std::complex<float>>(7, 2, 1, {{0, -1}, {0.6f, 0}}));
  report.finish();
  ASSERT_EQ(report.errors().size(), 1u);
  EXPECT_NEAR(report.errors()[0], 0.1 / std::sqrt(1.25), 1e-6);
  const Picture picture = read_png(folder / "png/compare.png");
  // ours | 4 white pixels | truth | 4 white pixels | 5 x difference, 1 is white.
  EXPECT_EQ(picture.pixels,
            (std::vector<std::uint8_t>{255, 153, 255, 255, 255, 255, 255, 128, 255, 255, 255, 255, 0, 128}));
  EXPECT_EQ(read_png(folder / "png/image_001.png").pixels, (std::vector<std::uint8_t>{255, 153}));
  EXPECT_THROW(report.add(make_image<float>(5, 1, 2, {1, 1})), std::runtime_error);
}

TEST(ImageReport, HoldsEachContrastAgainstItsOwnTruth) {
  ImageReport report({StoredArray{{1, 2}, {1, 0}}, StoredArray{{1, 2}, {0, 2}}}, "");
  for (const int contrast : {0, 1, 2}) {
    auto image = make_image<float>(5, 2, 1, {0, 2});
    image.head.contrast = static_cast<std::uint16_t>(contrast);
    report.add(image);
  }
  EXPECT_EQ(report.errors(), (std::vector<double>{std::sqrt(5.0), 0, std::sqrt(5.0)}));
}

TEST(ImageReport, ComparesValuesAsTheyWereBeforeTheScale) {
  ImageReport report({StoredArray{{1, 2}, {1, 0.5f}}}, "");
  auto image = make_image<float>(5, 2, 1, {500, 250});
  report.add(image);
  image.attributes = protocol::meta_text({{"scale_factor", {"500"}}});
  report.add(image);
  EXPECT_EQ(report.errors(), (std::vector<double>{499, 0}));
}

TEST(Export, WritesOnePicturePerImageAndChannel) {
  const TemporaryFolder folder;
  {
    protocol::DatasetWriter writer(folder / "images.h5");
    auto image = make_image<float>(5, 2, 1, {0.0f, 1.0f, 2.0f, 4.0f});
    image.head.channels = 2;
    writer.append(image);
    auto phase = make_image<float>(5, 2, 1, {-3.14159265f, 0.0f}, 2);
    phase.head.image_type = 2;
    writer.append(phase);
  }
  const auto result = command({"export", (folder / "images.h5").string(), "--png", (folder / "out").string()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_png(folder / "out/image_2_000.png").pixels, (std::vector<std::uint8_t>{0, 128}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "out"), {}), 3);
  ASSERT_EQ(command({"export", (folder / "images.h5").string(), "--png", (folder / "out").string(), "--series",
                     "image_1", "--window", "0", "4"})
                .code,
            0);
  EXPECT_EQ(read_png(folder / "out/image_1_000_c01.png").pixels, (std::vector<std::uint8_t>{128, 255}));
}

}  // namespace
}  // namespace echotrain::client
