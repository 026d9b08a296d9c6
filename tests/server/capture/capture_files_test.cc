// Names of raw captures, whose they are, and which of them stay.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "server/capture/capture.h"
#include "tests/server/capture/capture_support.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using testing::ElementsAre;

TEST(CaptureName, HasTimeSessionAndARandomPart) {
  const auto when = std::chrono::system_clock::from_time_t(1769860800);  // 2026-01-31 12:00:00 UTC, by `date -u`
  const std::string name = capture_name(when, 17), again = capture_name(when, 17);
  EXPECT_THAT(name, testing::MatchesRegex("20260131T120000Z-s17-[0-9a-f]+\\.mrd"));
  EXPECT_NE(name, again);
  EXPECT_TRUE(is_capture_name(name));
  EXPECT_TRUE(is_capture_name(capture_name(when, 17, "0123abcd")));
  const std::string of_two = capture_name(when, 17, "0123abcd", "89abcdef");
  EXPECT_TRUE(is_capture_name(of_two));
  EXPECT_TRUE(of_two.ends_with("-0123abcd-89abcdef.mrd"));
  EXPECT_EQ(capture_owner(of_two), "0123abcd");
  for (const std::string& other :
       {std::string("scan.mrd"), std::string(), name + "~", "x" + name, name.substr(0, name.size() - 4),
        std::string("20260131T120000Z-s-0123abcd.mrd"), std::string("20260131T120000Z-s1-0123abc.mrd"),
        std::string("20260131T120000Z-s1-0123ABCD.mrd"), std::string("20260131T120000Z-s1-0123abcd-.mrd"),
        std::string("20260131T120000Z-s1-0123abcd-0123abc.mrd"),
        std::string("20260131T120000Z-s1-0123abcd-0123abcz.mrd"),
        std::string("20260131T120000Z-s1-0123abcd-0123abcd-0123abcd-0123abcd.mrd"),
        std::string("20260131T120000Z-s1-0123abcd--0123abcd.mrd"),
        std::string("20260131T120000Z-s1-0123abcd0123abcd.mrd"), std::string("2026131T120000Z-s1-0123abcd.mrd")})
    EXPECT_FALSE(is_capture_name(other)) << other;
}

