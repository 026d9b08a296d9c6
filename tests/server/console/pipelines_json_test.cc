// The live page's pipelines: their list, one of them with its graph, and the loader's answer to a text.
#include "server/console/pipelines/pipelines_json.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/server/http_client.h"

namespace echotrain::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kAdminToken = "a-token-of-an-administrator";
constexpr const char* kYamlType = "Content-Type: application/yaml\r\n";

std::optional<HttpResponse> ask(std::uint16_t port, const std::string& request, const std::string& headers = "",
                                const std::string& body = "") {
  HttpClient client(port);
  client.send(request + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
              (body.empty() ? "" : fmt::format("Content-Length: {}\r\n", body.size())) + "\r\n" + body);
  return client.receive();
}

json check_of(std::uint16_t port, const std::string& text) {
  const auto answer = ask(port, "POST /live/check", kYamlType, text);
  EXPECT_EQ(answer->status, 200) << answer->body;
  return json::parse(answer->body);
}

std::string yaml(const std::string& gadget, const std::string& name = "pasted") {
  return fmt::format(
      "echotrain: 1\nname: {}\ndescription: of a test\npipeline:\n  - {}\n  - cartesian_kspace\n  - fft\n  - "
      "coil_combine\n  - image\n",
      name, gadget);
}

/// A catalogue of one pipeline of its own.
class OwnCatalogue {
 public:
  explicit OwnCatalogue(const std::string& text) : folder_(testing::TempDir() + fmt::format("own_{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/own.yaml") << text;
    catalogue_.emplace(config::PipelineLibrary({folder_}));
  }
  ~OwnCatalogue() { std::filesystem::remove_all(folder_); }
  const PipelineCatalogue& operator*() const { return *catalogue_; }

 private:
  const std::string folder_;
  std::optional<PipelineCatalogue> catalogue_;
};

TEST(PipelinesPage, ListsWhatTheServerOffers) {
  TestServer server;
  const auto answer = ask(server.admin_port(), "GET /live/pipelines");
  ASSERT_EQ(answer->status, 200);
  EXPECT_EQ(answer->headers.at("content-type"), "application/json");
  const json found = json::parse(answer->body);
  EXPECT_EQ(found["longest_text"], 256 * 1024);
  // There are as many as there are files; sorted; each with a description.
  const auto files = std::filesystem::directory_iterator(shipped_pipelines());
  const auto wanted =
      std::count_if(begin(files), end(files), [](const auto& one) { return one.path().extension() == ".yaml"; });
  ASSERT_EQ(found["pipelines"].size(), static_cast<std::size_t>(wanted));
  std::vector<std::string> names;
  for (const json& one : found["pipelines"]) {
    names.push_back(one["name"]);
    EXPECT_FALSE(one["description"].get<std::string>().empty()) << one;
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, testing::Contains("cartesian_plain"));
}

TEST(PipelinesPage, EachPipelineHasItsTextAndAGraphThatFitsTogether) {
  TestServer server;
  HttpClient client(server.admin_port());
  // Every gadget takes what the step before it gives, in all chains and branches.
  std::function<void(const json&)> follow = [&](const json& chain) {
    std::string there = chain["entrance"];
    ASSERT_FALSE(chain["steps"].empty());
    for (const json& step : chain["steps"]) {
      if (step.contains("branch")) {
        follow(step["chain"]);
        continue;
      }
      EXPECT_EQ(step["takes"], there) << step["gadget"];
      there = step["gives"];
      for (const json& parameter : step["parameters"]) EXPECT_FALSE(parameter["help"].get<std::string>().empty());
    }
  };
  std::size_t branches = 0, accelerated = 0;
  const json all = json::parse(client.get("/live/pipelines")->body);
  for (const json& each : all["pipelines"]) {
    const std::string name = each["name"];
    const auto answer = client.get("/live/pipeline?name=" + name);
    ASSERT_EQ(answer->status, 200) << name;
    const json one = json::parse(answer->body);
    EXPECT_EQ(one["description"], each["description"]);
    std::ifstream file(shipped_pipelines() / (name + ".yaml"));
    EXPECT_EQ(one["text"], std::string(std::istreambuf_iterator<char>(file), {}));
    follow(one["chain"]);
    if (!one["accelerated"].is_null()) follow(one["accelerated"]);
    for (const json& step : one["chain"]["steps"]) branches += step.contains("branch") ? 1 : 0;
    accelerated += one["accelerated"].is_null() ? 0 : 1;
  }
  EXPECT_GT(branches, 0U);
  EXPECT_GT(accelerated, 0U);
}

