#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "server/detached/scan_record.h"
#include "tests/server/detached/detached_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

std::string state_of(std::uint16_t port, const std::string& id) {
  const std::string text = asked(port, "echotrain::scan/" + id);
  return text.starts_with("{") ? nlohmann::json::parse(text)["state"].get<std::string>() : text;
}

bool becomes(std::uint16_t port, const std::string& id, const std::string& state) {
  return comes_true_soon([&] { return state_of(port, id) == state; });
}

TEST(DetachedScans, GiveTheImagesOfAnOrdinaryScanAndAcknowledgeAllMessages) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const auto messages = messages_of_scan(3);
  const Conversation truth = server.exchange(head_of_scan() + joined(messages));
  ASSERT_EQ(truth.count(1022), 3U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "detached")) << "before anyone asked";

  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages));
  const std::string id = client.answer("detached ");
  EXPECT_EQ(id.size(), 32U);
  const Conversation& all = client.to_the_end();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(client.acknowledged, messages.size());
  EXPECT_EQ(all.reproducible_images(), truth.reproducible_images());
  EXPECT_TRUE(becomes(server.port(), id, "done"));

  // The journal is what came, and others cannot read it.
  std::ifstream journal(folder.path() / "detached" / (id + ".mrd"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(journal), {}), head_of_scan() + joined(messages));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "detached")) {
    struct stat status {};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << entry.path();
  }
  EXPECT_TRUE(server.works());
}

TEST(DetachedScans, GoOnFromWhatWasAcknowledged) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const auto messages = messages_of_scan(3);
  const Conversation truth = server.exchange(head_of_scan() + joined(messages));
  std::string id;
  std::uint64_t had = 0;
  {
    DetachedClient client(server.port());
    client.ask("echotrain::detach/new");
    // The cut is inside a message.
    client.send(head_of_scan() + joined(messages, 0, 11) + messages[11].substr(0, 100));
    id = client.answer("detached ");
    ASSERT_TRUE(client.acknowledges(11));
    while (client.others.count(1022) < 1)
      if (auto message = client.receive(); message && message->id == 1022) client.others.messages.push_back(*message);
    had = client.acknowledged;
    client.reset();
  }
  EXPECT_TRUE(becomes(server.port(), id, "waiting"));
  DetachedClient again(server.port());
  again.ask("echotrain::detach/resume/" + id + "/1");
  const std::string from = again.answer("resumed ");
  EXPECT_EQ(from, std::to_string(had));
  again.send(joined(messages, std::stoull(from)));
  const Conversation& rest = again.to_the_end();
  EXPECT_TRUE(rest.ended_well());
  EXPECT_EQ(again.acknowledged, messages.size());
  auto expected = truth.reproducible_images();
  expected.erase(expected.begin());  // the client said that it has the first one
  EXPECT_EQ(rest.reproducible_images(), expected);
}

TEST(DetachedScans, FinishWithoutTheirClientAndAreFetched) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const auto messages = messages_of_scan(2);
  const Conversation truth = server.exchange(head_of_scan() + joined(messages));
  std::string id;
  {
    DetachedClient client(server.port());
    client.ask("echotrain::detach/new");
    client.send(head_of_scan() + joined(messages));
    id = client.answer("detached ");
    ASSERT_TRUE(client.acknowledges(messages.size()));
    client.reset();
  }
  ASSERT_TRUE(becomes(server.port(), id, "done"));
  for (const std::size_t from : {0U, 1U, 2U}) {
    DetachedClient reader(server.port());
    reader.ask("echotrain::fetch/" + id + "/" + std::to_string(from));
    EXPECT_EQ(reader.answer("fetching "), "done");
    const Conversation& all = reader.to_the_end();
    EXPECT_TRUE(all.ended_well()) << from;
    auto expected = truth.reproducible_images();
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(from));
    EXPECT_EQ(all.reproducible_images(), expected) << from;
  }
  DetachedClient late(server.port());
  late.ask("echotrain::detach/resume/" + id + "/0");
  EXPECT_EQ(late.answer("ended "), "done");
  EXPECT_TRUE(late.to_the_end().ended_well());
  const auto facts = nlohmann::json::parse(asked(server.port(), "echotrain::scan/" + id));
  EXPECT_EQ(facts["received"], messages.size());
  EXPECT_EQ(facts["images"], 2);
  EXPECT_EQ(facts["pipeline"], "cartesian_plain");
  EXPECT_GT(facts["keep_until"], facts["begun"]);
}

