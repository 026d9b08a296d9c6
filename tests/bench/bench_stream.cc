// How fast readouts pass through the server: a client writes a scan that was encoded beforehand over loopback to a
// server process running `passthrough`, and waits for its CLOSE. Beside it, in the same run, the same bytes copied over
// a plain loopback socket between two threads with 1 MiB buffers, which is the ceiling.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "protocol/codec.h"

namespace {

using namespace echotrain::protocol;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBuffer = 1 << 20;
constexpr int kRounds = 5;

struct Scan {
  int samples, channels, readouts;
};
const std::map<std::string, Scan> kScans = {{"512x16", {512, 16, 4000}}, {"128x2", {128, 2, 100000}}};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

Buffer encode_scan(const Scan& scan) {
  Buffer out;
  encode(ConfigFile{"passthrough"}, out);
  encode(HeaderText{fmt::format(
             "<?xml version=\"1.0\"?><ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions>"
             "<H1resonanceFrequency_Hz>128000000</H1resonanceFrequency_Hz></experimentalConditions><encoding>"
             "<encodedSpace><matrixSize><x>{0}</x><y>256</y><z>1</z></matrixSize><fieldOfView_mm><x>300</x><y>300</"
             "y><z>5</z></fieldOfView_mm>"
             "</encodedSpace><reconSpace><matrixSize><x>{0}</x><y>256</y><z>1</z></matrixSize><fieldOfView_mm><x>300</"
             "x><y>300</y><z>5</z>"
             "</fieldOfView_mm></reconSpace><encodingLimits></encodingLimits><trajectory>cartesian</trajectory></"
             "encoding></ismrmrdHeader>",
             scan.samples)},
         out);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::complex<float>> samples(static_cast<std::size_t>(scan.samples) *
                                           static_cast<std::size_t>(scan.channels));
  for (auto& s : samples) s = {normal(random), normal(random)};
  Acquisition acquisition;
  acquisition.data = Payload::take(samples);
  acquisition.head.version = 1;
  acquisition.head.number_of_samples = static_cast<std::uint16_t>(scan.samples);
  acquisition.head.active_channels = acquisition.head.available_channels = static_cast<std::uint16_t>(scan.channels);
  acquisition.head.center_sample = static_cast<std::uint16_t>(scan.samples / 2);
  for (int i = 0; i < scan.readouts; ++i) {
    acquisition.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i % 256);
    acquisition.head.scan_counter = static_cast<std::uint32_t>(i);
    encode(acquisition, out);
  }
  encode(Close{}, out);
  return out;
}

const Buffer& encoded(const std::string& name) {
  static std::map<std::string, Buffer> scans;
  Buffer& buffer = scans[name];
  if (buffer.empty()) buffer = encode_scan(kScans.at(name));
  return buffer;
}

void write_all(int fd, const Buffer& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(fd, bytes.data() + at, std::min(kBuffer, bytes.size() - at), MSG_NOSIGNAL);
    if (n <= 0) fail("send");
    at += static_cast<std::size_t>(n);
  }
}

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

/// Reads until the peer closes; the number of bytes.
std::size_t read_all(int fd) {
  std::vector<std::byte> buffer(kBuffer);
  std::size_t total = 0;
  for (ssize_t n = 0; (n = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) total += static_cast<std::size_t>(n);
  return total;
}

double plain_copy_seconds(const Buffer& bytes) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener, 1) != 0)
    fail("listen");
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::size_t received = 0;
  std::thread receiver([&] {
    const int fd = ::accept(listener, nullptr, nullptr);
    received = read_all(fd);
    ::close(fd);
  });
  const int fd = connect_to(ntohs(address.sin_port));
  const auto start = Clock::now();
  write_all(fd, bytes);
  ::shutdown(fd, SHUT_WR);
  receiver.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ::close(fd);
  ::close(listener);
  if (received != bytes.size()) throw std::runtime_error("the plain copy lost bytes");
  return seconds;
}

/// A server process from the folder this program is in, on a free loopback port.
class ServerProcess {
 public:
  ServerProcess() {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "echotrain-server";
    int out[2];
    if (::pipe(out) != 0) fail("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]);
      ::execl(program.c_str(), program.c_str(), "--port", "0", "--backend", "cpu", "--log-level", "error", nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    FILE* lines = ::fdopen(out[0], "r");
    char line[256];
    while (std::fgets(line, sizeof line, lines) != nullptr) {
      const std::string text = line;
      if (text.starts_with("listening on ")) {
        port_ = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1)));
        return;
      }
    }
    throw std::runtime_error("echotrain-server did not start: " + program.string());
  }
  ~ServerProcess() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  std::uint16_t port() const { return port_; }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

double passthrough_seconds(const ServerProcess& server, const Buffer& bytes) {
  const int fd = connect_to(server.port());
  const auto start = Clock::now();
  write_all(fd, bytes);
  ::shutdown(fd, SHUT_WR);
  const std::size_t answer = read_all(fd);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ::close(fd);
  if (answer < 2) throw std::runtime_error("the server gave no CLOSE");
  return seconds;
}

std::map<std::string, double> best;  // case -> seconds

void run_case(benchmark::State& state, const std::string& name, const std::string& scan, double seconds) {
  state.SetIterationTime(seconds);
  const auto& shape = kScans.at(scan);
  state.counters["readouts_per_s"] = shape.readouts / seconds;
  state.counters["bytes_per_s"] = static_cast<double>(encoded(scan).size()) / seconds;
  auto [it, fresh] = best.try_emplace(name, seconds);
  it->second = std::min(it->second, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const ServerProcess server;
  for (const auto& [scan, shape] : kScans) {
    passthrough_seconds(server, encoded(scan));  // warm-up: connections, slabs, page tables
    const auto add = [&](const std::string& name, auto seconds) {
      benchmark::RegisterBenchmark(name.c_str(),
                                   [name, scan = scan, seconds](benchmark::State& state) {
                                     for (auto _ : state) run_case(state, name, scan, seconds(encoded(scan)));
                                   })
          ->UseManualTime()
          ->Iterations(1)
          ->Repetitions(kRounds)
          ->Unit(benchmark::kMillisecond);
    };
    add("plain_copy/" + scan, plain_copy_seconds);
    add("passthrough/" + scan, [&server](const Buffer& bytes) { return passthrough_seconds(server, bytes); });
  }
  benchmark::RunSpecifiedBenchmarks();

  fmt::print("\nbest of {}\n{:<12}{:>14}{:>16}{:>16}{:>10}\n", kRounds, "scan", "readouts/s", "server MB/s",
             "copy MB/s", "ratio");
  for (const auto& [scan, shape] : kScans) {
    const auto mine = best.find("passthrough/" + scan), plain = best.find("plain_copy/" + scan);
    if (mine == best.end() || plain == best.end()) continue;  // filtered out
    const double bytes = static_cast<double>(encoded(scan).size());
    fmt::print("{:<12}{:>14.0f}{:>16.0f}{:>16.0f}{:>10.2f}\n", scan, shape.readouts / mine->second,
               bytes / mine->second / 1e6, bytes / plain->second / 1e6, plain->second / mine->second);
  }
  return 0;
}
