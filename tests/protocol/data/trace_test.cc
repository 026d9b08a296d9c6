#include "protocol/data/trace.h"

#include <gtest/gtest.h>

namespace echotrain::protocol {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";

TEST(Trace, TheExampleOfTheRecommendation) {
  EXPECT_EQ(trace_id_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), kTrace);
}

TEST(Trace, LaterVersionsMayHaveMore) {
  EXPECT_EQ(trace_id_of("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes"), kTrace);
  EXPECT_EQ(trace_id_of("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01what"), "");
  EXPECT_EQ(trace_id_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"), "");
}

TEST(Trace, WhatIsNone) {
  for (const char* text :
       {"", "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x"})
    EXPECT_EQ(trace_id_of(text), "") << text;
}

TEST(Trace, NewOnesAreValidAndDiffer) {
  const std::string one = new_trace_id(), other = new_trace_id();
  EXPECT_NE(one, other);
  EXPECT_EQ(trace_id_of("00-" + one + "-00f067aa0ba902b7-00"), one);
}

}  // namespace
}  // namespace echotrain::protocol