TEST(DetachedScans, AreTheirClientsOnly) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1)));
  const std::string id = client.answer("detached ");
  client.to_the_end();
  for (const std::string& question :
       {"scan/" + id, "cancel/" + id, "fetch/" + id + "/0", "detach/resume/" + id + "/0"}) {
    Loopback other(server.port(), 2);  // 127.0.0.2
    other.send(wire::query("echotrain::" + question, 1));
    while (other.received().size() < 18 + 7 && other.receive_some()) {
    }
    EXPECT_THAT(other.received(), HasSubstr("unknown")) << question;
  }
  EXPECT_THAT(asked(server.port(), "echotrain::scans"), HasSubstr(id));
  Loopback other(server.port(), 2);
  other.send(wire::query("echotrain::scans", 1));
  while (other.received().size() < 18 + 2 && other.receive_some()) {
  }
  EXPECT_EQ(other.received().substr(18), "[]");
  EXPECT_EQ(asked(server.port(), "echotrain::scan/" + std::string(32, 'a')), "unknown");
  EXPECT_EQ(asked(server.port(), "echotrain::scan/../../etc"), "unknown");
}

TEST(DetachedScans, GoToTheConnectionThatResumesThemLast) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const auto messages = messages_of_scan(1);
  DetachedClient first(server.port());
  first.ask("echotrain::detach/new");
  first.send(head_of_scan() + joined(messages, 0, 3));
  const std::string id = first.answer("detached ");
  ASSERT_TRUE(first.acknowledges(3));
  DetachedClient second(server.port());
  second.ask("echotrain::detach/resume/" + id + "/0");
  EXPECT_EQ(second.answer("resumed "), "3");
  first.send(messages[3]);  // too late
  EXPECT_THAT(first.to_the_end().texts(), HasSubstr("ERROR    superseded"));
  second.send(joined(messages, 3));
  EXPECT_TRUE(second.to_the_end().ended_well());
  EXPECT_EQ(second.others.count(1022), 1U);
}

TEST(DetachedScans, AreCancelled) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1), 0, 3));
  const std::string id = client.answer("detached ");
  EXPECT_EQ(asked(server.port(), "echotrain::cancel/" + id), "cancelled");
  EXPECT_THAT(client.to_the_end().texts(), HasSubstr("ERROR    cancelled"));
  EXPECT_TRUE(becomes(server.port(), id, "cancelled"));
  EXPECT_EQ(asked(server.port(), "echotrain::cancel/" + id), "cancelled") << "and now its files go";
  EXPECT_EQ(asked(server.port(), "echotrain::scan/" + id), "unknown");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "detached"))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(StartsWith(id)));
}

TEST(DetachedScans, EndIncompleteWhenTheirClientStaysAway) {
  const TemporaryFolder folder;
  auto options = detaching(folder);
  options.detached.resume_within_s = 0.2;
  TestServer server(options);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(2), 0, 12));  // one image, and half of one
  const std::string id = client.answer("detached ");
  ASSERT_TRUE(client.acknowledges(12));
  client.reset();
  ASSERT_TRUE(becomes(server.port(), id, "incomplete"));
  DetachedClient reader(server.port());
  reader.ask("echotrain::fetch/" + id + "/0");
  EXPECT_EQ(reader.to_the_end().count(1022), 1U);
  EXPECT_THAT(reader.others.texts(), HasSubstr("ERROR    incomplete"));
}

TEST(DetachedScans, OnADiskWithoutRoomAreOrdinaryOnes) {
  const TemporaryFolder folder;
  Disk disk{[](int, const iovec*, int) -> ssize_t {
              errno = ENOSPC;
              return -1;
            },
            {},
            {}};
  TestServer server(detaching(folder), Registry::builtin(), disk);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1)));
  EXPECT_THAT(client.answer("refused: "), HasSubstr("the raw data cannot be kept: writing failed"));
  EXPECT_TRUE(client.to_the_end().ended_well());
  EXPECT_EQ(client.others.count(1022), 1U);
  EXPECT_EQ(asked(server.port(), "echotrain::scans"), "[]");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "detached"))
    EXPECT_EQ(entry.path().extension(), "") << entry.path();  // the lock, and the salt
}

TEST(DetachedScans, WhoseCloseIsNotWrittenEndIncomplete) {
  const TemporaryFolder folder;
  const auto messages = messages_of_scan(1);
  const auto left = std::make_shared<std::atomic<std::size_t>>(head_of_scan().size() + 3 * messages[0].size());
  Disk disk{[left](int descriptor, const iovec* parts, int /*count*/) -> ssize_t {
              const std::size_t n = std::min(left->load(), parts[0].iov_len);
              if (n == 0) {
                errno = ENOSPC;
                return -1;
              }
              *left -= n;
              return ::write(descriptor, parts[0].iov_base, n);
            },
            {},
            {}};
  auto options = detaching(folder);
  options.detached.resume_within_s = 0.2;
  TestServer server(options, Registry::builtin(), disk);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages));
  const std::string id = client.answer("detached ");
  client.to_the_end();
  client.close();
  EXPECT_TRUE(becomes(server.port(), id, "incomplete"));
}

