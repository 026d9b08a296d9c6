#include "gadgets/shared/store/noise_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <latch>
#include <optional>
#include <thread>

#include "tests/support/resources.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The key of a program without clients.
RecordKey noise_of(const std::string& measurement_id) { return {"", "", measurement_id}; }

/// A record that no other `seed` gives.
NoiseRecord record_of(int coils, double seed) {
  NoiseRecord record;
  record.coils = coils;
  for (int i = 0; i < coils * coils; ++i) record.covariance.emplace_back(seed + 0.1 * i, -seed / 3);
  record.dwell_us = 30 + seed;
  record.samples = 4096;
  for (int c = 0; c < coils; ++c) record.labels.push_back("coil" + std::to_string(c));
  record.made_unix_s = seconds_now();
  return record;
}

bool same(const NoiseRecord& a, const NoiseRecord& b) {
  return a.coils == b.coils && a.covariance == b.covariance && a.dwell_us == b.dwell_us && a.samples == b.samples &&
         a.labels == b.labels && a.made_unix_s == b.made_unix_s;
}

class NoiseStoreTest : public ::testing::Test {
 protected:
  NoiseStoreTest() {
    folder_ = fs::temp_directory_path() / ("echotrain_noise_store_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  ~NoiseStoreTest() override { fs::remove_all(folder_); }

  /// Makes the resources that a program which starts now has.
  std::shared_ptr<numerics::Resources> program(std::uint64_t bytes = 1 << 20, std::int64_t hours = 24,
                                               bool disk = true) const {
    numerics::ResourceOptions options = test_resource_options();
    options.memory_budget = std::uint64_t{1} << 30;
    options.threads = 1;
    options.cache_folder = folder_;
    options.scan_store_bytes = bytes;
    options.scan_store_hours = hours;
    options.scan_store_disk = disk;
    return std::make_shared<numerics::Resources>(options);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& each : fs::directory_iterator(folder_ / "noise"))
      if (each.path().extension() == ".noise") out.push_back(each.path());
    return out;
  }

  /// Returns what the files take of the disk [bytes].
  std::uint64_t blocks() const {
    std::uint64_t sum = 0;
    for (const fs::path& path : files()) {
      struct stat status {};
      EXPECT_EQ(::stat(path.c_str(), &status), 0);
      sum += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return sum;
  }

  fs::path folder_;
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(NoiseStoreTest, ADamagedSaltIsMadeAnew) {
  const fs::path salt = folder_ / "noise" / "salt";
  const NoiseRecord record = record_of(3, 1);
  for (const std::size_t size : {0u, 5u, 100u}) {
    program()->get<NoiseStore>().add(noise_of("1.2.3"), record);
    std::ofstream(salt, std::ios::trunc) << std::string(size, 'x');
    EXPECT_FALSE(program()->get<NoiseStore>().find(noise_of("1.2.3"))) << size;
    program()->get<NoiseStore>().add(noise_of("1.2.3"), record);
    const auto later = program()->get<NoiseStore>().find(noise_of("1.2.3"));
    ASSERT_TRUE(later) << size << " bytes of salt: nothing that is kept is ever found";
    EXPECT_TRUE(same(*later, record));
  }
  fs::remove(salt);
  fs::create_directory(salt);
  program()->get<NoiseStore>().add(noise_of("1.2.3"), record);
  EXPECT_TRUE(program()->get<NoiseStore>().find(noise_of("1.2.3")));
}

TEST_F(NoiseStoreTest, OtherProgramsFindTheSameBits) {
  const NoiseRecord one = record_of(5, 1), two = record_of(32, 2);
  const auto first = program(), beside = program();
  first->get<NoiseStore>().add(noise_of("1.2.3"), one);
  beside->get<NoiseStore>().add(noise_of("4.5.6"), two);
  const auto later = program();
  for (const auto& each : {first, beside, later}) {
    NoiseStore& store = each->get<NoiseStore>();
    ASSERT_TRUE(store.find(noise_of("1.2.3")));
    ASSERT_TRUE(store.find(noise_of("4.5.6")));
    EXPECT_TRUE(same(*store.find(noise_of("1.2.3")), one));
    EXPECT_TRUE(same(*store.find(noise_of("4.5.6")), two));
    EXPECT_FALSE(store.find(noise_of("1.2.4")));
    EXPECT_FALSE(store.find(noise_of("")));
    EXPECT_EQ(store.list().size(), 2u);
  }
  const NoiseRecord newer = record_of(5, 7);
  first->get<NoiseStore>().add(noise_of("1.2.3"), newer);
  EXPECT_TRUE(same(*first->get<NoiseStore>().find(noise_of("1.2.3")), newer));
  EXPECT_TRUE(same(*program()->get<NoiseStore>().find(noise_of("1.2.3")), newer));
}

TEST_F(NoiseStoreTest, ManyAtOnceAgreeOnTheSalt) {
  constexpr int kPrograms = 8, kRounds = 20;  // a race: one round alone may miss it
  for (int round = 0; round < kRounds; ++round) {
    fs::remove_all(folder_);
    std::vector<std::shared_ptr<numerics::Resources>> programs;
    for (int i = 0; i < kPrograms; ++i) programs.push_back(program());
    {
      std::latch begin(kPrograms);
      std::vector<std::jthread> threads;
      for (int i = 0; i < kPrograms; ++i)
        threads.emplace_back([&, i, own = programs[static_cast<std::size_t>(i)]] {
          begin.arrive_and_wait();
          own->get<NoiseStore>().add(noise_of("scan " + std::to_string(i)), record_of(3, i + 1));
        });
    }
    const auto later = program();
    for (int i = 0; i < kPrograms; ++i)
      ASSERT_TRUE(later->get<NoiseStore>().find(noise_of("scan " + std::to_string(i)))) << i << " in round " << round;
  }
}

TEST_F(NoiseStoreTest, InMemoryOnlyNothingIsWritten) {
  const auto resources = program(1 << 20, 24, false);
  resources->get<NoiseStore>().add(noise_of("id"), record_of(4, 1));
  resources->memory()->evict_unused();  // it is nowhere else: whoever fills the memory does not make another's go
  EXPECT_TRUE(resources->get<NoiseStore>().find(noise_of("id")));
  EXPECT_FALSE(fs::exists(folder_ / "noise"));
  EXPECT_FALSE(program()->get<NoiseStore>().find(noise_of("id")));
}

TEST_F(NoiseStoreTest, FilesDoNotTellTheMeasurement) {
  const std::string id = "66056_107201_107210_424_Doe";
  program()->get<NoiseStore>().add(noise_of(id), record_of(4, 1));
  int seen = 0;
  for (const auto& each : fs::recursive_directory_iterator(folder_ / "noise")) {
    ++seen;
    for (const std::string& part : {id, std::string("107201"), std::string("Doe")}) {
      EXPECT_EQ(each.path().string().find(part), std::string::npos);
      EXPECT_EQ(text_of(each.path()).find(part), std::string::npos);
    }
  }
  EXPECT_EQ(seen, 2);  // the record and the salt
  // The same ID has another name in another folder.
  const std::string name = files().at(0).filename();
  fs::remove_all(folder_);
  program()->get<NoiseStore>().add(noise_of(id), record_of(4, 1));
  EXPECT_NE(files().at(0).filename(), name);
}

TEST_F(NoiseStoreTest, NamesAreSaltedSha256ThatOtherUsersDoNotSee) {
  // The name is that of Python's hashlib: of the salt, "r", and each text behind its length as a uint64.
  fs::create_directories(folder_ / "noise");
  std::ofstream(folder_ / "noise" / "salt") << "0123456789abcdef0123456789abcdef";
  program()->get<NoiseStore>().add({"address:10.1.2.3", "serial 7", "1.2.3"}, record_of(4, 1));
  EXPECT_EQ(files().at(0).filename(), "f16d870897d57ed82c193e01632794e5.noise");
  fs::remove_all(folder_);
  program()->get<NoiseStore>().add(noise_of("1.2.3"), record_of(4, 1));
  EXPECT_EQ(fs::status(folder_ / "noise").permissions(), fs::perms::owner_all);
  for (const fs::path& path : {files().at(0), folder_ / "noise" / "salt"})
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write) << path;
}

TEST_F(NoiseStoreTest, DamagedAndForeignFilesAreMissing) {
  const NoiseRecord record = record_of(3, 1);
  program()->get<NoiseStore>().add(noise_of("id"), record);
  const fs::path path = files().at(0);
  const std::string good = text_of(path);
  const auto found_with = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return program()->get<NoiseStore>().find(noise_of("id")) != nullptr;
  };
  EXPECT_TRUE(found_with(good));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    EXPECT_FALSE(found_with(bad)) << "byte " << i;
  }
  for (std::size_t size : {std::size_t{0}, std::size_t{20}, good.size() - 1})
    EXPECT_FALSE(found_with(good.substr(0, size)));
  EXPECT_FALSE(found_with(good + "x"));
  EXPECT_TRUE(found_with(good));
  // Under another name it belongs to nobody.
  std::string other = path.filename();
  other[0] = other[0] == '0' ? '1' : '0';
  fs::rename(path, path.parent_path() / other);
  EXPECT_FALSE(program()->get<NoiseStore>().find(noise_of("id")));
  EXPECT_TRUE(program()->get<NoiseStore>().list().empty());
}

