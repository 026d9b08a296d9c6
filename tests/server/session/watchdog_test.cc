// The session's deadlines, each by itself. The tests say what time it is, so none of them waits.
#include "server/session/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <utility>

#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

/// Far enough apart to tell them by their times.
config::ServerOptions timeouts() {
  config::ServerOptions options;
  options.connect_timeout_s = 10;
  options.idle_timeout_s = 20;
  options.message_timeout_s = 30;
  options.send_timeout_s = 40;
  options.drain_timeout_s = 50;
  options.wait_timeout_s = 60;
  return options;
}

/// A watchdog of a session whose client has connected; it waits for bytes.
struct Watched {
  explicit Watched(const config::ServerOptions& options = timeouts(),
                   std::shared_ptr<numerics::Resources> resources = test_resources())
      : environment(make_environment(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(),
                                     std::move(resources))) {
    connection.opened = true;
    watchdog.set_reading(true);
  }
  Clock::time_point at(double s) const { return start + seconds(s); }
  /// Returns the session's end if the watchdog looks at the clock `s` after the beginning; "" if there is none.
  std::string look(double s) {
    watchdog.check(at(s));
    if (connection.end.gone) return "gone";
    return connection.end.error ? connection.end.error->code : "";
  }
  using Awaited = Watchdog::Awaited;
  void data(double s) { watchdog.received({at(s), true, true, 0, Awaited::data, {}}); }
  void part(double s, std::size_t pending) { watchdog.received({at(s), false, false, pending, Awaited::data, {}}); }
  /// A whole message without data, of which `pending` bytes more have come.
  void talk(double s, Awaited awaited, std::size_t pending = 0) {
    watchdog.received({at(s), true, false, pending, awaited, {}});
  }

  asio::io_context io;
  Environment environment;
  Connection connection{make_plain_transport(StreamSocket(io)), io.get_executor(), "peer", 1, environment};
  Watchdog watchdog{connection};
  const Clock::time_point start = Clock::now();
};

constexpr std::size_t kFast = 1 << 20;  // bytes in a period; 16 KiB/s are asked for

TEST(Watchdog, AHandshakeHasConnectTimeout) {
  Watched session;
  session.connection.opened = false;
  EXPECT_EQ(session.look(9), "");
  EXPECT_EQ(session.look(11), "gone");
}

TEST(Watchdog, TheConfigHasConnectTimeout) {
  Watched session;
  EXPECT_EQ(session.look(9), "");
  EXPECT_EQ(session.look(11), "timeout");
}

TEST(Watchdog, TheHeaderHasConnectTimeoutFromTheConfig) {
  Watched session;
  session.talk(7, Watched::Awaited::header);
  session.talk(12, Watched::Awaited::header);  // a query
  EXPECT_EQ(session.look(16), "");
  EXPECT_EQ(session.look(18), "timeout");
}

TEST(Watchdog, AClientThatFallsSilentHearsWhatIsWrongWithItsConfig) {
  Watched session;
  session.watchdog.received(
      {session.at(5), true, false, 0, Watched::Awaited::header, protocol::Error{"config", "no such gadget"}});
  EXPECT_EQ(session.look(14), "");
  EXPECT_EQ(session.look(16), "config");
}

TEST(Watchdog, DataResetIdleTimeout) {
  Watched session;
  for (const double s : {5.0, 20.0, 35.0}) {
    EXPECT_EQ(session.look(s), "");
    session.data(s);
  }
  EXPECT_EQ(session.look(54), "");
  EXPECT_EQ(session.look(56), "timeout");
}

TEST(Watchdog, TalkResetsNothing) {
  using Awaited = Watched::Awaited;
  for (const auto& [awaited, deadline] : {std::pair{Awaited::config, 10}, {Awaited::data, 20}}) {
    for (const std::size_t pending : {0, 100}) {  // messages one by one, or one after the other without a gap
      Watched session;
      if (awaited == Awaited::data) session.data(0);
      for (int s = 1; s < deadline; ++s) {
        session.talk(s, awaited, pending);
        EXPECT_EQ(session.look(s), "") << s;
      }
      session.talk(deadline + 1, awaited, pending);
      EXPECT_EQ(session.look(deadline + 2), "timeout");
    }
  }
}

