#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "server/detached/scan_record.h"
#include "tests/server/detached/detached_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::uint64_t kGib = 1 << 30;

/// A scan of this client that counts so many bytes of its max_gib = 1, without being so large.
void keep_one_of(std::uint64_t bytes, const fs::path& detached) {
  fs::create_directories(detached);
  ScanRecord record;
  record.id = std::string(32, 'a');
  record.identity = {"address:127.0.0.1", "address:127.0.0.1"};
  record.end = "done";
  record.keep_until = unix_now() + 3600;
  record.results_bytes = bytes;
  ASSERT_EQ(write_record(detached, record, false), "");
}

nlohmann::json facts_as_json(std::uint16_t port, const std::string& id) {
  const std::string text = asked(port, "echotrain::scan/" + id);
  return text.starts_with("{") ? nlohmann::json::parse(text) : nlohmann::json{{"state", text}};
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST(DetachedBounds, CountTheJournalsOfAClientWhileTheyGrow) {
  const TemporaryFolder folder;
  const fs::path detached = folder.path() / "detached";
  constexpr std::uint64_t kRoom = 3 << 20;
  keep_one_of(kGib - kRoom, detached);
  auto options = detaching(folder);
  options.detached.max_gib = 1;
  TestServer server(options);
  // Each alone would fit; both began while there was room.
  const std::string line = wire::text(std::string(300 << 10, 't'));
  DetachedClient first(server.port()), second(server.port());
  std::array<std::string, 2> ids;
  for (auto* client : {&first, &second}) {
    client->ask("echotrain::detach/new");
    client->send(head_of_scan());
    ids.at(client == &first ? 0 : 1) = client->answer("detached ");
  }
  for (int i = 0; i < 6; ++i) first.send(line);
  ASSERT_TRUE(first.acknowledges(6));
  for (int i = 0; i < 6; ++i) second.send(line);
  EXPECT_THAT(second.to_the_end().texts(), HasSubstr("detached.max_gib"));
  EXPECT_LT(second.acknowledged, 6U);
  EXPECT_LE(size_of(detached / journal_name(ids[0])) + size_of(detached / journal_name(ids[1])), kRoom);
  // With room again it goes on behind what was acknowledged.
  EXPECT_EQ(asked(server.port(), "echotrain::cancel/" + ids[0]), "cancelled");
  EXPECT_TRUE(comes_true_soon([&] { return facts_as_json(server.port(), ids[0])["state"] == "cancelled"; }));
  EXPECT_EQ(asked(server.port(), "echotrain::cancel/" + ids[0]), "cancelled");
  DetachedClient again(server.port());
  again.ask("echotrain::detach/resume/" + ids[1] + "/0");
  const std::uint64_t from = std::stoull(again.answer("resumed "));
  EXPECT_GE(from, second.acknowledged);
  for (std::uint64_t i = from; i < 6; ++i) again.send(line);
  again.send(joined(messages_of_scan(1)));
  EXPECT_TRUE(again.to_the_end().ended_well()) << again.others.texts();
  EXPECT_EQ(again.others.count(1022), 1U);
}

TEST(DetachedBounds, CountResultsToo) {
  const TemporaryFolder folder;
  const fs::path detached = folder.path() / "detached";
  const auto messages = messages_of_scan(1);
  const std::string half = wire::text(std::string(500 << 10, 't'));
  const std::string data = half + half + joined(messages);
  // All of the journal fits, and no image behind it.
  const std::uint64_t rest = (1 << 20) + 4096;
  const std::string more = wire::text(std::string(rest - 6 - 200 - data.size(), 't'));
  keep_one_of(kGib - rest - head_of_scan().size(), detached);
  auto options = detaching(folder);
  options.detached.max_gib = 1;
  TestServer server(options);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + more + data);
  const std::string id = client.answer("detached ");
  client.to_the_end();
  EXPECT_EQ(client.acknowledged, messages.size() + 3) << client.others.texts();
  EXPECT_EQ(client.others.count(1022), 0U);
  EXPECT_THAT(client.others.texts(), HasSubstr("detached.max_gib"));
  const auto facts = facts_as_json(server.port(), id);
  EXPECT_EQ(facts["state"], "failed");
  EXPECT_THAT(facts["failure"].get<std::string>(), HasSubstr("detached.max_gib"));
  EXPECT_EQ(size_of(detached / journal_name(id)), head_of_scan().size() + more.size() + data.size());
}

TEST(DetachedBounds, ResultsLeaveTheReserveFreeAndComeWithRoom) {
  const TemporaryFolder folder;
  const auto results_free = std::make_shared<std::atomic<std::uint64_t>>(2 << 20);
  Disk disk{{}, {}, [results_free](int descriptor) -> std::optional<std::uint64_t> {
              const std::string name = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
              return name.ends_with(".out") ? results_free->load() : kGib;
            }};
  auto options = detaching(folder);
  options.detached.reserve_mib = 2;  // no byte more
  TestServer server(options, Registry::builtin(), disk);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1)));
  const std::string id = client.answer("detached ");
  ASSERT_TRUE(client.acknowledges(9));
  ASSERT_TRUE(comes_true_soon([&] {
    return facts_as_json(server.port(), id)["failure"].get<std::string>().find("reserve_mib") != std::string::npos;
  }));
  EXPECT_EQ(facts_as_json(server.port(), id)["images"], 0);
  *results_free = kGib;
  EXPECT_TRUE(client.to_the_end().ended_well());
  EXPECT_EQ(client.others.count(1022), 1U);
  EXPECT_EQ(facts_as_json(server.port(), id)["state"], "done");
}

