// Connections that say nothing, of one address, beside those of another.
#include "server/session/listener.h"

#include <gtest/gtest.h>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

/// Connected from another address than RawClient is, until this ends.
class Silent {
 public:
  explicit Silent(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);
    ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Silent() { ::close(fd_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

 private:
  const int fd_;
};

/// If each of them waited for a place, a quarter of a second for four of them, the one behind 500 would wait for 31 s;
/// a RawClient waits for 20.
TEST(Listener, OneAddressThatSaysNothingHoldsUpNoOther) {
  config::ServerOptions options;
  options.max_connecting = 4;
  TestServer server(options);
  std::list<Silent> crowd;
  for (int i = 0; i < 500; ++i) crowd.emplace_back(server.port());
  EXPECT_TRUE(server.works());
}

}  // namespace
}  // namespace echotrain::server
