// Arrays on disk: reading gives the array that was stored, or nothing.
#include "gadgets/shared/store/array_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "gadgets/numerics/core/numerics_errors.h"
#include "gadgets/shared/store/fair_share_eviction.h"
#include "tests/support/matter_of_time.h"

namespace echotrain {
namespace {

using numerics::cfloat;
using numerics::Stopped;
namespace fs = std::filesystem;

class ArrayStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("echotrain_array_store_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::vector<cfloat> numbers(std::int64_t n, float first) {
    std::vector<cfloat> out;
    for (std::int64_t i = 0; i < n; ++i) out.emplace_back(first + static_cast<float>(i), -first);
    return out;
  }
  static void add(const ArrayStore& store, const std::string& key, const std::vector<cfloat>& values,
                  const std::string& client = {}) {
    store.add(key, {values.data(), {static_cast<std::int64_t>(values.size())}}, {}, client);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() != ".use" && entry.path().filename() != "salt") out.push_back(entry.path());
    return out;
  }
  fs::path folder_;
};

TEST_F(ArrayStoreTest, GivesBackWhatWasPutThere) {
  const ArrayStore store(folder_ / "below", 1 << 20);
  EXPECT_FALSE(store.find("a", 10));
  add(store, "a", numbers(10, 1));
  add(store, "b", numbers(10, 2));
  EXPECT_EQ(store.find("a", 10), numbers(10, 1));
  EXPECT_EQ(ArrayStore(folder_ / "below", 1 << 20).find("b", 10), numbers(10, 2));
  EXPECT_FALSE(store.find("a", 9));
  EXPECT_FALSE(store.find("c", 10));
  add(store, "a", numbers(10, 3));
  EXPECT_EQ(store.find("a", 10), numbers(10, 3));
}

TEST_F(ArrayStoreTest, DamagedFilesDoNotExist) {
  const ArrayStore store(folder_, 1 << 20);
  add(store, "a", numbers(10, 1));
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  const auto size = fs::file_size(path);
  for (std::uintmax_t at = 0; at < size; ++at) {  // any byte
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    EXPECT_FALSE(store.find("a", 10)) << at;
    add(store, "a", numbers(10, 1));
    ASSERT_TRUE(store.find("a", 10)) << at;
  }
  fs::resize_file(path, size / 2);
  EXPECT_FALSE(store.find("a", 10));
}

/// The name is FIPS 180-2's example of SHA-256; what a file was kept for decides, not what it is called.
TEST_F(ArrayStoreTest, FilesAreNamedBySha256AndHoldTheirKeys) {
  const ArrayStore store(folder_, 1 << 20);
  add(store, "abc", numbers(10, 1));
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  EXPECT_EQ(path.filename(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.array");
  add(store, "abd", numbers(10, 2));
  for (const fs::path& other : files()) {
    std::error_code same;
    fs::copy_file(path, other, fs::copy_options::overwrite_existing, same);
  }
  EXPECT_EQ(store.find("abc", 10), numbers(10, 1));
  EXPECT_FALSE(store.find("abd", 10));
}

TEST_F(ArrayStoreTest, RemovesWhatWasUnusedForLongest) {
  const ArrayStore store(folder_, 3000);  // room for three
  for (const char* key : {"a", "b", "c"}) {
    add(store, key, numbers(100, 1));
    // The clock of some file systems is coarse.
    fs::last_write_time(files()[0], fs::last_write_time(files()[0]));
  }
  const auto now = fs::file_time_type::clock::now();
  int age = 3;
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(store.find(key, 100));
    for (const auto& path : files()) {
      std::ifstream in(path, std::ios::binary);
      in.seekg(32);
      if (in.get() == key[0]) fs::last_write_time(path, now - std::chrono::hours(age));
    }
    --age;
  }
  ASSERT_TRUE(store.find("a", 100));  // used now
  add(store, "d", numbers(100, 1));
  EXPECT_TRUE(store.find("a", 100));
  EXPECT_FALSE(store.find("b", 100));
  EXPECT_TRUE(store.find("c", 100));
  EXPECT_TRUE(store.find("d", 100));
  add(store, "huge", numbers(1000, 1));  // would take all the room and more
  EXPECT_FALSE(store.find("huge", 1000));
  EXPECT_TRUE(store.find("d", 100));
}

/// Three fit; a client's part is one and a half where there are two.
TEST_F(ArrayStoreTest, WhatOneClientKeepsPushesNothingOutOfAnothersPart) {
  const ArrayStore store(folder_, 3000);
  add(store, "mine", numbers(100, 1), "A");
  for (int i = 0; i < 5; ++i) add(store, "its " + std::to_string(i), numbers(100, 2), "B");
  EXPECT_EQ(store.find("mine", 100, {}, "A"), numbers(100, 1));
  EXPECT_FALSE(store.find("its 2", 100, {}, "B"));
  EXPECT_TRUE(store.find("its 4", 100, {}, "B"));
  EXPECT_EQ(files().size(), 3u) << "all the room is used";
  add(store, "large", numbers(280, 3), "B");
  EXPECT_FALSE(store.find("large", 280, {}, "B")) << "it would take A's part";
  EXPECT_TRUE(store.find("mine", 100, {}, "A"));
}

TEST_F(ArrayStoreTest, AnArrayOfTwoClientsStaysWhenOneOfThemLosesIt) {
  const ArrayStore store(folder_, 3000);
  add(store, "both", numbers(100, 1), "A");
  EXPECT_TRUE(store.find("both", 100, {}, "B"));
  const auto now = fs::file_time_type::clock::now();
  for (const auto& path : files()) fs::last_write_time(path, now - std::chrono::hours(1));
  for (int i = 0; i < 5; ++i) add(store, "its " + std::to_string(i), numbers(100, 2), "B");
  EXPECT_TRUE(store.find("both", 100, {}, "A"));
  EXPECT_TRUE(store.find("its 4", 100, {}, "B"));
}

TEST_F(ArrayStoreTest, WhatNobodyUsesForAWeekIsInNoPart) {
  const ArrayStore store(folder_, 3000);
  add(store, "old", numbers(100, 1), "A");
  for (const auto& path : files())
    fs::last_write_time(path, fs::file_time_type::clock::now() - kShareLapses - std::chrono::hours(1));
  for (int i = 0; i < 3; ++i) add(store, "its " + std::to_string(i), numbers(100, 2), "B");
  EXPECT_FALSE(store.find("old", 100, {}, "A"));
  EXPECT_TRUE(store.find("its 0", 100, {}, "B"));
}

TEST_F(ArrayStoreTest, PlacesThatCannotBeWrittenKeepNothing) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  for (const ArrayStore& store : {ArrayStore("", 1 << 20), ArrayStore(folder_, 0),
                                  ArrayStore(folder_ / "file", 1 << 20), ArrayStore("/proc/nothing", 1 << 20)}) {
    add(store, "a", numbers(10, 1));
    EXPECT_FALSE(store.find("a", 10));
  }
}

