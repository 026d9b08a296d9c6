// The live page's data: who gets them, and what they say of scans.
#include "server/console/admin/live_pages.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/server/capture/capture_support.h"
#include "tests/server/http_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kLiveToken = "a-token-of-an-administrator";

class LiveTokens {
 public:
  LiveTokens() : path_(testing::TempDir() + fmt::format("live_tokens_{}", ::getpid())) {
    std::ofstream(path_) << kLiveToken << "\n";
  }
  ~LiveTokens() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

std::optional<HttpResponse> request_page(std::uint16_t port, const std::string& request,
                                         const std::string& headers = "") {
  HttpClient client(port);
  client.send(request + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return client.receive();
}

json state_of(std::uint16_t port) { return json::parse(request_page(port, "GET /live/state")->body); }

template <class Condition>
json wait_for(std::uint16_t port, const Condition& condition) {
  json state;
  for (int i = 0; i < 500; ++i) {
    state = state_of(port);
    if (condition(state)) return state;
    std::this_thread::sleep_for(20ms);
  }
  throw std::runtime_error("it never came; at last: " + state.dump());
}

TEST(LivePages, ServesItsFilesUnderAStrictPolicy) {
  TestServer server;
  const auto page = request_page(server.admin_port(), "GET /page/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->headers.at("content-type"), "text/html; charset=utf-8");
  const std::string& policy = page->headers.at("content-security-policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, testing::Not(HasSubstr("unsafe")));
  EXPECT_EQ(page->headers.at("cross-origin-resource-policy"), "same-origin");
  // All that the page names is there, and nothing is elsewhere.
  EXPECT_THAT(page->body, testing::Not(HasSubstr("http://")));
  EXPECT_THAT(page->body, testing::Not(HasSubstr("https://")));
  for (const auto& [name, type] :
       {std::pair("main.js", "text/javascript; charset=utf-8"), std::pair("page.css", "text/css; charset=utf-8"),
        std::pair("icon.svg", "image/svg+xml")}) {
    EXPECT_THAT(page->body, HasSubstr(name));
    const auto file = request_page(server.admin_port(), fmt::format("GET /page/{}", name));
    EXPECT_EQ(file->status, 200) << name;
    EXPECT_EQ(file->headers.at("content-type"), type);
  }
  EXPECT_EQ(request_page(server.admin_port(), "GET /page")->headers.at("location"), "/page/");
  for (const char* none : {"/page/../main.js", "/page/secret", "/live/", "/live/nothing", "/live/state/"})
    EXPECT_EQ(request_page(server.admin_port(), fmt::format("GET {}", none))->status, 404) << none;
}

TEST(LivePages, TellsOfAScanWhileItRuns) {
  TestServer server;
  RawClient scanner(server.port());
  scanner.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::acquisition(0) +
               wire::acquisition(3));
  const json state = wait_for(server.admin_port(),
                              [](const json& now) { return !now["scans"].empty() && now["scans"][0]["lines"] == 2; });
  const json& scan = state["scans"][0];
  EXPECT_EQ(scan["state"], "scanning");
  EXPECT_EQ(scan["pipeline"], "cartesian_plain");
  EXPECT_EQ(scan["lines_announced"], 80);  // 8 lines, 10 repetitions
  EXPECT_EQ(scan["kspace"]["cells"], "20020000");
  EXPECT_EQ(scan["images"], 0);
  EXPECT_TRUE(scan["error"].is_null());
  EXPECT_EQ(state["server"]["state"], "ready");
  EXPECT_GT(state["server"]["memory_used"], 0);

  for (const int line : {1, 2, 4, 5, 6, 7}) scanner.send(wire::acquisition(line));
  wait_for(server.admin_port(), [](const json& now) { return now["scans"][0]["newest_image"] == 1; });
  const auto image = request_page(server.admin_port(), fmt::format("GET /live/image?scan={}", scan["id"].get<int>()));
  ASSERT_EQ(image->status, 200);
  std::uint32_t length = 0;
  std::memcpy(&length, image->body.data(), 4);
  const json head = json::parse(image->body.substr(4, length));
  EXPECT_EQ(head["matrix"], (std::vector<int>{8, 8, 1}));
  EXPECT_EQ(image->body.size(), 4 + length + 64 * 4);
  // The same pixels as the client gets.
  scanner.send(wire::close());
  const Conversation heard = scanner.receive_all();
  scanner.close();
  ASSERT_EQ(heard.count(1022), 1U);
  for (const Received& message : heard.messages)
    if (message.id == 1022) {
      EXPECT_EQ(message.pixels(), image->body.substr(4 + length));
    }

  const json after = wait_for(server.admin_port(), [](const json& now) { return !now["ended"].empty(); });
  EXPECT_TRUE(after["scans"].empty());
  EXPECT_EQ(after["ended"][0]["outcome"], "complete");
  EXPECT_EQ(after["ended"][0]["images_kept"], 1);
  EXPECT_EQ(after["delays"]["images"], 1);
  EXPECT_GT(after["delays"]["p50_ms"], 0);
  EXPECT_THAT(after["ended"][0]["summary"].get<std::string>(), HasSubstr("readouts=8"));
  const auto all = json::parse(request_page(server.admin_port(), "GET /live/images?scan=1")->body);
  ASSERT_EQ(all["images"].size(), 1U);
  EXPECT_EQ(all["images"][0]["number"], 1);
  for (const char* none : {"scan=1&image=2", "scan=2", "scan=2&image=1", "", "scan=x", "scan=99999999999999999999"})
    EXPECT_EQ(request_page(server.admin_port(), fmt::format("GET /live/image?{}", none))->status, 404) << none;
}

TEST(LivePages, TellsWhyAScanWasRefused) {
  TestServer server;
  server.exchange(wire::config("no_such_pipeline") + wire::header(wire::xml()));
  const json state = wait_for(server.admin_port(), [](const json& now) { return !now["ended"].empty(); });
  EXPECT_EQ(state["ended"][0]["error"]["code"], "unknown-config");
  EXPECT_THAT(state["ended"][0]["error"]["text"].get<std::string>(), HasSubstr("no_such_pipeline"));
  { RawClient probe(server.port()); }  // says nothing, and is not worth telling
  auto old = wire::readout_head(1);
  old.version = 0;
  server.exchange(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::acquisition(old) + wire::close());
  const json later = wait_for(server.admin_port(), [](const json& now) { return now["ended"].size() == 2; });
  ASSERT_EQ(later["ended"][0]["warnings"].size(), 1U);
  EXPECT_THAT(later["ended"][0]["warnings"][0].get<std::string>(), HasSubstr("version 0"));
}

TEST(LivePages, NamesNoPatientUnlessToldTo) {
  const std::string subject = "<subjectInformation><patientName>O'Neill</patientName></subjectInformation>";
  std::string xml = wire::xml();
  xml.insert(xml.find("<experimentalConditions>"), subject);
  for (const bool show : {false, true}) {
    config::ServerOptions options;
    options.admin.show_subject = show;
    TestServer server(options);
    server.exchange(wire::config("cartesian_plain") + wire::header(xml) + wire::frame() + wire::close());
    const json state = wait_for(server.admin_port(), [](const json& now) { return !now["ended"].empty(); });
    EXPECT_EQ(state.dump().find("O'Neill") != std::string::npos, show);
  }
}

TEST(LivePages, AnswersNoOtherSitesPages) {
  TestServer server;
  const std::uint16_t port = server.admin_port();
  for (const char* site : {"cross-site", "same-site"})
    for (const char* path : {"/live/state", "/live/image?scan=1", "/live/events", "/live/login"})
      EXPECT_EQ(request_page(port, fmt::format("GET {}", path), fmt::format("Sec-Fetch-Site: {}\r\n", site))->status,
                403)
          << path;
  EXPECT_EQ(request_page(port, "GET /live/state", "Sec-Fetch-Site: same-origin\r\n")->status, 200);
  EXPECT_EQ(request_page(port, "POST /live/state")->status, 405);
  EXPECT_EQ(request_page(port, "GET /login")->status, 405);
}

TEST(LivePages, CanBeOffOrAskForAToken) {
  const LiveTokens tokens;
  config::ServerOptions options;
  options.admin.token_file = tokens.path();
  options.admin.page = config::AdminOptions::Page::off;
  {
    TestServer server(options);
    for (const char* path : {"/page/", "/live/state", "/live/events"})
      EXPECT_EQ(request_page(server.admin_port(), fmt::format("GET {}", path))->status, 404);
    EXPECT_TRUE(server.works());
  }
  options.admin.page = config::AdminOptions::Page::token;
  TestServer server(options);
  const std::uint16_t port = server.admin_port();
  EXPECT_EQ(request_page(port, "GET /page/")->status, 200);  // where one logs in
  for (const char* path : {"/live/state", "/live/image?scan=1", "/live/images?scan=1", "/live/events"})
    EXPECT_EQ(request_page(port, fmt::format("GET {}", path))->status, 401) << path;
  EXPECT_EQ(request_page(port, "GET /live/state", fmt::format("Authorization: Bearer {}\r\n", kLiveToken))->status,
            200);
  EXPECT_EQ(request_page(port, "GET /live/state", "Authorization: Bearer not-a-token-of-anybody\r\n")->status, 401);
}

TEST(LivePages, LoginStopsASessionOnlyFromThePage) {
  const LiveTokens tokens;
  config::ServerOptions options;
  options.admin.token_file = tokens.path();
  TestServer server(options);
  const std::uint16_t port = server.admin_port();
  EXPECT_EQ(request_page(port, "POST /login")->status, 401);
  EXPECT_EQ(request_page(port, "POST /login", "Authorization: Bearer not-a-token-of-anybody\r\n")->status, 401);
  const std::string bearer = fmt::format("Authorization: Bearer {}\r\n", kLiveToken);
  EXPECT_EQ(request_page(port, "POST /login", bearer + "Sec-Fetch-Site: cross-site\r\n")->status, 403);
  const auto login = request_page(port, "POST /login", bearer);
  ASSERT_EQ(login->status, 200);
  const std::string set = login->headers.at("set-cookie");
  EXPECT_THAT(set, HasSubstr("; HttpOnly; SameSite=Strict; Path=/;"));
  const std::string cookie = "Cookie: other=1; " + set.substr(0, set.find(';')) + "\r\n";
  const std::string csrf = json::parse(login->body)["csrf"];
  EXPECT_EQ(json::parse(request_page(port, "GET /live/login", cookie)->body)["csrf"], csrf);
  EXPECT_EQ(json::parse(request_page(port, "GET /live/login")->body)["csrf"], "");

  // Images leave with a login only; they are the client's, byte by byte.
  EXPECT_EQ(request_page(port, "GET /live/download?scan=1")->status, 401);
  EXPECT_EQ(request_page(port, "GET /live/download?scan=1", cookie)->status, 404);
  const Conversation scan =
      server.exchange(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame() + wire::close());
  wait_for(port, [](const json& now) { return !now["ended"].empty(); });
  auto file = request_page(port, "GET /live/download?scan=1", cookie);
  for (int i = 0; i < 500 && file->status == 404; ++i) {  // images are copied by a thread of their own
    std::this_thread::sleep_for(20ms);
    file = request_page(port, "GET /live/download?scan=1", cookie);
  }
  ASSERT_EQ(file->status, 200);
  EXPECT_EQ(file->headers.at("content-disposition"), "attachment; filename=\"scan_1.mrd\"");
  ASSERT_EQ(scan.images().size(), 1U);
  const std::string pixels = scan.images()[0].substr(scan.images()[0].size() - 64 * 4);
  EXPECT_THAT(file->body, testing::StartsWith(wire::id(1022)));
  EXPECT_THAT(file->body, testing::EndsWith(pixels));

  HttpClient asks(port);  // for the head only
  asks.send("HEAD /live/download?scan=1 HTTP/1.1\r\nHost: localhost\r\n" + cookie + "\r\n");
  const auto head = asks.receive(/*has_body=*/false);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->headers.at("content-length"), std::to_string(file->body.size()));
  EXPECT_TRUE(asks.ended());

  RawClient scanner(server.port());
  scanner.send(wire::config("cartesian_plain") + wire::header(wire::xml()));
  wait_for(port, [](const json& now) { return !now["scans"].empty(); });
  EXPECT_EQ(request_page(port, "POST /sessions/2/stop", cookie)->status, 401);  // a forged request has the cookie
  EXPECT_EQ(request_page(port, "POST /sessions/2/stop", cookie + "X-Echotrain-CSRF: " + std::string(64, '0') + "\r\n")
                ->status,
            401);
  EXPECT_EQ(request_page(port, "POST /sessions/2/stop", "X-Echotrain-CSRF: " + csrf + "\r\n")->status, 401);
  EXPECT_EQ(request_page(port, "POST /sessions/2/stop", cookie + "X-Echotrain-CSRF: " + csrf + "\r\n")->status, 202);
  EXPECT_THAT(scanner.receive_all().texts(), HasSubstr("an administrator of the server has stopped this session"));
  scanner.close();
  const json after = wait_for(port, [](const json& now) { return now["ended"].size() == 2; });
  EXPECT_EQ(after["ended"][0]["error"]["code"], "stopped");

  EXPECT_EQ(request_page(port, "POST /logout", cookie)->status, 403);
  EXPECT_EQ(request_page(port, "POST /logout", cookie + "X-Echotrain-CSRF: " + csrf + "\r\n")->status, 200);
  EXPECT_EQ(json::parse(request_page(port, "GET /live/login", cookie)->body)["logged_in"], false);
}

TEST(LivePages, TextsToCheckArePaidForWhileTheyCome) {
  TestServer server;
  const std::uint16_t port = server.admin_port();
  const auto used = [&] {
    return json::parse(request_page(port, "GET /live/state")->body)["server"]["memory_used"].get<std::uint64_t>();
  };
  const std::uint64_t before = used();
  constexpr std::uint64_t kLength = 200'000;
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<HttpClient>(port));
    slow.back()->send(
        fmt::format("POST /live/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/yaml\r\n"
                    "Content-Length: {}\r\n\r\nechotrain: 1\n",
                    kLength));
  }
  EXPECT_TRUE(eventually([&] { return used() >= before + 8 * kLength; }));
  slow.clear();
  EXPECT_TRUE(eventually([&] { return used() < before + kLength; }));
}

