#include "server/net/connection_admission.h"

#include <gmock/gmock.h>

#include <string>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

boost::asio::ip::address at(const std::string& text) { return boost::asio::ip::make_address(text); }

class SlotsTest : public testing::Test {
 protected:
  ConnectionAdmission admission_{{4, 3, 2}, AllowList({"10.9.0.0/16"}, "per_address_exempt")};
  Clock::time_point now_ = Clock::now();

  void connect(std::uint64_t id, const std::string& address) {
    admission_.connect(id, at(address), now_);
    now_ += 1ms;
  }
  std::string refusal(std::uint64_t id) {
    const auto error = admission_.admit(id);
    return error ? error->code + ": " + error->message : "";
  }
};

TEST_F(SlotsTest, SilentConnectionsTakeNoSession) {
  for (std::uint64_t id = 1; id <= 4; ++id) connect(id, "10.0.0.1");
  EXPECT_EQ(admission_.connecting(), 4);
  EXPECT_EQ(admission_.sessions(), 0);
  EXPECT_FALSE(admission_.make_room(at("10.0.0.1"), now_).available);  // they have not had their time yet
  const ConnectionAdmission::Room room = admission_.make_room(at("10.0.0.2"), now_);
  EXPECT_TRUE(room.available) << "who has more than half makes room for others at once";
  EXPECT_EQ(room.dropped, 1U);
  connect(5, "10.0.0.2");
  EXPECT_EQ(admission_.make_room(at("10.0.0.1"), now_ + ConnectionAdmission::kGrace).dropped, 2U);
  connect(6, "10.0.0.1");
  EXPECT_EQ(admission_.connecting(), 4);
  EXPECT_EQ(refusal(5), "");
  EXPECT_EQ(admission_.connecting(), 3);
  EXPECT_EQ(admission_.sessions(), 1);
}

TEST_F(SlotsTest, WhoHasMostMakesRoom) {
  connect(1, "10.0.0.1");
  connect(2, "10.0.0.2");
  connect(3, "10.0.0.2");
  connect(4, "10.0.0.3");
  now_ += ConnectionAdmission::kGrace;
  const ConnectionAdmission::Room room = admission_.make_room(at("10.0.0.4"), now_);
  EXPECT_EQ(room.dropped, 2U);
  EXPECT_EQ(room.address, at("10.0.0.2"));
  EXPECT_THAT(refusal(2), HasSubstr("busy: "));  // its config came too late
  admission_.remove(2);
  EXPECT_EQ(admission_.connecting(), 3);
  EXPECT_TRUE(admission_.make_room(at("10.0.0.4"), now_).available);
  EXPECT_FALSE(admission_.make_room(at("10.0.0.4"), now_).dropped);
}

TEST_F(SlotsTest, OfAddressesThatHaveEquallyManyTheOldestConnectionGoes) {
  connect(1, "10.0.0.9");
  connect(2, "10.0.0.9");
  connect(3, "10.0.0.1");
  connect(4, "10.0.0.1");
  EXPECT_FALSE(admission_.make_room(at("10.0.0.2"), now_).available) << "nobody has more than half";
  EXPECT_EQ(admission_.make_room(at("10.0.0.2"), now_ + ConnectionAdmission::kGrace).dropped, 1U);
}

/// So no address fills the line of those that wait.
TEST_F(SlotsTest, AnAddressWithMoreThanHalfDoesNotWait) {
  for (std::uint64_t id = 1; id <= 2; ++id) connect(id, "10.0.0.1");
  for (std::uint64_t id = 3; id <= 4; ++id) connect(id, "10.9.0.1");
  EXPECT_TRUE(admission_.wait(at("10.0.0.1")));
  EXPECT_FALSE(admission_.wait(at("10.0.0.1"))) << "one waits, beside the half";
  EXPECT_TRUE(admission_.wait(at("10.0.0.2")));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admission_.wait(at("10.9.0.1"))) << "it is exempt";
  admission_.end_wait(at("10.0.0.1"));
  EXPECT_TRUE(admission_.wait(at("10.0.0.1")));
}

TEST_F(SlotsTest, AnExemptAddressHasItsTime) {
  for (std::uint64_t id = 1; id <= 4; ++id) connect(id, "10.9.0.1");
  EXPECT_FALSE(admission_.make_room(at("10.0.0.2"), now_).available);
  EXPECT_EQ(admission_.make_room(at("10.0.0.2"), now_ + ConnectionAdmission::kGrace).dropped, 1U);
}

