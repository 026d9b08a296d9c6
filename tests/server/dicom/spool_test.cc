#include "server/dicom/spool.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>

#include "tests/server/dicom/dicom_support.h"

namespace echotrain::server {
namespace {

constexpr std::uint64_t kBound = 1000;

TEST(DicomSpool, GivesFilesInTheirOrderAndSurvives) {
  const SpoolFolder folder;
  auto spool = std::make_unique<Spool>(folder.path(), kBound, std::vector<std::string>{"a", "b"});
  EXPECT_FALSE(spool->oldest("a"));
  EXPECT_EQ(spool->put("a", "first"), "");
  EXPECT_EQ(spool->put("b", "other"), "");
  EXPECT_EQ(spool->put("a", "second"), "");
  EXPECT_EQ(text_of_file(*spool->oldest("a")), "first");
  EXPECT_EQ(spool->waiting("a").files, 2U);
  EXPECT_EQ(spool->waiting("a").bytes, 11U);
  std::ofstream(folder.path() / "a" / "00000000000000000009.dcm.part") << "half";
  spool.reset();
  spool = std::make_unique<Spool>(folder.path(), kBound, std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a" / "00000000000000000009.dcm.part"));
  EXPECT_EQ(spool->orphans(), std::vector<std::string>{"b"});
  EXPECT_EQ(spool->put("a", "third"), "");
  for (const char* expected : {"first", "second", "third"}) {
    const auto file = spool->oldest("a");
    ASSERT_TRUE(file);
    EXPECT_EQ(text_of_file(*file), expected);
    struct stat status {};
    ASSERT_EQ(::stat(file->c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << "they hold patients' data";
    spool->remove("a", *file);
    EXPECT_FALSE(std::filesystem::exists(*file));
  }
  EXPECT_FALSE(spool->oldest("a"));
}

TEST(DicomSpool, IsBoundedInBytesWithWhatWasPutAside) {
  const SpoolFolder folder;
  Spool spool(folder.path(), kBound, {"a"});
  EXPECT_EQ(spool.put("a", std::string(600, 'x')), "");
  EXPECT_NE(spool.put("a", std::string(600, 'y')).find("dicom.spool_mib"), std::string::npos);
  EXPECT_EQ(spool.put("a", std::string(400, 'z')), "") << "a smaller one fits";
  spool.put_aside("a", *spool.oldest("a"));
  EXPECT_EQ(spool.waiting("a").files, 1U);
  EXPECT_EQ(spool.waiting("a").refused, 1U);
  EXPECT_NE(spool.put("a", "1"), "") << "files that were put aside still take their place";
  const Spool* const same = &spool;
  for (const auto& file : std::filesystem::directory_iterator(folder.path() / "a" / "refused"))
    std::filesystem::remove(file.path());
  EXPECT_EQ(spool.put("a", "1"), "") << "an operator has removed it";
  EXPECT_EQ(same->waiting("a").refused, 0U);
}

TEST(DicomSpool, LeavesOtherPeersTheirShare) {
  const SpoolFolder folder;
  Spool spool(folder.path(), kBound, {"a", "b"});
  EXPECT_EQ(spool.put("a", std::string(700, 'x')), "") << "its share of 250 and the common 500";
  EXPECT_NE(spool.put("a", std::string(100, 'x')).find("for other peers (dicom.spool_mib)"), std::string::npos);
  EXPECT_EQ(spool.put("a", std::string(50, 'x')), "");
  EXPECT_EQ(spool.put("b", std::string(250, 'y')), "");
  EXPECT_NE(spool.put("b", "y").find("of at most"), std::string::npos);
  spool.remove("a", *spool.oldest("a"));
  EXPECT_EQ(spool.put("b", std::string(500, 'y')), "") << "the common part is for whoever needs it";
}

TEST(DicomSpool, BelongsToOneProcessAtATime) {
  const SpoolFolder folder;
  const Spool spool(folder.path(), kBound, {"a"});
  EXPECT_THROW(Spool(folder.path(), kBound, {"a"}), std::runtime_error);
}

TEST(DicomSpool, SaysWhatTheDiskRefuses) {
  const SpoolFolder folder;
  Spool spool(folder.path() / "new", kBound, {"a"});
  std::filesystem::remove_all(folder.path() / "new" / "a");
  EXPECT_NE(spool.put("a", "bytes").find("writing to the spool failed"), std::string::npos);
  EXPECT_EQ(spool.put("a", "bytes").find("at most"), std::string::npos) << "what failed takes no place";
  std::ofstream(folder.path() / "file") << "no folder";
  EXPECT_THROW(Spool(folder.path() / "file", kBound, {"a"}), std::runtime_error);
}

}  // namespace
}  // namespace echotrain::server