TEST_F(NoiseStoreTest, WhatIsTooOldIsMissingAndGoes) {
  NoiseRecord old = record_of(3, 1), young = record_of(3, 2);
  old.made_unix_s -= 2 * 3600 + 60;
  young.made_unix_s -= 2 * 3600 - 600;
  const auto patient = program(1 << 20, 3);
  patient->get<NoiseStore>().add(noise_of("old"), old);
  patient->get<NoiseStore>().add(noise_of("young"), young);
  EXPECT_TRUE(program(1 << 20, 3)->get<NoiseStore>().find(noise_of("old")));
  // That a file was used just now does not make its record young.
  const auto other = program(1 << 20, 2);
  EXPECT_FALSE(other->get<NoiseStore>().find(noise_of("old")));
  EXPECT_TRUE(other->get<NoiseStore>().find(noise_of("young")));
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(other->get<NoiseStore>().list().size(), 1u);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(NoiseStoreTest, TheBoundHoldsInMemoryAndOnDisk) {
  const NoiseRecord record = record_of(16, 1);  // some 5 kB
  constexpr std::uint64_t kBound = 40000;
  const auto resources = program(kBound);
  NoiseStore& store = resources->get<NoiseStore>();
  for (int i = 0; i < 10; ++i) {
    store.add(noise_of("id " + std::to_string(i)), record);
    // Files of one tick of the clock have no order.
    for (const fs::path& path : files())
      fs::last_write_time(path, fs::last_write_time(path) - std::chrono::seconds(10));
  }
  EXPECT_LE(blocks(), kBound);
  EXPECT_GE(files().size(), 3u);
  for (const auto& each : {resources, program(kBound)}) {
    EXPECT_FALSE(each->get<NoiseStore>().find(noise_of("id 0")));
    EXPECT_TRUE(each->get<NoiseStore>().find(noise_of("id 9")));
    EXPECT_TRUE(each->get<NoiseStore>().find(noise_of("id 8")));
  }
  const auto none = program(0), never = program(1 << 20, 0);
  for (const auto& each : {none, never}) {
    each->get<NoiseStore>().add(noise_of("id"), record);
    EXPECT_FALSE(each->get<NoiseStore>().find(noise_of("id")));
  }
}

TEST_F(NoiseStoreTest, TheBudgetTakesBackTheMemoryOfWhatIsOnDisk) {
  const auto resources = program();
  NoiseStore& store = resources->get<NoiseStore>();
  const std::uint64_t before = resources->memory()->used();
  store.add(noise_of("id"), record_of(16, 1));
  EXPECT_GT(resources->memory()->used(), before + 16u * 16u * 16u);
  resources->memory()->evict_unused();
  EXPECT_EQ(resources->memory()->used(), before);
  EXPECT_TRUE(store.find(noise_of("id")));
}

/// Counts how often a budget looks through all that is kept.
class Walks final : public numerics::Evictable {
 public:
  explicit Walks(numerics::MemoryBudget& budget) : budget_(budget) { budget_.add_evictable(*this); }
  ~Walks() override { budget_.remove_evictable(*this); }
  int count() const { return count_; }

 private:
  std::optional<std::uint64_t> unused_since() const override {
    ++count_;
    return std::nullopt;
  }
  void evict(std::uint64_t) override {}
  numerics::MemoryBudget& budget_;
  mutable int count_ = 0;
};

TEST_F(NoiseStoreTest, HundredsOfRecordsGiveTheirMemoryBackInAFewWalks) {
  constexpr int kRecords = 300;
  const auto resources = program(16 << 20);
  const auto& budget = resources->memory();
  NoiseStore& store = resources->get<NoiseStore>();
  for (int i = 0; i < kRecords; ++i) store.add(noise_of(std::to_string(i)), record_of(4, i + 1));
  const std::uint64_t kept = budget->used();
  ASSERT_TRUE(budget->take(budget->left()));
  const Walks walks(*budget);
  EXPECT_TRUE(budget->take(kept / 2));
  EXPECT_LE(walks.count(), 2);
  const std::uint64_t one = kept / kRecords;
  EXPECT_LE(budget->left(), 2 * one) << "no more than was wanted";
  for (int i = 0; i < kRecords; i += 50) EXPECT_TRUE(store.find(noise_of(std::to_string(i)))) << i;
}

TEST_F(NoiseStoreTest, WhatIsNoMatrixIsNotKept) {
  NoiseRecord record = record_of(3, 1);
  record.covariance.pop_back();
  const auto resources = program();
  resources->get<NoiseStore>().add(noise_of("id"), record);
  EXPECT_FALSE(resources->get<NoiseStore>().find(noise_of("id")));
}

TEST_F(NoiseStoreTest, AFolderThatCannotBeWrittenKeepsItInMemory) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "noise") << "a file";
  const auto resources = program();
  resources->get<NoiseStore>().add(noise_of("id"), record_of(3, 1));
  EXPECT_TRUE(resources->get<NoiseStore>().find(noise_of("id")));
}

