#include "protocol/dicom/enhanced_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "protocol/dicom/values.h"
#include "tests/gadgets/heap.h"

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
  EXPECT_GT(images.bytes(), 28u);
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

TEST(EnhancedImages, CountsAllMemoryThatImagesTake) {
  if (!available()) GTEST_SKIP() << "built without DICOM";
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "a sanitizer's allocator does not tell";
#endif
  const Study study = read_study("", false, "test");
  const std::string kTypes = [] {
    std::string text = "<ismrmrdMeta><meta><name>ImageType</name>";
    for (int i = 0; i < 100; ++i) text += "<value/>";
    return text + "</meta></ismrmrdMeta>";
  }();
  const std::string kComment =
      "<ismrmrdMeta><meta><name>ImageComments</name><value>" + std::string(5000, 'x') + "</value></meta></ismrmrdMeta>";
  for (const std::string& attributes : {std::string(), kTypes, kComment})
    for (const bool one_series : {true, false})
      for (const int planes : {1, 100}) {
        EnhancedImages images({study, "key"});
        images.add(plain_image(3, 1, 1));  // what is made once
        const std::uint64_t before = testing::heap_bytes();
        const std::size_t counted = images.bytes();
        for (std::uint16_t i = 1; i <= 1000; ++i) {
          Image image = plain_image(1, 1, 1);
          image.head.image_series_index = one_series ? 0 : i;
          image.head.matrix_size[2] = static_cast<std::uint16_t>(planes);
          image.pixels = Payload::take(std::vector<float>(static_cast<std::size_t>(planes), 1));
          image.attributes = attributes;
          images.add(image);
        }
        EXPECT_GE(images.bytes() - counted, testing::heap_bytes() - before)
            << attributes.size() << " " << one_series << " " << planes;
      }
}

TEST(EnhancedImages, AFullObjectIsClosedAndANextOneBegins) {
  if (!available()) GTEST_SKIP() << "built without DICOM";
  const Study study = read_study("", false, "test");
  EnhancedImages images({study, "key"}, 4);
  Given given;
  for (int i = 0; i < 4; ++i) images.add(plain_image(4, 2, static_cast<float>(i)));
  EXPECT_FALSE(images.has_closed());
  images.add(plain_image(4, 2, 4));
  EXPECT_TRUE(images.has_closed());
  const std::size_t all = images.bytes();
  given.take(*images.next());
  EXPECT_FALSE(images.next());
  EXPECT_EQ(images.bytes(), all / 5);
  images.finish([&](Instance&& one) { given.take(std::move(one)); });
  ASSERT_EQ(given.uids.size(), 2u);
  EXPECT_EQ(given.series[0], given.series[1]);
  EXPECT_NE(given.uids[0], given.uids[1]);
  EXPECT_EQ(images.bytes(), 0u);
}

TEST(EnhancedImages, AttributesThatAParserTakesMuchMemoryForAreRefused) {
  if (!available()) GTEST_SKIP() << "built without DICOM";
  const Study study = read_study("", false, "test");
  EnhancedImages images({study, "key"});
  Image image = plain_image(1, 1, 1);
  image.attributes = "<ismrmrdMeta>";
  for (int i = 0; i < 600'000; ++i) image.attributes += "<a/>";  // of 64 bytes each, and as much for a text behind it
  image.attributes += "</ismrmrdMeta>";
  EXPECT_THROW(images.add(image), DicomError);
  EXPECT_EQ(images.bytes(), 0u);
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