TEST(Watchdog, AMessageThatBeganInTimeMayEnd) {
  Watched session;
  session.data(0);
  session.part(19, 1);
  EXPECT_EQ(session.look(48), "");
  session.data(48);  // what it was
  EXPECT_EQ(session.look(67), "");
  session.talk(67, Watched::Awaited::data, 1);
  session.talk(90, Watched::Awaited::data);  // it was no data
  EXPECT_EQ(session.look(91), "timeout");
}

TEST(Watchdog, APauseIsToldAgainAndAgain) {
  config::ServerOptions options = timeouts();
  options.pause_s = 5;
  Watched session(options);
  int rung = 0;
  session.watchdog.on_pause([&] { ++rung; });
  session.look(9);
  EXPECT_EQ(rung, 0);  // there is no scan
  session.data(10);
  session.talk(14, Watched::Awaited::data);
  session.look(14.5);
  EXPECT_EQ(rung, 0);
  session.talk(15.5, Watched::Awaited::data);
  session.look(16);
  session.watchdog.set_reading(false);  // it may be held back
  session.look(17);
  EXPECT_EQ(rung, 2);
  session.data(18);
  session.look(19);
  EXPECT_EQ(rung, 2);
  session.connection.end.closed = true;
  session.look(30);
  EXPECT_EQ(rung, 2);
}

constexpr std::uint64_t kMib = 1 << 20;

/// A session whose scan has reserved memory, and another scan that waits for more than is left. pause_s is 10.
struct Reserving {
  static std::shared_ptr<numerics::Resources> bounded() {
    numerics::ResourceOptions options = test_resource_options();
    options.memory_budget = 1024 * kMib;
    return std::make_shared<numerics::Resources>(options);
  }
  explicit Reserving(std::uint64_t bytes) {
    EXPECT_TRUE(account.reserve(bytes));
    session.watchdog.on_pause([this] { rung = true; });
    session.data(0);
  }
  void others_wait() {
    taken.add(1000 * kMib);
    waits = session.environment.memory_admission->ask(
        {std::make_shared<numerics::MemoryAccount>(session.environment.memory), 400 * kMib, "other"}, [] {});
    ASSERT_TRUE(session.environment.memory_admission->under_pressure());
  }
  /// True if the scan has to pause after another period in which `kib_s` came each second, to be expanded so.
  bool pauses_at(double kib_s, double expands_by = 1) {
    const auto bytes = static_cast<std::uint64_t>(kib_s * 1024 * kPeriod_s);
    session.connection.status->bytes_in += bytes;
    if (expands_by > 1)
      session.watchdog.compressed(bytes, static_cast<std::uint64_t>(static_cast<double>(bytes) * expands_by));
    s += kPeriod_s;
    session.data(s);
    rung = false;
    session.look(s);
    return rung;
  }

  static constexpr double kPeriod_s = 10.2;  // the clock is looked at after pause_s
  Watched session{timeouts(), bounded()};
  numerics::MemoryAccount& account = *session.connection.status->account;
  numerics::MemoryAccount taken{session.environment.memory};
  std::unique_ptr<MemoryAdmission::Ticket> waits;
  double s = 0;
  bool rung = false;
};

TEST(Watchdog, WhatIsReservedAndUnusedHasToBeFilledWithinFourHoursWhileOthersWait) {
  Reserving large(360 * kMib);  // 25.6 KiB/s
  EXPECT_FALSE(large.pauses_at(1)) << "nobody waits";
  large.others_wait();
  EXPECT_TRUE(large.pauses_at(17));
  EXPECT_TRUE(large.pauses_at(24.5));
  EXPECT_FALSE(large.pauses_at(26));
  large.account.take(324 * kMib);  // 36 are left
  EXPECT_FALSE(large.pauses_at(2.7));
  EXPECT_TRUE(large.pauses_at(2.4));
  large.account.take(36 * kMib);
  EXPECT_FALSE(large.pauses_at(0.1)) << "there is nothing to lend";
  large.account.add(1);
  EXPECT_FALSE(large.pauses_at(17)) << "it borrows";
  EXPECT_TRUE(large.pauses_at(15));
}

