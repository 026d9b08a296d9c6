// Files of raw captures and the threads that write them, without a server.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "server/capture/capture.h"
#include "tests/server/capture/capture_support.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Options = config::CaptureOptions;

constexpr std::size_t kMiB = 1 << 20;

std::string random_bytes(std::mt19937& random, std::size_t n) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}
protocol::Payload payload(const std::string& bytes) {
  return protocol::Payload::take(std::vector<char>(bytes.begin(), bytes.end()));
}
void nothing() {}
bool is_checksums(int descriptor) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)).extension() == ".crc32c";
}

TEST(CaptureFolder, IsMadeForItsOwnerOnly) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.directory = folder.path() / "a" / "b";
  const mode_t before = ::umask(0);
  {
    CaptureStore store(options, nullptr);
    store.open(1, nothing)->append(payload("x"));
  }
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(options.directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  const auto file = std::filesystem::directory_iterator(options.directory)->path();
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(CaptureFolder, OneThatCannotBeUsedIsRefusedWithTheReason) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  for (const char* bad : {"file", "file/below"}) {
    Options options = capture_to(folder);
    options.directory = folder.path() / bad;
    try {
      CaptureStore store(options, nullptr);
      FAIL() << bad;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("capture.directory: cannot keep captures in '"));
    }
  }
}

/// Writes as little as it likes at a time, and is interrupted now and then.
Disk capricious() {
  return {[random = std::mt19937(5)](int descriptor, const iovec* parts, int count) mutable -> ssize_t {
            if (random() % 8 == 0) {
              errno = EINTR;
              return -1;
            }
            const int n = 1 + static_cast<int>(random() % static_cast<unsigned>(count));
            if (n > 1) return ::writev(descriptor, parts, n);
            return ::write(descriptor, parts[0].iov_base, 1 + random() % parts[0].iov_len);
          },
          {},
          {}};
}

TEST(CaptureStore, FilesHoldExactlyWhatWasAppended) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  std::vector<std::string> sent(3);
  std::vector<std::string> names;
  {
    CaptureStore store(capture_to(folder), std::make_shared<QueueMemory>(UINT64_MAX), capricious());
    std::vector<std::shared_ptr<Capture>> captures;
    for (std::uint64_t i = 0; i < sent.size(); ++i) captures.push_back(store.open(i, nothing));
    for (int part = 0; part < 600; ++part) {
      const std::size_t which = random() % sent.size();
      const std::string bytes = random_bytes(random, random() % (part % 50 == 0 ? 200000 : 700));
      sent[which] += bytes;
      captures[which]->append(payload(bytes));
      EXPECT_EQ(captures[which]->size(), sent[which].size());
    }
    for (const auto& capture : captures) {
      names.push_back(capture->name());
      capture->finish(true);
    }
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(folder.read(names[i]), sent[i]) << i;
    const protocol::Verdict verdict = protocol::verify(folder.path() / names[i]);
    EXPECT_EQ(verdict.state, protocol::Verdict::State::right) << verdict.text;
  }
}

// The function refers to the session's strand, which may not last as long as the writer needs.
TEST(CaptureStore, AFinishedCaptureLetsGoOfItsSession) {
  const TemporaryFolder folder;
  std::promise<void> disk_goes_on;
  const auto slow = [wait = disk_goes_on.get_future().share()](int descriptor, const iovec* parts, int count) {
    wait.wait();
    return ::writev(descriptor, parts, count);
  };
  CaptureStore store(capture_to(folder), nullptr, {slow, {}, {}});
  const auto session = std::make_shared<int>();
  const auto capture = store.open(1, [session] {});
  EXPECT_EQ(session.use_count(), 2);
  capture->append(payload("abc"));
  capture->finish(true);
  EXPECT_EQ(session.use_count(), 1);
  disk_goes_on.set_value();
}

TEST(CaptureStore, UnfinishedCapturesAreWrittenAndUnwantedOnesRemoved) {
  const TemporaryFolder folder;
  std::string unfinished;
  {
    CaptureStore store(capture_to(folder), nullptr);
    const auto first = store.open(1, nothing), second = store.open(2, nothing), empty = store.open(3, nothing);
    first->append(payload("abc"));
    second->append(payload("def"));
    second->finish(false);
    second->append(payload("nobody wants this"));
    unfinished = first->name();
  }
  EXPECT_THAT(folder.names(), ElementsAre(unfinished));
  EXPECT_EQ(folder.only(), "abc");
}

