// Clients that attack a server, for tests of what its other clients notice:
//
//   hostile_clients --port N [--address 127.0.0.1] [--source 127.0.0.2] [--clients 200] [--seconds 300] [--seed 1]
//                   [--attacks NAME,NAME...]
//
// Each client chooses an attack (attacks.h; all by default), makes a connection for it, pauses for 20 to 120 ms, and
// chooses again. At the end, or on SIGTERM, it prints what each attack has done and heard, as JSON. The seed fixes what
// each client chooses.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/hostile/attacks.h"

namespace echotrain::hostile {
namespace {

std::atomic<bool> stop = false;

struct HostileOptions {
  std::string address = "127.0.0.1", source = "127.0.0.2", attacks;
  int port = 0, clients = 200, seed = 1;
  double seconds = 300;
};

HostileOptions read_options(int argc, char** argv) {
  HostileOptions o;
  const std::map<std::string_view, std::string*> texts = {
      {"--address", &o.address}, {"--source", &o.source}, {"--attacks", &o.attacks}};
  const std::map<std::string_view, int*> numbers = {
      {"--port", &o.port}, {"--clients", &o.clients}, {"--seed", &o.seed}};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(fmt::format("{} needs a value", name));
    if (texts.contains(name))
      *texts.at(name) = argv[i + 1];
    else if (numbers.contains(name))
      *numbers.at(name) = std::stoi(argv[i + 1]);
    else if (name == "--seconds")
      o.seconds = std::stod(argv[i + 1]);
    else
      throw std::invalid_argument(fmt::format("there is no option '{}'", name));
  }
  if (o.port < 1 || o.port > 65535) throw std::invalid_argument("--port must be from 1 to 65535");
  return o;
}

sockaddr_in ip_address(const std::string& text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
    throw std::invalid_argument(fmt::format("'{}' is no IPv4 address", text));
  return address;
}

std::vector<Attack> chosen(const std::string& names) {
  std::vector<Attack> found;
  for (const Attack& attack : attacks())
    if (names.empty() || fmt::format(",{},", names).find(fmt::format(",{},", attack.name)) != std::string::npos)
      found.push_back(attack);
  if (found.empty()) throw std::invalid_argument(fmt::format("there is no attack '{}'", names));
  return found;
}

void attack_until_the_end(const Target& target, const std::vector<Attack>& choice, std::vector<Counts>& counts,
                          Random random) {
  while (!stop && Clock::now() < target.end) {
    const auto which = static_cast<std::size_t>(number(random, 0, static_cast<int>(choice.size()) - 1));
    {
      Peer peer(target, counts[which]);
      choice[which].run(peer, random);
    }
    std::this_thread::sleep_for(milliseconds(number(random, 20, 120)));
  }
}

void print(const std::vector<Attack>& choice, const std::vector<Counts>& counts) {
  fmt::print("{{");
  for (std::size_t i = 0; i < choice.size(); ++i)
    fmt::print(
        "{}\n  \"{}\": {{\"connections\": {}, \"unreachable\": {}, \"refused\": {}, \"errors\": {}, \"sent_bytes\": "
        "{}, "
        "\"received_bytes\": {}}}",
        i == 0 ? "" : ",", choice[i].name, counts[i].connections.load(), counts[i].unreachable.load(),
        counts[i].refused.load(), counts[i].errors.load(), counts[i].sent.load(), counts[i].received.load());
  fmt::print("\n}}\n");
}

void run(const HostileOptions& o) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(o.seconds));
  const Target target{ip_address(o.source, 0), ip_address(o.address, o.port), end, &stop};
  const std::vector<Attack> choice = chosen(o.attacks);
  std::vector<Counts> counts(choice.size());
  std::vector<std::thread> clients;
  for (int i = 0; i < o.clients; ++i)
    clients.emplace_back(
        [&, random = Random(static_cast<std::uint64_t>(o.seed) << 32 | static_cast<std::uint64_t>(i))] {
          attack_until_the_end(target, choice, counts, random);
        });
  for (std::thread& client : clients) client.join();
  print(choice, counts);
}

}  // namespace
}  // namespace echotrain::hostile

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { echotrain::hostile::stop = true; });
  try {
    echotrain::hostile::run(echotrain::hostile::read_options(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hostile_clients: {}\n", error.what());
    return 2;
  }
}
