#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "server/detached/scan_record.h"
#include "server/net/tokens.h"
#include "tests/server/detached/detached_client.h"
#include "tests/server/gadgets/held_gadgets.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// The client's scans, once the files of all have been read: ports serve before that.
std::string scans_of(std::uint16_t port) {
  std::string found;
  for (int i = 0; i < 3000; ++i) {
    found = asked(port, "echotrain::scans");
    if (found.find("being read") == std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return found;
}

std::string facts_of(std::uint16_t port, const std::string& id) { return asked(port, "echotrain::scan/" + id); }

bool has_state(std::uint16_t port, const std::string& id, const std::string& state) {
  return comes_true_soon([&] { return facts_of(port, id).find("\"" + state + "\"") != std::string::npos; });
}

/// The folder as a kill would leave it now.
void copy_folder(const TemporaryFolder& from, const TemporaryFolder& to) {
  fs::copy(from.path() / "detached", to.path() / "detached", fs::copy_options::recursive);
}

Conversation truth_of(const std::vector<std::string>& messages) {
  TestServer server;
  return server.exchange(head_of_scan() + joined(messages));
}

TEST(DetachedRestart, AfterAKillNothingThatWasAcknowledgedIsLost) {
  const auto messages = messages_of_scan(3);
  const Conversation truth = truth_of(messages);
  const TemporaryFolder before, after;
  std::string id;
  std::uint64_t acknowledged = 0;
  {
    TestServer server(detaching(before));
    DetachedClient client(server.port());
    client.ask("echotrain::detach/new");
    client.send(head_of_scan() + joined(messages, 0, 13));
    id = client.answer("detached ");
    ASSERT_TRUE(client.acknowledges(13));
    ASSERT_TRUE(comes_true_soon([&] { return facts_of(server.port(), id).find("\"images\":1") != std::string::npos; }));
    acknowledged = client.acknowledged;
    copy_folder(before, after);
  }
  // The write of one more message was cut, and that of another image.
  const fs::path scan = after.path() / "detached" / id;
  std::ofstream(scan.string() + ".mrd", std::ios::binary | std::ios::app) << messages[13].substr(0, 200);
  std::ofstream(scan.string() + ".out", std::ios::binary | std::ios::app) << wire::id(1022) << "begins";
  TestServer server(detaching(after));
  DetachedClient client(server.port());
  client.ask("echotrain::detach/resume/" + id + "/0");
  const std::string from = client.answer("resumed ");
  EXPECT_EQ(from, std::to_string(acknowledged));
  client.send(joined(messages, std::stoull(from)));
  const Conversation& all = client.to_the_end();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.reproducible_images(), truth.reproducible_images());
  std::ifstream journal(scan.string() + ".mrd", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(journal), {}), head_of_scan() + joined(messages));
}

TEST(DetachedRestart, AJournalThatIsWholeIsFinishedWithoutTheClient) {
  const auto messages = messages_of_scan(3);
  const Conversation truth = truth_of(messages);
  // Killed at each of several moments: before, between and after its images.
  for (const std::size_t images : {0U, 1U, 3U}) {
    const TemporaryFolder folder;
    std::string id;
    {
      TestServer server(detaching(folder));
      DetachedClient client(server.port());
      client.ask("echotrain::detach/new");
      client.send(head_of_scan() + joined(messages));
      id = client.answer("detached ");
      client.to_the_end();
    }
    // As if it had been killed before it noted the end: so many images are there.
    const fs::path scan = folder.path() / "detached" / id;
    auto record = read_record(scan.string() + ".json");
    ASSERT_TRUE(record);
    record->end.clear();
    record->keep_until = 0;
    ASSERT_EQ(write_record(folder.path() / "detached", *record, false), "");
    std::string results;
    for (std::size_t i = 0; i < images; ++i) results += wire::id(1022) + truth.images()[i];
    std::ofstream(scan.string() + ".out", std::ios::binary) << results << "partial";
    TestServer server(detaching(folder));
    ASSERT_TRUE(has_state(server.port(), id, "done")) << images;
    DetachedClient reader(server.port());
    reader.ask("echotrain::fetch/" + id + "/0");
    const Conversation& all = reader.to_the_end();
    EXPECT_TRUE(all.ended_well()) << images;
    EXPECT_EQ(all.reproducible_images(), truth.reproducible_images()) << images;
    // Images that were delivered stay as they are.
    for (std::size_t i = 0; i < images; ++i) EXPECT_EQ(all.images()[i], truth.images()[i]);
  }
}