TEST(PipelinesPage, EachShippedPipelineHasItsPictureAndAnotherOfItsNameHasNone) {
  TestServer server;
  HttpClient client(server.admin_port());
  const json all = json::parse(client.get("/live/pipelines")->body);
  for (const json& each : all["pipelines"]) {
    const std::string name = each["name"];
    ASSERT_TRUE(each["picture"].is_string()) << name;
    const auto picture = client.get("/page/" + each["picture"].get<std::string>());
    ASSERT_EQ(picture->status, 200) << name;
    EXPECT_EQ(picture->headers.at("content-type"), "image/png");
    std::ifstream file(source_path("docs/pictures/pipelines/" + name + ".png"), std::ios::binary);
    EXPECT_EQ(picture->body, std::string(std::istreambuf_iterator<char>(file), {})) << name;
  }
  const OwnCatalogue own(yaml("noise_adjust", "cartesian_plain"));
  EXPECT_TRUE(json::parse(pipelines_json(*own))["pipelines"][0]["picture"].is_null());
}

TEST(PipelinesPage, ParametersSayWhatTheRegistryDeclaresAndTheFileSets) {
  TestServer server;
  const json found = check_of(server.admin_port(),
                              "echotrain: 1\nname: own\ndescription: x\npipeline:\n  - cartesian_kspace\n  - fft\n  - "
                              "coil_combine: {method: rss}\n  - image\n");
  ASSERT_TRUE(found["ok"]) << found;
  EXPECT_EQ(found["name"], "own");
  const json& combine = found["chain"]["steps"][2];
  EXPECT_EQ(combine["gadget"], "coil_combine");
  EXPECT_EQ(combine["line"], 7);
  const GadgetEntry& entry = *Registry::builtin().find("coil_combine");
  ASSERT_EQ(combine["parameters"].size(), entry.parameters.size());
  for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
    const json& one = combine["parameters"][i];
    EXPECT_EQ(one["name"], entry.parameters[i].name);
    EXPECT_EQ(one["help"], entry.parameters[i].help);
    EXPECT_EQ(one["range"], entry.parameters[i].range());
    EXPECT_EQ(one["default"], entry.parameters[i].fallback);
    EXPECT_EQ(one["value"], one["name"] == "method" ? json("rss") : json());
  }
}

TEST(PipelinesPage, TellsTheLoadersMessageWithItsPlace) {
  TestServer server;
  const std::uint16_t port = server.admin_port();
  const json wrong = check_of(port, yaml("noise_adjst"));
  EXPECT_EQ(wrong["ok"], false);
  EXPECT_EQ(wrong["line"], 5);
  EXPECT_EQ(wrong["column"], 5);
  EXPECT_EQ(wrong["message"], "no gadget is called 'noise_adjst'; did you mean 'noise_adjust'?");
  struct Case {
    std::string text, message;
    int line;
  };
  for (const Case& one :
       {Case{"name: x\npipelin: []\n", "pipeline", 2}, Case{yaml("image"), "takes", 5}, Case{"name: [x\n", "", 2},
        Case{yaml("noise_adjust: {bogus: 1}"), "bogus", 5}, Case{"<configuration/>", "XML", 1},
        Case{"name: x\nname: y\n", "name", 2}, Case{"a: &b 1\n", "anchor", 1},
        Case{yaml("noise_adjust") + "dicom: {send_to: nobody}\n", "nobody", 10}}) {
    const json found = check_of(port, one.text);
    EXPECT_EQ(found["ok"], false) << one.text;
    EXPECT_EQ(found["line"], one.line) << one.text << found;
    EXPECT_THAT(found["message"].get<std::string>(), HasSubstr(one.message)) << one.text;
  }
  EXPECT_EQ(check_of(port, "\xff\xfe: \x01")["ok"], false);
  // Nothing is stored: neither what was wrong nor what was right can be asked for.
  EXPECT_EQ(check_of(port, yaml("noise_adjust"))["ok"], true);
  EXPECT_EQ(ask(port, "GET /live/pipeline?name=pasted")->status, 404);
  EXPECT_TRUE(server.works());
}

TEST(PipelinesPage, TextsHaveABound) {
  TestServer server;
  const std::uint16_t port = server.admin_port();
  const std::string good = yaml("noise_adjust");
  const std::string longest = good + "#" + std::string(kLongestPipelineText - good.size() - 1, 'x');
  EXPECT_EQ(check_of(port, longest)["ok"], true);
  for (const std::string& more : {longest + "x", std::string(700 << 10, '#')}) {
    const auto answer = ask(port, "POST /live/check", kYamlType, more);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 413);
    EXPECT_THAT(answer->body, HasSubstr("256 KiB"));
  }
  // A text is too long by its Content-Length alone, and in chunks that announce no length.
  EXPECT_EQ(ask(port, "POST /live/check", fmt::format("{}Content-Length: 9999999\r\n", kYamlType))->status, 413);
  std::string chunks;
  for (int i = 0; i < 5; ++i) chunks += "10000\r\n" + std::string(0x10000, '#') + "\r\n";
  HttpClient client(port);
  client.send(
      fmt::format("POST /live/check HTTP/1.1\r\nHost: localhost\r\n{}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
                  kYamlType, chunks));
  EXPECT_EQ(client.receive()->status, 413);
  // One connection takes several texts, and other requests between them.
  HttpClient same(port);
  for (int i = 0; i < 3; ++i) {
    same.send(fmt::format("POST /live/check HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", kYamlType,
                          good.size(), good));
    EXPECT_EQ(same.receive()->status, 200);
    EXPECT_EQ(same.get("/livez")->status, 200);
  }
}

