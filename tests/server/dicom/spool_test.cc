#include "server/dicom/spool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "tests/server/dicom/dicom_support.h"
#include "tests/support/cpu_time.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kBound = 1000;

TEST(DicomSpool, GivesFilesInTheirOrderAndSurvives) {
  const SpoolFolder folder;
  auto spool = std::make_unique<Spool>(folder.path(), Spool::Limits{kBound}, std::vector<std::string>{"a", "b"});
  EXPECT_FALSE(spool->next("a"));
  EXPECT_EQ(spool->put("a", "first"), "");
  EXPECT_EQ(spool->put("b", "other"), "");
  EXPECT_EQ(spool->put("a", "second"), "");
  EXPECT_EQ(text_of_file(*spool->next("a")), "first");
  EXPECT_EQ(spool->waiting("a").files, 2U);
  EXPECT_EQ(spool->waiting("a").bytes, 11U);
  std::ofstream(folder.path() / "a" / "00000000000000000009.dcm.part") << "half";
  spool.reset();
  spool = std::make_unique<Spool>(folder.path(), Spool::Limits{kBound}, std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a" / "00000000000000000009.dcm.part"));
  EXPECT_EQ(spool->orphans(), std::vector<std::string>{"b"});
  EXPECT_EQ(spool->put("a", "third"), "");
  for (const char* expected : {"first", "second", "third"}) {
    const auto file = spool->next("a");
    ASSERT_TRUE(file);
    EXPECT_EQ(text_of_file(*file), expected);
    struct stat status {};
    ASSERT_EQ(::stat(file->c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << "they hold patients' data";
    spool->remove("a", *file);
    EXPECT_FALSE(std::filesystem::exists(*file));
  }
  EXPECT_FALSE(spool->next("a"));
}

TEST(DicomSpool, IsBoundedInBytesWithWhatWasPutAside) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound}, {"a"});
  EXPECT_EQ(spool.put("a", std::string(600, 'x')), "");
  EXPECT_NE(spool.put("a", std::string(600, 'y')).find("dicom.spool_mib"), std::string::npos);
  EXPECT_EQ(spool.put("a", std::string(400, 'z')), "") << "a smaller one fits";
  spool.put_aside("a", *spool.next("a"));
  EXPECT_EQ(spool.waiting("a").files, 1U);
  EXPECT_EQ(spool.waiting("a").refused, 1U);
  EXPECT_NE(spool.put("a", "1"), "") << "files that were put aside still take their place";
  const Spool* const same = &spool;
  for (const auto& file : std::filesystem::directory_iterator(folder.path() / "a" / "refused"))
    std::filesystem::remove(file.path());
  EXPECT_TRUE(comes_true([&] { return spool.put("a", "1").empty(); })) << "an operator has removed it";
  EXPECT_EQ(same->waiting("a").refused, 0U);
}

TEST(DicomSpool, KeepsWhatWasPutAsideWithinItsBounds) {
  const SpoolFolder folder;
  const std::filesystem::path refused = folder.path() / "a" / "refused";
  const Spool::Limits limits{kBound, 250, std::chrono::hours(24)};
  {
    Spool spool(folder.path(), limits, {"a", "b"});
    for (const char* peer : {"b", "a", "a", "a"}) {
      EXPECT_EQ(spool.put(peer, std::string(100, 'x')), "");
      spool.put_aside(peer, *spool.next(peer));
    }
    EXPECT_EQ(spool.tidy("a"), 1U) << "the oldest of three, as two fit";
    EXPECT_FALSE(std::filesystem::exists(refused / "00000000000000000002.dcm"));
    EXPECT_EQ(spool.waiting("a").refused, 2U);
    EXPECT_EQ(spool.tidy("b"), 0U) << "each peer has bounds of its own";
    EXPECT_EQ(spool.put("a", std::string(500, 'y')), "") << "what was removed takes no place";
  }
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(25);
  std::filesystem::last_write_time(refused / "00000000000000000003.dcm", old);
  const Spool spool(folder.path(), limits, {"a", "b"});
  EXPECT_EQ(spool.waiting("a").refused, 1U) << "a day is over for one, also when a server starts";
  EXPECT_TRUE(std::filesystem::exists(refused / "00000000000000000004.dcm"));
  EXPECT_EQ(spool.waiting("b").refused, 1U);
}

