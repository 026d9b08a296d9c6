#include "gadgets/shared/store/calibration_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "tests/support/resources.h"

namespace echotrain {
namespace {

/// The key of a program without clients.
RecordKey of(const std::string& measurement_id) { return {"", "", measurement_id}; }

namespace fs = std::filesystem;

/// Two batches of lines, of 8 and of 6 samples.
CalibrationRecord lines_of(int coils, float seed) {
  CalibrationRecord record;
  record.coils = coils;
  record.spaces.push_back({{8, 64, 1}, {200, 220.5, 5}, {0, 0}});
  for (const std::uint16_t samples : {8, 6}) {
    StoredLines& lines = record.lines.emplace_back();
    lines.heads.resize(3);
    for (auto& head : lines.heads) head.number_of_samples = samples;
    for (int i = 0; i < 3 * coils * samples; ++i)
      lines.data.emplace_back(seed + static_cast<float>(i), -seed * static_cast<float>(i));
  }
  for (int c = 0; c < coils; ++c) record.labels.push_back("coil" + std::to_string(c));
  record.made_unix_s = unix_seconds();
  return record;
}

class CalibrationStoreTest : public ::testing::Test {
 protected:
  CalibrationStoreTest() {
    folder_ = fs::temp_directory_path() / ("echotrain_calibration_store_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  ~CalibrationStoreTest() override { fs::remove_all(folder_); }

  std::shared_ptr<numerics::Resources> program(std::uint64_t bytes = 1 << 20, std::int64_t hours = 24) const {
    numerics::ResourceOptions options = test_resource_options();
    options.threads = 1;
    options.cache_folder = folder_;
    options.scan_store_bytes = bytes;
    options.scan_store_hours = hours;
    return std::make_shared<numerics::Resources>(options);
  }

  fs::path folder_;
};

// Its records are nowhere else: whoever fills the memory does not make another's go.
TEST_F(CalibrationStoreTest, StaysWhenTheMemoryIsWanted) {
  const auto resources = program();
  CalibrationStore& store = resources->get<CalibrationStore>();
  store.add(of("1.2.3"), lines_of(3, 1));
  resources->memory()->evict_unused();
  EXPECT_TRUE(store.find(of("1.2.3")));
}

TEST_F(CalibrationStoreTest, WhatWasAddedIsFoundInThisProgramAlone) {
  const auto resources = program();
  CalibrationStore& store = resources->get<CalibrationStore>();
  const CalibrationRecord one = lines_of(3, 1), two = lines_of(2, 9);
  EXPECT_NE(store.add(of("1.2.3"), one), ScanStore::Added::no);
  EXPECT_NE(store.add(of("4.5.6"), two), ScanStore::Added::no);
  for (const auto& [id, record] : {std::pair{"1.2.3", one}, std::pair{"4.5.6", two}}) {
    const auto found = store.find(of(id));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->coils, record.coils);
    EXPECT_EQ(found->labels, record.labels);
    EXPECT_EQ(found->count(), 6);
    ASSERT_EQ(found->lines.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(found->lines[i].data, record.lines[i].data);
  }
  EXPECT_FALSE(store.find(of("1.2.4")));
  EXPECT_FALSE(store.find(of("")));
  EXPECT_EQ(store.list().size(), 2u);
  EXPECT_NE(store.add(of("1.2.3"), two), ScanStore::Added::no);
  EXPECT_EQ(store.find(of("1.2.3"))->coils, 2);
  EXPECT_EQ(store.list().size(), 2u);
  // K-space shows the patient: nothing of it is written.
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_FALSE(program()->get<CalibrationStore>().find(of("1.2.3")));
}

TEST_F(CalibrationStoreTest, BoundsHold) {
  const CalibrationRecord record = lines_of(2, 1);
  const std::uint64_t size = record.bytes();
  const auto resources = program(5 * size / 2);
  CalibrationStore& store = resources->get<CalibrationStore>();
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(store.add(of("id " + std::to_string(i)), record), ScanStore::Added::no);
    EXPECT_LE(resources->memory()->used(), 5 * size / 2);
  }
  EXPECT_FALSE(store.find(of("id 1")));
  EXPECT_TRUE(store.find(of("id 2")));
  EXPECT_TRUE(store.find(of("id 3")));
  // What is larger than the bound leaves the others where they are.
  CalibrationRecord large = record;
  large.lines.resize(8, record.lines[0]);
  EXPECT_EQ(store.add(of("large"), large), ScanStore::Added::no);
  EXPECT_TRUE(store.find(of("id 2")));
  EXPECT_EQ(program(size / 2)->get<CalibrationStore>().add(of("x"), record), ScanStore::Added::no);
  EXPECT_EQ(program(1 << 20, 0)->get<CalibrationStore>().add(of("x"), record), ScanStore::Added::no);
}

TEST_F(CalibrationStoreTest, WhatIsTooOldIsMissing) {
  CalibrationRecord old = lines_of(2, 1), young = lines_of(2, 1);
  old.made_unix_s -= 2 * 3600 + 60;
  young.made_unix_s -= 2 * 3600 - 600;
  const auto resources = program(1 << 20, 2);
  CalibrationStore& store = resources->get<CalibrationStore>();
  store.add(of("old"), old);
  store.add(of("young"), young);
  EXPECT_FALSE(store.find(of("old")));
  EXPECT_TRUE(store.find(of("young")));
  EXPECT_EQ(store.list().size(), 1u);
}

TEST_F(CalibrationStoreTest, WhatIsUnsoundIsNotKept) {
  CalibrationStore store(*program());
  const CalibrationRecord good = lines_of(2, 1);
  EXPECT_NE(store.add(of("good"), good), ScanStore::Added::no);
  EXPECT_EQ(store.add(of(""), good), ScanStore::Added::no);
  const auto refused = [&](const std::function<void(CalibrationRecord&)>& spoil) {
    CalibrationRecord bad = good;
    spoil(bad);
    return store.add(of("bad"), bad) == ScanStore::Added::no && !store.find(of("bad"));
  };
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.lines.clear(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.coils = 0; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.coils = 3; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.labels.pop_back(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.spaces.clear(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.lines[1].data.pop_back(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.lines[1].heads.clear(); }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.lines[1].heads[2].number_of_samples = 7; }));
  EXPECT_TRUE(refused([](CalibrationRecord& r) { r.lines[0].heads[1].encoding_space_ref = 1; }));
}

TEST(StoredCalibration, DependenciesAreWhateverIsNotNoise) {
  protocol::Header header;
  EXPECT_TRUE(calibration_dependencies(header).empty());
  header.dependencies = {{"SenMap", "1"}, {"NOISE", "2"}, {"", "3"}, {"Calibration", "4"}, {"x", ""}, {"Noise", "5"}};
  EXPECT_EQ(calibration_dependencies(header), (std::vector<std::string>{"4", "1"}));
}

}  // namespace
}  // namespace echotrain
