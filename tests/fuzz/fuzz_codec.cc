// Bytes in any pieces through the MessageBuffer: the pieces never show in what comes out, and what was decoded encodes
// to bytes that decode to the same again.
#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "protocol/files/stream_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/stream_mutator.h"

namespace echotrain::fuzz {
namespace {

using protocol::Buffer;

struct Outcome {
  std::vector<Buffer> messages;  // encoded again
  std::string error;
  std::size_t pending = 0;
};

// The same messages, and the same end. While a message's length is unknown, an error may show only when its fixed part
// is whole, so a message that is cut off may be refused in one case and waited for in the other.
bool agree(const Outcome& a, const Outcome& b) {
  if (a.messages != b.messages) return false;
  if (a.error.empty() == b.error.empty()) return a.error == b.error && a.pending == b.pending;
  return a.pending > 0 || b.pending > 0;
}

Buffer encoded(const protocol::Message& message) {
  Buffer bytes;
  std::visit([&bytes](const auto& content) { protocol::encode(content, bytes); }, message);
  return bytes;
}

template <class PieceSize>
Outcome receive(std::span<const std::byte> bytes, const protocol::Limits& limits, std::size_t slab, PieceSize piece) {
  Outcome outcome;
  protocol::MessageBuffer buffer(limits, slab);
  std::vector<protocol::Message> held;  // keeps slabs from being used again
  while (!bytes.empty() && outcome.error.empty()) {
    const auto room = buffer.prepare();
    const std::size_t n = std::min({room.size(), bytes.size(), piece()});
    std::copy_n(bytes.begin(), n, room.begin());
    buffer.commit(n);
    bytes = bytes.subspan(n);
    while (true) {
      auto message = buffer.next();
      if (!message) {
        outcome.error = message.error().code + ": " + message.error().message;
        const auto again = buffer.next();
        require(!again && again.error().message == message.error().message, "a refused stream goes on");
        break;
      }
      if (!*message) break;
      outcome.messages.push_back(encoded(**message));
      held.push_back(std::move(**message));
    }
  }
  for (std::size_t i = 0; i < held.size(); ++i)
    require(encoded(held[i]) == outcome.messages[i], "a message changed while it was held");
  // The number of pending bytes after a refusal depends on the pieces.
  if (outcome.error.empty()) outcome.pending = buffer.pending_bytes();
  return outcome;
}

void check_round_trip(const Buffer& bytes) {
  protocol::Limits limits;
  limits.response_bytes = limits.text_bytes;
  const auto owner = std::make_shared<const Buffer>(bytes);
  const auto message = protocol::decode(*owner, owner, limits);
  require(static_cast<bool>(message), "an encoded message does not decode");
  require(encoded(*message) == bytes, "an encoded message decodes to another one");
}

}  // namespace
}  // namespace echotrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain::fuzz;
  const auto bytes = as_bytes(data, size);
  std::minstd_rand random(static_cast<unsigned>(size) * 2654435761u + (size > 0 ? data[size / 2] : 0u));
  // Default limits with every other size: a claimed length must not be believed (the fuzzer limits one allocation).
  echotrain::protocol::Limits limits = size % 2 == 0 ? small_limits() : echotrain::protocol::Limits{};
  limits.response_bytes = 4096;
  const Outcome whole = receive(bytes, limits, 1 << 16, [] { return std::size_t{1} << 20; });
  const std::size_t most = std::size_t{1} << random() % 12;
  const Outcome parts = receive(bytes, limits, 64u << random() % 8, [&] { return 1 + random() % most; });
  require(agree(whole, parts), "the pieces in which a stream comes change what it says");
  for (const auto& message : whole.messages) check_round_trip(message);
  return 0;
}