TEST(DicomSpool, AFileThatCannotBeRemovedKeepsNoOther) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound, 50}, {"a"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(spool.put("a", std::string(100, 'x')), "");
    spool.put_aside("a", *spool.next("a"));
  }
  const std::filesystem::path oldest = folder.path() / "a" / "refused" / "00000000000000000001.dcm";
  std::filesystem::remove(oldest);
  std::filesystem::create_directories(oldest / "not empty");
  EXPECT_EQ(spool.tidy("a"), 1U);
}

TEST(DicomSpool, CountsDaysFromThePuttingAside) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound, kBound, std::chrono::hours(24)}, {"a"});
  EXPECT_EQ(spool.put("a", "waited long"), "");
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(240);
  std::filesystem::last_write_time(*spool.next("a"), old);
  spool.put_aside("a", *spool.next("a"));
  EXPECT_EQ(spool.tidy("a"), 0U);
}

/// CPU time for `files` that are put aside one after the other, half of which are removed on the way, and as many that
/// a full spool does not take [s].
double time_of_putting_aside(int files) {
  const SpoolFolder folder;
  { const Spool makes_folders(folder.path(), {}, {"a"}); }
  for (int i = 1; i <= files; ++i) std::ofstream(folder.path() / "a" / fmt::format("{:020}.dcm", i)) << "0123456789";
  const auto bytes = static_cast<std::uint64_t>(10 * files);
  Spool spool(folder.path(), {bytes, bytes / 2}, {"a"});
  const double begin = cpu_seconds();
  std::uint64_t removed = 0;
  for (int i = 0; i < files; ++i) {
    spool.put_aside("a", *spool.next("a"));
    removed += spool.tidy("a");
  }
  for (int i = 0; i < files; ++i) EXPECT_NE(spool.put("a", std::string(bytes / 2 + 1, 'x')), "");
  const double used = cpu_seconds() - begin;
  EXPECT_EQ(removed, static_cast<std::uint64_t>(files) / 2);
  EXPECT_EQ(spool.waiting("a").refused, static_cast<std::uint64_t>(files) / 2);
  return used;
}

/// Eight times the files cost about eight times as much; who lists the folder for each needs 64 times as much. Each
/// time is the best of three.
TEST(DicomSpool, PuttingAsideDoesNotCostMoreWithEachFile) {
  double few = 1e9, many = 1e9;
  for (int i = 0; i < 3; ++i) {
    few = std::min(few, time_of_putting_aside(200));
    many = std::min(many, time_of_putting_aside(1600));
  }
  EXPECT_LT(many, 24 * few) << kMatterOfTime << many << " and " << few << " s";
}

TEST(DicomSpool, LeavesOtherPeersTheirShare) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound}, {"a", "b"});
  EXPECT_EQ(spool.put("a", std::string(700, 'x')), "") << "its share of 250 and the common 500";
  EXPECT_NE(spool.put("a", std::string(100, 'x')).find("for other peers (dicom.spool_mib)"), std::string::npos);
  EXPECT_EQ(spool.put("a", std::string(50, 'x')), "");
  EXPECT_EQ(spool.put("b", std::string(250, 'y')), "");
  EXPECT_NE(spool.put("b", "y").find("of at most"), std::string::npos);
  spool.remove("a", *spool.next("a"));
  EXPECT_EQ(spool.put("b", std::string(500, 'y')), "") << "the common part is for whoever needs it";
}