TEST(LivePages, ReplaysAreForThoseWhoAreLoggedInAndShowTheWord) {
  const LiveTokens tokens;
  const TemporaryFolder captures;
  config::ServerOptions options;
  options.admin.token_file = tokens.path();
  options.capture.directory = captures.path();
  TestServer server(options);
  const std::uint16_t port = server.admin_port();
  EXPECT_TRUE(server.works());
  EXPECT_TRUE(eventually([&] { return captures.names().size() == 1; }));
  wait_for(port, [](const json& now) { return !now["ended"].empty(); });
  const std::string name = *captures.names().begin(), bearer = fmt::format("Authorization: Bearer {}\r\n", kLiveToken);
  const auto login = request_page(port, "POST /login", bearer);
  const std::string set = login->headers.at("set-cookie"), cookie = "Cookie: " + set.substr(0, set.find(';')) + "\r\n",
                    word = "X-Echotrain-CSRF: " + json::parse(login->body)["csrf"].get<std::string>() + "\r\n";
  EXPECT_EQ(request_page(port, "GET /live/captures")->status, 401);
  EXPECT_EQ(json::parse(request_page(port, "GET /live/captures", cookie)->body)["captures"][0]["name"], name);
  const auto ask = [&](const std::string& wanted, const std::string& pipeline, const std::string& headers) {
    return *request_page(port, fmt::format("POST /live/replay?capture={}&pipeline={}", wanted, pipeline), headers);
  };
  EXPECT_EQ(ask(name, "cartesian_plain", "").status, 401);
  EXPECT_EQ(ask(name, "cartesian_plain", cookie).status, 403);  // a forged request has the cookie
  EXPECT_EQ(ask(name, "cartesian_plain", cookie + word + "Sec-Fetch-Site: cross-site\r\n").status, 403);
  EXPECT_EQ(request_page(port, "GET /live/replay", bearer)->status, 405);
  EXPECT_THAT(ask(name, "cartesian_2e", bearer).body, HasSubstr("cartesian_2d"));
  EXPECT_EQ(ask("20260131T120000Z-s17-8c1f03d2.mrd", "cartesian_plain", bearer).status, 404);
  EXPECT_EQ(state_of(port)["ended"].size(), 1U);
  for (const std::string& headers : {cookie + word, bearer}) {
    HttpResponse answer;  // the file may not be closed yet, and the replay before may not have said its last word
    EXPECT_TRUE(eventually([&] {
      answer = ask(name, "cartesian_plain", headers);
      return answer.status != 503 && answer.status != 409;
    }));
    ASSERT_EQ(answer.status, 202) << answer.body;
    const std::uint64_t session = json::parse(answer.body)["session"];
    const json ended = wait_for(port, [&](const json& now) { return now["ended"][0]["id"] == session; })["ended"][0];
    EXPECT_EQ(ended["outcome"], "complete");
    EXPECT_EQ(ended["images"], 1);
    EXPECT_THAT(ended["peer"].get<std::string>(), testing::StartsWith("127.0.0.1:"));
  }
  EXPECT_EQ(captures.names().size(), 1U);
}