TEST(DetachedRestart, AServerThatStopsLetsItsScansGoOnWithTheNextOne) {
  const auto messages = messages_of_scan(2);
  const Conversation truth = truth_of(messages);
  const TemporaryFolder folder;
  std::string id;
  {
    TestServer server(detaching(folder));
    {
      DetachedClient client(server.port());
      client.ask("echotrain::detach/new");
      client.send(head_of_scan() + joined(messages, 0, 10));
      id = client.answer("detached ");
      ASSERT_TRUE(client.acknowledges(10));
    }
    ASSERT_TRUE(has_state(server.port(), id, "waiting"));
    const auto began = std::chrono::steady_clock::now();
    server.stop();  // does not wait for the client
    EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  }
  TestServer server(detaching(folder));
  DetachedClient client(server.port());
  client.ask("echotrain::detach/resume/" + id + "/0");
  EXPECT_EQ(client.answer("resumed "), "10");
  client.send(joined(messages, 10));
  EXPECT_TRUE(client.to_the_end().ended_well());
  EXPECT_EQ(client.others.reproducible_images(), truth.reproducible_images());
}

TEST(DetachedRestart, EndedScansStayAndGoInTime) {
  const TemporaryFolder folder;
  std::string id;
  {
    TestServer server(detaching(folder));
    DetachedClient client(server.port());
    client.ask("echotrain::detach/new");
    client.send(head_of_scan() + joined(messages_of_scan(1)));
    id = client.answer("detached ");
    client.to_the_end();
  }
  {
    TestServer server(detaching(folder));
    DetachedClient reader(server.port());
    reader.ask("echotrain::fetch/" + id + "/0");
    EXPECT_EQ(reader.to_the_end().count(1022), 1U);
    EXPECT_THAT(facts_of(server.port(), id), HasSubstr("\"received\":9,\"images\":1"));
  }
  auto record = read_record(folder.path() / "detached" / (id + ".json"));
  ASSERT_TRUE(record);
  EXPECT_NEAR(static_cast<double>(record->keep_until), static_cast<double>(record->begun + 24 * 3600), 600);
  record->keep_until = unix_now() - 1;
  ASSERT_EQ(write_record(folder.path() / "detached", *record, false), "");
  TestServer server(detaching(folder));
  EXPECT_EQ(facts_of(server.port(), id), "unknown");
  EXPECT_FALSE(fs::exists(folder.path() / "detached" / (id + ".mrd")));
}

TEST(DetachedRestart, FilesThatAreNoScanDoNoHarm) {
  const TemporaryFolder folder;
  const fs::path detached = folder.path() / "detached";
  fs::create_directories(detached);
  const std::string id(32, 'a'), other(32, 'b'), third(32, 'c');
  std::ofstream(detached / (id + ".json")) << "{\"id\": \"" << id << "\"}";  // cut
  std::ofstream(detached / (other + ".mrd")) << "no client has heard of it";
  ScanRecord record;
  record.id = third;
  record.identity = {"address:127.0.0.1", "address:127.0.0.1"};
  ASSERT_EQ(write_record(detached, record, false), "");
  std::ofstream(detached / (third + ".mrd")) << wire::config("cartesian_plain") << "no header";
  std::ofstream(detached / "README") << "mine";
  TestServer server(detaching(folder));
  EXPECT_EQ(scans_of(server.port()), "[]");
  EXPECT_TRUE(fs::exists(detached / (id + ".json"))) << "perhaps somebody can read it";
  EXPECT_FALSE(fs::exists(detached / (other + ".mrd")));
  EXPECT_FALSE(fs::exists(detached / (third + ".mrd")));
  EXPECT_TRUE(fs::exists(detached / "README"));
  EXPECT_TRUE(server.works());
}

