// Echo times of headers.
#include "protocol/data/echo_times.h"

#include <gtest/gtest.h>

namespace echotrain::protocol {
namespace {

std::vector<double> times_of(const std::string& sequence) {
  return echo_times_ms("<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">" + sequence + "</ismrmrdHeader>");
}

TEST(EchoTimesTest, AreThoseOfTheSequence) {
  EXPECT_EQ(times_of("<sequenceParameters><TR>5</TR><TE>2.5</TE><TE> 4.75 </TE></sequenceParameters>"),
            (std::vector<double>{2.5, 4.75}));
  EXPECT_EQ(echo_times_ms("<i:ismrmrdHeader xmlns:i=\"x\"><i:sequenceParameters><i:TE>3</i:TE></i:sequenceParameters>"
                          "</i:ismrmrdHeader>"),
            std::vector<double>{3});
}

TEST(EchoTimesTest, AreNotGuessed) {
  EXPECT_TRUE(times_of("").empty());
  EXPECT_TRUE(times_of("<sequenceParameters><TR>5</TR></sequenceParameters>").empty());
  for (const char* bad : {"", "0", "-1", "two", "3 ms", "nan"})
    EXPECT_TRUE(
        times_of("<sequenceParameters><TE>2</TE><TE>" + std::string(bad) + "</TE></sequenceParameters>").empty())
        << bad;
  EXPECT_TRUE(echo_times_ms("Dummy XML header").empty());
}

}  // namespace
}  // namespace echotrain::protocol
