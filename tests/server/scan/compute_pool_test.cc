#include "server/scan/compute_pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "tests/server/comes_true.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using numerics::Backend;
using testing::HasSubstr;
using Ticket = std::unique_ptr<ComputePool::Ticket>;

std::shared_ptr<ComputePool> pool_of(std::vector<Place> places, std::int64_t most_waiting = 10) {
  return std::make_shared<ComputePool>(std::move(places), most_waiting);
}
const auto nothing = [] {};

TEST(ComputePool, TheLeastLoadedDeviceIsLentFirst) {
  const auto pool = pool_of({{Backend::cuda, 3, 2}, {Backend::cuda, 5, 3}, {Backend::cpu, 0, 1}});
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing));
  std::vector<int> devices;
  for (const Ticket& ticket : tickets) {
    ASSERT_TRUE(ticket->granted());
    devices.push_back(ticket->device());
  }
  EXPECT_THAT(devices, testing::ElementsAre(3, 5, 3, 5, 5));
  EXPECT_FALSE(pool->ask(Backend::cuda, nothing)->granted());
  EXPECT_TRUE(pool->ask(Backend::cpu, nothing)->granted());  // other places are not affected
  tickets[1].reset();
  tickets[3].reset();
  EXPECT_EQ(pool->ask(Backend::cuda, nothing)->device(), 5);
}

TEST(ComputePool, ItIsQuietUntilAScanGetsAPlace) {
  const auto pool = pool_of({{Backend::cpu, 0, 4}});
  auto quiet = pool->wait_for_quiet(0ms, {});
  ASSERT_TRUE(quiet.has_value());
  EXPECT_FALSE(quiet->stop_requested());
  Ticket one = pool->ask(Backend::cpu, nothing), two = pool->ask(Backend::cpu, nothing);
  EXPECT_TRUE(quiet->stop_requested());
  std::stop_source enough;
  enough.request_stop();
  EXPECT_EQ(pool->wait_for_quiet(0ms, enough.get_token()), std::nullopt) << "scans run";
  one.reset();
  two.reset();
  const auto since = Clock::now();
  quiet = pool->wait_for_quiet(40ms, {});
  ASSERT_TRUE(quiet.has_value());
  EXPECT_GE(Clock::now() - since, 39ms);
  EXPECT_FALSE(quiet->stop_requested());
}

TEST(ComputePool, AnAddressLeavesAQuarterOfThePlacesToOthers) {
  const auto pool = pool_of({{Backend::cuda, 0, 4}, {Backend::cuda, 1, 4}, {Backend::cpu, 0, 3}});
  std::vector<Ticket> many, few;
  for (int i = 0; i < 8; ++i) many.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.1"));
  EXPECT_EQ(std::count_if(many.begin(), many.end(), [](const Ticket& each) { return each->granted(); }), 6);
  const Ticket good = pool->ask(Backend::cuda, nothing, "10.0.0.2"), exempt = pool->ask(Backend::cuda, nothing);
  EXPECT_TRUE(good->granted()) << "it overtakes those who may not have the place";
  EXPECT_TRUE(exempt->granted());
  many.front().reset();
  EXPECT_TRUE(many[6]->granted()) << "the address may have one more again";
  EXPECT_FALSE(many[7]->granted());
  for (int i = 0; i < 3; ++i) few.push_back(pool->ask(Backend::cpu, nothing, "10.0.0.1"));
  EXPECT_TRUE(few.back()->granted()) << "a quarter of three places is none";
}

/// A GPU whose places follow the load.
Place following(std::int64_t capacity, std::int64_t most) { return {Backend::cuda, 0, capacity, 0, {}, most}; }

std::int64_t granted(const std::vector<Ticket>& tickets) {
  return std::count_if(tickets.begin(), tickets.end(), [](const Ticket& each) { return each->granted(); });
}

template <class Condition>
bool soon(const Condition& condition) {
  const auto end = Clock::now() + 20s;
  while (!condition() && Clock::now() < end) std::this_thread::sleep_for(2ms);
  return condition();
}