TEST(Logins, EndWithTheirTimeAndTheirToken) {
  const LiveTokens file;
  const auto tokens = std::make_shared<Tokens>(file.path());
  Logins logins(tokens);
  const auto now = Clock::now();
  const std::string first = logins.log_in(kLiveToken, now)->cookie;
  EXPECT_NE(logins.find(first, now), nullptr);
  EXPECT_EQ(logins.find("", now), nullptr);
  EXPECT_EQ(logins.find(first.substr(1), now), nullptr);
  EXPECT_EQ(logins.find(first, now + Logins::kLasts), nullptr);
  const std::string second = logins.log_in(kLiveToken, now)->cookie;
  EXPECT_NE(first, second);
  std::ofstream(file.path()) << "another-token-of-an-administrator\n";
  tokens->reload();
  EXPECT_EQ(logins.find(second, now), nullptr);
  std::ofstream(file.path()) << kLiveToken << "\n";
  tokens->reload();
  const std::string oldest = logins.log_in(kLiveToken, now)->cookie;
  for (std::size_t i = 1; i < Logins::kMost; ++i) logins.log_in(kLiveToken, now);
  EXPECT_NE(logins.find(oldest, now), nullptr);
  logins.log_in(kLiveToken, now);
  EXPECT_EQ(logins.find(oldest, now), nullptr);
}

