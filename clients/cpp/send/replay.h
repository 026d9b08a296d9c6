// The command `echotrain replay` sends a captured stream to a server again.
#pragma once

#include <iosfwd>

#include "clients/cpp/send/send.h"

namespace echotrain::client {

/// Sends the messages of the stream file `options.input` unchanged; only queries are left out. A stream without CLOSE
/// is sent without CLOSE, so that the server drops what is incomplete. A `config` replaces the pipeline that the stream
/// asks for. The rest is as in send(); problems with the file's end go to `err`.
int replay(const SendOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