// New scans count a third: three times as many as the capacity get a place at once.
TEST(PlacesByLoad, ScansThatComputeLittleDoNotWait) {
  const auto pool = pool_of({following(8, 64)}, 100);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 24; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing));
  EXPECT_EQ(granted(tickets), 24);
  // They do nothing: after 0.3 s each counts a twelfth, and 24 of them 2.
  std::this_thread::sleep_for(300ms);
  for (int i = 0; i < 12; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing));
  EXPECT_EQ(granted(tickets), 36);
  const Place place = pool->places().front();
  EXPECT_EQ(place.scans, 36);
  EXPECT_GT(place.capacity, 36);
  EXPECT_LE(place.capacity, 64);
  EXPECT_LT(place.load, 36 * ScanLoad::kNew);
}

/// Keeps the images of the ticket's scan in work from now on, for longer than a test takes.
void keep_busy(const Ticket& ticket) { ticket->load()->image(Clock::now(), Clock::now() + 1min); }

TEST(PlacesByLoad, BusyScansHaveAsManyPlacesAsTheCapacitySays) {
  const auto pool = pool_of({following(8, 64)}, 100);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 8; ++i) {
    tickets.push_back(pool->ask(Backend::cuda, nothing));
    ASSERT_TRUE(tickets.back()->granted()) << "whatever the others compute";
    keep_busy(tickets.back());
  }
  const Ticket ninth = pool->ask(Backend::cuda, nothing);
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(ninth->granted());
  EXPECT_EQ(pool->places().front().capacity, 8);
  EXPECT_NEAR(pool->places().front().load, 8, 1e-3);
}

TEST(PlacesByLoad, WhoWaitsHasAPlaceWhenTheLoadFalls) {
  const auto pool = pool_of({following(1, 64)}, 100);
  const Ticket first = pool->ask(Backend::cuda, nothing);
  first->load()->begin(Clock::now());
  std::this_thread::sleep_for(200ms);  // it counts 0.78 by now
  std::atomic<int> woken = 0;
  const Ticket second = pool->ask(Backend::cuda, [&] { ++woken; });
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(second->granted());
  EXPECT_EQ(woken, 0);
  first->load()->end(Clock::now());
  EXPECT_TRUE(soon([&] { return second->granted(); })) << "though nobody has given a place back";
  EXPECT_TRUE(soon([&] { return woken == 1; }));
}

TEST(PlacesByLoad, ThereIsABoundHoweverLittleTheyCompute) {
  const auto pool = pool_of({following(8, 10)}, 100);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 12; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(granted(tickets), 10);
  EXPECT_EQ(pool->places().front().capacity, 10);
  tickets.front().reset();
  EXPECT_TRUE(tickets[10]->granted());
}

TEST(PlacesByLoad, AFixedNumberStaysFixed) {
  const auto pool = pool_of({{Backend::cuda, 0, 8}}, 100);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 9; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(granted(tickets), 8);
  EXPECT_EQ(tickets.front()->load(), nullptr);
}

// Who has just begun has taken nothing yet, but will.
TEST(PlacesByLoad, NobodyIsAddedWhomTheDeviceCannotHold) {
  std::atomic<std::uint64_t> left = 1000;
  const auto pool =
      std::make_shared<ComputePool>(std::vector<Place>{following(2, 64)}, 100, [&](int) { return left.load(); });
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing, {}, 400));
  EXPECT_EQ(granted(tickets), 2) << "1200 of 1000 bytes";
  EXPECT_TRUE(pool->ask(Backend::cpu, nothing) != nullptr);
  left = 1200;
  EXPECT_TRUE(soon([&] { return tickets[2]->granted(); }));
}

TEST(PlacesByLoad, AnAddressLeavesAQuarterOfWhatIsComputed) {
  const auto pool = pool_of({following(8, 64)}, 100);
  std::vector<Ticket> busy, idle;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.1"));
    if (i < 6) keep_busy(busy.back());
  }
  EXPECT_EQ(granted(busy), 6);
  EXPECT_THAT(pool->bound(Backend::cuda, "10.0.0.1"), HasSubstr("as much as 6 of 8"));
  EXPECT_TRUE(pool->ask(Backend::cuda, nothing, "10.0.0.2")->granted());
  EXPECT_EQ(pool->bound(Backend::cuda, "10.0.0.2"), "");
  busy.clear();
  // 18 new scans count as six that compute all the time.
  for (int i = 0; i < 20; ++i) idle.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.1"));
  EXPECT_GE(granted(idle), 18);
  EXPECT_TRUE(soon([&] { return granted(idle) == 20; })) << "they do little";
}

