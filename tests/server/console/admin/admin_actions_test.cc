// The actions of the admin port are for those who may do them.
#include "server/console/admin/admin_actions.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/server/http_client.h"

namespace echotrain::server {
namespace {

using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef";

/// Options that name a file with kToken.
class TokenFile {
 public:
  TokenFile() : path_(std::filesystem::temp_directory_path() / ("echotrain-admin-" + std::to_string(::getpid()))) {
    std::ofstream(path_) << kToken << "\n";
  }
  ~TokenFile() { std::filesystem::remove(path_); }
  config::ServerOptions options() const {
    config::ServerOptions options;
    options.admin.token_file = path_.string();
    return options;
  }

 private:
  const std::filesystem::path path_;
};

std::string post(const std::string& path, const std::string& token = kToken) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" +
         (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n";
}

HttpResponse ask(HttpClient& client, const std::string& request) {
  client.send(request);
  const auto page = client.receive();
  return page.value_or(HttpResponse{});
}

std::uint64_t only_session(HttpClient& admin) {
  return nlohmann::json::parse(admin.get("/sessions")->body).at("sessions").at(0).at("id").get<std::uint64_t>();
}

TEST(AdminActions, StopASessionWhoseClientIsTold) {
  const TokenFile file;
  TestServer server(file.options());
  RawClient client(server.port());
  client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame());
  ASSERT_TRUE(client.receive());  // the scan runs
  HttpClient admin(server.admin_port());
  const std::string path = "/sessions/" + std::to_string(only_session(admin)) + "/stop";
  const HttpResponse page = ask(admin, post(path));
  EXPECT_EQ(page.status, 202);
  EXPECT_THAT(page.body, HasSubstr("is being stopped"));
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    stopped: an administrator of the server has stopped this session"));
  client.close();
  // The connection of the administrator goes on, and the session is gone.
  HttpResponse again;
  for (int i = 0; i < 1000 && again.status != 404; ++i) again = ask(admin, post(path));
  EXPECT_EQ(again.status, 404);
  EXPECT_TRUE(server.works());
}

TEST(AdminActions, TakeATokenOfTheAdministrators) {
  const TokenFile file;
  TestServer server(file.options());
  RawClient client(server.port());
  client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame());
  ASSERT_TRUE(client.receive());
  HttpClient admin(server.admin_port());
  const std::string path = "/sessions/" + std::to_string(only_session(admin)) + "/stop";
  for (const char* token : {"", "0123456789abcdeg", "0123456789abcde", "0123456789abcdef0"}) {
    const HttpResponse page = ask(admin, post(path, token));
    EXPECT_EQ(page.status, 401) << token;
    EXPECT_EQ(page.headers.at("www-authenticate"), "Bearer");
  }
  EXPECT_EQ(ask(admin, "POST " + path + " HTTP/1.1\r\nAuthorization: Basic " + kToken + "\r\n\r\n").status, 401);
  EXPECT_EQ(admin.get("/sessions")->status, 200);  // who reads needs none
  client.send(wire::close());
  EXPECT_TRUE(client.receive_all().ended_well());  // nobody has stopped it
}

TEST(AdminActions, AreForNobodyWithoutATokenFile) {
  TestServer server;
  HttpClient admin(server.admin_port());
  for (const char* token : {"", kToken}) {
    const HttpResponse page = ask(admin, post("/sessions/1/stop", token));
    EXPECT_EQ(page.status, 403);
    EXPECT_THAT(page.body, HasSubstr("admin.token_file"));
  }
}

TEST(AdminActions, ArePostsToTheirPathsOnly) {
  const TokenFile file;
  TestServer server(file.options());
  HttpClient admin(server.admin_port());
  EXPECT_EQ(ask(admin, post("/sessions/1/stop")).status, 404);  // no such session
  const auto read = admin.get("/sessions/1/stop");
  EXPECT_EQ(read->status, 405);
  EXPECT_EQ(read->headers.at("allow"), "POST");
  for (const char* path : {"/sessions//stop", "/sessions/x/stop", "/sessions/1x/stop", "/sessions/-1/stop",
                           "/sessions/99999999999999999999/stop", "/sessions/1/stop/", "/sessions/stop", "/livez"})
    EXPECT_EQ(ask(admin, post(path)).status, 405) << path;
}

TEST(AdminActions, ATokenFileMustBeUsable) {
  config::ServerOptions options;
  options.admin.token_file = "/nowhere/tokens";
  EXPECT_THROW(TestServer server(options), std::runtime_error);
}

}  // namespace
}  // namespace echotrain::server
