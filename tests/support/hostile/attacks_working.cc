// Attacks that make the server work, and the list of all.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/support/hostile/attacks.h"

namespace echotrain::hostile {
namespace {

constexpr std::uint64_t kNavigator = 1 << 22;
constexpr milliseconds kResult{60000};  // how long a client waits for its images

void close_and_wait(Buffer& bytes, Peer& peer) {
  protocol::encode(protocol::Close{}, bytes);
  if (peer.send(bytes)) peer.finish(kResult);
}

/// A scan of 1.1 MB that a good client could send, the same for all.
const Buffer& good_scan() {
  static const Buffer scan = [] {
    Random random(1);
    return cartesian(random, "cartesian_plain", {64, 64, 1}, 8, 4);
  }();
  return scan;
}

}  // namespace

void open_frames(Peer& peer, Random& random) {
  Buffer bytes = opening("cartesian_plain", "cartesian", {1, 4, 1});
  const int count = number(random, 2000, 40000);
  for (int i = 0; i < count; ++i) add(bytes, random, {.samples = 1, .slice = i % 256, .contrast = i / 256});
  close_and_wait(bytes, peer);
}

void cut_batches(Peer& peer, Random& random) {
  const bool flat = number(random, 0, 1) == 0;
  Buffer bytes = opening("cartesian_3d", "cartesian", flat ? Matrix{1, 4096, 4096} : Matrix{2, 2048, 2048});
  for (int i = 0; i < 1000; ++i) {
    add(bytes, random, {.samples = flat ? 1 : 2, .step1 = i % 2048, .step2 = i / 2048});
    add(bytes, random, {.samples = flat ? 1 : 2, .flags = kNavigator});
  }
  close_and_wait(bytes, peer);
}

void send_odd_values(Peer& peer, Random& random) {
  constexpr std::array<float, 3> kSizes = {1e30F, 1e38F, 1e-42F};
  const float size = kSizes.at(static_cast<std::size_t>(number(random, 0, 2)));
  const char* pipeline = number(random, 0, 1) == 0 ? "cartesian_plain" : "cartesian_display";
  if (peer.send(cartesian(random, pipeline, {32, 32, 1}, 2, 4, size))) peer.finish(kResult);
}

void new_trajectory(Peer& peer, Random& random) {
  const int matrix = 8 * number(random, 4, 8);
  Buffer bytes = least_squares_opening({matrix, matrix, matrix});
  add_scattered(bytes, random, 64, number(random, 1, 4));
  if (peer.send(bytes)) peer.finish(kResult);
}

void abandon(Peer& peer, Random& random) {
  const int matrix = 32 * number(random, 2, 6);
  Buffer bytes = opening("fhd_pcg_3d", "other", {matrix, matrix, matrix});
  add_scattered(bytes, random, 256, 1);
  if (peer.send(bytes)) peer.read_for(milliseconds(number(random, 100, 5000)));
}

void flood_with_roles(Peer& peer, Random& random) {
  Buffer bytes = opening("cartesian_plain", "cartesian", {});
  const int count = number(random, 1000, 20000);
  for (int i = 0; i < count; ++i) add_image(bytes, fmt::format("role{}", i), 1, 1);
  close_and_wait(bytes, peer);
}

void reset_anywhere(Peer& peer, Random& random) {
  const Buffer& scan = good_scan();
  const auto size = static_cast<std::size_t>(number(random, 0, static_cast<int>(scan.size())));
  peer.send({scan.data(), size});
}

void send_garbage(Peer& peer, Random& random) {
  Buffer bytes;
  if (number(random, 0, 1) == 0) {
    bytes.resize(static_cast<std::size_t>(number(random, 1, 1 << 16)));
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  } else {
    bytes = good_scan();
    const int most = static_cast<int>(bytes.size()) - 1;
    for (int i = number(random, 1, 64); i > 0; --i)
      bytes[static_cast<std::size_t>(number(random, 0, most))] ^= static_cast<std::byte>(1 << number(random, 0, 7));
  }
  if (peer.send(bytes)) peer.finish(milliseconds(10000));
}

std::span<const Attack> attacks() {
  static constexpr std::array<Attack, 21> kAttacks = {{{"queries", query_for_ever},
                                                       {"texts", text_for_ever},
                                                       {"huge_headers", send_huge_header},
                                                       {"huge_matrix", claim_huge_matrix},
                                                       {"silence", be_silent},
                                                       {"dripping", drip},
                                                       {"no_reading", never_read},
                                                       {"open_frames", open_frames},
                                                       {"navigators", cut_batches},
                                                       {"odd_values", send_odd_values},
                                                       {"new_trajectories", new_trajectory},
                                                       {"abandoned", abandon},
                                                       {"roles", flood_with_roles},
                                                       {"resets", reset_anywhere},
                                                       {"garbage", send_garbage},
                                                       {"host_json", send_host_json},
                                                       {"long_configs", send_long_config},
                                                       {"zfp_bombs", send_zfp_bombs},
                                                       {"matrices", ask_for_matrices},
                                                       {"log_flood", flood_log},
                                                       {"held_memory", hold_memory}}};
  return kAttacks;
}

}  // namespace echotrain::hostile