TEST(PlacesByLoad, AnAddressLeavesAQuarterHoweverLittleItsScansCompute) {
  const auto pool = pool_of({following(8, 16)}, 100);
  std::vector<Ticket> idle, others;
  for (int i = 0; i < 16; ++i) idle.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.1"));
  EXPECT_EQ(granted(idle), 12);
  EXPECT_THAT(pool->bound(Backend::cuda, "10.0.0.1"),
              HasSubstr("12 places on the cuda, of which there are at most 16"));
  for (int i = 0; i < 4; ++i) others.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.2"));
  EXPECT_EQ(granted(others), 4);
}

// They got their places while they did nothing, and then began to compute.
TEST(PlacesByLoad, AnAddressLeavesAQuarterThoughItsLoadHasRisen) {
  const auto pool = pool_of({following(8, 64)}, 100);
  std::vector<Ticket> many, others;
  for (int i = 0; i < 18; ++i) many.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.1"));
  ASSERT_EQ(granted(many), 18);
  for (const Ticket& each : many) keep_busy(each);
  EXPECT_FALSE(pool->ask(Backend::cuda, nothing, "10.0.0.1")->granted());
  others.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.2"));
  others.push_back(pool->ask(Backend::cuda, nothing));  // of an address that is exempt
  EXPECT_EQ(granted(others), 2) << "as of 8 places, of which one address has 6";
  others.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.3"));
  EXPECT_EQ(granted(others), 2);
}

// A scan that pauses comes back as what it was known to be.
TEST(PlacesByLoad, AScanThatGoesOnKeepsItsLoad) {
  const auto pool = pool_of({following(1, 4)}, 100);
  Ticket scan = pool->ask(Backend::cuda, nothing);
  const auto load = scan->load();
  ASSERT_NE(load, nullptr);
  scan.reset();
  EXPECT_EQ(pool->places().front().load, 0);
  scan = pool->ask_again(Backend::cuda, 0, nothing, {}, load);
  EXPECT_EQ(scan->load(), load);
}

/// The function to call when a ticket is granted; it cannot be copied while there is no memory.
struct Wake {
  std::shared_ptr<std::atomic<bool>> no_memory;
  std::shared_ptr<std::atomic<int>> woken;
  Wake(std::shared_ptr<std::atomic<bool>> none, std::shared_ptr<std::atomic<int>> count)
      : no_memory(std::move(none)), woken(std::move(count)) {}
  Wake(const Wake& other) : no_memory(other.no_memory), woken(other.woken) {
    if (*no_memory) throw std::bad_alloc();
  }
  void operator()() const { ++*woken; }
};

TEST(ComputePool, WhoCannotBeGrantedForWantOfMemoryStaysInLine) {
  const auto no_memory = std::make_shared<std::atomic<bool>>(false);
  const auto woken = std::make_shared<std::atomic<int>>(0);
  for (const Place& place : {Place{Backend::cuda, 0, 1}, following(1, 1)}) {
    *woken = 0;
    const auto pool = pool_of({place});
    Ticket first = pool->ask(Backend::cuda, nothing);
    const Ticket waits = pool->ask(Backend::cuda, Wake(no_memory, woken));
    *no_memory = true;
    first.reset();
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(waits->granted());
    *no_memory = false;
    pool->ask(Backend::cuda, nothing).reset();  // another who asks
    EXPECT_TRUE(waits->granted());
    EXPECT_TRUE(soon([&] { return *woken == 1; }));
  }
}

TEST(ComputePool, OfFewPlacesAnAddressMayHaveAll) {
  const std::vector<std::int64_t> most{1, 2, 3, 3, 4, 5, 6, 6};
  for (std::size_t places = 1; places <= most.size(); ++places) {
    const auto pool = pool_of({{Backend::cuda, 0, static_cast<std::int64_t>(places)}}, 100);
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < places; ++i) tickets.push_back(pool->ask(Backend::cuda, nothing, "10.0.0.1"));
    EXPECT_EQ(std::count_if(tickets.begin(), tickets.end(), [](const Ticket& each) { return each->granted(); }),
              most[places - 1])
        << places;
    EXPECT_EQ(pool->bound(Backend::cuda, "10.0.0.1").empty(), places < 4) << places;
    EXPECT_EQ(pool->bound(Backend::cuda, "10.0.0.2"), "");
  }
}

