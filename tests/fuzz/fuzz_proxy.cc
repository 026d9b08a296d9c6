// The target reads what a balancer says before the client's first byte: a client that is named in it, or a reason.
#include "server/net/proxy_header.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  const auto bytes = fuzz::as_bytes(data, size);
  if (bytes.size() < server::kProxyFixedBytes) return 0;
  const auto fixed = bytes.first<server::kProxyFixedBytes>();
  const auto length = server::proxy_rest_bytes(fixed);
  if (!length) {
    fuzz::require(length.error().code == "proxy", "a header is refused with another code");
    for (const char c : length.error().message) fuzz::require(c >= 0x20 && c < 0x7f, "an error is not plain ASCII");
    return 0;
  }
  fuzz::require(*length <= server::kProxyMostBytes, "a header may be longer than it may be");
  if (bytes.size() < server::kProxyFixedBytes + *length) return 0;
  const auto client = server::parse_proxy_header(fixed, bytes.subspan(server::kProxyFixedBytes, *length));
  const bool local = data[12] == 0x20;
  if (client) fuzz::require(client->has_value() != local, "a client is named where none is, or the other way round");
  fuzz::require(client || !local, "what a balancer says for itself is refused");
  return 0;
}
