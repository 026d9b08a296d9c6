// Attacks that ask for work, memory and lines of the log before, or just after, a server has let them in.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/support/hostile/attacks.h"

namespace echotrain::hostile {
namespace {

constexpr std::size_t kLongestConfig = 256 << 10;

Buffer config_text(std::string text) {
  Buffer bytes;
  protocol::encode(protocol::ConfigText{std::move(text)}, bytes);
  return bytes;
}

/// A ZFP stream of zeros: its head, and a bit for each 4 x 4 numbers.
std::vector<std::byte> zeros_by_zfp(std::uint64_t samples, std::uint64_t channels) {
  const std::uint64_t nx = 2 * samples, ny = channels;
  const std::uint64_t meta = (((ny - 1) << 24 | (nx - 1)) << 2 | 1) << 2 | 2;  // 2D, float
  constexpr std::uint64_t kPrecision32 = 2048 + 31;
  const std::uint64_t words[2] = {0x0570667A | meta << 32, meta >> 32 | kPrecision32 << 20};
  const std::uint64_t bits = 96 + (nx + 3) / 4 * ((ny + 3) / 4);
  std::vector<std::byte> block((bits + 63) / 64 * 8);
  std::memcpy(block.data(), words, std::min(block.size(), sizeof words));
  return block;
}

}  // namespace

void send_host_json(Peer& peer, Random& random) {
  std::string json = R"({"parameters": {"config": "cartesian_plain")";
  for (int i = number(random, 500, 60000); i > 0; --i) json += fmt::format(R"(, "parameter{}": {})", i, i);
  Buffer bytes = opening("cartesian_plain", "cartesian", {});
  protocol::encode(protocol::Text{json + "}}"}, bytes);
  if (peer.send(bytes)) peer.finish(milliseconds(5000));
}

void send_long_config(Peer& peer, Random& random) {
  std::string text = "echotrain: 1\nname: mine\npipeline: [passthrough]\ndescription: x";
  text.resize(kLongestConfig, '\n');  // an eighth of a second of one core
  if (peer.send(config_text(std::move(text)))) peer.read_for(milliseconds(number(random, 0, 5000)));
}

void send_zfp_bombs(Peer& peer, Random& random) {
  const bool large = number(random, 0, 1) == 0;
  const int samples = large ? 8192 : 128, channels = large ? 1024 : 1000;
  const std::vector<std::byte> block =
      zeros_by_zfp(static_cast<std::uint64_t>(samples), static_cast<std::uint64_t>(channels));
  Buffer readout;
  add(readout, random, {.samples = samples, .coils = channels, .flags = std::uint64_t{1} << 52});
  readout.resize(2 + sizeof(protocol::AcquisitionHeader));
  // The codec writes plain samples, and clears the flag.
  const std::uint64_t flag = std::uint64_t{1} << 52;
  std::memcpy(readout.data() + 4, &flag, sizeof flag);
  const auto length = static_cast<std::uint32_t>(block.size());
  const auto* const begin = reinterpret_cast<const std::byte*>(&length);
  readout.insert(readout.end(), begin, begin + sizeof length);
  readout.insert(readout.end(), block.begin(), block.end());
  bool taken = peer.send(opening("cartesian_plain", "cartesian", {64, 64, 1}));
  for (int i = 0; taken && i < 200; ++i) taken = peer.send(readout);
  if (taken) peer.read_for(milliseconds(1000));
}

void ask_for_matrices(Peer& peer, Random& random) {
  Buffer bytes;
  if (number(random, 0, 1) == 0) protocol::encode(protocol::ConfigFile{"cartesian_plain"}, bytes);
  for (std::uint64_t i = 0; i < 500; ++i) protocol::encode(protocol::Query{i, "echotrain::noise_matrix/1"}, bytes);
  if (peer.send(bytes)) peer.read_for(milliseconds(1000));
}

void flood_log(Peer& peer, Random& random) {
  Buffer bytes;
  for (int i = 0; i < 100; ++i) protocol::encode(protocol::Text{std::string(1000, 'x')}, bytes);
  const Buffer config = config_text(fmt::format("unknown{}: 1", number(random, 0, 1000)));
  bytes.insert(bytes.end(), config.begin(), config.end());
  if (peer.send(bytes)) peer.finish(milliseconds(1000));
}

void hold_memory(Peer& peer, Random& random) {
  Buffer readout;
  add(readout, random, {.samples = 512});
  bool taken = peer.send(opening("cartesian_3d", "cartesian", {512, 256, 32}));
  for (int i = number(random, 5, 40); taken && i > 0; --i)
    taken = peer.send(readout) && peer.read_for(milliseconds(500));
}

}  // namespace echotrain::hostile
