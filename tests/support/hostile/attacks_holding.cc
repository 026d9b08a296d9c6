// Attacks that hold places, memory and descriptors without using them.
#include <cstring>

#include "tests/support/hostile/attacks.h"

namespace echotrain::hostile {
namespace {

constexpr std::size_t kMib = 1 << 20;

milliseconds hold(Random& random) { return milliseconds(number(random, 2000, 20000)); }

/// A message of `id` that claims `claimed` bytes of text and has `sent` of them.
Buffer claiming(protocol::MessageId id, std::uint32_t claimed, std::size_t sent) {
  Buffer bytes(6 + sent, std::byte{'x'});
  const auto name = static_cast<std::uint16_t>(id);
  std::memcpy(bytes.data(), &name, sizeof name);
  std::memcpy(bytes.data() + 2, &claimed, sizeof claimed);
  return bytes;
}

}  // namespace

void query_for_ever(Peer& peer, Random&) {
  Buffer query;
  protocol::encode(protocol::Query{1, "ismrmrd::version"}, query);
  while (peer.send(query) && peer.read_for(milliseconds(1500))) {
  }
}

void text_for_ever(Peer& peer, Random& random) {
  Buffer text;
  protocol::encode(protocol::Text{""}, text);
  bool talking = peer.send(opening("cartesian_plain", "cartesian", {}));
  for (int i = number(random, 2, 20); talking && i > 0; --i)
    talking = peer.send(text) && peer.read_for(milliseconds(1000));
}

void send_huge_header(Peer& peer, Random& random) {
  Buffer bytes;
  switch (number(random, 0, 3)) {
    case 0:
      bytes = opening("cartesian_plain", "cartesian", {}, kMib);
      break;
    case 1:
      bytes = opening("cartesian_plain", "cartesian", {}, kMib + 1);
      break;
    default:
      protocol::encode(protocol::ConfigFile{"radial_2d"}, bytes);
      const std::uint32_t claimed = number(random, 0, 1) == 0 ? 16 * kMib : 0xFFFFFFFF;
      const Buffer header = claiming(protocol::MessageId::header, claimed, 2 * kMib);
      bytes.insert(bytes.end(), header.begin(), header.end());
  }
  if (peer.send(bytes)) peer.read_for(hold(random));
}

void claim_huge_matrix(Peer& peer, Random& random) {
  Buffer bytes = opening("cartesian_3d", "cartesian", {512, 512, 255});
  add(bytes, random, {.samples = 512});
  if (peer.send(bytes)) peer.read_for(hold(random));
}

void be_silent(Peer& peer, Random& random) {
  Buffer bytes = opening("radial_2d", "radial", {64, 64, 1});
  bytes.resize(static_cast<std::size_t>(number(random, 0, static_cast<int>(bytes.size()))));
  if (peer.send(bytes)) peer.read_for(hold(random));
}

void drip(Peer& peer, Random& random) {
  const Buffer bytes = cartesian(random, "cartesian_plain", {16, 16, 1}, 2, 2);
  auto at = static_cast<std::size_t>(number(random, 0, static_cast<int>(bytes.size())));
  const auto end = Clock::now() + hold(random);
  const milliseconds pause(number(random, 5, 200));
  bool taken = peer.send({bytes.data(), at});
  for (; taken && at < bytes.size() && Clock::now() < end; ++at)
    taken = peer.send({&bytes[at], 1}) && peer.read_for(pause);
}

void never_read(Peer& peer, Random& random) {
  constexpr milliseconds kPatience{5000};
  Buffer bytes, again;
  if (number(random, 0, 1) == 0) {
    for (int i = 0; i < 2000; ++i)
      protocol::encode(protocol::Query{static_cast<std::uint64_t>(i), "ismrmrd::version"}, again);
  } else {
    bytes = opening("passthrough", "cartesian", {});
    for (int i = 0; i < 8; ++i) add_image(again, "echo", 256, 256);
  }
  bool taken = peer.send_only(bytes, kPatience);
  for (int i = 0; taken && i < 50; ++i) taken = peer.send_only(again, kPatience);
  peer.wait(hold(random));
}

}  // namespace echotrain::hostile
