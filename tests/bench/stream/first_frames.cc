#include "tests/bench/stream/first_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/connection/scan_source.h"
#include "clients/cpp/images/image_report.h"
#include "clients/cpp/simulate/simulate.h"
#include "tests/bench/stream/stream_io.h"

namespace echotrain::bench {
namespace {

using client::CounterKey;
using client::SimulateOptions;

constexpr std::chrono::milliseconds kBetweenReadouts{1};

SimulateOptions draw(const std::string& name, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto even = [&](int least, int most) {
    return 2 * std::uniform_int_distribution<int>(least / 2, most / 2)(random);
  };
  SimulateOptions o;
  o.seed = random() >> 1;
  o.noise = 0.02;
  o.frames = 2;
  o.trajectory = std::string("cartesian");
  o.coils = even(14, 16);
  if (name == "epi") {
    o.trajectory = std::string("epi");
    o.epi.ramp_us = 100;
    o.coils = even(4, 16);
    o.matrix = even(72, 136);
  } else if (name == "plain") {
    o.coils = even(4, 16);
    o.matrix = even(144, 256);
    o.oversampling = 2;
  } else if (name == "cg_sense") {
    o.trajectory = std::string("golden_radial");
    o.coils = 12;
    o.readouts = 25;
    o.matrix = even(112, 144);
  } else {
    o.matrix = even(144, 208);
    o.undersampling.acceleration = std::string("3");
    o.undersampling.calibration = name == "grappa" ? 48 : 24;
    if (name == "grappa") o.oversampling = 2;
  }
  return o;
}

/// Messages as they go over the wire, and where each imaging readout ends.
struct Bytes {
  protocol::Buffer all;
  std::size_t begin = 0;  // of the first readout
  std::vector<client::ScanChunk::Piece> readouts;
};

Bytes read_scan(const std::filesystem::path& file, const std::string& pipeline) {
  client::DatasetSource source(file, "dataset");
  Bytes scan;
  protocol::encode(protocol::ConfigFile{pipeline}, scan.all);
  protocol::encode(protocol::HeaderText{source.header_xml()}, scan.all);
  scan.begin = scan.all.size();
  while (const auto chunk = source.next()) {
    const std::size_t offset = scan.all.size();
    scan.all.insert(scan.all.end(), chunk->bytes.begin(), chunk->bytes.end());
    for (client::ScanChunk::Piece piece : chunk->pieces) {
      piece.end += offset;
      scan.readouts.push_back(piece);
    }
  }
  return scan;
}

struct Received {
  std::vector<double> ms;
  std::vector<protocol::Image> images;
};

/// The scan at its pace. CLOSE comes when all `images` are there.
Received send_scan(std::uint16_t port, const Bytes& scan, std::size_t images) {
  std::mutex mutex;
  std::map<CounterKey, Clock::time_point> last_sent;
  Received received;
  Connection connection(port);
  std::exception_ptr failed;
  std::thread receiving([&] {
    try {
      Receiver receiver;
      receiver.run(connection, [&](const protocol::Image& image, Clock::time_point now) {
        const std::lock_guard lock(mutex);
        const auto sent = last_sent.at(client::counter_key(image.head));
        received.ms.push_back(std::chrono::duration<double, std::milli>(now - sent).count());
        received.images.push_back(image);
        if (received.images.size() < images) return;
        protocol::Buffer close;
        protocol::encode(protocol::Close{}, close);
        connection.write(close);
      });
    } catch (...) {
      failed = std::current_exception();
    }
  });
  try {
    connection.write(scan.all.data(), scan.begin);
    std::size_t begin = scan.begin;
    auto next = Clock::now();
    for (const auto& readout : scan.readouts) {
      std::this_thread::sleep_until(next);
      {
        const std::lock_guard lock(mutex);
        last_sent[readout.key] = Clock::now();
      }
      connection.write(scan.all.data() + begin, readout.end - begin);
      begin = readout.end;
      next += kBetweenReadouts;
    }
  } catch (const std::exception&) {  // the receiver knows why
  }
  receiving.join();
  if (failed) std::rethrow_exception(failed);
  return received;
}

bool is_ready(std::uint16_t admin_port) {
  const std::string request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  try {
    Connection connection(admin_port);
    connection.write(reinterpret_cast<const std::byte*>(request.data()), request.size());
    std::string answer(4096, '\0');
    answer.resize(connection.read(reinterpret_cast<std::byte*>(answer.data()), answer.size()));
    return answer.find(" 200 ") != std::string::npos;
  } catch (const std::runtime_error&) {
    return false;
  }
}

/// When it is ready.
std::unique_ptr<ServerProcess> fresh_server(const std::string& backend, const std::filesystem::path& folder,
                                            const std::string& compiled) {
  ::setenv("CUDA_CACHE_PATH", compiled.c_str(), 1);  // the server inherits it
  auto server = std::make_unique<ServerProcess>(
      backend, std::vector<std::string>{"--admin-port", "0", "--cache-folder", (folder / "cache").string()});
  const auto start = Clock::now();
  while (!is_ready(server->admin_port())) {
    if (seconds_since(start) > 60) throw std::runtime_error("the server is not ready after a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return server;
}

double largest_difference(const protocol::Image& a, const protocol::Image& b) {
  const std::vector<float> first = client::combined_magnitude(client::read_pixels(a)),
                           second = client::combined_magnitude(client::read_pixels(b));
  if (first.size() != second.size()) throw std::runtime_error("the same scan gave images of two sizes");
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(first[i] - second[i])));
    largest = std::max(largest, static_cast<double>(std::abs(first[i])));
  }
  return largest > 0 ? most / largest : most;
}

}  // namespace

