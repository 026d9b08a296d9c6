#include "gadgets/shared/store/calibration_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/support/resources.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

StoredBlock block_of(const FrameKey& key, int coils, float seed) {
  StoredBlock block;
  block.key = key;
  block.first = {0, 20, 3};
  block.matrix = {8, 64, 16};
  block.fov_mm = {200, 220.5, 64};
  block.extent = {8, 24, 2};
  for (int i = 0; i < coils * 8 * 24 * 2; ++i)
    block.data.emplace_back(seed + static_cast<float>(i), -seed * static_cast<float>(i));
  return block;
}

/// Two slices, the first with two contrasts.
CalibrationRecord lines_of(int coils, float seed) {
  CalibrationRecord record;
  record.coils = coils;
  for (const FrameKey& key : {FrameKey{.slice = 1}, FrameKey{.slice = 0, .contrast = 1}, FrameKey{.slice = 0}})
    record.blocks.push_back(block_of(key, coils, seed + static_cast<float>(record.blocks.size())));
  for (int c = 0; c < coils; ++c) record.labels.push_back("coil" + std::to_string(c));
  record.made_unix_s = unix_seconds();
  return record;
}

void expect_equal(const std::shared_ptr<const CalibrationRecord>& a, const CalibrationRecord& b) {
  ASSERT_TRUE(a);
  EXPECT_EQ(a->coils, b.coils);
  EXPECT_EQ(a->labels, b.labels);
  EXPECT_EQ(a->channels, b.channels);
  EXPECT_EQ(a->made_unix_s, b.made_unix_s);
  ASSERT_EQ(a->blocks.size(), b.blocks.size());
  for (std::size_t i = 0; i < b.blocks.size(); ++i) {
    const StoredBlock &left = a->blocks[i], &right = b.blocks[i];
    EXPECT_EQ(left.key, right.key);
    EXPECT_EQ(left.first, right.first);
    EXPECT_EQ(left.matrix, right.matrix);
    EXPECT_EQ(left.fov_mm, right.fov_mm);
    EXPECT_EQ(left.extent, right.extent);
    EXPECT_EQ(left.data, right.data);
  }
}

class CalibrationStoreTest : public ::testing::Test {
 protected:
  CalibrationStoreTest() {
    folder_ = fs::temp_directory_path() / ("echotrain_calibration_store_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  ~CalibrationStoreTest() override { fs::remove_all(folder_); }

  std::shared_ptr<numerics::Resources> program(std::uint64_t bytes = 1 << 20, std::int64_t hours = 24,
                                               bool disk = true) const {
    numerics::ResourceOptions options = test_resource_options();
    options.threads = 1;
    options.cache_folder = folder_;
    options.scan_store_bytes = bytes;
    options.scan_store_hours = hours;
    options.scan_store_disk = disk;
    return std::make_shared<numerics::Resources>(options);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& each : fs::directory_iterator(folder_ / "calibration"))
      if (each.path().extension() == ".calibration") out.push_back(each.path());
    return out;
  }
  static std::string bytes_in(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
};

TEST_F(CalibrationStoreTest, OtherProgramsFindTheSameBits) {
  CalibrationRecord one = lines_of(3, 1);
  one.channels = "whitened by 17, 3 of 12";
  const CalibrationRecord two = lines_of(2, 9);
  const auto first = program(), beside = program();
  EXPECT_TRUE(first->get<CalibrationStore>().add("1.2.3", one));
  EXPECT_TRUE(beside->get<CalibrationStore>().add("4.5.6", two));
  for (const auto& each : {first, beside, program()}) {
    expect_equal(each->get<CalibrationStore>().find("1.2.3"), one);
    expect_equal(each->get<CalibrationStore>().find("4.5.6"), two);
    EXPECT_FALSE(each->get<CalibrationStore>().find("1.2.4"));
    EXPECT_FALSE(each->get<CalibrationStore>().find(""));
  }
  first->get<CalibrationStore>().add("1.2.3", two);
  expect_equal(program()->get<CalibrationStore>().find("1.2.3"), two);
}

TEST_F(CalibrationStoreTest, FilesTellNothingWithoutTheMeasurement) {
  const std::string id = "66056_107201_Doe";
  CalibrationRecord record = lines_of(2, 1);
  record.channels = "as a secret";
  program()->get<CalibrationStore>().add(id, record);
  ASSERT_EQ(files().size(), 1u);
  const std::string text = bytes_in(files()[0]);
  std::string samples(reinterpret_cast<const char*>(record.blocks[0].data.data()), 64);
  for (const std::string& part : {id, std::string("Doe"), std::string("coil1"), record.channels, samples})
    EXPECT_EQ(text.find(part), std::string::npos);
  EXPECT_EQ(fs::status(files()[0]).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  // The same record is another file each time, and at another ID's place it opens for nobody.
  program()->get<CalibrationStore>().add(id, record);
  EXPECT_NE(bytes_in(files()[0]), text);
}

TEST_F(CalibrationStoreTest, DamagedAndForeignFilesAreMissing) {
  program()->get<CalibrationStore>().add("id", lines_of(1, 1));
  const fs::path path = files().at(0);
  const std::string good = bytes_in(path);
  const auto found_with = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return program()->get<CalibrationStore>().find("id") != nullptr;
  };
  EXPECT_TRUE(found_with(good));
  for (std::size_t i = 0; i < good.size(); i += i < 100 ? 1 : 997) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    EXPECT_FALSE(found_with(bad)) << "byte " << i;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{32}, std::size_t{60}, good.size() - 1})
    EXPECT_FALSE(found_with(good.substr(0, size)));
  EXPECT_TRUE(found_with(good));
  // Another salt makes another key.
  std::ofstream(folder_ / "calibration" / "salt") << "0123456789abcdef0123456789abcdef";
  EXPECT_FALSE(program()->get<CalibrationStore>().find("id"));
}

