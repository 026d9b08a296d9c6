// A port serves TCP clients besides those of the scans, such as the admin port's.
#pragma once

#include <boost/asio/ip/tcp.hpp>

namespace echotrain::server {

class ServicePort {
 public:
  virtual ~ServicePort() = default;
  virtual void start() = 0;
  /// Closes everything. Any thread may call this and the other members.
  virtual void stop() = 0;
  virtual const boost::asio::ip::tcp::endpoint& endpoint() const = 0;
};

}  // namespace echotrain::server
