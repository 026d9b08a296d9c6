// The port for HAProxy's agent-check, in the words of its configuration manual.
#include "server/console/admin/haproxy_agent.h"

#include <gmock/gmock.h>

#include "tests/server/http_client.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::StartsWith;

/// All that comes until the server ends the connection in order; "reset" when it does not.
std::string ask(std::uint16_t port, const std::string& say = "") {
  Loopback connection(port);
  if (!connection.send(say)) return "reset";
  while (connection.receive_some()) {
  }
  return connection.eof() ? connection.received() : "reset";
}

Environment environment_with(std::vector<Place> places, const config::ServerOptions& options) {
  Environment environment =
      make_environment(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources());
  environment.compute = std::make_shared<ComputePool>(std::move(places), 1);
  return environment;
}

config::ServerOptions with_agent() {
  config::ServerOptions options;
  options.admin.agent_port = 0;
  return options;
}

TEST(HaproxyAgent, SaysHowManyScansMayRun) {
  config::ServerOptions options = with_agent();
  options.cpu_scans = 3;
  TestServer server(options);
  EXPECT_EQ(ask(server.agent_port()), "ready up maxconn:3\n");
  EXPECT_EQ(ask(server.agent_port(), "what HAProxy sends for agent-send\n"), "ready up maxconn:3\n");
}

TEST(HaproxyAgent, CapacityIsOfThePlacesThatScansGet) {
  const Place cpu{numerics::Backend::cpu, 0, 5, 0};
  const Place gpu{numerics::Backend::cuda, 0, 8, 8}, other{numerics::Backend::cuda, 1, 8, 0};
  config::ServerOptions options;
  EXPECT_EQ(scan_capacity(environment_with({cpu}, options)), 5);
  EXPECT_EQ(scan_capacity(environment_with({cpu, gpu, other}, options)), 16);
  options.max_sessions = 10;
  EXPECT_EQ(scan_capacity(environment_with({cpu, gpu, other}, options)), 10);
  options.backend = config::BackendChoice::cpu;
  EXPECT_EQ(scan_capacity(environment_with({cpu, gpu}, options)), 5);
  // A CPU place without a bound counts as the limit of sessions. To HAProxy a maxconn of 0 would mean no bound.
  EXPECT_EQ(scan_capacity(environment_with({{numerics::Backend::cpu, 0, INT64_MAX, 0}}, options)), 10);
}

TEST(HaproxyAgent, FollowsReadiness) {
  const Environment environment = environment_with({{numerics::Backend::cpu, 0, 2, 0}}, {});
  EXPECT_THAT(agent_line(environment), StartsWith("down #"));
  environment.readiness->set_ready();
  EXPECT_EQ(agent_line(environment), "ready up maxconn:2");
  environment.readiness->drain();
  EXPECT_EQ(agent_line(environment), "drain");
  environment.readiness->break_down("GPU 0 #1\nis lost: " + std::string(1000, 'x'));
  EXPECT_THAT(agent_line(environment), StartsWith("down #GPU 0  1 is lost: xxx"));
  EXPECT_LT(agent_line(environment).size(), 120U);
}

TEST(HaproxyAgent, ManySilentConnectionsDoNotStopTheServer) {
  TestServer server(with_agent());
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<HttpClient>(server.agent_port()));
  // Silent connections are closed in time, and then others are answered.
  EXPECT_TRUE(eventually([&] { return ask(server.agent_port()).starts_with("ready up"); }));
  const auto begin = std::chrono::steady_clock::now();
  server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << kMatterOfTime;
}

TEST(HaproxyAgent, ScansAreTakenWhileOthersLearnThatTheServerGoes) {
  config::ServerOptions options = with_agent();
  options.shutdown_delay_s = 4;
  TestServer server(options);
  EXPECT_EQ(ask(server.agent_port()).substr(0, 9), "ready up ");
  server.ask_to_stop();
  EXPECT_TRUE(eventually([&] { return ask(server.agent_port()) == "drain\n"; }));
  EXPECT_EQ(HttpClient(server.admin_port()).get("/readyz")->status, 503);
  EXPECT_TRUE(server.works());
}

TEST(HaproxyAgent, TheDelayEnds) {
  config::ServerOptions options = with_agent();
  options.shutdown_delay_s = 0.2;
  TestServer server(options);
  server.ask_to_stop();
  EXPECT_EQ(server.wait_for_end(), Server::End::asked);
}

TEST(HaproxyAgent, APortThatIsTakenIsAnError) {
  TestServer first(with_agent());
  config::ServerOptions options = with_agent();
  options.admin.agent_port = first.agent_port();
  try {
    const TestServer second(options);
    FAIL() << "two servers answer on one port";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("choose another port with --admin-agent-port"));
  }
}

}  // namespace
}  // namespace echotrain::server