// A volume with GRAPPA or SENSE reserves five times its samples, and uses one part from the first line on. A fourth of
// the lines within 10 minutes is 1/2400 of the samples a second, and 1/3600 is asked for.
TEST(Watchdog, AnAcceleratedVolumeKeepsWhatItsImageNeeds) {
  constexpr double kSamples_kib = 80 << 10, kTaken_s = 600;
  Reserving volume(400 * kMib);
  volume.others_wait();
  volume.account.take(80 * kMib);
  EXPECT_FALSE(volume.pauses_at(kSamples_kib / 4 / kTaken_s));
  EXPECT_FALSE(volume.pauses_at(kSamples_kib / 4 / 4 / kTaken_s, 4)) << "compressed";
  EXPECT_TRUE(volume.pauses_at(kSamples_kib / 4 / 2 / kTaken_s)) << "in 20 minutes";
  EXPECT_TRUE(volume.pauses_at(kSamples_kib / 4 / 8 / kTaken_s, 64)) << "no more than 4 times what came counts";
}

// A cine of 128 x 128 with 4 channels reserves 2.5 MiB: 0.18 KiB/s, where a frame takes 49 minutes.
TEST(Watchdog, ASlowScanThatReservesLittleKeepsIt) {
  Reserving cine(5 * kMib / 2);
  cine.others_wait();
  EXPECT_FALSE(cine.pauses_at(0.25));
  EXPECT_TRUE(cine.pauses_at(0.17));
}

// 480 MiB are filled within two days by 2.84 KiB/s. idle_timeout_s is 20, so it is looked at each minute.
struct Crawling {
  Crawling() {
    session.connection.status->account->add(480 * kMib);
    session.watchdog.on_crawl([this] { rung = true; });
    session.data(0);
  }
  /// True if the scan crawls after `for_s` more, each ten of which bring data, as much as `kib_s` would.
  bool crawls(double kib_s, double for_s = 60) {
    for (const double end = s + for_s; s < end;) {
      s += 10;
      session.connection.status->bytes_in += static_cast<std::uint64_t>(10 * kib_s * 1024);
      session.data(s);
      rung = false;
      EXPECT_EQ(session.look(s), "");
    }
    return rung;
  }
  Watched session;
  double s = 1;  // a moment after the first period began
  bool rung = false;
};

TEST(Watchdog, AScanCrawlsThatWouldFillWhatItUsesInMoreThanTwoDays) {
  Crawling scan;
  EXPECT_FALSE(scan.crawls(0, 50)) << "it may pause";
  EXPECT_TRUE(scan.crawls(2.7, 10));
  EXPECT_TRUE(scan.crawls(2.7)) << "again and again";
  EXPECT_TRUE(scan.crawls(2.7));
  EXPECT_FALSE(scan.crawls(100, 10)) << "as soon as a minute's data have come";
  EXPECT_FALSE(scan.crawls(3.0));
  EXPECT_FALSE(scan.crawls(3.0));
  scan.session.connection.status->account->add(480 * kMib);
  EXPECT_TRUE(scan.crawls(3.0)) << "it uses more";
  scan.session.connection.end.closed = true;
  EXPECT_FALSE(scan.crawls(0, 10)) << "all has come";
}

TEST(Watchdog, AScanDoesNotCrawlWhileTheServerTakesNoData) {
  for (const bool by_place : {true, false}) {
    Crawling scan;
    Watchdog& watchdog = scan.session.watchdog;
    EXPECT_FALSE(scan.crawls(0, 40));
    watchdog.set_reading(false);
    if (by_place) {
      watchdog.place_wait_begins(scan.session.at(41));
      scan.session.look(100);
      watchdog.place_wait_ends(scan.session.at(100));
    } else {
      watchdog.hold_back(scan.session.at(41));
      scan.session.look(100);
      watchdog.release(scan.session.at(100));
    }
    watchdog.set_reading(true);
    scan.s = 100;
    scan.session.data(100);
    EXPECT_FALSE(scan.crawls(0, 10));
    EXPECT_TRUE(scan.crawls(0, 20)) << "but the time before that counts";
  }
}

