// The bench measures what viewers of the live page cost a scan, and how many images reach one of them: viewers as
// browsers are, each with the stream of events and a connection on which it asks for the newest image, one after
// another.
//
//   bench_live [--backend cpu|cuda] [--viewers 20] [--rounds 5] [--frames 600]
//
// First a radial real-time scan (256 x 256, 16 coils, 67 images/s) by turns without viewers and with them, in rounds of
// one server; then one viewer of images of 512 x 512 at 30 images/s and more. Client, viewers and server share a
// machine.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/stream/stream_io.h"
#include "tests/bench/stream/stream_paced.h"
#include "tests/bench/stream/stream_scans.h"

namespace echotrain::bench {
namespace {

struct Options {
  std::string backend = "cpu";
  int viewers = 20, rounds = 5, frames = 600;
};

std::uint64_t number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  return at == std::string_view::npos ? 0 : std::strtoull(text.data() + at + name.size(), nullptr, 10);
}

void ask(Connection& connection, const std::string& path) {
  const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
  connection.write(reinterpret_cast<const std::byte*>(request.data()), request.size());
}

/// One that looks, from begin to end of this.
class Looker {
 public:
  explicit Looker(std::uint16_t port) : events_(port), images_(port) {
    ask(events_, "/live/events");
    hearing_ = std::thread([this] { hear(); });
    fetching_ = std::thread([this] { fetch(); });
  }
  ~Looker() {
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
    }
    told_.notify_all();
    events_.cut();
    images_.cut();
    hearing_.join();
    fetching_.join();
  }
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

  std::uint64_t images() const { return got_; }     ///< that came, each another one
  std::uint64_t reduced() const { return small_; }  ///< of them, made smaller for a slow link
  std::uint64_t bytes() const { return bytes_; }
  bool ready() const { return viewer_ != 0; }

 private:
  void hear() {
    std::string text;
    std::vector<std::byte> room(64 << 10);
    while (const std::size_t n = read(events_, room)) {
      text.append(reinterpret_cast<const char*>(room.data()), n);
      for (std::size_t end; (end = text.find("\n\n")) != std::string::npos; text.erase(0, end + 2)) {
        const std::string_view event(text.data(), end);
        if (const std::uint64_t viewer = number_after(event, "{\"viewer\":"); viewer != 0) viewer_ = viewer;
        if (event.find("event: image") == std::string_view::npos) continue;
        const std::scoped_lock lock(mutex_);
        scan_ = number_after(event, "\"scan\":");
        wanted_ = number_after(event, "\"image\":");
        told_.notify_all();
      }
    }
  }

  void fetch() {
    std::string answer;
    std::vector<std::byte> room(1 << 20);
    for (std::uint64_t last = 0;;) {
      std::uint64_t scan = 0;
      {
        std::unique_lock lock(mutex_);
        told_.wait(lock, [&] { return ending_ || wanted_ > last; });
        if (ending_) return;
        scan = scan_;
      }
      try {
        ask(images_, fmt::format("/live/image?scan={}&z=0&channel=0&phase=0&viewer={}", scan, viewer_.load()));
      } catch (const std::runtime_error&) {
        return;
      }
      answer.clear();
      std::size_t body = 0, length = 0;
      while (body == 0 || answer.size() < body + length) {
        const std::size_t n = read(images_, room);
        if (n == 0) return;
        answer.append(reinterpret_cast<const char*>(room.data()), n);
        if (body != 0) continue;
        const std::size_t end = answer.find("\r\n\r\n");
        if (end == std::string::npos) continue;
        body = end + 4;
        length = number_after(answer, "Content-Length: ");
      }
      bytes_ += answer.size();
      if (!answer.starts_with("HTTP/1.1 200")) continue;
      const std::string_view head = std::string_view(answer).substr(body + 4, 2048);
      const std::uint64_t number = number_after(head, "\"number\":");
      if (number > last) ++got_;
      if (number_after(head, "\"shrink\":") > 1) ++small_;
      last = std::max(last, number);
    }
  }

  static std::size_t read(Connection& connection, std::vector<std::byte>& room) {
    try {
      return connection.read(room.data(), room.size());
    } catch (const std::runtime_error&) {
      return 0;
    }
  }

  Connection events_, images_;
  std::atomic<std::uint64_t> viewer_ = 0, got_ = 0, small_ = 0, bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable told_;
  std::uint64_t scan_ = 0, wanted_ = 0;
  bool ending_ = false;
  std::thread hearing_, fetching_;
};

std::vector<std::unique_ptr<Looker>> lookers(std::uint16_t port, int count) {
  std::vector<std::unique_ptr<Looker>> all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<Looker>(port));
  const auto until = Clock::now() + std::chrono::seconds(5);
  for (const auto& one : all)
    while (!one->ready()) {
      if (Clock::now() > until) throw std::runtime_error("a viewer was not let in within 5 s");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  return all;
}

constexpr int kWindow = 55, kStride = 5;  // of radial_realtime
constexpr double kTr_ms = 3;