class Retention : public testing::Test {
 protected:
  /// A file of `bytes` (sparse) that was last written `days` ago.
  void file(const std::string& name, double days, std::uint64_t bytes = 10) const {
    const std::string path = folder_.path() / name;
    std::ofstream(path) << "x";
    std::filesystem::resize_file(path, bytes);
    const timespec when{static_cast<std::time_t>(kNow - days * 86400), 0};
    const timespec times[2] = {when, when};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  Removed remove(std::int64_t days, std::int64_t gib) const {
    config::CaptureOptions options = capture_to(folder_);
    options.keep_days = days;
    options.keep_gib = gib;
    return remove_old_captures(options, std::chrono::system_clock::from_time_t(kNow));
  }
  static std::string name(int i, const std::string& of = "") {
    return fmt::format("20260131T120000Z-s{}-0123abcd{}.mrd", i, of);
  }

  static constexpr std::time_t kNow = 1770000000;
  static constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  TemporaryFolder folder_;
};

TEST_F(Retention, ByAgeTakesCapturesOnly) {
  file(name(1), 10);
  file(name(2), 7.1);
  file(name(3), 6.9);
  file("scan.mrd", 100);
  file("20260131T120000Z-s1-0123abcd.mrd.part", 100);
  std::filesystem::create_directory(folder_.path() / name(4));
  std::filesystem::create_symlink(folder_.path() / "scan.mrd", folder_.path() / name(5));
  EXPECT_EQ(remove(0, 0).files, 0);
  const Removed removed = remove(7, 0);
  EXPECT_EQ(removed.files, 2);
  EXPECT_EQ(removed.bytes, 20U);
  EXPECT_THAT(folder_.names(),
              ElementsAre("20260131T120000Z-s1-0123abcd.mrd.part", name(3), name(4), name(5), "scan.mrd"));
}

TEST_F(Retention, BySizeTakesTheOldestAndNeverTheNewest) {
  for (int i = 1; i <= 5; ++i) file(name(i), 6 - i, kGiB);
  EXPECT_EQ(remove(0, 5).files, 0);
  EXPECT_EQ(remove(0, 3).files, 2);
  EXPECT_THAT(folder_.names(), ElementsAre(name(3), name(4), name(5)));
  file(name(5), 1, 9 * kGiB);
  EXPECT_EQ(remove(0, 1).files, 2);
  EXPECT_THAT(folder_.names(), ElementsAre(name(5)));
  EXPECT_EQ(remove(1, 1).files, 0);
}

TEST_F(Retention, OneClientsCapturesPushOutNoneOfAnother) {
  const std::string much = "-aaaaaaaa", little = "-bbbbbbbb";
  file(name(1, little), 9, kGiB);
  for (int i = 2; i <= 6; ++i) file(name(i, much), 9 - i, kGiB);
  file(name(7), 1, kGiB);  // an older server's
  EXPECT_EQ(remove(0, 5).files, 2);
  EXPECT_THAT(folder_.names(), ElementsAre(name(1, little), name(4, much), name(5, much), name(6, much), name(7)));
  EXPECT_EQ(remove(0, 3).files, 2) << "each has its third";
  EXPECT_THAT(folder_.names(), ElementsAre(name(1, little), name(6, much), name(7)));
}

/// Each counts 1 MiB: of files of 10 bytes, 1,024 stay in 1 GiB.
TEST_F(Retention, TinyCapturesAreBoundedInNumber) {
  for (int i = 1; i <= 1030; ++i) file(name(i, "-aaaaaaaa"), 9 - i * 1e-3);
  for (int i = 2001; i <= 2004; ++i) file(name(i, "-bbbbbbbb"), 10);
  EXPECT_EQ(remove(0, 1).files, 10);
  const auto left = folder_.names();
  EXPECT_EQ(left.size(), 1024U);
  EXPECT_TRUE(left.contains(name(2001, "-bbbbbbbb")) && left.contains(name(11, "-aaaaaaaa")));
  EXPECT_FALSE(left.contains(name(10, "-aaaaaaaa")));
}

/// A file that cannot go yet counts, and no other client pays for it.
TEST_F(Retention, ACaptureThatIsBeingWrittenPushesOutNoneOfAnother) {
  const CaptureFile open(folder_.path(), name(1, "-aaaaaaaa"));
  ASSERT_EQ(::ftruncate(open.descriptor(), static_cast<off_t>(9 * kGiB)), 0);
  file(name(2, "-aaaaaaaa"), 3, kGiB);
  for (int i = 3; i <= 4; ++i) file(name(i, "-bbbbbbbb"), 5 - i, kGiB);
  EXPECT_EQ(remove(0, 4).files, 1);
  EXPECT_THAT(folder_.names(), ElementsAre(name(1, "-aaaaaaaa"), name(3, "-bbbbbbbb"), name(4, "-bbbbbbbb")));
}

/// Captures of many addresses that count as one client.
TEST_F(Retention, AddressesOfOneClientHaveOnePart) {
  for (int i = 1; i <= 6; ++i) file(name(i, "-aaaaaaa" + std::to_string(i) + "-cccccccc"), 10 - i, kGiB);
  for (int i = 7; i <= 8; ++i) file(name(i, "-bbbbbbbb"), 20 - i, kGiB);
  EXPECT_EQ(remove(0, 4).files, 4);
  EXPECT_THAT(folder_.names(), ElementsAre(name(5, "-aaaaaaa5-cccccccc"), name(6, "-aaaaaaa6-cccccccc"),
                                           name(7, "-bbbbbbbb"), name(8, "-bbbbbbbb")));
}

/// Names tell, also the next server, whose captures they are, and nobody who it is.
TEST_F(Retention, KnowsClientsAgainAfterARestart) {
  std::set<std::string> owners;
  for (int start = 0; start < 2; ++start) {
    CaptureStore store(capture_to(folder_), nullptr);
    const std::string name = store
                                 .open(
                                     1, [] {}, "token:mr1")
                                 ->name(),
                      other = store
                                  .open(
                                      2, [] {}, "token:mr2")
                                  ->name();
    EXPECT_TRUE(is_capture_name(name)) << name;
    EXPECT_THAT(name, testing::MatchesRegex("[0-9TZ]+-s1-[0-9a-f]+-[0-9a-f]+\\.mrd"));
    EXPECT_NE(name.substr(name.size() - 12), other.substr(other.size() - 12));
    const std::string of_two = store
                                   .open(
                                       3, [] {}, "token:mr1", "token:mr2")
                                   ->name();
    EXPECT_EQ(of_two.substr(of_two.size() - 21), name.substr(name.size() - 12, 8) + other.substr(other.size() - 13));
    owners.insert(name.substr(name.size() - 12));
  }
  EXPECT_EQ(owners.size(), 1U);
  const TemporaryFolder elsewhere;
  CaptureStore store(capture_to(elsewhere), nullptr);
  const std::string name = store
                               .open(
                                   1, [] {}, "token:mr1")
                               ->name();
  EXPECT_FALSE(owners.contains(name.substr(name.size() - 12))) << "no digest that can be looked up";
}

TEST_F(Retention, TakesTheChecksumsToo) {
  file(name(1), 10);
  file(name(1) + ".crc32c", 10);
  file(name(2), 1);
  file(name(2) + ".crc32c", 1);
  EXPECT_EQ(remove(7, 0).files, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / (name(1) + ".crc32c")));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / (name(2) + ".crc32c")));
}