TEST(Watchdog, ThePaceIsThatOfTheTimeInWhichTheServerTakesData) {
  for (const auto fault : {Watchdog::Fault::server, Watchdog::Fault::client}) {
    Reserving scan(360 * kMib);
    scan.others_wait();
    scan.session.watchdog.hold_back(scan.session.at(1), fault);
    scan.session.watchdog.release(scan.session.at(10));
    EXPECT_EQ(scan.pauses_at(1), fault == Watchdog::Fault::client);
  }
  Reserving late(360 * kMib);
  late.others_wait();
  late.session.connection.status->bytes_in += 100 * kMib;  // before its turn
  late.session.watchdog.place_wait_ends(late.session.at(0));
  EXPECT_TRUE(late.pauses_at(1));
}

// The disk of the captures may stall for longer than pause_s.
TEST(Watchdog, AScanWhoseInputTheServerHoldsBackDoesNotPause) {
  for (const auto fault : {Watchdog::Fault::server, Watchdog::Fault::client}) {
    Reserving scan(360 * kMib);
    scan.others_wait();
    Watched& session = scan.session;
    session.watchdog.set_reading(false);
    session.watchdog.hold_back(session.at(1), fault);
    session.look(17);
    EXPECT_EQ(scan.rung, fault == Watchdog::Fault::client);
    if (fault == Watchdog::Fault::client) continue;
    session.watchdog.release(session.at(18));
    session.look(26.5);
    EXPECT_FALSE(scan.rung) << "silent for 9.5 s of its own";
    session.look(28.5);
    EXPECT_TRUE(scan.rung);
  }
}

TEST(Watchdog, NobodyIsBlamedWhileNothingIsRead) {
  Watched session;
  session.data(5);
  session.watchdog.set_reading(false);
  EXPECT_EQ(session.look(1000), "");
  session.watchdog.set_reading(true);
  EXPECT_EQ(session.look(1001), "timeout");
}

TEST(Watchdog, AMessageHasMessageTimeoutFromItsFirstByte) {
  Watched session;
  session.data(1);
  session.part(15, 100);
  EXPECT_EQ(session.look(44), "");  // idle_timeout_s has passed since the last message
  EXPECT_EQ(session.look(46), "timeout");
}

TEST(Watchdog, DripsDoNotKeepAMessageAlive) {
  Watched session;
  for (int s = 1; s < 31; ++s) {
    session.part(s, static_cast<std::size_t>(s));
    ASSERT_EQ(session.look(s), "") << s;
  }
  session.part(31, 31);
  EXPECT_EQ(session.look(31.5), "timeout");
}

TEST(Watchdog, ALargeMessageOnASlowLinkHasItsTime) {
  Watched session;
  for (int s = 1; s < 200; ++s) {
    session.part(s, static_cast<std::size_t>(s) * (kFast / 30));
    ASSERT_EQ(session.look(s), "") << s;
  }
  EXPECT_EQ(session.look(220), "");  // the end of the last period in which bytes came
  EXPECT_EQ(session.look(251), "timeout");
}

TEST(Watchdog, ReleaseForgivesTheTimeThatWasHeldBack) {
  Watched session;
  session.data(-5);
  session.watchdog.hold_back(session.at(0));
  session.watchdog.hold_back(session.at(50));
  session.watchdog.release(session.at(100));
  EXPECT_EQ(session.look(114), "");
  EXPECT_EQ(session.look(116), "timeout");
  Watched other;
  other.data(-100);
  other.watchdog.release(other.at(0));  // nothing was held back
  EXPECT_EQ(other.look(1), "timeout");
}

TEST(Watchdog, AClientThatIsHeldBackNowAndThenGainsOnlyThatTime) {
  Watched session;
  session.data(0);
  for (int s = 1; s < 19; s += 2) {
    session.watchdog.hold_back(session.at(s));
    session.watchdog.release(session.at(s + 1));
  }
  EXPECT_EQ(session.look(28), "");
  EXPECT_EQ(session.look(30), "timeout");
}