TEST_F(ArrayStoreTest, AStopLeavesNothingUnfinished) {
  const ArrayStore store(folder_, 1 << 30);
  add(store, "a", numbers(10, 1));
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_THROW(store.find("a", 10, stopped.get_token()), Stopped);
  EXPECT_THROW(store.find("b", 10, stopped.get_token()), Stopped);
  const std::vector<cfloat> many = numbers(8 << 20, 1);
  const numerics::HostView<const cfloat> array(many.data(), {8 << 20});
  EXPECT_THROW(store.add("b", array, stopped.get_token()), Stopped);
  EXPECT_EQ(files().size(), 1u);
}

/// A bound in time: the stop has to come before the last of the file's eight stretches is written.
TEST_F(ArrayStoreTest, AStopWhileAFileIsWrittenLeavesNothing) {
  const ArrayStore store(folder_, 1 << 30);
  add(store, "a", numbers(10, 1));
  const std::vector<cfloat> many = numbers(16 << 20, 1);
  std::stop_source source;
  std::atomic<bool> over = false;
  std::jthread stopper([&] {
    while (files().size() == 1 && !over) std::this_thread::yield();
    source.request_stop();
  });
  bool stopped = false;
  try {
    store.add("b", {many.data(), {16 << 20}}, source.get_token());
  } catch (const Stopped&) {
    stopped = true;
  }
  over = true;
  stopper.join();
  EXPECT_TRUE(stopped) << kMatterOfTime << "the file was there first";
  EXPECT_EQ(files().size(), stopped ? 1u : 2u);
  EXPECT_EQ(store.find("a", 10), numbers(10, 1));
}

/// Arrays and keys that take several stretches, the last of them a short one.
TEST_F(ArrayStoreTest, KeepsLongArraysUnderLongKeys) {
  const ArrayStore store(folder_, 1 << 30);
  const std::vector<cfloat> many = numbers((2 << 20) + 5, 1);
  const auto count = static_cast<std::int64_t>(many.size());
  std::string key((17 << 20) + 3, 'k');
  add(store, key, many);
  EXPECT_EQ(store.find(key, count), many);
  std::ifstream in(files().at(0), std::ios::binary);
  std::uint64_t head[4]{};
  in.read(reinterpret_cast<char*>(head), sizeof head);
  EXPECT_EQ(head[3], digest_bytes(many.data(), many.size() * sizeof(cfloat), 3));
  key.back() = 'l';
  EXPECT_FALSE(store.find(key, count));
}

TEST(DigestBytes, SeesEveryBitAndTheSeed) {
  std::vector<unsigned char> bytes(37, 0);
  const auto digest = [&](std::uint64_t seed) { return digest_bytes(bytes.data(), bytes.size(), seed); };
  const auto zero = digest(1);
  EXPECT_NE(zero, digest(2));
  EXPECT_NE(zero, digest_bytes(bytes.data(), 36, 1));
  for (std::size_t bit = 0; bit < 37 * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    EXPECT_NE(digest(1), zero) << bit;
    bytes[bit / 8] = 0;
  }
}

}  // namespace
}  // namespace echotrain