TEST(DetachedRestart, WhatCannotBeReadStaysAsItIs) {
  const TemporaryFolder folder;
  const fs::path detached = folder.path() / "detached";
  fs::create_directories(detached);
  const std::string strange(32, 'a'), unreadable(32, 'b');
  ScanRecord record;
  record.identity = {"address:127.0.0.1", "address:127.0.0.1"};
  for (const std::string& id : {strange, unreadable}) {
    record.id = id;
    ASSERT_EQ(write_record(detached, record, false), "");
  }
  const auto messages = messages_of_scan(1);
  const std::string journal = head_of_scan() + joined(messages, 0, 2) + std::string(64, '\0') + joined(messages, 2);
  std::ofstream(detached / (strange + ".mrd"), std::ios::binary) << journal;
  fs::create_directory(detached / (unreadable + ".mrd"));  // read() fails
  TestServer server(detaching(folder));
  EXPECT_EQ(scans_of(server.port()), "[]");
  EXPECT_EQ(fs::file_size(detached / (strange + ".mrd")), journal.size());
  EXPECT_TRUE(fs::exists(detached / (unreadable + ".mrd")));
  EXPECT_TRUE(fs::exists(detached / (unreadable + ".json")));
  EXPECT_TRUE(server.works());
}

TEST(DetachedRestart, TwoServersDoNotShareAFolder) {
  const TemporaryFolder folder;
  auto former = std::make_unique<TestServer>(detaching(folder));
  DetachedClient client(former->port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1)));
  const std::string id = client.answer("detached ");
  ASSERT_NE(id, "(none)");
  client.to_the_end();
  TestServer second(detaching(folder));
  DetachedClient other(second.port());
  other.ask("echotrain::detach/new");
  other.send(head_of_scan() + joined(messages_of_scan(1)));
  EXPECT_THAT(other.answer("refused: "), HasSubstr("another server uses"));
  EXPECT_EQ(other.to_the_end().count(1022), 1U);
  // An upgrade: the new one has it as soon as the former one is gone, whatever clients ask meanwhile.
  DetachedClient early(second.port());
  early.ask("echotrain::scan/" + id);
  EXPECT_THAT(early.to_the_end().texts(), HasSubstr("ERROR    busy: another server uses"));
  for (auto* each : {&client, &other, &early}) each->close();
  former.reset();
  EXPECT_TRUE(has_state(second.port(), id, "done"));
}

/// A scan of a server that was killed: a record, and a journal.
void leave_scan(const fs::path& detached, const std::string& id, const std::string& journal) {
  fs::create_directories(detached);
  ScanRecord record;
  record.id = id;
  record.identity = {"address:127.0.0.1", "address:127.0.0.1"};
  record.occasion = "of-the-test";
  ASSERT_EQ(write_record(detached, record, false), "");
  if (!journal.empty()) std::ofstream(detached / journal_name(id), std::ios::binary) << journal;
}

TEST(DetachedRestart, ServesBeforeJournalsAreRead) {
  const TemporaryFolder folder;
  const fs::path detached = folder.path() / "detached";
  const std::string hangs(32, 'a'), other(32, 'b');
  leave_scan(detached, hangs, "");
  leave_scan(detached, other, head_of_scan() + joined(messages_of_scan(1)));
  const fs::path journal = detached / journal_name(hangs);
  ASSERT_EQ(::mkfifo(journal.c_str(), S_IRUSR | S_IWUSR), 0);  // cannot be opened before somebody writes
  std::optional<TestServer> server;
  std::atomic<bool> started = false;
  std::thread starts([&] {
    server.emplace(detaching(folder));
    started = true;
  });
  const bool serves = comes_true_soon([&] { return started.load(); });
  std::optional<DetachedClient> waits;
  if (serves) {
    EXPECT_TRUE(server->works());
    EXPECT_THAT(asked(server->port(), "echotrain::scans"), HasSubstr(other));
    waits.emplace(server->port());
    waits->ask("echotrain::scan/" + other);
  }
  EXPECT_TRUE(serves) << "before its journals are read";
  std::ofstream(journal) << "";  // now it can be read: no header is in it
  starts.join();
  if (waits) {
    EXPECT_THAT(waits->answer(""), HasSubstr(other));
  }
  EXPECT_TRUE(has_state(server->port(), other, "done"));
  EXPECT_TRUE(comes_true_soon([&] { return facts_of(server->port(), hangs) == "unknown"; }));
}