// The client holds itself back by queries whose answers it does not read.
TEST(Watchdog, AClientThatHoldsItselfBackGainsNothing) {
  Watched session;
  session.data(0);
  for (int s = 1; s < 19; s += 2) {
    session.watchdog.hold_back(session.at(s), Watchdog::Fault::client);
    session.watchdog.release(session.at(s + 1));
  }
  EXPECT_EQ(session.look(19), "");
  EXPECT_EQ(session.look(21), "timeout");
  Watched other;
  other.data(0);
  other.watchdog.set_reading(false);
  other.watchdog.hold_back(other.at(1));
  other.watchdog.hold_back(other.at(6), Watchdog::Fault::client);  // 5 s were the server's
  EXPECT_EQ(other.look(24), "");
  EXPECT_EQ(other.look(26), "timeout");
}

TEST(Watchdog, TheDeadlinesForConfigAndHeaderStayWhileAClientIsHeldBack) {
  for (const auto awaited : {Watched::Awaited::config, Watched::Awaited::header}) {
    Watched session;
    session.talk(0, awaited);
    session.watchdog.set_reading(false);
    session.watchdog.hold_back(session.at(1));
    EXPECT_EQ(session.look(9), "");
    EXPECT_EQ(session.look(11), "timeout");
    Watched other;
    other.talk(0, awaited);
    other.watchdog.hold_back(other.at(1));
    other.watchdog.release(other.at(9));
    EXPECT_EQ(other.look(11), "timeout");
    Watched cut;  // nobody takes the rest of a message that has come in part
    cut.talk(0, awaited, 100);
    cut.watchdog.set_reading(false);
    cut.watchdog.hold_back(cut.at(1));
    EXPECT_EQ(cut.look(11), "timeout");
  }
}

TEST(Watchdog, AClientIsNotWatchedWhileItsInputSpills) {
  Watched session;
  session.data(-5);
  session.watchdog.set_spilling(true, session.at(0));
  EXPECT_EQ(session.look(1000), "");
  session.watchdog.set_spilling(false, session.at(1000));
  EXPECT_EQ(session.look(1014), "");
  EXPECT_EQ(session.look(1016), "timeout");
}

TEST(Watchdog, AClientWhoseInputSpillsReadsOrSends) {
  Watched session;
  session.data(0);
  session.watchdog.set_spilling(true, session.at(0));
  session.watchdog.write_begins();
  int s = 0;
  for (; s < 100; s += 10) {
    session.watchdog.spilled(kFast);
    EXPECT_EQ(session.look(s), "") << "it sends";
  }
  for (; s < 500; s += 10) {
    session.watchdog.spilled(10);  // drips
    session.watchdog.wrote(static_cast<std::uint64_t>(s) * kFast);
    EXPECT_EQ(session.look(s), "") << "it reads";
  }
  EXPECT_EQ(session.look(530), "") << "it has read not long ago";
  EXPECT_EQ(session.look(575), "gone");
}

TEST(Watchdog, WhoHasNothingToReadNeedNotSendWhileItsInputSpills) {
  Watched session;
  session.data(0);
  session.watchdog.set_spilling(true, session.at(0));
  EXPECT_EQ(session.look(1000), "");
  EXPECT_EQ(session.look(2000), "");
}

TEST(Watchdog, AWriteHasSendTimeoutWhileTheClientHasToRead) {
  for (const bool held : {true, false}) {
    Watched session;
    session.watchdog.set_reading(false);
    session.watchdog.write_begins();
    EXPECT_EQ(session.look(1000), "") << "while data are taken, the client need not read";
    Watched other;
    other.data(0);
    other.watchdog.set_reading(false);
    if (held)
      other.watchdog.hold_back();
    else
      other.connection.end.closed = true;  // the last messages go out
    other.watchdog.write_begins();
    EXPECT_EQ(other.look(39), "");
    EXPECT_EQ(other.look(42), "gone");
  }
}