TEST(ComputePool, WhoIsToldHowManyGoFirstIsToldOfThoseWhoDo) {
  const auto pool = pool_of({{Backend::cuda, 0, 1}});
  const Ticket holds = pool->ask(Backend::cuda, nothing, "many"), waits = pool->ask(Backend::cuda, nothing, "many"),
               other = pool->ask(Backend::cuda, nothing, "other"), third = pool->ask(Backend::cuda, nothing, "third");
  EXPECT_EQ(waits->position(), 2);
  EXPECT_EQ(other->position(), 0) << "the first of those whose address has no place";
  EXPECT_EQ(third->position(), 1);
}

TEST(ComputePool, AnAddressLeavesAQuarterOfTheLineToOthers) {
  const auto pool = pool_of({{Backend::cuda, 0, 1}}, 4);
  std::vector<Ticket> many;
  for (int i = 0; i < 4; ++i) many.push_back(pool->ask(Backend::cuda, nothing, "many"));
  EXPECT_TRUE(many[3]);
  EXPECT_FALSE(pool->ask(Backend::cuda, nothing, "many")) << "a place, and three in line";
  const Ticket other = pool->ask(Backend::cuda, nothing, "other");
  EXPECT_TRUE(other);
  EXPECT_FALSE(pool->ask(Backend::cuda, nothing, "third")) << "four in line";
}

TEST(ComputePool, OfThoseWhoWaitTheAddressWithFewestPlacesGoesFirst) {
  const auto pool = pool_of({{Backend::cuda, 0, 3}});
  std::string order;
  const auto note = [&](char name) { return [&order, name] { order += name; }; };
  Ticket first = pool->ask(Backend::cuda, nothing, "many"), second = pool->ask(Backend::cuda, nothing, "many"),
         other = pool->ask(Backend::cuda, nothing, "other");
  const Ticket a = pool->ask(Backend::cuda, note('a'), "many"), b = pool->ask(Backend::cuda, note('b'), "other"),
               c = pool->ask(Backend::cuda, note('c'), "new"), d = pool->ask(Backend::cuda, note('d'), "new");
  first.reset();
  EXPECT_EQ(order, "c") << "its address has none";
  second.reset();
  EXPECT_EQ(order, "ca") << "its address, which has none any more, came before the others that have one";
}

TEST(ComputePool, WhoWaitsIsServedInOrderOfArrival) {
  const auto pool = pool_of({{Backend::cuda, 0, 1}, {Backend::cpu, 0, 1}});
  std::string order;
  const auto note = [&](char name) { return [&order, name] { order += name; }; };
  Ticket holds_cuda = pool->ask(Backend::cuda, nothing), holds_cpu = pool->ask(Backend::cpu, nothing);
  Ticket a = pool->ask(Backend::cuda, note('a')), b = pool->ask(Backend::cpu, note('b')),
         c = pool->ask(Backend::cuda, note('c')), d = pool->ask(Backend::cuda, note('d'));
  EXPECT_EQ(pool->waiting(), 4);
  EXPECT_EQ(a->position(), 0);
  EXPECT_EQ(b->position(), 0);  // nobody before it wants the CPU
  EXPECT_EQ(d->position(), 2);
  c.reset();  // gives up
  EXPECT_EQ(d->position(), 1);
  holds_cuda.reset();
  EXPECT_EQ(order, "a");
  EXPECT_TRUE(a->granted());
  EXPECT_FALSE(b->granted());
  a.reset();
  holds_cpu.reset();
  EXPECT_EQ(order, "adb");
  EXPECT_TRUE(d->granted());
  EXPECT_TRUE(b->granted());
  EXPECT_EQ(pool->waiting(), 0);
  d.reset();
  b.reset();
  for (const Place& place : pool->places()) EXPECT_EQ(place.scans, 0);
}

TEST(ComputePool, AFullLineRefuses) {
  const auto pool = pool_of({{Backend::cpu, 0, 1}}, 1);
  const Ticket held = pool->ask(Backend::cpu, nothing);
  Ticket waits = pool->ask(Backend::cpu, nothing);
  ASSERT_NE(waits, nullptr);
  EXPECT_EQ(pool->ask(Backend::cpu, nothing), nullptr);
  waits.reset();
  EXPECT_NE(pool->ask(Backend::cpu, nothing), nullptr);
}