TEST(DetachedScans, AreRefusedBeyondTheirNumber) {
  const TemporaryFolder folder;
  auto options = detaching(folder);
  options.detached.max_scans = 1;
  TestServer server(options);
  DetachedClient first(server.port());
  first.ask("echotrain::detach/new");
  first.send(head_of_scan());
  ASSERT_NE(first.answer("detached "), "(none)");
  DetachedClient second(server.port());
  second.ask("echotrain::detach/new");
  second.send(head_of_scan() + joined(messages_of_scan(1)));
  EXPECT_THAT(second.answer("refused: "), HasSubstr("detached.max_scans"));
  EXPECT_TRUE(second.to_the_end().ended_well()) << "it goes on as an ordinary scan";
  EXPECT_EQ(second.others.count(1022), 1U);
}

TEST(DetachedScans, ThatTheirClientHasGoWhereRoomIsShort) {
  const TemporaryFolder folder;
  auto options = detaching(folder);
  options.detached.max_scans = 1;
  std::string first;
  {
    TestServer server(options);
    DetachedClient client(server.port());
    client.ask("echotrain::detach/new");
    client.send(head_of_scan() + joined(messages_of_scan(1)));
    first = client.answer("detached ");
    client.to_the_end();
    client.close();
    const auto noted = [&] { return read_record(folder.path() / "detached" / record_name(first))->delivered; };
    EXPECT_TRUE(comes_true_soon(noted));
  }
  TestServer server(options);  // the next one knows it, too
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1)));
  EXPECT_NE(client.answer("detached "), "(none)");
  EXPECT_EQ(state_of(server.port(), first), "unknown");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "detached" / journal_name(first)));
}

TEST(DetachedScans, AreRefusedWhereNoneAreKept) {
  TestServer none;
  EXPECT_THAT(asked(none.port(), "echotrain::detach/new"), StartsWith("refused: "));
  EXPECT_THAT(asked(none.port(), "echotrain::scans"), StartsWith("refused: "));
  const TemporaryFolder folder;
  auto options = detaching(folder);
  options.detached.allow = false;
  TestServer server(options);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + joined(messages_of_scan(1)));
  EXPECT_THAT(client.answer("refused: "), HasSubstr("detached.allow"));
  EXPECT_EQ(client.to_the_end().count(1022), 1U);
}

TEST(DetachedScans, FailAsTheirSessionsDo) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(wire::config("radial_2d") + wire::header(wire::xml()) + joined(messages_of_scan(1)));
  const std::string id = client.answer("detached ");
  const Conversation& all = client.to_the_end();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    bad-data"));
  EXPECT_EQ(all.count(1022), 0U);
  EXPECT_TRUE(becomes(server.port(), id, "failed"));
  EXPECT_THAT(asked(server.port(), "echotrain::scan/" + id), HasSubstr("bad-data"));
}

TEST(DetachedScans, HoldTheirClientToTheOrderOfMessages) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan() + head_of_scan());
  EXPECT_THAT(client.to_the_end().texts(), HasSubstr("ERROR    out-of-order"));
  EXPECT_TRUE(server.works());
}

TEST(DetachedScans, StopAcknowledgingOnAFullDiskAndGoOnWithRoom) {
  const TemporaryFolder folder;
  const auto messages = messages_of_scan(2);
  const std::size_t room = head_of_scan().size() + 5 * messages[0].size() + 100;  // it ends inside a message
  const auto left = std::make_shared<std::atomic<std::size_t>>(room);
  Disk disk{[left](int descriptor, const iovec* parts, int /*count*/) -> ssize_t {
              const std::size_t n = std::min(left->load(), parts[0].iov_len);
              if (n == 0) {
                errno = ENOSPC;
                return -1;
              }
              *left -= n;
              return ::write(descriptor, parts[0].iov_base, n);
            },
            {},
            {}};
  TestServer server(detaching(folder), Registry::builtin(), disk);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan());
  const std::string id = client.answer("detached ");
  for (const std::string& message : messages) client.send(message);
  const Conversation& all = client.to_the_end();
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    capture"));
  EXPECT_LE(client.acknowledged, 5U);
  std::uint64_t safe = client.acknowledged;  // what came in one read is safe together
  {
    DetachedClient early(server.port());
    early.ask("echotrain::detach/resume/" + id + "/0");
    const std::uint64_t from = std::stoull(early.answer("resumed "));
    EXPECT_GE(from, safe);
    EXPECT_LE(from, 5U);
    early.send(joined(messages, from));
    EXPECT_THAT(early.to_the_end().texts(), HasSubstr("ERROR    capture"));
    safe = std::max(from, early.acknowledged);
  }
  *left = 1 << 30;
  DetachedClient again(server.port());
  again.ask("echotrain::detach/resume/" + id + "/0");
  const std::uint64_t from = std::stoull(again.answer("resumed "));
  EXPECT_GE(from, safe);
  again.send(joined(messages, from));
  EXPECT_TRUE(again.to_the_end().ended_well());
  EXPECT_EQ(again.acknowledged, messages.size());
  EXPECT_EQ(again.others.reproducible_images(),
            server.exchange(head_of_scan() + joined(messages)).reproducible_images());
}

