// The connection to an MRD server that runs elsewhere.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "gadgets/steps/peer.h"

namespace echotrain {

/// Connects to "host:port" or "[address]:port". Throws ResourceError, naming the address and the reason, when that
/// fails within `timeout`; numerics::Stopped when `stop` is set meanwhile.
std::unique_ptr<Peer> connect_to_server(const std::string& address, std::chrono::milliseconds timeout,
                                        const std::stop_token& stop, const PeerScan& scan);

/// True if `address` is a host and a port from 1 to 65535.
bool is_server_address(const std::string& address);

}  // namespace echotrain
