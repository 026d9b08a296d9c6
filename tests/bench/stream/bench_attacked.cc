// Images of a paced scan on the CPU while clients of two other addresses attack the server in every way that
// tests/support/hostile knows, on the same machine: how long after their last readout they come, beside the same scan
// on a server that has nothing else to do.
//
//   bench_attacked [--rounds 5] [--images 300] [--clients 20] [--attacks NAME,NAME...] [--elsewhere 1]
//
// With --elsewhere 1 they attack another server on this machine: what comes of the cores that they and it take alone.
// Attackers run at nice 19: those of a network would take no core of this machine. The table has each round, and the
// medians; it ends with 1 when a scan was lost or the ratio of the medians of p99 is above 3.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/stream/stream_io.h"
#include "tests/bench/stream/stream_paced.h"
#include "tests/bench/stream/stream_scans.h"

namespace echotrain::bench {
namespace {

constexpr int kLines = 64;
constexpr double kRepetitionTime_ms = 1;
constexpr double kMostRatio = 3;
const ScanShape kScan{.pipeline = "cartesian_plain",
                      .matrix = 64,
                      .samples = 128,
                      .channels = 8,
                      .readouts = kLines,
                      .repetitions = 65535};

struct Options {
  int rounds = 5, images = 300;
  bool elsewhere = false;
  std::string clients = "20", attacks;
};

/// hostile_clients from the folder this program is in.
class Attackers {
 public:
  Attackers(std::uint16_t port, const std::string& source, const Options& options) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ > 0) return;
    const std::string program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "hostile_clients").string();
    std::vector<std::string> words = {program,     "--port",        std::to_string(port), "--source", source,
                                      "--clients", options.clients, "--seconds",          "600"};
    if (!options.attacks.empty()) words.insert(words.end(), {"--attacks", options.attacks});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::nice(19) == -1) std::_Exit(1);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::execv(program.c_str(), arguments.data());
    std::_Exit(1);
  }
  ~Attackers() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Attackers(const Attackers&) = delete;
  Attackers& operator=(const Attackers&) = delete;
  bool alive() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  const pid_t pid_;
};

struct Round {
  double median_ms, p99_ms;
};

Round measured(std::uint16_t port, const EncodedScan& scan, int images) {
  const std::vector<double> ms =
      without_first(paced_scan(port, scan, kLines, kLines, images + 1, kRepetitionTime_ms)).client_ms;
  return {quantile(ms, 0.5), quantile(ms, 0.99)};
}

Round attacked(std::uint16_t port, std::uint16_t attacked_port, const EncodedScan& scan, const Options& options) {
  const Attackers one(attacked_port, "127.0.0.2", options), other(attacked_port, "127.0.0.3", options);
  ::sleep(2);
  const Round round = measured(port, scan, options.images);
  if (!one.alive() || !other.alive()) throw std::runtime_error("hostile_clients ended early: is it built?");
  return round;
}

int run(const Options& options) {
  const EncodedScan scan = encode_scan(kScan);
  std::vector<double> quiet_p99, attacked_p99;
  int lost = 0;
  fmt::print("{:>6} {:>12} {:>12} {:>14} {:>14}\n", "round", "quiet p50", "quiet p99", "attacked p50", "attacked p99");
  for (int i = 0; i < options.rounds; ++i) {
    const std::vector<std::string> arguments{"--memory-mib", "1024"};
    const ServerProcess server("cpu", arguments);
    std::optional<ServerProcess> other;
    if (options.elsewhere) other.emplace("cpu", arguments);
    measured(server.port(), scan, 20);
    const Round quiet = measured(server.port(), scan, options.images);
    quiet_p99.push_back(quiet.p99_ms);
    try {
      const Round round = attacked(server.port(), other ? other->port() : server.port(), scan, options);
      attacked_p99.push_back(round.p99_ms);
      fmt::print("{:>6} {:>9.2f} ms {:>9.2f} ms {:>11.2f} ms {:>11.2f} ms\n", i + 1, quiet.median_ms, quiet.p99_ms,
                 round.median_ms, round.p99_ms);
    } catch (const std::exception& error) {
      ++lost;
      fmt::print("{:>6} {:>9.2f} ms {:>9.2f} ms  lost: {}\n", i + 1, quiet.median_ms, quiet.p99_ms, error.what());
    }
    std::fflush(stdout);
  }
  const double ratio = quantile(attacked_p99, 0.5) / quantile(quiet_p99, 0.5);
  fmt::print("median of p99: quiet {:.2f} ms, attacked {:.2f} ms, {:.2f} times; {} of {} scans lost\n",
             quantile(quiet_p99, 0.5), quantile(attacked_p99, 0.5), ratio, lost, options.rounds);
  return lost > 0 || ratio > kMostRatio ? 1 : 0;
}

}  // namespace
}  // namespace echotrain::bench

int main(int count, char** words) try {
  echotrain::bench::Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i], value = words[i + 1];
    if (name == "--rounds") options.rounds = std::stoi(value);
    if (name == "--images") options.images = std::stoi(value);
    if (name == "--clients") options.clients = value;
    if (name == "--attacks") options.attacks = value;
    if (name == "--elsewhere") options.elsewhere = value == "1";
  }
  return echotrain::bench::run(options);
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_attacked: {}\n", error.what());
  return 1;
}