TEST_F(CalibrationStoreTest, BoundsHoldInMemoryAndOnDisk) {
  const CalibrationRecord record = lines_of(2, 1);
  const std::uint64_t size = record.bytes();
  const auto resources = program(5 * size / 2);
  CalibrationStore& store = resources->get<CalibrationStore>();
  for (int i = 0; i < 4; ++i) {
    store.add("id " + std::to_string(i), record);
    for (const fs::path& path : files())
      fs::last_write_time(path, fs::last_write_time(path) - std::chrono::seconds(10));
    EXPECT_LE(resources->memory()->used(), 5 * size / 2);
  }
  EXPECT_EQ(files().size(), 2u);
  for (const auto& each : {resources, program(5 * size / 2)}) {
    EXPECT_FALSE(each->get<CalibrationStore>().find("id 1"));
    EXPECT_TRUE(each->get<CalibrationStore>().find("id 2"));
    EXPECT_TRUE(each->get<CalibrationStore>().find("id 3"));
  }
  const auto small = program(size / 2), never = program(1 << 20, 0), memory = program(1 << 20, 24, false);
  small->get<CalibrationStore>().add("x", record);
  never->get<CalibrationStore>().add("x", record);
  EXPECT_FALSE(small->get<CalibrationStore>().find("x"));
  EXPECT_FALSE(never->get<CalibrationStore>().find("x"));
  memory->get<CalibrationStore>().add("x", record);
  EXPECT_TRUE(memory->get<CalibrationStore>().find("x"));
  EXPECT_EQ(files().size(), 2u);
  // Noise has a folder of its own.
  EXPECT_FALSE(fs::exists(folder_ / "noise"));
}

TEST_F(CalibrationStoreTest, WhatIsTooOldIsMissing) {
  CalibrationRecord old = lines_of(2, 1), young = lines_of(2, 1);
  old.made_unix_s -= 2 * 3600 + 60;
  young.made_unix_s -= 2 * 3600 - 600;
  const auto resources = program(1 << 20, 2);
  resources->get<CalibrationStore>().add("old", old);
  resources->get<CalibrationStore>().add("young", young);
  for (const auto& each : {resources, program(1 << 20, 2)}) {
    EXPECT_FALSE(each->get<CalibrationStore>().find("old"));
    EXPECT_TRUE(each->get<CalibrationStore>().find("young"));
  }
  EXPECT_TRUE(program(1 << 20, 3)->get<CalibrationStore>().find("old"));
}

