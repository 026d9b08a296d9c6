#include "protocol/dicom/values.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>

namespace echotrain::protocol::dicom {
namespace {

TEST(DicomValues, NumbersHaveAtMostSixteenCharacters) {
  EXPECT_EQ(decimal_text(0), "0");
  EXPECT_EQ(decimal_text(-0.0), "0");
  EXPECT_EQ(decimal_text(2.5), "2.5");
  EXPECT_EQ(decimal_text(1.0 / 8192), "0.0001220703125");
  EXPECT_EQ(decimal_text(-1.0 / 3), "-0.333333333");
  EXPECT_EQ(decimal_text(1.0 / 0.0), "0");
  for (const double value : {-1.2345678901234e-300, 9.8765432109876e+300, -123456789.123456789})
    EXPECT_LE(decimal_text(value).size(), 16U) << value;
}

TEST(DicomValues, TextsLoseWhatDicomReads) {
  EXPECT_EQ(plain_text("  a\\b\nc  "), "a/b?c");
  EXPECT_EQ(plain_text("Müller", 2), "Mü") << "characters, not bytes";
  EXPECT_EQ(plain_text(std::string(100, 'x')).size(), 64U);
}

TEST(DicomValues, DatesAndTimesAreCheckedOrLeftOut) {
  EXPECT_EQ(date_text("2026-01-31"), "20260131");
  EXPECT_EQ(date_text("20260131"), "20260131");
  EXPECT_EQ(date_text("2026-13-31"), "");
  EXPECT_EQ(date_text("31.01.2026"), "");
  EXPECT_EQ(date_text(""), "");
  EXPECT_EQ(time_text("13:05:07"), "130507");
  EXPECT_EQ(time_text("13:05:07.25+01:00"), "130507.25");
  EXPECT_EQ(time_text("130507.1234567"), "130507.123456");
  EXPECT_EQ(time_text("25:05:07"), "");
  EXPECT_EQ(time_text("noon"), "");
}

TEST(DicomValues, UidsFollowFromTheirNames) {
  const std::string uid = uid_of("a measurement");
  EXPECT_TRUE(is_uid(uid)) << uid;
  EXPECT_EQ(uid, uid_of("a measurement"));
  EXPECT_NE(uid, uid_of("another measurement"));
  // python3: "2.25.%d" % uuid.uuid5(uuid.UUID("6f1d0c7a-528e-4b39-9b1e-3ad47705c2e8"), "a measurement").int
  EXPECT_EQ(uid, "2.25.329516764110136621602641586375051504852");
  EXPECT_TRUE(is_uid("1.2.840.10008.5.1.4.1.1.4"));
  for (const char* bad : {"", ".", "1..2", "1.02", "1.2.", "1.a", " 1.2"}) EXPECT_FALSE(is_uid(bad)) << bad;
  EXPECT_FALSE(is_uid("1." + std::string(63, '1')));
}

TEST(DicomValues, SeriesOfBranchesAndOfOtherScansHaveOtherNumbers) {
  EXPECT_EQ(series_number(7, 1, 0, ""), 7001);
  EXPECT_EQ(series_number(7, 1001, 0, ""), 10007001);  // the first branch; 8001 is the next scan's
  EXPECT_EQ(series_number(7, 1, 1, ""), 100007001);
  std::set<std::int64_t> all;
  std::size_t made = 0;
  const auto add = [&](std::int64_t number) {
    EXPECT_LE(number, std::numeric_limits<std::int32_t>::max());  // of an IS
    all.insert(number);
    ++made;
  };
  for (const std::int64_t scan : {0, 1, 2, 3, 10, 11, 100, 101, 999, 1000, 1001, 9998, 9999})
    for (const int index : {0, 1, 2, 99, 100, 101, 200, 999, 1000, 1001, 1002, 2001, 8001, 9999})
      for (const std::int64_t behind : {0, 1, 2, 3, 10, 19, 20})
        add(series_number(scan, static_cast<std::uint16_t>(index), behind, "same"));
  add(series_number(10000, 1, 0, "a"));
  add(series_number(1, 10000, 0, "b"));
  add(series_number(1, 1, 21, "c"));
  add(series_number(1000000, 65535, 200, "d"));
  EXPECT_EQ(all.size(), made);
}

}  // namespace
}  // namespace echotrain::protocol::dicom
