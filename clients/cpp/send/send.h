// The command `echotrain send` streams a file to a server and writes what comes back.
#pragma once

#include <iosfwd>

#include "clients/cpp/connection/scan_source.h"
#include "clients/cpp/send/send_options.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

/// Sends and receives at the same time. Every image that arrives is in the output file, whatever happens afterwards.
/// Texts of the server go to `err`, the summary to `out`. Returns 0, or 1 when the server reported an error or the scan
/// did not end well (`err` says how). Throws when it could not begin.
int send(const SendOptions& options, std::ostream& out, std::ostream& err);

/// Sends a scan, as send() does once it has one: `opening` goes first, then `source`.
int send_scan(const SendOptions& options, protocol::Buffer opening, ScanSource& source, std::ostream& out,
              std::ostream& err);

}  // namespace echotrain::client