TEST_F(SlotsTest, OneAddressHasItsShareOfSessions) {
  for (std::uint64_t id = 1; id <= 3; ++id) connect(id, "10.0.0.1");
  EXPECT_EQ(refusal(1), "");
  EXPECT_EQ(refusal(1), "");  // it has it already
  EXPECT_EQ(refusal(2), "");
  EXPECT_THAT(refusal(3), HasSubstr("busy: 10.0.0.1 already has 2 sessions"));
  EXPECT_THAT(refusal(3), HasSubstr("max_sessions_per_address"));
  EXPECT_THAT(refusal(3), HasSubstr("per_address_exempt"));
  admission_.remove(1);
  EXPECT_EQ(refusal(3), "");
  connect(4, "10.0.0.2");
  EXPECT_EQ(refusal(4), "");
  connect(5, "10.0.0.3");
  EXPECT_THAT(refusal(5), HasSubstr("busy: the server already runs 3 sessions, its limit"));
}

// Two addresses that may have half each leave room for a third.
TEST_F(SlotsTest, AnEighthOfTheSessionsIsForTheFirstOfAnAddress) {
  ConnectionAdmission admission({64, 16, 8}, AllowList({"10.9.0.0/16"}, "per_address_exempt"));
  std::uint64_t last = 0;
  const auto admits = [&](const std::string& address) {
    admission.connect(++last, at(address), now_);
    const auto error = admission.admit(last);
    return error ? error->message : std::string();
  };
  for (int i = 0; i < 7; ++i) EXPECT_EQ(admits("10.0.0.1") + admits("10.0.0.2"), "");
  EXPECT_THAT(admits("10.0.0.1"), HasSubstr("the last 2 that it may run (max_sessions = 16) are for addresses"));
  EXPECT_EQ(admits("10.0.0.3"), "");
  EXPECT_THAT(admits("10.0.0.3"), HasSubstr("addresses that have none")) << "its second";
  EXPECT_EQ(admits("10.9.0.1"), "");
  EXPECT_THAT(admits("10.0.0.4"), HasSubstr("its limit"));
  ConnectionAdmission all({64, 16, 16}, AllowList({}, "per_address_exempt"));
  for (std::uint64_t id = 1; id <= 16; ++id) {
    all.connect(id, at("10.0.0.1"), now_);
    EXPECT_EQ(all.admit(id), std::nullopt) << "one address may have all";
  }
}

TEST_F(SlotsTest, AnExemptAddressMayHaveAllSessions) {
  for (std::uint64_t id = 1; id <= 4; ++id) connect(id, "10.9.0.1");
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(refusal(id), "");
  EXPECT_THAT(refusal(4), HasSubstr("its limit"));
}

TEST_F(SlotsTest, AnIpv6NetworkCountsAsOneAddress) {
  connect(1, "2001:db8:0:7::1");
  connect(2, "2001:db8:0:7:ffff::2");
  connect(3, "2001:db8:0:7::3");
  EXPECT_EQ(refusal(1), "");
  EXPECT_EQ(refusal(2), "");
  EXPECT_THAT(refusal(3), HasSubstr("busy: 2001:db8:0:7::/64 already has 2 sessions"));
  connect(4, "2001:db8:0:8::1");
  EXPECT_EQ(refusal(4), "");
}

TEST_F(SlotsTest, Ipv4IsTheSameOverIpv6) {
  connect(1, "::ffff:10.0.0.1");
  connect(2, "10.0.0.1");
  connect(3, "::ffff:10.0.0.1");
  EXPECT_EQ(refusal(1) + refusal(2), "");
  EXPECT_THAT(refusal(3), HasSubstr("busy: 10.0.0.1 already has 2 sessions"));
}

TEST_F(SlotsTest, WhatHasEndedLeavesNothing) {
  connect(1, "10.0.0.1");
  connect(2, "10.0.0.1");
  EXPECT_EQ(refusal(1), "");
  for (const std::uint64_t id : {1, 2, 2, 77}) admission_.remove(id);
  EXPECT_EQ(admission_.connecting(), 0);
  EXPECT_EQ(admission_.sessions(), 0);
  EXPECT_THAT(refusal(1), HasSubstr("busy"));
}

}  // namespace
}  // namespace echotrain::server