TEST(CaptureStore, QueueIsBoundedAndCounted) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.queue_mib = 1;
  const auto memory = std::make_shared<QueueMemory>(UINT64_MAX);
  std::atomic<int> woken = 0;
  Gate gate;
  std::string sent;
  {
    CaptureStore store(options, memory, gate.disk());
    const auto capture = store.open(1, [&] { ++woken; });
    const std::string chunk(kMiB / 4, 'c');
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(capture->full());
      EXPECT_EQ(memory->used(), sent.size());
      capture->append(payload(chunk));
      sent += chunk;
    }
    EXPECT_TRUE(capture->full());
    EXPECT_FALSE(capture->written(capture->size()));
    EXPECT_FALSE(capture->stopped());  // when_slow is `wait`
    EXPECT_EQ(woken, 0);
    gate.open();
    EXPECT_TRUE(comes_true_soon([&] { return woken > 0 && capture->written(capture->size()); }));
    EXPECT_FALSE(capture->full());
    EXPECT_EQ(capture->saved(), sent.size());
    EXPECT_EQ(memory->used(), 0U);
    capture->finish(true);
  }
  EXPECT_EQ(folder.only(), sent);
}

TEST(CaptureStore, SlowDiskStopsTheCaptureWhereThatIsWanted) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.queue_mib = 1;
  options.when_slow = Options::WhenSlow::stop_capture;
  Gate gate;
  std::atomic<int> woken = 0;
  CaptureStore store(options, nullptr, gate.disk());
  const auto capture = store.open(1, [&] { ++woken; });
  capture->append(payload(std::string(kMiB - 1, 'a')));
  EXPECT_FALSE(capture->stopped());
  capture->append(payload("b"));
  EXPECT_TRUE(capture->stopped());
  EXPECT_TRUE(capture->too_slow());
  EXPECT_FALSE(capture->full());  // nobody needs to wait
  EXPECT_TRUE(capture->written(capture->size()));
  EXPECT_EQ(woken, 1);
  EXPECT_THAT(capture->failure(), HasSubstr("slower than the data"));
  gate.open();
}

TEST(CaptureStore, FullDiskStopsOneCaptureAndLeavesTheStoreWorking) {
  const TemporaryFolder folder;
  std::atomic<int> woken = 0;
  const std::string bytes(5000, 'x');
  {
    CaptureStore store(capture_to(folder), nullptr, disk_of(3000));
    const auto capture = store.open(1, [&] { ++woken; });
    capture->append(payload(bytes));
    EXPECT_TRUE(comes_true_soon([&] { return capture->stopped(); }));
    EXPECT_EQ(capture->failure(), "writing failed: No space left on device");
    EXPECT_FALSE(capture->too_slow());
    EXPECT_EQ(capture->saved(), 3000U);
    EXPECT_EQ(woken, 1);
    capture->abandon();
    capture->append(payload("never"));
    capture->finish(true);
    const auto another = store.open(2, nothing);
    another->append(payload("y"));
    EXPECT_TRUE(comes_true_soon([&] { return another->stopped(); }));
  }
  EXPECT_EQ(folder.names().size(), 2U);
}

TEST(CaptureStore, FileThatCannotBeMadeStopsTheCapture) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.directory = folder.path() / "gone";
  CaptureStore store(options, nullptr);
  std::filesystem::remove_all(options.directory);
  const auto capture = store.open(1, nothing);
  capture->append(payload("x"));
  EXPECT_TRUE(comes_true_soon([&] { return capture->stopped(); }));
  EXPECT_EQ(capture->failure(), "cannot make the file: No such file or directory");
  EXPECT_EQ(capture->saved(), 0U);
}

std::string fetch_all(Capture& capture, std::uint64_t offset, std::size_t at_once) {
  std::string all;
  while (offset + all.size() < capture.size()) {
    std::vector<std::byte> room(at_once);
    capture.fetch(offset + all.size(), room);
    std::optional<protocol::Result<std::size_t>> result;
    if (!comes_true_soon([&] { return (result = capture.fetched()).has_value(); })) return "no answer";
    if (!*result) return result->error().message;
    all.append(reinterpret_cast<const char*>(room.data()), **result);
  }
  return all;
}

TEST(CaptureStore, WhatWasTakenCanBeReadBackWrittenOrNot) {
  const TemporaryFolder folder;
  std::mt19937 random(2);
  std::string sent;
  // 20,000 bytes reach the file, the rest stays in memory.
  CaptureStore store(capture_to(folder), nullptr, disk_of(20000));
  const auto capture = store.open(1, nothing);
  for (int i = 0; i < 40; ++i) {
    const std::string bytes = random_bytes(random, 1 + random() % 2000);
    sent += bytes;
    capture->append(payload(bytes));
  }
  EXPECT_TRUE(comes_true_soon([&] { return capture->stopped(); }));
  ASSERT_GT(sent.size(), 25000U);
  EXPECT_EQ(capture->saved(), 20000U);
  for (const std::uint64_t offset : {0, 1, 12345, 19999, 20000, 20001, 25000})
    EXPECT_EQ(fetch_all(*capture, offset, 4096), sent.substr(offset)) << offset;
}