TEST(DicomSpool, AnOwnerGetsNoMoreThanItLeavesToOthers) {
  const SpoolFolder folder;
  auto spool = std::make_unique<Spool>(folder.path(), Spool::Limits{kBound}, std::vector<std::string>{"a"});
  const std::string one = spool->owner("token:mr1"), other = spool->owner("token:mr2");
  EXPECT_NE(one, other);
  EXPECT_EQ(spool->put("a", std::string(400, 'x'), one), "");
  EXPECT_THAT(spool->no_room("a", 101, one), HasSubstr("of this client's images for it are in the spool"));
  EXPECT_THAT(spool->put("a", std::string(101, 'x'), one), HasSubstr("(dicom.spool_mib)"));
  EXPECT_EQ(spool->put("a", std::string(100, 'x'), one), "") << "half";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(spool->put("a", std::string(50, 'y'), other), "") << "half of the rest";
  EXPECT_NE(spool->put("a", "y", other), "");
  EXPECT_EQ(spool->put("a", std::string(125, 'z'), spool->owner("token:mr3")), "");
  // The next server knows them by their files' names, which do not tell who they are.
  EXPECT_THAT(spool->next("a")->filename().string(), testing::MatchesRegex("0+1-[0-9a-f]+\\.dcm"));
  spool.reset();
  spool = std::make_unique<Spool>(folder.path(), Spool::Limits{kBound}, std::vector<std::string>{"a"});
  EXPECT_EQ(spool->owner("token:mr1"), one);
  EXPECT_NE(spool->put("a", "x", one), "");
  EXPECT_NE(spool->put("a", "x", other), "");
  spool->put_aside("a", *spool->next("a"));
  EXPECT_NE(spool->put("a", "x", one), "") << "what was put aside counts";
  const auto is_anothers = [&](const std::filesystem::path& file) {
    return file.string().find(one) == std::string::npos;
  };
  spool->remove("a", *spool->next("a", is_anothers));
  EXPECT_NE(spool->put("a", "x", one), "") << "400 of 775, which leave 225";
  while (const auto file = spool->next("a")) spool->remove("a", *file);
  EXPECT_EQ(spool->put("a", std::string(100, 'x'), one), "") << "500 of 1000";
  const SpoolFolder elsewhere;
  EXPECT_NE(Spool(elsewhere.path(), {kBound}, {"a"}).owner("token:mr1"), one) << "no digest that can be looked up";
}

TEST(DicomSpool, OwnersTakeTurns) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound}, {"a"});
  const std::string one = spool.owner("token:mr1"), other = spool.owner("token:mr2"), third = spool.owner("token:mr3");
  std::string order;
  const auto send = [&](int files) {
    for (; files > 0; --files) {
      const auto file = spool.next("a");
      order += text_of_file(*file);
      spool.remove("a", *file);
    }
  };
  for (const char* file : {"1", "2", "3", "4"}) spool.put("a", file, one);
  for (const char* file : {"a", "b"}) spool.put("a", file, other);
  send(2);
  spool.put("a", "x", third);
  send(3);
  spool.put("a", "y", third);  // who comes again is not first again
  send(3);
  EXPECT_EQ(order, "1a2bx3y4");
}

TEST(DicomSpool, KeepsImagesInAFolderThatIsCalledAsItsSalt) {
  const SpoolFolder folder;
  { Spool(folder.path(), {kBound}, {"salt-"}).put("salt-", "images of patients"); }
  std::filesystem::remove(folder.path() / "salt");
  std::filesystem::rename(folder.path() / "salt-", folder.path() / "salt");
  const Spool spool(folder.path(), {kBound}, {"a"});
  EXPECT_THAT(spool.orphans(), testing::ElementsAre("salt"));
}