const std::vector<FirstCase>& first_cases() {
  static const std::vector<FirstCase> cases = {{"grappa", "cartesian_grappa"}, {"epi", "epi_2d"},
                                               {"plain", "cartesian_plain"},   {"finished", "cartesian_2d"},
                                               {"sense", "cartesian_sense"},   {"cg_sense", "cg_sense_2d"}};
  return cases;
}

FirstTimes first_frames(const FirstCase& of, const std::string& backend, double idle_s, const std::string& compiled,
                        std::uint64_t seed) {
  const TemporaryFolder temporary(std::filesystem::temp_directory_path());
  const std::filesystem::path folder = temporary.path();
  SimulateOptions options = draw(of.name, seed);
  options.output = folder / "scan.h5";
  std::ostringstream said;
  client::simulate(options, said);
  FirstTimes times;
  times.shape = fmt::format("{} coils, matrix {}", options.coils, options.matrix);
  const Bytes scan = read_scan(options.output, of.pipeline);

  const auto start = Clock::now();
  const auto server = fresh_server(backend, folder, compiled.empty() ? (folder / "compiled").string() : compiled);
  times.ready_ms = 1e3 * seconds_since(start);
  std::this_thread::sleep_for(std::chrono::duration<double>(idle_s));

  const std::size_t images = static_cast<std::size_t>(options.frames);
  const Received first = send_scan(server->port(), scan, images), again = send_scan(server->port(), scan, images);
  times.first_ms = first.ms.at(0);
  times.later_ms = first.ms.at(1);
  times.again_ms = again.ms.at(0);
  client::ImageReport report(client::read_truths(options.output, "dataset"), {});
  report.add(first.images[0]);
  times.error = report.errors().at(0);
  times.difference = largest_difference(first.images[0], again.images[0]);
  return times;
}

void fill_compiled(const std::string& backend, double idle_s, const std::string& compiled) {
  const TemporaryFolder temporary(std::filesystem::temp_directory_path());
  const auto server = fresh_server(backend, temporary.path(), compiled);
  std::this_thread::sleep_for(std::chrono::duration<double>(idle_s));
}

}  // namespace echotrain::bench