TEST(Logins, WrongTokensOfAnAddressAreLimited) {
  Logins logins(nullptr);
  auto now = Clock::now();
  const auto none = Clock::duration::zero();
  for (int i = 0; i < Logins::kTries; ++i) {
    EXPECT_EQ(logins.wait_of("10.0.0.1", /*right=*/true, now), none) << "those that are right do not count";
    EXPECT_EQ(logins.wait_of("10.0.0.1", false, now), none);
  }
  EXPECT_EQ(logins.wait_of("10.0.0.1", false, now), Logins::kPerTry);
  EXPECT_EQ(logins.wait_of("10.0.0.1", true, now), Logins::kPerTry);
  EXPECT_EQ(logins.wait_of("10.0.0.2", false, now), none);
  now += Logins::kPerTry;
  EXPECT_EQ(logins.wait_of("10.0.0.1", true, now), none);
  EXPECT_EQ(logins.wait_of("10.0.0.1", false, now), none);
  EXPECT_EQ(logins.wait_of("10.0.0.1", false, now), Logins::kPerTry);
}

/// The bound is not for the login alone: everything that takes a token tells whether it is one.
TEST(LivePages, WhoTriesManyTokensHasToWait) {
  const LiveTokens tokens;
  config::ServerOptions options;
  options.admin.token_file = tokens.path();
  const std::string wrong = "Authorization: Bearer not-a-token-of-anybody\r\n",
                    right = fmt::format("Authorization: Bearer {}\r\n", kLiveToken);
  for (const char* path : {"POST /login", "GET /live/captures", "POST /sessions/1/stop"}) {
    TestServer server(options);
    const std::uint16_t port = server.admin_port();
    int tries = 0;  // more than kTries only where they take longer than kPerTry
    auto answer = request_page(port, path, wrong);
    for (; tries < 100 && answer->status == 401; ++tries) answer = request_page(port, path, wrong);
    EXPECT_GE(tries, Logins::kTries) << path;
    ASSERT_EQ(answer->status, 429) << path;
    EXPECT_THAT(answer->headers.at("retry-after"), testing::MatchesRegex("[1-6]"));
    EXPECT_EQ(request_page(port, "GET /live/state")->status, 200);
    EXPECT_EQ(request_page(port, "GET /readyz", wrong)->status, 200) << "which takes none";
    EXPECT_EQ(request_page(port, "GET /live/state", right)->status, 429);
  }
}