TEST(DetachedScans, KeepNoToken) {
  const TemporaryFolder folder;
  const std::string token = "0123456789abcdef0123";
  std::ofstream(folder.path() / "tokens") << token << " name=mr1\n";
  auto options = detaching(folder);
  options.token_file = folder.path() / "tokens";
  TestServer server(options);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(wire::config_text("token: " + token + "\nuse: cartesian_plain\n") + wire::header(wire::xml()) +
              wire::text("{\"token\": \"" + token + "\"}") + joined(messages_of_scan(1)));
  const std::string id = client.answer("detached ");
  EXPECT_EQ(client.to_the_end().count(1022), 1U) << client.others.texts();
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "detached")) {
    std::ifstream file(entry.path(), std::ios::binary);
    EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), testing::Not(HasSubstr(token))) << entry.path();
  }
  EXPECT_EQ(asked(server.port(), "echotrain::scan/" + id), "unknown") << "without the token";
  EXPECT_THAT(asked(server.port(), "echotrain::scan/" + id + "\ntoken: " + token), HasSubstr("\"done\""));
  DetachedClient reader(server.port());
  reader.ask("echotrain::fetch/" + id + "/0\ntoken: " + token);
  EXPECT_EQ(reader.to_the_end().count(1022), 1U);
}

TEST(DetachedScans, WhosePipelineSaysSoServeStockClientsAsEver) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const std::string yaml =
      "echotrain: 1\nname: mine\ndescription: kept\ndetach: {keep_h: 1, durable: power}\n"
      "pipeline: [cartesian_kspace, fft, coil_combine, image]\n";
  const std::string head = wire::config_text(yaml) + wire::header(wire::xml());
  const Conversation all = server.exchange(head + joined(messages_of_scan(2)), /*half_close=*/true);
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 2U) << all.texts();
  EXPECT_EQ(all.count(7), 0U);
  // One that vanishes after CLOSE stops nothing.
  {
    RawClient client(server.port());
    client.send(head + joined(messages_of_scan(2)));
    ASSERT_TRUE(comes_true_soon([&] {
      const auto scans = nlohmann::json::parse(asked(server.port(), "echotrain::scans"));
      return scans.size() == 2 && scans[0]["received"] == 17 && scans[1]["received"] == 17;
    }));
    client.reset();
  }
  EXPECT_TRUE(comes_true_soon([&] {
    const auto scans = nlohmann::json::parse(asked(server.port(), "echotrain::scans"));
    return scans.size() == 2 && scans[0]["state"] == "done" && scans[1]["state"] == "done" && scans[0]["images"] == 2;
  })) << asked(server.port(), "echotrain::scans");
}

TEST(DetachedScans, OfStockClientsEndWithTheirBytes) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const std::string yaml =
      "echotrain: 1\nname: mine\ndescription: kept\ndetach: {keep_h: 1}\n"
      "pipeline: [cartesian_kspace, fft, coil_combine, image]\n";
  const std::string head = wire::config_text(yaml) + wire::header(wire::xml());
  const Conversation all = server.exchange(head + joined(messages_of_scan(2), 0, 12), /*half_close=*/true);
  EXPECT_EQ(all.count(1022), 1U) << all.texts();
  EXPECT_THAT(all.texts(), HasSubstr("incomplete"));
}

TEST(DetachedScans, AreReadWhileTheyCome) {
  const TemporaryFolder folder;
  TestServer server(detaching(folder));
  const auto messages = messages_of_scan(2);
  DetachedClient client(server.port());
  client.ask("echotrain::detach/new");
  client.send(head_of_scan());
  const std::string id = client.answer("detached ");
  DetachedClient reader(server.port());
  reader.ask("echotrain::fetch/" + id + "/0");
  EXPECT_EQ(reader.answer("fetching "), "receiving");
  client.send(joined(messages));
  EXPECT_EQ(reader.to_the_end().count(1022), 2U);
  EXPECT_EQ(client.to_the_end().reproducible_images(), reader.others.reproducible_images());
}

}  // namespace
}  // namespace echotrain::server