TEST(Watchdog, AWriteThatMovesGoesOn) {
  Watched session;
  session.data(0);
  session.watchdog.set_reading(false);
  session.watchdog.hold_back();
  session.watchdog.write_begins();
  session.watchdog.wrote(kFast);
  EXPECT_EQ(session.look(42), "");
  session.watchdog.wrote(2 * kFast);
  EXPECT_EQ(session.look(84), "");
  session.watchdog.wrote(2 * kFast + 1);
  EXPECT_EQ(session.look(126), "gone");
}

TEST(Watchdog, AWriteThatIsDoneIsNotWatched) {
  Watched session;
  session.data(0);
  session.watchdog.set_reading(false);
  session.watchdog.hold_back();
  session.watchdog.write_begins();
  session.watchdog.write_ends();
  EXPECT_EQ(session.look(1000), "");
}

TEST(Watchdog, APlaceIsWaitedForSoLong) {
  Watched session;
  session.watchdog.set_reading(false);
  session.watchdog.place_wait_begins(session.at(7));
  EXPECT_EQ(session.look(66), "");
  EXPECT_EQ(session.look(68), "busy");
  EXPECT_THAT(session.connection.end.error->message, testing::HasSubstr("no place for this scan"));
  Watched other;
  other.watchdog.set_reading(false);
  other.watchdog.place_wait_begins(other.at(7));
  other.watchdog.place_wait_ends();
  EXPECT_EQ(other.look(1000), "");
  EXPECT_FALSE(other.watchdog.place_wait_over());
}

TEST(Watchdog, NothingElseIsAskedOfAClientWhoseScanWaitsForAPlace) {
  Watched session;
  session.watchdog.hold_back(session.at(1));
  session.watchdog.place_wait_begins(session.at(1));
  EXPECT_EQ(session.look(60), "");
  EXPECT_EQ(session.look(62), "busy");
}

TEST(Watchdog, AfterAWaitInVainThePeerHasDrainTimeout) {
  Watched session;
  session.watchdog.place_wait_begins(session.at(0));
  EXPECT_EQ(session.look(61), "busy");
  EXPECT_TRUE(session.watchdog.place_wait_over());
  session.watchdog.drain_begins();
  session.look(62);
  EXPECT_TRUE(session.watchdog.drain_over());
}

TEST(Watchdog, TheAlarmRingsOnce) {
  Watched session;
  session.watchdog.set_reading(false);
  std::string rung;
  session.watchdog.set_alarm(session.at(3), [&] { rung += 'a'; });
  session.watchdog.set_alarm(session.at(5), [&] { rung += 'b'; });  // replaces it
  session.look(4);
  EXPECT_EQ(rung, "");
  session.look(6);
  session.look(7);
  EXPECT_EQ(rung, "b");
  session.watchdog.set_alarm(session.at(8), [&] { rung += 'c'; });
  session.watchdog.clear_alarm();
  session.look(9);
  EXPECT_EQ(rung, "b");
}

TEST(Watchdog, ThePeerHasDrainTimeoutToHangUp) {
  Watched session;
  session.watchdog.set_reading(false);
  EXPECT_FALSE(session.watchdog.draining());
  session.watchdog.drain_begins();
  EXPECT_TRUE(session.watchdog.draining());
  session.look(49);
  EXPECT_FALSE(session.watchdog.drain_over());
  session.look(52);
  EXPECT_TRUE(session.watchdog.drain_over());
}

// The watchdog uses the real clock here.
TEST(Watchdog, WatchLooksAtTheClockUntilItIsStopped) {
  config::ServerOptions options = timeouts();
  options.connect_timeout_s = 0.2;
  Watched session(options);
  bool returned = false;
  asio::co_spawn(session.io, session.watchdog.watch(), [&](const std::exception_ptr&) { returned = true; });
  const auto began = Clock::now();
  while (!session.connection.end.error && Clock::now() < began + seconds(10)) session.io.run_for(seconds(0.01));
  ASSERT_TRUE(session.connection.end.error.has_value());
  EXPECT_GE(Clock::now(), session.start + seconds(0.15));
  EXPECT_FALSE(returned);  // the client is still to be told
  session.watchdog.stop();
  session.io.run_for(seconds(5));  // returns as soon as nothing is left to do
  EXPECT_TRUE(returned);
}

}  // namespace
}  // namespace echotrain::server