/// Two scanners that both call a scan "1", two hosts, and a header without a device.
TEST_F(NoiseStoreTest, OwnersAndDevicesAreApart) {
  const std::vector<RecordKey> keys = {{"address:10.0.0.1", "serial 1", "1"}, {"address:10.0.0.2", "serial 1", "1"},
                                       {"address:10.0.0.1", "serial 2", "1"}, {"address:10.0.0.1", "", "1"},
                                       {"address:10.0.0.1", "serial 11", ""}, {"address:10.0.0.1", "serial 1", "2"}};
  const auto resources = program();
  std::vector<NoiseRecord> records;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    records.push_back(record_of(3, 1.0 + static_cast<double>(i)));
    const auto added = resources->get<NoiseStore>().add(keys[i], records[i]);
    EXPECT_EQ(added, keys[i].measurement_id.empty() ? ScanStore::Added::no : ScanStore::Added::fresh) << i;
  }
  for (const auto& each : {resources, program()})
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = each->get<NoiseStore>().find(keys[i]);
      if (keys[i].measurement_id.empty())
        EXPECT_FALSE(found);
      else
        EXPECT_TRUE(found && same(*found, records[i])) << i;
    }
  EXPECT_EQ(resources->get<NoiseStore>().add(keys[0], record_of(3, 9)), ScanStore::Added::replaced);
  EXPECT_TRUE(same(*program()->get<NoiseStore>().find(keys[1]), records[1]));
}