TEST(ComputePool, APlaceMayHaveSeveralDevices) {
  const auto pool = pool_of({{Backend::cuda, 0, 1, 0, {1}}, {Backend::cuda, 2, 1, 0, {3}}}, 1);
  const Ticket one = pool->ask(Backend::cuda, nothing), two = pool->ask(Backend::cuda, nothing);
  EXPECT_EQ(one->device(), 0);
  EXPECT_EQ(one->others(), std::vector<int>{1});
  EXPECT_EQ(two->device(), 2);
  EXPECT_EQ(two->others(), std::vector<int>{3});
  EXPECT_FALSE(pool->ask(Backend::cuda, nothing)->granted());
}

TEST(ComputePool, AScanRegainsTheDeviceThatItsStateIsOn) {
  const auto pool = pool_of({{Backend::cuda, 0, 1, 0, {1}}, {Backend::cuda, 2, 1, 0, {3}}, {Backend::cpu, 0, 1}}, 1);
  std::string order;
  const auto note = [&](char name) { return [&order, name] { order += name; }; };
  EXPECT_EQ(pool->ask_again(Backend::cuda, 2, nothing)->device(), 2);  // though 0 is as free
  Ticket zero = pool->ask(Backend::cuda, nothing), two = pool->ask(Backend::cuda, nothing);
  ASSERT_EQ(zero->device(), 0);
  Ticket again = pool->ask_again(Backend::cuda, 2, note('a'));
  ASSERT_FALSE(again->granted());
  EXPECT_EQ(pool->ask(Backend::cuda, nothing), nullptr);  // the line is full
  Ticket more = pool->ask_again(Backend::cuda, 2, note('m'));
  ASSERT_NE(more, nullptr);  // but not for those who were there before
  EXPECT_EQ(more->position(), 1);
  zero.reset();  // of no use to them
  EXPECT_EQ(order, "");
  EXPECT_EQ(pool->ask(Backend::cuda, nothing)->device(), 0);
  two.reset();
  EXPECT_EQ(order, "a");
  EXPECT_EQ(again->device(), 2);
  EXPECT_EQ(again->others(), std::vector<int>{3});
  again.reset();
  EXPECT_EQ(order, "am");
  EXPECT_TRUE(more->granted());
}

TEST(ComputePool, NoPlaceIsLentTwiceOrLost) {
  const auto pool = pool_of({{Backend::cuda, 0, 2}, {Backend::cuda, 1, 1}}, 1000);
  std::atomic<int> running = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Ticket ticket = pool->ask(Backend::cuda, nothing);
        while (!ticket->granted()) std::this_thread::yield();
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --running;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 3);
  for (const Place& place : pool->places()) EXPECT_EQ(place.scans, 0);
}

TEST(ComputePool, DevicesThatAreNotThereAreRefused) {
  config::ServerOptions options;
  for (const char* name : {"-1", "one", "0x1", "99", "1 "}) {
    options.devices = {name};
    try {
      make_compute_pool(options);
      FAIL() << name;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("devices: '"));
    }
  }
}

// Sessions that share one place on the CPU.
// ----------------------------------------------------------------------------

const std::string kStart = wire::config("cartesian_plain") + wire::header(wire::xml());

config::ServerOptions one_at_a_time() {
  config::ServerOptions options;
  options.cpu_scans = 1;
  options.pause_s = 600;  // the holder of the place keeps it though it is silent
  return options;
}

TEST(WaitingScans, AreToldAndServedWhenThePlaceIsFree) {
  TestServer server(one_at_a_time());
  OnlyPlace holder(server);
  RawClient second(server.port());
  second.send(kStart + wire::frame() + wire::close());
  const auto told = second.receive();
  ASSERT_TRUE(told);
  EXPECT_THAT(told->text(), HasSubstr("INFO     waiting for a place on the cpu; 0 scans wait before this one"));
  EXPECT_FALSE(second.receive(200ms));
  holder.finish();
  const Conversation all = second.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U);
  EXPECT_TRUE(server.works());
}

/// Returns what a balancer on this machine sends where the client's address is 2001:db8:0:NETWORK::MACHINE.
std::string from(char network, char machine) {
  const std::string fixed("\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24", 16), prefix("\x20\x01\x0d\xb8\0\0\0", 7);
  return fixed + prefix + network + std::string(7, '\0') + machine + std::string(15, '\0') + "\x01\x12\x34\x23\x2a";
}