TEST(CaptureStore, FileThatWasCutIsAnErrorToReadBack) {
  const TemporaryFolder folder;
  CaptureStore store(capture_to(folder), nullptr);
  const auto capture = store.open(1, nothing);
  capture->append(payload("abcdef"));
  ASSERT_TRUE(comes_true_soon([&] { return capture->written(capture->size()); }));
  ASSERT_EQ(::truncate((folder.path() / capture->name()).c_str(), 2), 0);
  EXPECT_EQ(fetch_all(*capture, 4, 10),
            "the raw capture " + capture->name() + " cannot be read back: it is shorter than what was written");
}

TEST(CaptureStore, SynchronisesAsOftenAsItIsTold) {
  for (const auto& [when, open_syncs, all_syncs] :
       {std::tuple{Options::Sync::none, 0, 0}, {Options::Sync::end, 0, 1}, {Options::Sync::periodic, 1, 2}}) {
    const TemporaryFolder folder;
    Options options = capture_to(folder);
    options.sync = when;
    options.sync_s = 0.01;
    std::atomic<int> syncs = 0;
    {
      CaptureStore store(options, nullptr,
                         {{},
                          [&](int descriptor) {
                            if (!is_checksums(descriptor)) ++syncs;
                            return ::fdatasync(descriptor);
                          },
                          {}});
      const auto capture = store.open(1, nothing);
      capture->append(payload("a"));
      EXPECT_TRUE(comes_true_soon([&, expected = open_syncs] { return syncs >= expected; }));
      ASSERT_TRUE(comes_true_soon([&] { return capture->written(capture->size()); }));
      std::this_thread::sleep_for(50ms);
      EXPECT_EQ(syncs, open_syncs);  // nothing new, nothing to synchronise
      capture->append(payload("b"));
      capture->finish(true);
    }
    EXPECT_GE(syncs, all_syncs);
    EXPECT_LE(syncs, all_syncs + open_syncs);
    EXPECT_EQ(folder.only(), "ab");
  }
}

TEST(CaptureStore, FailedSynchronisationStopsTheCapture) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.sync_s = 0.01;
  CaptureStore store(options, nullptr,
                     {{},
                      [](int /*descriptor*/) {
                        errno = EIO;
                        return -1;
                      },
                      {}});
  const auto capture = store.open(1, nothing);
  capture->append(payload("a"));
  EXPECT_TRUE(comes_true_soon([&] { return capture->stopped(); }));
  EXPECT_EQ(capture->failure(), "synchronising failed: Input/output error");
}

TEST(CaptureStore, ACaptureStopsAtItsBound) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.max_mib = 2;
  std::mt19937 random(9);
  const std::string bytes = random_bytes(random, 2 * kMiB + 1);
  {
    CaptureStore store(options, nullptr);
    const auto capture = store.open(1, nothing);
    for (std::size_t at = 0; at < bytes.size(); at += 100000) capture->append(payload(bytes.substr(at, 100000)));
    EXPECT_TRUE(comes_true_soon([&] { return capture->stopped(); }));
    EXPECT_EQ(capture->failure(), "it has reached capture.max_mib = 2");
    EXPECT_EQ(capture->saved(), 2 * kMiB);
    capture->finish(true);
  }
  EXPECT_TRUE(folder.only() == bytes.substr(0, 2 * kMiB));
  EXPECT_EQ(verdict_of(folder).text, "right: all 2097152 bytes, by 2 checksums");
}

TEST(CaptureStore, ACaptureOfTheBoundsSizeIsWhole) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.max_mib = 1;
  CaptureStore store(options, nullptr);
  const auto capture = store.open(1, nothing);
  capture->append(payload(std::string(kMiB, 'x')));
  capture->seal();
  EXPECT_TRUE(comes_true_soon([&] { return capture->sealed(); }));
  EXPECT_FALSE(capture->stopped());
}