TEST_F(Retention, TakesChecksumsOfNothingAfterADay) {
  for (const std::string& left : {name(1) + ".crc32c", name(2) + ".crc32c", std::string("scan.mrd.crc32c")})
    file(left, left.starts_with(name(2)) ? 0.9 : 1.1);
  const auto is_there = [&](const std::string& left) { return std::filesystem::exists(folder_.path() / left); };
  EXPECT_EQ(remove(0, 0).files, 0);
  EXPECT_TRUE(is_there(name(1) + ".crc32c"));
  EXPECT_EQ(remove(7, 0).files, 0);
  EXPECT_FALSE(is_there(name(1) + ".crc32c"));
  EXPECT_TRUE(is_there(name(2) + ".crc32c"));
  EXPECT_TRUE(is_there("scan.mrd.crc32c"));
}

TEST_F(Retention, LeavesWhatIsBeingWritten) {
  file(name(2), 8);
  file(name(3), 1);
  {
    const CaptureFile open(folder_.path(), name(1));
    const timespec times[2] = {{1, 0}, {1, 0}};
    ASSERT_EQ(::futimens(open.descriptor(), times), 0);
    EXPECT_EQ(remove(7, 0).files, 1);
    EXPECT_THAT(folder_.names(), ElementsAre(name(1), name(3)));
  }
  EXPECT_EQ(remove(7, 0).files, 1);
  EXPECT_THAT(folder_.names(), ElementsAre(name(3)));
}

TEST_F(Retention, RunsWhenAStoreBeginsAndWhenACaptureEnds) {
  file(name(1), 1e4);
  file(name(2), 1e4);
  config::CaptureOptions options = capture_to(folder_);
  options.keep_days = 7;
  CaptureStore store(options, nullptr);
  EXPECT_TRUE(comes_true_soon([&] { return folder_.names().size() == 1; }));  // the newest stays
  const auto capture = store.open(3, [] {});
  capture->append(protocol::Payload::take(std::vector<char>{'x'}));
  capture->finish(true);
  EXPECT_TRUE(comes_true_soon([&] { return folder_.names() == std::set{capture->name()}; }));
}

/// Processor time of this process.
double used_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Looking at 10,000 captures takes a while. For 20 times as long five scans end in each such while: no CLOSE waits for
/// what the one before it has started, and it is not done again for each.
TEST_F(Retention, KeepsNoCloseWaitingInALargeFolder) {
  using Seconds = std::chrono::duration<double>;
  for (int i = 1; i <= 10'000; ++i) std::ofstream(folder_.path() / name(i)) << "x";
  config::CaptureOptions options = capture_to(folder_);
  options.keep_gib = 1000;
  options.sync = config::CaptureOptions::Sync::before_close;
  const auto began = Clock::now();
  const double used_before_it = used_s();
  remove_old_captures(options, std::chrono::system_clock::now());
  const Seconds once = Clock::now() - began;
  const double once_used = used_s() - used_before_it;
  CaptureStore store(options, nullptr, {{}, [](int) { return 0; }, {}});
  const double used_before = used_s();
  const auto first = Clock::now();
  int closes = 0;
  for (; Clock::now() - first < 20 * once; ++closes) {
    const auto capture = store.open(1, [] {});
    capture->append(protocol::Payload::take(std::vector<char>{'x'}));
    capture->seal();
    while (!capture->sealed()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    capture->finish(true);
    std::this_thread::sleep_for(once / 5);
  }
  EXPECT_GT(closes, 30) << kMatterOfTime << "17 if each waits for a pruning of " << once.count() << " s";
  EXPECT_LT(used_s() - used_before, 8 * once_used) << kMatterOfTime << closes << " closes, and one or two prunings";
}

}  // namespace
}  // namespace echotrain::server