TEST(DetachedRestart, ARunFromTheJournalDropsNoFrames) {
  constexpr int kFrames = 10;  // the header has no more repetitions
  const TemporaryFolder folder;
  const std::string yaml =
      "echotrain: 1\nname: mine\ndescription: in real time\n"
      "frame: {readouts: 8, when_behind: drop_oldest}\n"
      "pipeline: [slow, cartesian_kspace, fft, coil_combine, image]\n";
  const std::string id(32, 'a');
  leave_scan(folder.path() / "detached", id,
             wire::config_text(yaml) + wire::header(wire::xml()) + joined(messages_of_scan(kFrames)));
  auto options = detaching(folder);
  options.client_pipelines = config::ClientPipelines::all;
  tap().close();
  TestServer server(options, held_registry());
  ASSERT_TRUE(has_state(server.port(), id, "running"));
  std::this_thread::sleep_for(200ms);  // all of it waits
  tap().open();
  ASSERT_TRUE(has_state(server.port(), id, "done")) << facts_of(server.port(), id);
  EXPECT_THAT(facts_of(server.port(), id), HasSubstr("\"images\":" + std::to_string(kFrames)));
  tap().reset();
}

TEST(ScanRecord, MasksTheTokenOnly) {
  EXPECT_EQ(without_token_value("token: 0123456789abcdef\nuse: radial_2d\n", "0123456789abcdef"),
            "token: xxxxxxxxxxxxxxxx\nuse: radial_2d\n");
  EXPECT_EQ(without_token_value("# token of mr1\ntoken: \"abcdefgh\"\n", "abcdefgh"),
            "# token of mr1\ntoken: \"xxxxxxxx\"\n");
  EXPECT_EQ(without_token_value("use: radial_2d\n", ""), "use: radial_2d\n");
}

TEST(ScanRecord, MasksATokenHoweverItIsWritten) {
  for (const std::string text :
       {R"({"token": "tok\u0065n-0123456789", "use": "radial_2d"})", R"({"use": "radial_2d", "token":
             "token\u002d0123456789"})",
        R"({"tok\u0065n": "token-012345678\u0039", "use": "a \"b\" token"})", R"(  {"token":"token-0123456789"})",
        "token: \"tok\\x65n-0123456789\"\nuse: radial_2d\n",
        "\xEF\xBB\xBFtoken: \"\\u0074oken-0123456789\"  # mine\r\n"}) {
    ASSERT_EQ(token_in(text), "token-0123456789") << text;
    const std::string masked = without_token_value(text, token_in(text));
    EXPECT_THAT(token_in(masked), testing::Not(HasSubstr("0123456789"))) << masked;
    EXPECT_THAT(masked, testing::Not(HasSubstr("012345678"))) << masked;
    EXPECT_EQ(masked.find("radial_2d") == std::string::npos, text.find("radial_2d") == std::string::npos) << masked;
  }
  const std::string quoted = R"({"token": "a\"b\\c-0123456789", "use": "radial_2d"})";
  const std::string masked = without_token_value(quoted, token_in(quoted));
  EXPECT_EQ(masked, R"({"token": ")" + std::string(16, 'x') + R"(", "use": "radial_2d"})");
}

TEST(ScanRecord, IdsAreLongAndNeverPaths) {
  const std::string id = new_scan_id();
  EXPECT_TRUE(is_scan_id(id)) << id;
  EXPECT_NE(id, new_scan_id());
  for (const std::string& wrong :
       {std::string(), std::string(31, 'a'), std::string(32, 'A'), "../" + std::string(29, 'a')})
    EXPECT_FALSE(is_scan_id(wrong)) << wrong;
}

}  // namespace
}  // namespace echotrain::server