TEST(CaptureStore, SpaceStaysFree) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.reserve_mib = 10;
  std::atomic<std::uint64_t> free = 12 * kMiB + 5000;
  Disk disk;
  disk.write = [&](int descriptor, const iovec* parts, int count) {
    const ssize_t n = ::writev(descriptor, parts, count);
    free -= static_cast<std::uint64_t>(n);
    return n;
  };
  disk.free = [&](int /*descriptor*/) { return std::optional<std::uint64_t>(free); };
  CaptureStore store(options, nullptr, disk);
  const auto capture = store.open(1, nothing);
  for (int i = 0; i < 40; ++i) capture->append(payload(std::string(kMiB / 10, 'x')));
  EXPECT_TRUE(comes_true_soon([&] { return capture->stopped(); }));
  EXPECT_GE(free, 10 * kMiB);
  EXPECT_THAT(capture->failure(), HasSubstr("MiB are left on the disk, of which capture.reserve_mib = 10 stay free"));
  // Another one ends at once, and one that comes when there is space again does not.
  const auto second = store.open(2, nothing);
  second->append(payload(std::string(3 * kMiB, 'x')));
  EXPECT_TRUE(comes_true_soon([&] { return second->stopped(); }));
  EXPECT_EQ(second->saved(), 0U);
  free = 100 * kMiB;
  std::this_thread::sleep_for(150ms);
  const auto third = store.open(3, nothing);
  third->append(payload(std::string(3 * kMiB, 'x')));
  EXPECT_TRUE(comes_true_soon([&] { return third->written(3 * kMiB); }));
  EXPECT_FALSE(third->stopped());
}

TEST(CaptureStore, ASealedCaptureHasItsChecksumsOnTheDisk) {
  for (const Options::Sync when : {Options::Sync::none, Options::Sync::before_close}) {
    const TemporaryFolder folder;
    Options options = capture_to(folder);
    options.sync = when;
    options.sync_s = 1000;
    std::atomic<int> syncs = 0;
    std::promise<void> disk_goes_on;
    const auto wait = disk_goes_on.get_future().share();
    CaptureStore store(options, nullptr,
                       {{},
                        [&](int descriptor) {
                          wait.wait();
                          ++syncs;
                          return ::fdatasync(descriptor);
                        },
                        {}});
    std::atomic<int> woken = 0;
    const auto capture = store.open(1, [&] { ++woken; });
    capture->append(payload(std::string(3 * kMiB / 2, 'x')));
    EXPECT_FALSE(capture->sealed());
    capture->seal();
    capture->append(payload("too late"));
    if (when == Options::Sync::before_close) {
      EXPECT_TRUE(comes_true_soon([&] { return verdict_of(folder).state == protocol::Verdict::State::right; }));
      std::this_thread::sleep_for(50ms);
      EXPECT_FALSE(capture->sealed());
    }
    disk_goes_on.set_value();
    EXPECT_TRUE(comes_true_soon([&] { return capture->sealed(); }));
    EXPECT_EQ(syncs, when == Options::Sync::before_close ? 2 : 0);
    EXPECT_EQ(woken, 1);
    EXPECT_EQ(verdict_of(folder).text, "right: all 1572864 bytes, by 2 checksums");
    capture->finish(true);
  }
}

// The Nth write, whatever it is of: what is on the disk is never said to be right when it is not all there.
TEST(CaptureStore, AFullDiskAtAnyWriteIsNoticed) {
  std::mt19937 random(10);
  const std::string bytes = random_bytes(random, 5 * kMiB / 2);
  constexpr int kWrites = 27 + 3;  // 27 parts; the lines of two MiB, and the end's
  int failures = 0;
  for (int number = 1; number <= kWrites + 1; ++number) {  // the last time, none fails
    const TemporaryFolder folder;
    std::atomic<int> writes = 0;
    std::atomic<bool> failed = false;
    const auto write = [&](int descriptor, const iovec* parts, int count) {
      if (++writes < number) return ::writev(descriptor, parts, count);
      failed = true;
      errno = ENOSPC;
      return ssize_t{-1};
    };
    CaptureStore store(capture_to(folder), nullptr, {write, {}, {}});
    const auto capture = store.open(1, nothing);
    for (std::size_t at = 0; at < bytes.size(); at += 100000) {
      const std::string part = bytes.substr(at, 100000);
      capture->append(payload(part));
      ASSERT_TRUE(comes_true_soon([&] { return capture->written(capture->size()); }));
    }
    capture->seal();
    ASSERT_TRUE(comes_true_soon([&] { return capture->sealed(); }));
    EXPECT_EQ(capture->stopped(), failed) << number;
    const protocol::Verdict verdict = verdict_of(folder);
    EXPECT_EQ(verdict.state, failed ? protocol::Verdict::State::unfinished : protocol::Verdict::State::right) << number;
    EXPECT_TRUE(bytes.starts_with(folder.only()));
    failures += failed ? 1 : 0;
  }
  EXPECT_EQ(failures, kWrites);
}

}  // namespace
}  // namespace echotrain::server