/// A proxy's own login comes with all requests for the page, and a page is more than kTries of them.
TEST(LivePages, OnlyWhatTakesATokenCountsTries) {
  const LiveTokens tokens;
  config::ServerOptions options;
  options.admin.token_file = tokens.path();
  TestServer server(options);
  const std::uint16_t port = server.admin_port();
  for (int i = 0; i <= Logins::kTries; ++i) {
    EXPECT_EQ(request_page(port, "GET /live/state", "Authorization: Basic dXNlcjp3b3Jk\r\n")->status, 200);
    EXPECT_EQ(request_page(port, "GET /live/state", "Authorization: Bearer \r\n")->status, 200);
    for (const char* file : {"GET /page", "GET /page/"})
      EXPECT_LT(request_page(port, file, "Authorization: Bearer not-a-token-of-anybody\r\n")->status, 400) << file;
  }
  const std::string right = fmt::format("Authorization: Bearer {}\r\n", kLiveToken);
  EXPECT_EQ(request_page(port, "GET /live/state", right)->status, 200);
}

TEST(Logins, CookiesAreFoundByTheirWholeName) {
  EXPECT_EQ(cookie_value("a=1; echotrain_9004=xyz; b=2", "echotrain_9004"), "xyz");
  EXPECT_EQ(cookie_value("xechotrain_9004=no; echotrain_90041=no;echotrain_9004=yes", "echotrain_9004"), "yes");
  EXPECT_EQ(cookie_value("echotrain_9004", "echotrain_9004"), "");
  EXPECT_EQ(cookie_value("", "echotrain_9004"), "");
}

