// The admin port says why a scan's images are as they are (/live/diagnose).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/server/http_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

std::optional<HttpResponse> ask_why(std::uint16_t port, const std::string& query, const std::string& headers = "") {
  HttpClient client(port);
  client.send("GET /live/diagnose" + query + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return client.receive();
}

TEST(WhyPage, TellsOfAScanThatRunsAndAfterIt) {
  TestServer server;
  const std::uint16_t port = server.admin_port();
  RawClient scanner(server.port());
  std::string lines;
  for (int line = 0; line < 8; ++line) lines += wire::acquisition(line);
  scanner.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + lines);
  json told;
  for (int i = 0; i < 500 && (told.is_null() || told["times"].is_null()); ++i) {
    std::this_thread::sleep_for(10ms);
    const auto answer = ask_why(port, "?scan=1");
    if (answer->status == 200) told = json::parse(answer->body);
  }
  ASSERT_FALSE(told["times"].is_null()) << told;
  EXPECT_EQ(told["pipeline"], "cartesian_plain");
  EXPECT_EQ(told["trajectory_name"], "cartesian");
  EXPECT_EQ(told["times"]["frames"], 1);
  EXPECT_EQ(told["times"]["images"], 1);
  double sum = 0;
  for (const json& one : told["times"]["gadgets"]) sum += one["last_ms"].get<double>();
  EXPECT_NEAR(sum, told["times"]["last_ms"].get<double>(), 1e-3);  // each is rounded to 1e-4
  for (const char* none : {"noise", "trajectory", "heart", "coils"}) EXPECT_TRUE(told[none].is_null()) << none;
  scanner.send(wire::close());
  scanner.receive_all();
  scanner.close();
  json after;
  for (int i = 0; i < 500; ++i) {
    HttpClient client(port);
    client.send("GET /live/state HTTP/1.1\r\nHost: localhost\r\n\r\n");
    after = json::parse(client.receive()->body);
    if (!after["ended"].empty()) break;
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_FALSE(after["ended"].empty());
  const json kept = json::parse(ask_why(port, "?scan=1&coils=1")->body);
  EXPECT_EQ(kept["times"]["gadgets"], told["times"]["gadgets"]);
}

TEST(WhyPage, SaysNothingOfScansThatItDoesNotKnow) {
  TestServer server;
  for (const char* query : {"", "?scan=1", "?scan=-1", "?scan=99999999999999999999", "?scan=1&coils=1"})
    EXPECT_EQ(ask_why(server.admin_port(), query)->status, 404) << query;
}

TEST(WhyPage, AsksWhoMayLook) {
  config::ServerOptions options;
  options.admin.page = config::AdminOptions::Page::token;
  TestServer server(options);
  EXPECT_EQ(ask_why(server.admin_port(), "?scan=1")->status, 401);
  TestServer open;
  EXPECT_EQ(ask_why(open.admin_port(), "?scan=1", "Sec-Fetch-Site: cross-site\r\n")->status, 403);
}

}  // namespace
}  // namespace echotrain::server
