// ClientError tells that the sender, not the server, is at fault when a scan cannot go on.
#pragma once

#include <stdexcept>

#include "gadgets/numerics/core/numerics_errors.h"

namespace echotrain {

/// The sender's fault: wrong data for this pipeline. Ends the session; the text goes to the client.
class ClientError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
using numerics::ResourceError;

}  // namespace echotrain
