// A connection to an MRD server somewhere else.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "gadgets/steps/peer.h"

namespace echotrain {

/// Connects to "host:port" or "[address]:port". ResourceError, naming the address and the reason, when that does not
/// work within `timeout`; numerics::Stopped when `stop` is set meanwhile.
std::unique_ptr<Peer> connect_to_server(const std::string& address, std::chrono::milliseconds timeout,
                                        const std::stop_token& stop, const PeerScan& scan);

/// Whether `address` is a host and a port from 1 to 65535.
bool is_server_address(const std::string& address);

}  // namespace echotrain