TEST(DicomSpool, SaysWhatToDoAboutEachReason) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound}, {"a", "b"});
  const std::string one = spool.owner("token:mr1");
  const char* const ever = "; raise dicom.spool_mib";
  EXPECT_THAT(spool.put("a", std::string(1001, 'x')), HasSubstr(ever)) << "of all";
  EXPECT_THAT(spool.put("a", std::string(751, 'x')), HasSubstr(ever)) << "250 and the common 500";
  EXPECT_THAT(spool.put("a", std::string(376, 'x'), one), HasSubstr(ever)) << "half of that";
  EXPECT_EQ(spool.put("a", std::string(375, 'x'), one), "");
  EXPECT_THAT(spool.put("a", "x", one), HasSubstr("; send the scan again when the peer has taken what waits for it"));
  EXPECT_EQ(spool.put("a", std::string(375, 'x')), "");
  EXPECT_THAT(spool.put("a", "x"), HasSubstr("; send the scan again when the peer has taken what waits for it"));
  EXPECT_EQ(spool.put("b", std::string(250, 'x')), "");
  EXPECT_THAT(spool.put("b", "x"), HasSubstr("; send the scan again when peers have taken what waits for them"));
  spool.remove("b", *spool.next("b"));
  std::filesystem::remove_all(folder.path() / "b");
  EXPECT_THAT(spool.put("b", "x"), HasSubstr("No such file or directory; who runs the server looks after"));
}

/// A peer's part is shared out by itself: what waits for one that is down takes nothing from another.
TEST(DicomSpool, AnOwnersPartIsOfEachPeer) {
  const SpoolFolder folder;
  Spool spool(folder.path(), {kBound}, {"a", "b"});
  const std::string one = spool.owner("token:mr1"), other = spool.owner("token:mr2");
  EXPECT_EQ(spool.put("a", std::string(375, 'x'), one), "") << "half of 250 and the common 500";
  EXPECT_NE(spool.put("a", "x", one), "");
  EXPECT_EQ(spool.put("a", std::string(187, 'x'), other), "");
  EXPECT_EQ(spool.put("b", std::string(200, 'x'), one), "");
}

TEST(DicomSpool, GivesNoNumberThatAnythingHas) {
  const SpoolFolder folder;
  { const Spool makes_folders(folder.path(), {kBound}, {"a"}); }
  std::filesystem::create_directory(folder.path() / "a" / "refused" / "00000000000000000007.dcm");
  {
    Spool spool(folder.path(), {kBound}, {"a"});
    EXPECT_EQ(spool.put("a", "x"), "");
    EXPECT_EQ(spool.next("a")->filename(), "00000000000000000008.dcm");
    spool.remove("a", *spool.next("a"));
  }
  std::filesystem::create_directory(folder.path() / "a" / "00000000000000000009.dcm");
  Spool spool(folder.path(), {kBound}, {"a"});
  EXPECT_EQ(spool.put("a", "x"), "");
  EXPECT_EQ(spool.next("a")->filename(), "00000000000000000010.dcm");
}

TEST(DicomSpool, BelongsToOneProcessAtATime) {
  const SpoolFolder folder;
  const Spool spool(folder.path(), {kBound}, {"a"});
  EXPECT_THROW(Spool(folder.path(), {kBound}, {"a"}), std::runtime_error);
}

TEST(DicomSpool, SaysWhatTheDiskRefuses) {
  const SpoolFolder folder;
  Spool spool(folder.path() / "new", {kBound}, {"a"});
  std::filesystem::remove_all(folder.path() / "new" / "a");
  EXPECT_NE(spool.put("a", "bytes").find("writing to the spool failed"), std::string::npos);
  EXPECT_EQ(spool.put("a", "bytes").find("at most"), std::string::npos) << "what failed takes no place";
  std::ofstream(folder.path() / "file") << "no folder";
  EXPECT_THROW(Spool(folder.path() / "file", {kBound}, {"a"}), std::runtime_error);
}

}  // namespace
}  // namespace echotrain::server
