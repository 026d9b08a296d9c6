// `echotrain replay`: sends a captured stream to a server again.
#pragma once

#include <iosfwd>

#include "clients/cpp/send/send.h"

namespace echotrain::client {

/// Sends what the stream file `options.input` holds, message by message as it was sent then; only queries are left out.
/// A stream that ends before its CLOSE ends without it here too, so that the server drops what is not whole. With a
/// `config` that pipeline is asked for, in place of what the stream asks for. The rest is as in send(); what is wrong
/// with the file's end goes to `err`.
int replay(const SendOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