TEST_F(CalibrationStoreTest, WhatIsNoBlockIsNotKept) {
  CalibrationStore store(*program());
  const CalibrationRecord good = lines_of(2, 1);
  EXPECT_TRUE(store.add("good", good));
  const auto refused = [&](const std::function<void(CalibrationRecord&)>& spoil) {
    CalibrationRecord bad = good;
    spoil(bad);
    return !store.add("bad", bad) && !store.find("bad");
  };
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.blocks.clear(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.coils = 0; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.coils = 3; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.labels.pop_back(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.blocks[1].data.pop_back(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.blocks[1].extent[0] = 0; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.blocks[1].first[1] = 41; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.blocks[1].first[2] = -1; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.blocks[1].matrix[0] = std::int64_t{1} << 40; }));
}

TEST(StoredCalibration, AFrameHasItsOwnBlockOrTheLowestOfItsSlice) {
  const CalibrationRecord record = lines_of(1, 1);
  const auto of = [&](const FrameKey& key) {
    const StoredBlock* block = record.find(key);
    return block == nullptr ? -1 : static_cast<int>(block - record.blocks.data());
  };
  EXPECT_EQ(of({.slice = 1}), 0);
  EXPECT_EQ(of({.slice = 1, .contrast = 3, .repetition = 5, .set = 2}), 0);
  EXPECT_EQ(of({.slice = 0, .contrast = 1, .phase = 2}), 1);
  EXPECT_EQ(of({.slice = 0, .contrast = 2}), 2);
  EXPECT_EQ(of({.slice = 0, .set = 1}), 2);
  EXPECT_EQ(of({.slice = 2}), -1);
  EXPECT_EQ(of({.encoding = 1}), -1);
}

TEST(StoredCalibration, CoilsAreMatchedByTheirLabels) {
  const auto record = std::make_shared<CalibrationRecord>(lines_of(3, 1));
  std::string why_not;
  const auto found = for_coils(record, 2, {"coil2", "coil0"}, "", why_not);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->coils, 2);
  EXPECT_EQ(found->labels, (std::vector<std::string>{"coil2", "coil0"}));
  ASSERT_EQ(found->blocks.size(), 3u);
  for (std::size_t b = 0; b < 3; ++b) {
    const std::vector<cfloat>&from = record->blocks[b].data, &to = found->blocks[b].data;
    const std::size_t one = from.size() / 3;
    ASSERT_EQ(to.size(), 2 * one);
    for (std::size_t i = 0; i < one; ++i) {
      EXPECT_EQ(to[i], from[2 * one + i]);
      EXPECT_EQ(to[one + i], from[i]);
    }
  }
  const auto refused = [&](int coils, const std::vector<std::string>& labels, const std::string& channels) {
    why_not.clear();
    EXPECT_FALSE(for_coils(record, coils, labels, channels, why_not));
    return why_not;
  };
  EXPECT_EQ(refused(2, {"coil0", "neck"}, ""), "has no coil 'neck'");
  EXPECT_EQ(refused(3, {"a"}, ""), "cannot be matched: the 1 labels of this scan do not name its 3 coils one by one");
  EXPECT_NE(refused(3, record->labels, "whitened").find("another way"), std::string::npos);
  record->channels = "whitened";
  EXPECT_EQ(for_coils(record, 3, record->labels, "whitened", why_not), record);
  EXPECT_NE(refused(3, {"coil1", "coil0", "coil2"}, "whitened").find("another order"), std::string::npos);
}

TEST(StoredCalibration, DependenciesAreWhateverIsNotNoise) {
  protocol::Header header;
  EXPECT_TRUE(calibration_dependencies(header).empty());
  header.dependencies = {{"SenMap", "1"}, {"NOISE", "2"}, {"", "3"}, {"Calibration", "4"}, {"x", ""}, {"Noise", "5"}};
  EXPECT_EQ(calibration_dependencies(header), (std::vector<std::string>{"4", "1"}));
}

}  // namespace
}  // namespace echotrain