TEST(Viewers, SlowLinksGetSmallerImages) {
  Viewers viewers(2);
  const auto one = viewers.enter(), two = viewers.enter();
  ASSERT_TRUE(one && two);
  EXPECT_FALSE(viewers.enter());
  EXPECT_EQ(viewers.shrink(*one), 1);
  for (const int wanted : {2, 4, 8, 8}) {
    viewers.sent(*one, 500ms);
    EXPECT_EQ(viewers.shrink(*one), wanted);
  }
  EXPECT_EQ(viewers.shrink(*two), 1);
  for (int i = 0; i < Viewers::kCalm; ++i) viewers.sent(*one, 100ms);  // neither
  EXPECT_EQ(viewers.shrink(*one), 8);
  for (int i = 0; i < Viewers::kCalm; ++i) viewers.sent(*one, 5ms);
  EXPECT_EQ(viewers.shrink(*one), 4);
  viewers.leave(*one);
  EXPECT_EQ(viewers.shrink(*one), 1);
  viewers.sent(*one, 500ms);
  EXPECT_TRUE(viewers.enter());
}

/// A connection that listens to the events.
class Listening : public Loopback {
 public:
  explicit Listening(std::uint16_t port) : Loopback(port) {
    EXPECT_TRUE(send("GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }

  bool hears(const std::string& wanted) {
    while (received().find(wanted) == std::string::npos)
      if (!receive_some(5s)) return false;
    return true;
  }
};

TEST(Events, TellOfImagesAndBoundTheirListeners) {
  config::ServerOptions options;
  options.admin.viewers = 2;
  TestServer server(options);
  Listening first(server.admin_port());
  EXPECT_TRUE(first.hears("event: hello\ndata: {\"viewer\":1}\n\n"));
  EXPECT_TRUE(first.hears("event: state\ndata: {\"scans\":["));
  EXPECT_THAT(first.received(), testing::StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
  EXPECT_TRUE(server.works());
  EXPECT_TRUE(first.hears("event: image\ndata: {\"scan\":1,\"image\":1}\n\n")) << first.received();
  {
    Listening second(server.admin_port());
    EXPECT_TRUE(second.hears("event: state"));  // before the next one comes
    Listening third(server.admin_port());
    EXPECT_TRUE(third.hears("admin.viewers"));
    EXPECT_THAT(third.received(), testing::StartsWith("HTTP/1.1 503 "));
  }
  // Their places are free again once the server has noticed that they are gone, at the next event.
  bool heard = false;
  for (int i = 0; i < 100 && !heard; ++i) {
    std::this_thread::sleep_for(50ms);
    heard = Listening(server.admin_port()).hears("event: hello");
  }
  EXPECT_TRUE(heard);
}

TEST(Events, SilentListenersHoldNoScanBack) {
  TestServer server;
  const Listening silent(server.admin_port()), too(server.admin_port());  // they read nothing
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(server.works());
  server.stop();  // does not wait for them
}

}  // namespace
}  // namespace echotrain::server