TEST(DetachedBounds, AHungDiskHoldsUpNobodyElse) {
  const TemporaryFolder folder;
  Gate gate;
  TestServer server(detaching(folder), Registry::builtin(), gate.disk());
  // They have several addresses: one has half of the threads at most.
  std::vector<std::unique_ptr<Loopback>> hung;
  for (std::uint32_t from = 2; from <= 5; ++from) {
    hung.push_back(std::make_unique<Loopback>(server.port(), from));
    hung.back()->send(wire::query("echotrain::detach/new", 7) + head_of_scan());
  }
  const auto begun = [&] {
    std::size_t records = 0;
    std::error_code error;
    for (fs::directory_iterator entry(folder.path() / "detached", error), end; !error && entry != end;
         entry.increment(error))
      records += entry->path().extension() == ".json" ? 1 : 0;
    return records;
  };
  EXPECT_TRUE(comes_true_soon([&] { return begun() >= 2; }));
  // A config that is long enough to be read on a thread, as TLS handshakes are.
  const std::string config = "use: cartesian_plain\n#" + std::string(20 << 10, 'x') + "\n";
  EXPECT_EQ(server.exchange(wire::config_text(config) + wire::header(wire::xml()) + wire::frame() + wire::close())
                .count(1022),
            1U);
  for (const auto& client : hung) EXPECT_FALSE(client->receive_some(0ms)) << "the disk did not hang so long";
  gate.open();
  for (const auto& client : hung) EXPECT_TRUE(client->receive_some());
}

TEST(DetachedBounds, ScansThatHaveEndedHoldNoFilesOpen) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  std::string id;
  const auto whole = [&] {
    DetachedClient client(server.port());
    client.ask("echotrain::detach/new");
    client.send(head_of_scan() + joined(messages_of_scan(1)));
    id = client.answer("detached ");
    EXPECT_EQ(client.to_the_end().count(1022), 1U);
  };
  whole();
  std::size_t before = open_files();
  EXPECT_TRUE(comes_true_soon([&] {  // its sockets are closed
    const std::size_t now = open_files();
    return std::exchange(before, now) == now && asked(server.port(), "echotrain::scan/" + id).starts_with("{");
  }));
  for (int i = 0; i < 8; ++i) whole();
  EXPECT_TRUE(comes_true_soon([&] { return open_files() < before + 8; })) << open_files() << " after " << before;
  DetachedClient reader(server.port());
  reader.ask("echotrain::fetch/" + id + "/0");
  EXPECT_EQ(reader.to_the_end().count(1022), 1U);
}

TEST(DetachedBounds, ScansThatWereCancelledGoFirst) {
  const TemporaryFolder folder;
  auto options = detaching(folder);
  options.detached.max_scans = 1;
  TestServer server(options);
  DetachedClient first(server.port());
  first.ask("echotrain::detach/new");
  first.send(head_of_scan());
  const std::string id = first.answer("detached ");
  EXPECT_EQ(asked(server.port(), "echotrain::cancel/" + id), "cancelled");
  EXPECT_TRUE(comes_true_soon([&] { return facts_as_json(server.port(), id)["state"] == "cancelled"; }));
  DetachedClient second(server.port());
  second.ask("echotrain::detach/new");
  second.send(head_of_scan() + joined(messages_of_scan(1)));
  EXPECT_NE(second.answer("detached "), "(none)");
  EXPECT_EQ(facts_as_json(server.port(), id)["state"], "unknown");
}

TEST(DetachedBounds, PowerAcknowledgesWhatWasForcedToTheDisk) {
  const TemporaryFolder folder;
  const auto synced = std::make_shared<std::atomic<std::uint64_t>>(0);  // bytes of the journal
  const auto fails = std::make_shared<std::atomic<bool>>(false);
  Disk disk{{},
            [synced, fails](int descriptor) {
              std::this_thread::sleep_for(20ms);  // disks need as long
              const fs::path link = "/proc/self/fd/" + std::to_string(descriptor);
              const std::string name = fs::read_symlink(link);
              if (!name.ends_with(".mrd")) return 0;
              if (*fails) {
                errno = EIO;
                return -1;
              }
              struct stat before {};
              ::fstat(descriptor, &before);
              if (::fdatasync(descriptor) != 0) return -1;
              *synced = std::max<std::uint64_t>(*synced, static_cast<std::uint64_t>(before.st_size));
              return 0;
            },
            {}};
  TestServer server(detaching(folder), Registry::builtin(), disk);
  const std::string yaml =
      "echotrain: 1\nname: mine\ndescription: kept\ndetach: {durable: power}\n"
      "pipeline: [cartesian_kspace, fft, coil_combine, image]\n";
  const std::string head = wire::config_text(yaml) + wire::header(wire::xml());
  const auto messages = messages_of_scan(2);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head);
  const std::string id = client.answer("detached ");
  ASSERT_EQ(id.size(), 32U);
  std::uint64_t bytes = head.size();
  EXPECT_GE(*synced, bytes) << "the head, before the scan's name is told";
  for (std::size_t i = 0; i < 10; ++i) {
    client.send(messages[i]);
    bytes += messages[i].size();
    ASSERT_TRUE(client.acknowledges(i + 1));
    EXPECT_GE(*synced, bytes) << i;
  }
  *fails = true;  // what is written is not acknowledged then
  client.send(joined(messages, 10));
  EXPECT_THAT(client.to_the_end().texts(), HasSubstr("synchronising failed"));
  EXPECT_EQ(client.acknowledged, 10U);
  *fails = false;
  DetachedClient again(server.port());
  again.ask("echotrain::detach/resume/" + id + "/0");
  EXPECT_EQ(again.answer("resumed "), "10");
  again.send(joined(messages, 10));
  EXPECT_TRUE(again.to_the_end().ended_well());
  EXPECT_EQ(again.others.count(1022), 2U);
}

}  // namespace
}  // namespace echotrain::server
