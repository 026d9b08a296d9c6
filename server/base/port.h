// A port of the server besides that of the scans.
#pragma once

#include <boost/asio/ip/tcp.hpp>

namespace echotrain::server {

class Port {
 public:
  virtual ~Port() = default;
  virtual void start() = 0;
  /// Closes everything. From any thread, as are the others.
  virtual void stop() = 0;
  virtual const boost::asio::ip::tcp::endpoint& endpoint() const = 0;
};

}  // namespace echotrain::server