TEST_F(NoiseStoreTest, OfSeveralDevicesNoneIsTaken) {
  const auto resources = program();
  NoiseStore& store = resources->get<NoiseStore>();
  store.add({"A", "serial 1", "1"}, record_of(3, 1));
  for (const auto& each : {resources, program()}) {
    EXPECT_TRUE(each->get<NoiseStore>().find_of_any_device("A", "1"));
    EXPECT_FALSE(each->get<NoiseStore>().find_of_any_device("B", "1"));
    EXPECT_FALSE(each->get<NoiseStore>().find_of_any_device("A", "2"));
  }
  store.add({"A", "serial 2", "1"}, record_of(3, 2));
  for (const auto& each : {resources, program()}) EXPECT_FALSE(each->get<NoiseStore>().find_of_any_device("A", "1"));
}

/// 122 MB of B, in records of 1 MiB and in small ones, against a store of 8 MiB.
TEST_F(NoiseStoreTest, NoOwnerPushesOutWhatAnotherHasWithinItsPart) {
  constexpr std::uint64_t kBound = 8 << 20;
  const auto resources = program(kBound);
  NoiseStore& store = resources->get<NoiseStore>();
  for (int i = 0; i < 4; ++i) store.add({"A", "serial 1", std::to_string(i)}, record_of(64, 1));
  for (int i = 0; i < 116; ++i) store.add({"B", "", "large " + std::to_string(i)}, record_of(256, 2));
  for (int i = 0; i < 500; ++i) store.add({"B", "", "small " + std::to_string(i)}, record_of(8, 2));
  EXPECT_LE(blocks(), kBound);
  for (const auto& each : {resources, program(kBound)})
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(each->get<NoiseStore>().find({"A", "serial 1", std::to_string(i)})) << i;
  // Its own newest ones are kept.
  EXPECT_TRUE(store.find({"B", "", "small 499"}));
  EXPECT_FALSE(store.find({"B", "", "large 0"}));
}

