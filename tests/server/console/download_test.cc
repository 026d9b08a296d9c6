#include "server/console/download/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "server/console/download/memory_file.h"
#include "server/console/download/zip_writer.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::uint16_t kSide = 64;

protocol::Image image(std::uint16_t planes, std::uint16_t repetition = 0) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = 5;
  image.head.matrix_size[0] = image.head.matrix_size[1] = kSide;
  image.head.matrix_size[2] = planes;
  image.head.channels = 1;
  image.head.image_series_index = 1;
  image.head.repetition = repetition;
  for (int a = 0; a < 3; ++a) image.head.field_of_view[a] = 100;
  image.pixels = protocol::Payload::take(std::vector<float>(std::size_t{kSide} * kSide * planes, 1));
  return image;
}

/// Images of session 7, kept.
struct Kept {
  explicit Kept(std::uint64_t bound, int count = 3, std::uint16_t planes = 16)
      : budget(std::make_shared<numerics::MemoryBudget>(bound)), images(64 << 20, budget) {
    for (int i = 0; i < count; ++i) images.add(7, image(planes, static_cast<std::uint16_t>(i)));
    for (int i = 0; i < 5000 && images.extent(7).count < static_cast<std::size_t>(count); ++i)
      std::this_thread::sleep_for(1ms);
    used = budget->used();
  }
  std::shared_ptr<Download> begin(std::string_view format) const {
    return Downloads(budget).begin({7, format}, images, nullptr);
  }
  const std::shared_ptr<numerics::MemoryBudget> budget;
  RecentImages images;
  std::uint64_t used = 0;
};

/// Returns the error's text; empty if there was none.
std::string said(const std::function<void()>& work, unsigned status) {
  try {
    work();
  } catch (const DownloadError& error) {
    EXPECT_EQ(error.status, status) << error.what();
    return error.what();
  }
  return "";
}

std::size_t take_all(Download& download) {
  download.plan();
  std::size_t bytes = 0;
  for (std::string piece; download.next(piece); piece.clear()) bytes += piece.size();
  return bytes;
}

TEST(Downloads, PayForWhatTheyNeedAndGiveItBack) {
  const Kept kept(0);
  for (const char* format : {"nifti", "png", "hdf5"}) {
    {
      const auto download = kept.begin(format);
      EXPECT_GT(kept.budget->used(), kept.used) << format;
      EXPECT_GT(take_all(*download), 0U) << format;
      if (std::string_view(format) == "hdf5") {  // which is in memory as a whole
        EXPECT_GT(kept.budget->used(), kept.used + 3 * sizeof(float) * kSide * kSide * 16);
      }
    }
    EXPECT_EQ(kept.budget->used(), kept.used) << format;
  }
}

TEST(Downloads, SayWhenMemoryIsShort) {
  // 3 images of 256 KiB are kept. 2 MiB: lists of a download (1 MiB) fit, an HDF5 file (1 MiB for its own) does not.
  const Kept kept(2'600'000, 3);
  EXPECT_GT(take_all(*kept.begin("nifti")), 3 * sizeof(float) * kSide * kSide * 16);
  EXPECT_THAT(said([&] { take_all(*kept.begin("hdf5")); }, 503), HasSubstr("no memory left for this file"));
  EXPECT_EQ(kept.budget->used(), kept.used);
  const Kept narrow(1'200'000, 1);
  EXPECT_THAT(said([&] { narrow.begin("nifti"); }, 503), HasSubstr("no memory left for this file"));
  EXPECT_EQ(narrow.budget->used(), narrow.used);
}

TEST(Downloads, HaveFewPlaces) {
  const Kept kept(0);
  const Downloads downloads(kept.budget);
  std::vector<std::shared_ptr<Download>> all;
  for (int i = 0; i < Downloads::kMost; ++i) all.push_back(downloads.begin({7, "nifti"}, kept.images, nullptr));
  EXPECT_THAT(said([&] { downloads.begin({7, "nifti"}, kept.images, nullptr); }, 503), HasSubstr("4 files"));
  all.pop_back();
  EXPECT_EQ(said([&] { downloads.begin({7, "nifti"}, kept.images, nullptr); }, 503), "");
  EXPECT_THAT(said([&] { downloads.begin({8, "nifti"}, kept.images, nullptr); }, 404), HasSubstr("is kept"));
  EXPECT_THAT(said([&] { downloads.begin({7, "gif"}, kept.images, nullptr); }, 404), HasSubstr("format="));
  EXPECT_EQ(said([&] { downloads.begin({7, "nifti"}, kept.images, nullptr); }, 503), "");  // errors keep no place
}

TEST(Downloads, KeepNoImageThatAScanNeedsTheMemoryOf) {
  Kept kept(0);
  const auto download = kept.begin("nifti");
  download->plan();
  std::string piece;
  EXPECT_TRUE(download->next(piece));
  kept.images.evict(1 << 30);
  EXPECT_EQ(kept.images.bytes(), 0U);
  EXPECT_THAT(said([&] { download->next(piece); }, 503), HasSubstr("has gone meanwhile"));
}

TEST(MemoryFile, GoesWhenOthersNeedItsMemory) {
  const auto budget = std::make_shared<numerics::MemoryBudget>(1'000'000);
  MemoryFile file(budget);
  EXPECT_TRUE(file.pay(900'000));
  EXPECT_FALSE(file.pay(1'100'000));
  EXPECT_FALSE(budget->take(500'000));  // it is still being written
  file.seal();
  EXPECT_EQ(file.read(0, 10), "");
  EXPECT_TRUE(budget->take(500'000));
  EXPECT_FALSE(file.read(0, 10));
  EXPECT_EQ(budget->used(), 500'000U);
}

TEST(ZipWriter, HoldsAsManyFilesAsItsDirectoryCounts) {
  ZipWriter zip;
  std::string all;
  for (std::uint64_t i = 0; i < ZipWriter::kMostFiles; ++i) all += zip.file("a", "");
  EXPECT_THROW(zip.file("a", ""), std::length_error);
  const std::string end = zip.finish();
  // 4.3.16: the end's signature, two disks, two counts.
  EXPECT_EQ(end.substr(end.size() - 22, 12), std::string("PK\5\6\0\0\0\0\xff\xff\xff\xff", 12));
}

}  // namespace
}  // namespace echotrain::server