TEST(PipelinesPage, OnlyThePageOfWhoIsLoggedInMayAsk) {
  const std::string file = testing::TempDir() + fmt::format("pipelines_tokens_{}", ::getpid());
  std::ofstream(file) << kAdminToken << "\n";
  config::ServerOptions options;
  options.admin.token_file = file;
  const std::string body = yaml("noise_adjust"), bearer = fmt::format("Authorization: Bearer {}\r\n", kAdminToken);
  const auto status = [&](std::uint16_t port, const std::string& headers) {
    return ask(port, "POST /live/check", kYamlType + headers, body)->status;
  };
  for (const auto page : {config::AdminOptions::Page::loopback, config::AdminOptions::Page::token}) {
    options.admin.page = page;
    TestServer server(options);
    const std::uint16_t port = server.admin_port();
    const bool open = page == config::AdminOptions::Page::loopback;
    EXPECT_EQ(status(port, ""), open ? 200 : 401);
    EXPECT_EQ(ask(port, "GET /live/pipelines")->status, open ? 200 : 401);
    EXPECT_EQ(ask(port, "GET /live/pipeline?name=cartesian_plain")->status, open ? 200 : 401);
    EXPECT_EQ(status(port, bearer), 200);
    const auto login = ask(port, "POST /login", bearer);
    const std::string set = login->headers.at("set-cookie"),
                      cookie = "Cookie: " + set.substr(0, set.find(';')) + "\r\n",
                      csrf = json::parse(login->body)["csrf"];
    EXPECT_EQ(status(port, cookie), 403);  // a forged request has the cookie, but not the word
    EXPECT_EQ(status(port, cookie + "X-Echotrain-CSRF: " + std::string(64, '0') + "\r\n"), 403);
    EXPECT_EQ(status(port, cookie + "X-Echotrain-CSRF: " + csrf + "\r\n"), 200);
    EXPECT_EQ(status(port, bearer + "Sec-Fetch-Site: cross-site\r\n"), 403);
  }
  options.admin.page = config::AdminOptions::Page::loopback;
  TestServer server(options);
  const std::uint16_t port = server.admin_port();
  // What a form of another site can send without asking.
  for (const char* type : {"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"})
    EXPECT_EQ(ask(port, "POST /live/check", type, body)->status, 415) << type;
  EXPECT_EQ(ask(port, "GET /live/check")->status, 405);
  EXPECT_EQ(ask(port, "OPTIONS /live/check")->status, 405);
  EXPECT_EQ(ask(port, "POST /live/pipelines")->status, 405);
  EXPECT_EQ(ask(port, "POST /live/check", std::string(kYamlType) + "Host: evil.example\r\n", body)->status, 421);
  std::filesystem::remove(file);
}

TEST(PipelinesPage, OddNamesAreTexts) {
  TestServer server;
  const std::uint16_t port = server.admin_port();
  for (const char* name :
       {"", "..%2f..%2fetc%2fpasswd", "%00", "%", "%4", "%zz", "%ff%fe", "<b>x</b>", "a&name=cartesian_plain"}) {
    const auto answer = ask(port, fmt::format("GET /live/pipeline?name={}", name));
    ASSERT_TRUE(answer) << name;
    EXPECT_EQ(answer->status, 404) << name;
    EXPECT_THAT(answer->headers.at("content-type"), testing::StartsWith("text/plain")) << name;
    EXPECT_EQ(answer->headers.at("x-content-type-options"), "nosniff");
  }
  EXPECT_THAT(ask(port, "GET /live/pipeline?name=cartesian_2e")->body, HasSubstr("did you mean 'cartesian_2d'"));
  const json marked = check_of(port, yaml("noise_adjust", "\"<img src=x onerror=alert(1)>\""));
  EXPECT_EQ(marked["ok"], false);
  EXPECT_THAT(marked["message"].get<std::string>(), HasSubstr("'<img src=x onerror=alert(1)>' is no name"));
  const OwnCatalogue own(
      "echotrain: 1\nname: odd\ndescription: \"\\\"</script>\"\npipeline: [noise_adjust, cartesian_kspace, fft, "
      "coil_combine, image]\n");
  EXPECT_EQ(json::parse(pipelines_json(*own))["pipelines"][0]["description"], "\"</script>");
  const auto found = pipeline_json(*own, text_in("name=%6fd%64", "name"));
  ASSERT_TRUE(found);
  EXPECT_EQ(json::parse(*found)["name"], "odd");
}

TEST(PipelinesPage, QueriesAreDecoded) {
  EXPECT_EQ(text_in("name=a%20b&x=1", "name"), "a b");
  EXPECT_EQ(text_in("x=1&name=%3C", "name"), "<");
  EXPECT_EQ(text_in("surname=x", "name"), "");
  EXPECT_EQ(text_in("name=%4", "name"), "%4");
  EXPECT_EQ(text_in("name=%+4", "name"), "%+4");
  EXPECT_EQ(text_in("", "name"), "");
}

}  // namespace
}  // namespace echotrain::server