TEST(WaitingScans, OfOneIpv6NetworkAreOfOneAddress) {
  config::ServerOptions options;
  options.cpu_scans = 4;
  options.proxy_from = {"127.0.0.1"};
  TestServer server(options);
  std::vector<std::unique_ptr<RawClient>> holders;
  for (char machine = 1; machine <= 3; ++machine) {
    holders.push_back(std::make_unique<RawClient>(server.port()));
    holders.back()->send(from(1, machine) + kStart + wire::frame());
    ASSERT_EQ(holders.back()->receive()->id, 1022) << "its scan runs";
  }
  RawClient fourth(server.port()), elsewhere(server.port());
  fourth.send(from(1, 4) + kStart + wire::frame() + wire::close());
  const auto told = fourth.receive();
  ASSERT_TRUE(told);
  EXPECT_THAT(told->text(),
              HasSubstr("waiting for a place on the cpu; 0 scans wait before this one; 2001:db8:0:1::/64 has "
                        "3 of the 4 places on the cpu, the most for one address; who runs the server"));
  elsewhere.send(from(2, 4) + kStart + wire::frame() + wire::close());
  EXPECT_EQ(elsewhere.receive_all().count(1022), 1U);
  holders.clear();
  EXPECT_EQ(fourth.receive_all().count(1022), 1U);
}

TEST(WaitingScans, BeyondTheLineAreRefused) {
  config::ServerOptions options = one_at_a_time();
  options.max_waiting = 1;
  TestServer server(options);
  OnlyPlace holder(server);
  RawClient second(server.port());
  second.send(kStart);
  ASSERT_TRUE(second.receive());
  const Conversation third = server.exchange(kStart + wire::frame() + wire::close());
  EXPECT_TRUE(third.ended_well());
  EXPECT_THAT(third.texts(), HasSubstr("ERROR    busy: no place for a scan on the cpu is free"));
  holder.finish();
  second.send(wire::frame() + wire::close());
  EXPECT_EQ(second.receive_all().count(1022), 1U);
}

TEST(WaitingScans, DoNotWaitForEver) {
  config::ServerOptions options = one_at_a_time();
  options.wait_timeout_s = 0.2;
  TestServer server(options);
  OnlyPlace holder(server);
  const Conversation second = server.exchange(kStart);
  EXPECT_TRUE(second.ended_well());
  EXPECT_THAT(second.texts(), HasSubstr("ERROR    busy: no place for this scan became free within 0.2 s"));
  holder.finish();
  EXPECT_TRUE(server.works());
}

TEST(WaitingScans, AreToldThatMemoryWasShort) {
  config::ServerOptions options;
  options.memory_mib = 256;
  options.wait_timeout_s = 0.2;
  TestServer server(options);
  RawClient first(server.port());
  wire::Xml large{.encoded_x = "1024", .recon_x = "1024"};
  large.encoded_y = large.recon_y = "1024";
  first.send(wire::config("cartesian_plain") + wire::header(large.text()) + wire::acquisition(0));
  ASSERT_TRUE(comes_true([&] {  // it has what is reserved for one address
    return server.exchange(kStart + wire::close())
               .texts()
               .find("busy: no memory for this scan became free within 0.2 s") != std::string::npos;
  }));
}

TEST(WaitingScans, EndWithTheServer) {
  config::ServerOptions options = one_at_a_time();
  options.drain_timeout_s = 0.1;
  TestServer server(options);
  OnlyPlace holder(server);
  RawClient second(server.port());
  second.send(kStart);
  ASSERT_TRUE(second.receive());
  server.ask_to_stop();
  const Conversation all = second.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    shutdown"));
  holder.finish();
  server.stop();
}

TEST(WaitingScans, ThatGoAwayLeaveTheLine) {
  config::ServerOptions options = one_at_a_time();
  options.max_waiting = 2;
  TestServer server(options);
  OnlyPlace holder(server);
  for (int i = 0; i < 2; ++i) {
    RawClient second(server.port());
    second.send(kStart);
    ASSERT_TRUE(second.receive());
    second.reset();
  }
  holder.finish();  // those two get the place, find nobody, and give it back
  EXPECT_TRUE(server.works());
}

}  // namespace
}  // namespace echotrain::server
