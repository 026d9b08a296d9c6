// The admin port: its answers, and what people may do to it.
#include "server/console/admin/admin_port.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/server/http_client.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

/// An admin port with its own limits and no server behind it.
class AdminAlone {
 public:
  explicit AdminAlone(const AdminLimits& limits = {})
      : environment_(make_environment(options(), config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(),
                                      test_resources())),
        admin_(context_, environment_, limits) {
    admin_.start();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~AdminAlone() {
    admin_.stop();
    thread_.join();  // returns only if nothing keeps the loop busy
  }
  std::uint16_t port() const { return admin_.endpoint().port(); }
  Readiness& readiness() { return *environment_.readiness; }

 private:
  static config::ServerOptions options() {
    config::ServerOptions options;
    options.admin.port = 0;
    options.admin.hosts = {"x", "Scanner.example.org"};
    return options;
  }
  const Environment environment_;
  asio::io_context context_;
  AdminPort admin_;
  std::thread thread_;
};

TEST(AdminPort, AnswersWhatItLists) {
  TestServer server;
  HttpClient client(server.admin_port());
  const auto front = client.get("/");
  ASSERT_TRUE(front);
  EXPECT_EQ(front->status, 200);
  for (const char* path : {"/livez", "/readyz", "/metrics", "/sessions", "/noise", "/calibration"}) {
    EXPECT_THAT(front->body, HasSubstr(path));
    const auto page = client.get(path);  // on the same connection
    ASSERT_TRUE(page) << path;
    EXPECT_EQ(page->status, 200) << path;
    EXPECT_FALSE(page->body.empty()) << path;
    EXPECT_EQ(page->headers.at("cache-control"), "no-store");
  }
  EXPECT_EQ(client.get("/metrics")->headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(client.get("/sessions")->headers.at("content-type"), "application/json");
  EXPECT_EQ(client.get("/readyz?verbose=1")->status, 200);
  for (const char* path : {"/metricsx", "/livez/", "//livez", "/../livez", "/sessions%00", "*"}) {
    const auto page = client.get(path);
    ASSERT_TRUE(page) << path;
    EXPECT_EQ(page->status, 404) << path;
  }
}

TEST(AdminPort, HeadIsGetWithoutBody) {
  AdminAlone admin;
  HttpClient client(admin.port());
  for (const char* path : {"/livez", "/sessions", "/nothing"}) {
    const auto whole = client.get(path);
    client.send("HEAD " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto head = client.receive(/*has_body=*/false);
    ASSERT_TRUE(whole && head) << path;
    EXPECT_EQ(head->status, whole->status);
    EXPECT_EQ(head->headers, whole->headers);
    EXPECT_EQ(head->headers.at("content-length"), std::to_string(whole->body.size()));
  }
}

/// A page of another site can be let in by a name of its own that points here, and then sends that name.
TEST(AdminPort, AnswersOnlyToItsNames) {
  AdminAlone admin;
  const auto status = [&](const std::string& host) {
    HttpClient client(admin.port());
    client.send("GET /sessions HTTP/1.1\r\n" + host + "\r\n");
    const auto page = client.receive();
    return page ? page->status : 0;
  };
  for (const char* host :
       {"localhost", "localhost:9004", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.1:80", "10.1.2.3:9004", "[::1]",
        "[::1]:9004", "x", "scanner.example.org:9004", "SCANNER.example.ORG"})
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 200) << host;
  EXPECT_EQ(status(""), 200);  // HTTP/1.0 probes; browsers always send one
  for (const char* host :
       {"evil.example.org", "evil.example.org:9004", "localhost.evil.example.org", "127.0.0.1.evil.org", "example.org",
        "[::1", "[::1].evil.org", "[evil.example.org]", "xx", "1.2.3.4.5", "127.0.0.1@evil.org", "local host"})
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 421) << host;
  EXPECT_EQ(status("Host: localhost\r\nHost: evil.example.org\r\n"), 421);
  HttpClient client(admin.port());
  client.send("GET /livez HTTP/1.1\r\nHost: evil.example.org\r\n\r\n");
  EXPECT_THAT(client.receive()->body, HasSubstr("admin.hosts"));
}

TEST(AdminPort, OnlyReads) {
  AdminAlone admin;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"}) {
    HttpClient client(admin.port());
    client.send(std::string(method) + " /sessions HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto page = client.receive();
    ASSERT_TRUE(page) << method;
    EXPECT_EQ(page->status, 405) << method;
    EXPECT_EQ(page->headers.at("allow"), "GET, HEAD");
  }
  // The body is not read, and what follows it is not taken for a request.
  HttpClient client(admin.port());
  client.send("POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nGET /livez HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 405);
  EXPECT_TRUE(client.ended());
  HttpClient chunked(admin.port());
  chunked.send("GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.receive()->status, 200);
  EXPECT_TRUE(chunked.ended());
}

TEST(AdminPort, KeepsAndEndsConnectionsAsAsked) {
  AdminAlone admin;
  HttpClient close(admin.port());
  close.send("GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(close.receive()->headers.at("connection"), "close");
  EXPECT_TRUE(close.ended());
  HttpClient old(admin.port());
  old.send("GET /livez HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive()->body, "alive\n");
  EXPECT_TRUE(old.ended());
}

TEST(AdminPort, TakesRequestsInAnyPieces) {
  AdminAlone admin;
  HttpClient client(admin.port());
  const std::string three =
      "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /readyz HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\nHost: "
      "x\r\n\r\n";
  const auto expect_three = [&] {
    EXPECT_EQ(client.receive()->body, "alive\n");
    EXPECT_EQ(client.receive(/*has_body=*/false)->status, 503);
    EXPECT_EQ(client.receive()->status, 404);
  };
  client.send(three);
  expect_three();
  for (const char c : three) client.send(std::string(1, c));
  expect_three();
}

TEST(AdminPort, RefusesWhatIsNoRequest) {
  AdminAlone admin;
  for (const std::string& bytes :
       {std::string("\r\n\r\n\r\n"), std::string("hello\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET /livez\r\n\r\n"), std::string("GET /livez HTTP/9.9\r\n\r\n"),
        std::string("GET /liv\0ez HTTP/1.1\r\n\r\n", 24), std::string("GET /livez HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("GET /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("GET /livez HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(600, '\x7f'),  // TLS
        wire::config("radial_2d"), std::string(3000, '\0')}) {
    HttpClient client(admin.port());
    client.send(bytes);
    const auto page = client.receive();
    ASSERT_TRUE(page) << bytes;
    EXPECT_EQ(page->status, 400) << bytes;
    EXPECT_TRUE(client.ended());
  }
  EXPECT_EQ(HttpClient(admin.port()).get("/livez")->status, 200);
}

TEST(AdminPort, BoundsTheRequest) {
  AdminAlone admin;
  for (const std::string& bytes :
       {"GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nCookie: " + std::string(100000, 'a') + "\r\n\r\n", std::string(100000, 'A')}) {
    HttpClient client(admin.port());
    client.send(bytes);
    const auto page = client.receive();
    ASSERT_TRUE(page) << bytes.substr(0, 30);
    EXPECT_THAT((std::set<int>{400, 431}), testing::Contains(page->status)) << bytes.substr(0, 30);
  }
  HttpClient client(admin.port());
  client.send("GET / HTTP/1.1\r\nCookie: " + std::string(5000, 'a') + "\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 200);
}

TEST(AdminPort, SlowRequestsAreEndedAndHinderNobody) {
  AdminLimits limits;
  limits.request_time = 300ms;
  AdminAlone admin(limits);
  HttpClient slow(admin.port());
  const std::string request = "GET /livez HTTP/1.1\r\nHost: " + std::string(10000, 'x');
  bool ended = false;
  const auto begin = std::chrono::steady_clock::now();
  std::thread dripping([&] {
    for (std::size_t i = 0; i < request.size() && slow.send(request.substr(i, 1)); ++i)
      std::this_thread::sleep_for(5ms);
    ended = slow.ended();
  });
  while (std::chrono::steady_clock::now() < begin + 200ms)
    EXPECT_EQ(HttpClient(admin.port()).get("/livez")->status, 200);
  dripping.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);  // all bytes would take 50 s
}

TEST(AdminPort, SilentConnectionsAreEnded) {
  AdminLimits limits;
  limits.idle_time = 200ms;
  AdminAlone admin(limits);
  HttpClient never(admin.port()), once(admin.port());
  EXPECT_EQ(once.get("/livez")->status, 200);
  EXPECT_TRUE(once.ended());
  EXPECT_TRUE(never.ended());
}

TEST(AdminPort, MoreConnectionsThanAllowedEndTheOldestSilentOnes) {
  AdminLimits limits;
  limits.connections = 4;
  AdminAlone admin(limits);
  HttpClient used(admin.port());
  std::list<HttpClient> silent;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(silent.emplace_back(admin.port()).get("/livez")->status, 200);
  EXPECT_EQ(used.get("/livez")->status, 200);  // now the most recently used connection
  for (int i = 0; i < 3; ++i) EXPECT_EQ(HttpClient(admin.port()).get("/livez")->status, 200);
  EXPECT_TRUE(silent.front().ended());
  EXPECT_EQ(used.get("/livez")->status, 200);
}

TEST(AdminPort, SilentConnectionsOfOneAddressEndNoneOfAnother) {
  AdminLimits limits;
  limits.connections = 4;
  AdminAlone admin(limits);
  HttpClient other(admin.port(), 2);  // silent for longer than all that come
  EXPECT_EQ(other.get("/livez")->status, 200);
  std::list<HttpClient> silent;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(silent.emplace_back(admin.port()).get("/livez")->status, 200);
  EXPECT_TRUE(silent.front().ended());
  EXPECT_EQ(silent.back().get("/livez")->status, 200);
  const auto page = other.get("/livez");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
}

TEST(AdminPort, ReadyzTellsTheState) {
  AdminAlone admin;
  HttpClient client(admin.port());
  const auto expect = [&](int status, const std::string& text) {
    const auto page = client.get("/readyz");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->status, status);
    EXPECT_THAT(page->body, StartsWith(text));
    EXPECT_EQ(client.get("/livez")->status, 200);
  };
  expect(503, "starting: ");
  admin.readiness().set_ready();
  expect(200, "ready");
  admin.readiness().drain();
  expect(503, "draining: ");
  admin.readiness().set_ready();
  expect(503, "draining: ");
  int calls = 0;
  admin.readiness().on_broken([&] { ++calls; });
  admin.readiness().break_down("the GPU melted");
  expect(503, "broken: the GPU melted");
  admin.readiness().break_down("something else");
  admin.readiness().drain();
  expect(503, "broken: the GPU melted");
  EXPECT_EQ(calls, 1);
}

TEST(AdminPort, SessionsAreListedWhileTheyRun) {
  TestServer server;
  const auto sessions = [&] {
    return nlohmann::json::parse(HttpClient(server.admin_port()).get("/sessions")->body).at("sessions");
  };
  EXPECT_EQ(sessions(), nlohmann::json::array());
  RawClient first(server.port()), second(server.port());
  const std::string start = wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame();
  first.send(start);
  ASSERT_TRUE(eventually([&] {
    const auto all = sessions();
    return all.size() == 2 && all[0].at("images") == 1 && all[0].at("bytes_out") > 0 && all[0].at("queue_bytes") == 0;
  })) << sessions();
  const auto all = sessions();
  EXPECT_EQ(all[0].at("state"), "scanning");
  EXPECT_EQ(all[0].at("pipeline"), "cartesian_plain");
  EXPECT_EQ(all[0].at("backend"), "cpu");
  EXPECT_EQ(all[0].at("readouts"), 8);
  EXPECT_EQ(all[0].at("bytes_in"), start.size());
  EXPECT_THAT(all[0].at("peer").get<std::string>(), StartsWith("127.0.0.1:"));
  EXPECT_GE(all[0].at("age_s"), 0.0);
  EXPECT_EQ(all[1].at("state"), "connecting");
  EXPECT_EQ(all[1].at("pipeline"), "");
  // An unfinished message waits in memory.
  first.send(wire::acquisition(0).substr(0, 300));
  EXPECT_TRUE(eventually([&] { return sessions()[0].at("queue_bytes") == 300; })) << sessions();
  first.reset();
  second.close();
  EXPECT_TRUE(eventually([&] { return sessions().empty(); })) << sessions();
}

TEST(AdminPort, PortTakenBySomebodyElse) {
  TestServer first;
  config::ServerOptions options;
  options.admin.port = first.admin_port();
  options.admin.asked_for = true;
  try {
    TestServer second(options);
    ADD_FAILURE() << "two servers on one port";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--admin-port"));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(first.admin_port())));
  }
  options.admin.enabled = false;
  TestServer off(options);
  EXPECT_EQ(off.admin_port(), 0);
  EXPECT_TRUE(off.works());
  options.admin.enabled = true;
  options.admin.bind = "nowhere.invalid";
  EXPECT_THROW(TestServer{options}, std::runtime_error);
}

TEST(AdminPort, DefaultPortMayBeTaken) {
  TestServer taker;
  config::ServerOptions options;
  options.port = 0;
  options.admin.port = taker.admin_port();  // as if that were the default port, which nobody asked for
  Server server(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources());
  EXPECT_EQ(server.admin_address(), "");
  EXPECT_GT(server.port(), 0);
}

TEST(AdminPort, IsNotReadyAndStillThereWhileDraining) {
  config::ServerOptions options;
  options.shutdown_timeout_s = 60;
  TestServer server(options);
  RawClient client(server.port());
  client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame());
  ASSERT_TRUE(client.receive());  // the image, so the session scans
  HttpClient admin(server.admin_port());
  EXPECT_EQ(admin.get("/readyz")->status, 200);
  server.ask_to_stop();
  const auto page = admin.get("/readyz");
  EXPECT_EQ(page->status, 503);
  EXPECT_THAT(page->body, StartsWith("draining: "));
  EXPECT_EQ(scrape(server.admin_port())["echotrain_ready"], 0);
  EXPECT_EQ(scrape(server.admin_port())["echotrain_sessions{state=\"scanning\"}"], 1);
  client.send(wire::frame(1) + wire::close());
  EXPECT_EQ(client.receive_all().count(1022), 1U);
  client.close();
  EXPECT_EQ(server.wait_for_end(), Server::End::asked);
  EXPECT_TRUE(admin.ended());
}

}  // namespace
}  // namespace echotrain::server
