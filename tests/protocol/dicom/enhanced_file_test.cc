#include "protocol/dicom/enhanced_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom::test {
namespace {

Image plain_image(std::uint16_t nx, std::uint16_t ny, float value) {
  Image image;
  image.head.version = 1;
  image.head.data_type = ISMRMRD::ISMRMRD_FLOAT;
  image.head.image_type = ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
  image.head.channels = 1;
  const std::uint16_t sizes[3] = {nx, ny, 1};
  for (std::size_t a = 0; a < 3; ++a) {
    image.head.matrix_size[a] = sizes[a];
    image.head.field_of_view[a] = sizes[a];
  }
  image.pixels = Payload::take(std::vector<float>(std::size_t{nx} * ny, value));
  return image;
}

struct Given {
  std::vector<std::string> names, uids, series;
  void take(Instance&& one) {
    names.push_back(one.name);
    uids.push_back(one.uid);
    series.push_back(one.series_uid);
  }
};

TEST(EnhancedImages, ImagesOfTwoSizesAreTwoInstancesOfOneSeries) {
  if (!available()) GTEST_SKIP() << "built without DICOM";
  const Study study = read_study("", false, "test");
  EnhancedImages images({study, "key"});
  images.add(plain_image(4, 2, 1));
  images.add(plain_image(3, 2, 1));
  EXPECT_EQ(images.bytes(), 28u);
  Given given;
  images.finish([&](Instance&& one) { given.take(std::move(one)); });
  std::sort(given.names.begin(), given.names.end());
  EXPECT_EQ(given.names, (std::vector<std::string>{"_3x2", "_4x2"}));
  EXPECT_EQ(given.series[0], given.series[1]);
  EXPECT_NE(given.uids[0], given.uids[1]);
}

TEST(EnhancedImages, FurtherImagesAreFurtherInstances) {
  if (!available()) GTEST_SKIP() << "built without DICOM";
  const Study study = read_study("", false, "test");
  EnhancedImages images({study, "key"});
  Given given;
  for (int i = 0; i < 2; ++i) {
    images.add(plain_image(4, 2, 1));
    images.finish([&](Instance&& one) { given.take(std::move(one)); });
    EXPECT_TRUE(images.empty());
    EXPECT_EQ(images.bytes(), 0u);
  }
  EXPECT_EQ(given.series[0], given.series[1]);
  EXPECT_NE(given.uids[0], given.uids[1]);
}

TEST(EnhancedImages, NothingIsKeptOfAnImageThatIsRefused) {
  const Study study = read_study("", false, "test");
  EnhancedImages images({study, "key"});
  Image bad = plain_image(4, 2, 1);
  bad.head.field_of_view[0] = 0;
  EXPECT_THROW(images.add(bad), DicomError);
  EXPECT_TRUE(images.empty());
}

}  // namespace
}  // namespace echotrain::protocol::dicom::test
