// Connections that say nothing, of one address, beside those of another.
#include "server/session/listener.h"

#include <gtest/gtest.h>

#include <list>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

/// If each of them waited for a place, a quarter of a second for four of them, the one behind 500 would wait for 31 s;
/// a RawClient waits for 20.
TEST(Listener, OneAddressThatSaysNothingHoldsUpNoOther) {
  config::ServerOptions options;
  options.max_connecting = 4;
  TestServer server(options);
  constexpr std::uint32_t kOther = 9;  // than RawClient's
  std::list<Loopback> crowd;
  for (int i = 0; i < 500; ++i) crowd.emplace_back(server.port(), kOther);
  EXPECT_TRUE(server.works());
}

}  // namespace
}  // namespace echotrain::server