void add(std::vector<double>& to, const std::vector<double>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

/// A scan without viewers and one with them, again and again: what comes first changes from round to round.
void compare(const ServerProcess& server, const Options& options) {
  const EncodedScan scan = encode_scan({.pipeline = "radial_realtime", .radial = true, .readouts = 610});
  const auto run = [&](int frames) { return paced_scan(server.port(), scan, kWindow, kStride, frames, kTr_ms); };
  run(40);  // plans, caches
  struct Side {
    std::vector<double> client, server, p99s, server_p99s;
    double cpu_s = 0, seconds = 0;
  } alone, watched;
  std::uint64_t images = 0, small = 0, bytes = 0;
  for (int round = 0; round < options.rounds; ++round)
    for (const bool with : {round % 2 == 1, round % 2 == 0}) {
      Side& side = with ? watched : alone;
      const auto viewers = lookers(server.admin_port(), with ? options.viewers : 0);
      const double cpu = server.cpu_seconds();
      const auto begin = Clock::now();
      const PacedTimes times = run(options.frames);
      side.seconds += seconds_since(begin);
      side.cpu_s += server.cpu_seconds() - cpu;
      add(side.client, times.client_ms);
      add(side.server, times.server_ms);
      side.p99s.push_back(quantile(times.client_ms, 0.99));
      fmt::print("  round {}, {} viewers: median {:.3f} ms, p99 {:.3f}\n", round + 1, viewers.size(),
                 quantile(times.client_ms, 0.5), side.p99s.back());
      side.server_p99s.push_back(quantile(times.server_ms, 0.99));
      for (const auto& one : viewers) {
        images += one->images();
        small += one->reduced();
        bytes += one->bytes();
      }
    }
  fmt::print(
      "radial_realtime, 256 x 256, 16 coils, an image each {:g} ms, {} rounds of {} images by turns, backend {}\n",
      kStride * kTr_ms, options.rounds, options.frames, options.backend);
  const auto tell = [&](const char* name, const Side& side) {
    fmt::print(
        "  {:<12} at the client: median {:.3f} ms, p99 {:.3f} (of rounds: {:.3f}); in the server: median {:.3f}, "
        "p99 {:.3f} (of rounds: {:.3f}); {:.2f} cores\n",
        name, quantile(side.client, 0.5), quantile(side.client, 0.99), quantile(side.p99s, 0.5),
        quantile(side.server, 0.5), quantile(side.server, 0.99), quantile(side.server_p99s, 0.5),
        side.cpu_s / side.seconds);
  };
  tell("alone", alone);
  tell(fmt::format("{} viewers", options.viewers).c_str(), watched);
  const auto ratio = [](const std::vector<double>& a, const std::vector<double>& b) {
    return 100 * (quantile(b, 0.99) / quantile(a, 0.99) - 1);
  };
  fmt::print(
      "  p99 with viewers: {:+.1f} % at the client, {:+.1f} % in the server; a viewer got {:.1f} images/s ({:.0f} % "
      "made "
      "smaller), all {:.0f} MB/s\n",
      ratio(alone.client, watched.client), ratio(alone.server, watched.server),
      static_cast<double>(images) / options.viewers / watched.seconds,
      images > 0 ? 100.0 * static_cast<double>(small) / static_cast<double>(images) : 0,
      static_cast<double>(bytes) / watched.seconds / 1e6);
}

void large(const ServerProcess& server, const Options& options) {
  const EncodedScan scan = encode_scan(
      {.pipeline = "radial_realtime", .radial = true, .matrix = 512, .samples = 1024, .channels = 8, .readouts = 610});
  for (const double tr_ms : {6.6, 3.0}) {
    const auto run = [&](int frames) { return paced_scan(server.port(), scan, kWindow, kStride, frames, tr_ms); };
    run(20);
    const auto viewers = lookers(server.admin_port(), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::uint64_t before = viewers[0]->images();  // the last one of the scan before
    const int frames = std::max(30, options.frames / 3);
    const auto begin = Clock::now();
    const PacedTimes times = run(frames);
    const double seconds = seconds_since(begin) - kWindow * tr_ms / 1e3;  // from the first image on
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    fmt::print(
        "512 x 512, 8 coils, {:.1f} images/s made: {} of {} images came to a viewer, {:.1f}/s, {} of them made "
        "smaller; median delay of the scan {:.2f} ms\n",
        1e3 / (kStride * tr_ms), viewers[0]->images() - before, frames,
        static_cast<double>(viewers[0]->images() - before) / seconds, viewers[0]->reduced(),
        quantile(times.client_ms, 0.5));
  }
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--backend")
      options.backend = value;
    else if (name == "--viewers")
      options.viewers = std::stoi(value);
    else if (name == "--rounds")
      options.rounds = std::stoi(value);
    else if (name == "--frames")
      options.frames = std::stoi(value);
    else
      throw std::invalid_argument("unknown option " + name);
  }
  if (argc % 2 == 0) throw std::invalid_argument("an option has no value");
  if (options.viewers < 1 || options.rounds < 1 || options.frames < 2)
    throw std::invalid_argument("--viewers and --rounds take 1 and more, --frames 2 and more");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line as it is known
  const auto begin = Clock::now();
  // Places of those that have gone are free a moment later.
  const ServerProcess server(options.backend,
                             {"--admin-port", "0", "--admin-viewers", std::to_string(2 * options.viewers + 1)});
  if (server.admin_port() == 0) throw std::runtime_error("the server has no admin port");
  fmt::print("the server is there after {:.1f} s\n", seconds_since(begin));
  compare(server, options);
  large(server, options);
  return 0;
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) {
  try {
    return echotrain::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_live: {}\n", error.what());
    return 1;
  }
}