/// One coil takes some 200 bytes, and a block of the disk.
TEST_F(NoiseStoreTest, SmallRecordsAreBoundedByTheirNumberAndByBlocks) {
  const auto resources = program(std::uint64_t{64} << 20);
  NoiseStore& store = resources->get<NoiseStore>();
  const NoiseRecord one = record_of(1, 1);
  store.add({"A", "", "mine"}, one);
  constexpr int kMany = static_cast<int>(ScanStore::kMostEntries) + 100;
  for (int i = 0; i < kMany; ++i) store.add({"B", "", std::to_string(i)}, one);
  EXPECT_EQ(files().size(), ScanStore::kMostEntries);
  EXPECT_TRUE(store.find({"A", "", "mine"}));
  EXPECT_TRUE(store.find({"B", "", std::to_string(kMany - 1)}));
  EXPECT_FALSE(store.find({"B", "", "0"}));
  const auto small = program(1 << 20);
  small->get<NoiseStore>().add({"C", "", "new"}, one);
  EXPECT_LE(blocks(), std::uint64_t{1} << 20);
  EXPECT_TRUE(program(1 << 20)->get<NoiseStore>().find({"A", "", "mine"}));
}

TEST_F(NoiseStoreTest, WhatWasUsedStaysLongest) {
  const auto resources = program(40000);
  NoiseStore& store = resources->get<NoiseStore>();
  for (int i = 0; i < 20; ++i) {
    store.add(noise_of(std::to_string(i)), record_of(16, 1));
    EXPECT_TRUE(store.find(noise_of("0"))) << i;
  }
  EXPECT_FALSE(store.find(noise_of("1")));
}

TEST_F(NoiseStoreTest, WhatAnotherProgramHasWrittenIsFoundAtOnce) {
  const auto one = program(), other = program();
  one->get<NoiseStore>().add({"A", "", "1"}, record_of(3, 1));
  for (const std::string id : {"2", "3"}) {
    EXPECT_FALSE(one->get<NoiseStore>().find_of_any_device("A", id));
    other->get<NoiseStore>().add({"A", "", id}, record_of(3, 1));
    EXPECT_TRUE(one->get<NoiseStore>().find_of_any_device("A", id));
    EXPECT_TRUE(one->get<NoiseStore>().find({"A", "", id}));
  }
  EXPECT_EQ(one->get<NoiseStore>().list().size(), 3u);
}

TEST_F(NoiseStoreTest, TheFolderIsNotListedAtEachWrite) {
  const auto resources = program();
  NoiseStore& store = resources->get<NoiseStore>();
  store.add({"A", "", "1"}, record_of(3, 1));
  std::ofstream(folder_ / "noise" / (std::string(32, 'a') + ".noise")) << "of another version";
  for (const char* id : {"2", "3"}) store.add({"A", "", id}, record_of(3, 1));
  EXPECT_EQ(store.former_files(), 0u) << "the file was seen";
  EXPECT_EQ(program()->get<NoiseStore>().former_files(), 1u);
}

TEST_F(NoiseStoreTest, FilesOfAnotherVersionAreCountedAndNotRead) {
  program()->get<NoiseStore>().add(noise_of("1"), record_of(3, 1));
  EXPECT_EQ(program()->get<NoiseStore>().former_files(), 0u);
  const fs::path path = files().at(0);
  std::string text = text_of(path);
  text[7] = '1';
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  const auto resources = program(1 << 20, 2);
  EXPECT_EQ(resources->get<NoiseStore>().former_files(), 1u);
  EXPECT_FALSE(resources->get<NoiseStore>().find(noise_of("1")));
  EXPECT_TRUE(resources->get<NoiseStore>().list().empty());
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(3));
  program(1 << 20, 2)->get<NoiseStore>().add(noise_of("2"), record_of(3, 1));
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace echotrain
