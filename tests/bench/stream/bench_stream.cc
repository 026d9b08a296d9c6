// The bench measures what a client sees of the server: rates and times of whole scans over loopback, the client and a
// server process on the same machine. Scans are encoded beforehand. Beside the ingest, in the same run, the same bytes
// go over a plain loopback socket, which is the ceiling.
//
//   bench_stream [--backend auto|cpu|cuda] [--frames N] [--latency] [--idle S] [--seed N] [Google Benchmark's options]
//
// --frames: images of the paced scan. --latency: a server with this option, whose threads spin. The cases first/ start
// a server of their own in each round (first_frames.h); --idle: how long it is left alone before its first scan;
// --seed: of what is drawn, by default another one in each run. The table at the end has medians of the rounds; JSON
// has every round.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/machine.h"
#include "tests/bench/stream/first_frames.h"
#include "tests/bench/stream/stream_io.h"
#include "tests/bench/stream/stream_paced.h"
#include "tests/bench/stream/stream_scans.h"

namespace echotrain::bench {
namespace {

constexpr int kRounds = 9, kLongRounds = 5;

struct Options {
  std::string backend = "cpu";
  int frames = 400;
  bool latency = false;
  double idle_s = 5;
  std::uint64_t seed = std::random_device()();
};

// Values of all rounds by case and name, for the table.
std::map<std::string, std::map<std::string, std::vector<double>>> results;

/// `prepare` runs once before the first round of a case that was asked for; `round` gives its seconds.
void add_case(const ServerProcess& server, const std::string& name, int rounds, std::function<void()> prepare,
              std::function<double(benchmark::State&)> round) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&server, name, prepare = std::move(prepare), round = std::move(round)](benchmark::State& state) {
        if (!results.contains(name)) prepare();
        results[name];
        for (auto _ : state) {
          const double cpu = server.cpu_seconds();
          const double seconds = round(state);
          state.counters["server_cpu_s"] = server.cpu_seconds() - cpu;
          state.SetIterationTime(seconds);
          results[name]["seconds"].push_back(seconds);
          for (const auto& [counter, value] : state.counters) results[name][counter].push_back(value);
        }
      })
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(rounds)
      ->Unit(benchmark::kMillisecond);
}

double median(const std::string& name, const std::string& value = "seconds") {
  return quantile(results[name][value], 0.5);
}
bool ran(const std::string& name) { return results.contains(name) && !results[name]["seconds"].empty(); }

// Scans are encoded when a case first asks for them, because whole scans are large.
const EncodedScan& encoded(const std::string& name, const ScanShape& shape) {
  static std::map<std::string, EncodedScan> scans;
  auto found = scans.find(name);
  if (found == scans.end()) found = scans.emplace(name, encode_scan(shape)).first;
  return found->second;
}

// Lines within the matrix: the server would leave out others.
const std::map<std::string, ScanShape> kIngest = {
    {"512x16", {.pipeline = "passthrough", .samples = 512, .channels = 16, .readouts = 256, .frames = 16}},
    {"128x2",
     {.pipeline = "passthrough", .matrix = 64, .samples = 128, .channels = 2, .readouts = 64, .frames = 3125}}};
const ScanShape kCartesian{.pipeline = "cartesian_plain", .frames = 40};
const ScanShape kGrappa{.pipeline = "cartesian_grappa", .frames = 40, .acceleration = 3, .calibration = 24};
/// The same without what makes a finished image.
const ScanShape kUnfinished{.pipeline = "cartesian_plain", .frames = 40, .acceleration = 3, .calibration = 24};
/// A chain that does with all lines what cartesian_plain does, for scans that leave some out: their images alias.
constexpr const char* kPlain = R"(echotrain: 1
name: plain
description: plain transforms
backend: auto
pipeline:
  - noise_adjust
  - cartesian_kspace: {calibration: none}
  - fft: {direction: inverse}
  - coil_combine: {method: rss}
  - image: {component: magnitude, type: float}
)";
const ScanShape kAliased{.pipeline = kPlain, .frames = 40, .acceleration = 3, .calibration = 24};
const ScanShape kRadial{.pipeline = "radial_2d", .radial = true, .channels = 8, .readouts = 402, .frames = 10};
const ScanShape kCine{.pipeline = "cartesian_plain", .samples = 256, .channels = 1, .frames = 400};
const ScanShape kShort{.pipeline = "cartesian_plain", .frames = 8};
const ScanShape kRealTime{.pipeline = "radial_realtime", .radial = true, .readouts = 610};

void nothing() {}

void add_ingest(const ServerProcess& server) {
  for (const auto& [name, shape] : kIngest) {
    const auto scan = [name = name, shape = shape]() -> const EncodedScan& { return encoded("ingest" + name, shape); };
    const auto count = [](benchmark::State& state, const EncodedScan& sent, double seconds) {
      state.counters["readouts_per_s"] = static_cast<double>(sent.readouts()) / seconds;
      state.counters["bytes_per_s"] = static_cast<double>(sent.bytes.size()) / seconds;
      return seconds;
    };
    add_case(server, "ingest/" + name + "/plain_copy", kRounds, nothing,
             [=](benchmark::State& state) { return count(state, scan(), plain_copy_seconds(scan().bytes)); });
    add_case(
        server, "ingest/" + name + "/passthrough", kRounds,
        [=, &server] { scan_seconds(server.port(), scan().bytes, 0); },
        [=, &server](benchmark::State& state) {
          return count(state, scan(), scan_seconds(server.port(), scan().bytes, 0));
        });
  }
}

void add_whole_scans(const ServerProcess& server) {
  const auto run = [&server](const std::string& name, const ScanShape& shape, const std::string& meta = {}) {
    return scan_seconds(server.port(), encoded(name, shape).bytes, static_cast<std::size_t>(shape.frames), meta);
  };
  add_case(
      server, "whole_scan/cartesian_256_16coils_40frames", kLongRounds, [=] { run("cartesian", kCartesian); },
      [=](benchmark::State&) { return run("cartesian", kCartesian); });
  // The plain transform of the same readouts; then weights of the first frame, and 40 frames unmixed with them.
  add_case(
      server, "whole_scan/cartesian_256_16coils_40frames/r3", kLongRounds, [=] { run("aliased", kAliased); },
      [=](benchmark::State&) { return run("aliased", kAliased); });
  add_case(
      server, "whole_scan/cartesian_grappa_256_16coils_40frames", kLongRounds,
      [=] { run("grappa", kGrappa, "grappa_residual"); },
      [=](benchmark::State&) { return run("grappa", kGrappa, "grappa_residual"); });
  // Angles go on from frame to frame, and from scan to scan: no plan fits twice.
  add_case(
      server, "whole_scan/golden_radial_402x512_8coils_10frames", kLongRounds, [=] { run("radial", kRadial); },
      [&server](benchmark::State&) {
        static EncodedScan scan = encode_scan(kRadial);
        static int turn = 0;
        turn_spokes(scan, turn += kRadial.readouts * kRadial.frames);
        return scan_seconds(server.port(), scan.bytes, static_cast<std::size_t>(kRadial.frames));
      });
  add_case(
      server, "whole_scan/golden_radial_402x512_8coils_10frames/seen_before", kLongRounds,
      [=] { run("radial", kRadial); }, [=](benchmark::State&) { return run("radial", kRadial); });
}

/// Returns the parts of the time by the server's clock, one after another but for the first, which is the sum of the
/// next three.
std::vector<std::pair<std::string, const std::vector<double>*>> parts_of(const PacedTimes& times) {
  return {{"server", &times.server_ms},
          {"queue", &times.queue_ms},
          {"compute", &times.compute_ms},
          {"copy", &times.copy_ms},
          {"send", &times.send_ms}};
}

/// The same, while everything received is also written to a disk.
void add_captured(const ServerProcess& server) {
  add_case(server, "captured/cartesian_256_16coils_40frames", kLongRounds, nothing, [&server](benchmark::State&) {
    return scan_seconds(server.port(), encoded("cartesian", kCartesian).bytes,
                        static_cast<std::size_t>(kCartesian.frames));
  });
  add_case(server, "captured/512x16/passthrough", kRounds, nothing, [&server](benchmark::State&) {
    return scan_seconds(server.port(), encoded("ingest512x16", kIngest.at("512x16")).bytes, 0);
  });
  add_case(server, "captured/latency/radial_256_16coils_55spokes_stride5_tr3ms", 1, nothing,
           [&server](benchmark::State& state) {
             const PacedTimes times = paced_scan(server.port(), encoded("real_time", kRealTime), 55, 5, 400, 3.0);
             state.counters["p50_ms"] = quantile(times.client_ms, 0.5);
             state.counters["p99_ms"] = quantile(times.client_ms, 0.99);
             return quantile(times.client_ms, 0.5) / 1e3;
           });
}

/// Counters of a paced scan; the seconds of its median.
double report_latency(benchmark::State& state, const PacedTimes& times) {
  state.counters["p50_ms"] = quantile(times.client_ms, 0.5);
  state.counters["p99_ms"] = quantile(times.client_ms, 0.99);
  state.counters["max_ms"] = quantile(times.client_ms, 1);
  for (const auto& [part, values] : parts_of(times)) {
    state.counters[part + "_p50_ms"] = quantile(*values, 0.5);
    state.counters[part + "_p99_ms"] = quantile(*values, 0.99);
  }
  state.counters["frames"] = static_cast<double>(times.client_ms.size());
  return quantile(times.client_ms, 0.5) / 1e3;
}

void add_latency(const ServerProcess& server, const Options& options) {
  const auto paced = [&server](int frames) {
    return paced_scan(server.port(), encoded("real_time", kRealTime), 55, 5, frames, 3.0);
  };
  add_case(
      server, "latency/radial_256_16coils_55spokes_stride5_tr3ms", 1, [=] { paced(20); },
      [=, frames = options.frames](benchmark::State& state) { return report_latency(state, paced(frames)); });
  // A line each 0.5 ms, 43 ms a frame; the first frame, which makes the weights, is left out.
  for (const auto& [name, whole] :
       {std::pair{"cartesian_grappa_256_16coils_r3", kGrappa}, std::pair{"cartesian_plain_256_16coils_r3", kUnfinished},
        std::pair{"cartesian_256_16coils_r3", kAliased}}) {
    ScanShape shape = whole;
    shape.frames = 4;
    shape.repetitions = 1 << 15;
    const auto frames_of_lines = [&server, name = std::string(name), shape](int frames) {
      constexpr int kLines = 86;
      return without_first(paced_scan(server.port(), encoded(name, shape), kLines, kLines, frames + 1, 0.5));
    };
    add_case(
        server, std::string("latency/") + name, 1, [=] { frames_of_lines(20); },
        [=, frames = std::min(options.frames, 400)](benchmark::State& state) {
          return report_latency(state, frames_of_lines(frames));
        });
  }
}

/// The same scan in `sessions` sessions that begin together: the seconds of each, and of all.
struct Together {
  std::vector<double> seconds;
  double all = 0;
};

Together together(std::uint16_t port, const EncodedScan& scan, int sessions) {
  Together times;
  times.seconds.resize(static_cast<std::size_t>(sessions));
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (double& seconds : times.seconds)
    threads.emplace_back([&, images = static_cast<std::size_t>(scan.shape.frames)] {
      try {
        seconds = scan_seconds(port, scan.bytes, images);
      } catch (const std::exception& error) {
        fmt::print(stderr, "bench_stream: {}\n", error.what());
        std::exit(1);
      }
    });
  for (auto& thread : threads) thread.join();
  times.all = seconds_since(start);
  return times;
}

void add_sessions(const ServerProcess& server) {
  for (const int sessions : {1, 4})
    add_case(
        server, fmt::format("cine/cartesian_256_1coil/{}_sessions", sessions), kLongRounds,
        [&server] { together(server.port(), encoded("cine", kCine), 1); },
        [&server, sessions](benchmark::State& state) {
          const double seconds = together(server.port(), encoded("cine", kCine), sessions).all;
          state.counters["frames_per_s"] = sessions * kCine.frames / seconds;
          return seconds;
        });
  for (const int sessions : {1, 8})
    add_case(
        server, fmt::format("at_once/cartesian_256_16coils_8frames/{}_scans", sessions), kLongRounds,
        [&server] { together(server.port(), encoded("short", kShort), 1); },
        [&server, sessions](benchmark::State& state) {
          const Together times = together(server.port(), encoded("short", kShort), sessions);
          const auto [fastest, slowest] = std::minmax_element(times.seconds.begin(), times.seconds.end());
          state.counters["frames_per_s"] = sessions * kShort.frames / times.all;
          state.counters["slowest_to_fastest"] = *slowest / *fastest;
          return times.all;
        });
}

/// The paced scan of `scanners` that begin together. Their first second, in which they ask for places and plans are
/// made, counts apart: `first_ms` is the latest first image, `whole_p99_ms` counts all images.
void add_scanners(const ServerProcess& server, const Options& options) {
  constexpr int kFirst = 67;  // images of 15 ms
  for (const int scanners : {8, 12, 16, 24})
    add_case(
        server, fmt::format("latency/radial_256_16coils_55spokes_stride5_tr3ms/{}_scanners", scanners), 1,
        [&server] { paced_scan(server.port(), encoded("real_time", kRealTime), 55, 5, 20, 3.0); },
        [&server, scanners, frames = std::max(options.frames, 2 * kFirst)](benchmark::State& state) {
          const EncodedScan& scan = encoded("real_time", kRealTime);
          std::vector<PacedTimes> each(static_cast<std::size_t>(scanners));
          std::vector<std::thread> threads;
          for (PacedTimes& times : each)
            threads.emplace_back([&] {
              try {
                times = paced_scan(server.port(), scan, 55, 5, frames, 3.0);
              } catch (const std::exception& error) {
                fmt::print(stderr, "bench_stream: {}\n", error.what());
                std::exit(1);
              }
            });
          for (auto& thread : threads) thread.join();
          PacedTimes all;
          std::vector<double> whole;
          double first = 0, slowest = 0;
          for (const PacedTimes& times : each) {
            first = std::max(first, times.client_ms.front());
            whole.insert(whole.end(), times.client_ms.begin(), times.client_ms.end());
            for (const auto of : {&PacedTimes::client_ms, &PacedTimes::server_ms, &PacedTimes::queue_ms,
                                  &PacedTimes::compute_ms, &PacedTimes::copy_ms, &PacedTimes::send_ms}) {
              const std::vector<double>& values = times.*of;
              const auto begin = values.begin() + std::min<std::ptrdiff_t>(kFirst, std::ssize(values));
              (all.*of).insert((all.*of).end(), begin, values.end());
              if (of == &PacedTimes::client_ms) slowest = std::max(slowest, quantile({begin, values.end()}, 0.99));
            }
          }
          const double seconds = report_latency(state, all);
          state.counters["first_ms"] = first;
          state.counters["whole_p99_ms"] = quantile(std::move(whole), 0.99);
          state.counters["slowest_scanner_p99_ms"] = slowest;
          return seconds;
        });
}

/// Adds the scans that come after the server was left alone, and those that come as soon as it is ready. With GPUs: on
/// a machine on which CUDA's driver has compiled nothing yet, and on one where a server has warmed up before.
void add_first_frames(const Options& options) {
  struct Setting {
    const char* suffix;
    double idle_s;
    bool compiled;
  };
  constexpr double kCompiling = 75;  // longer than a server warms up
  static const TemporaryFolder compiled("/var/tmp");
  static bool filled = false;
  for (const FirstCase& of : first_cases())
    for (const Setting setting :
         {Setting{"", options.idle_s, false}, {"/at_once", 0, false}, {"/compiled", options.idle_s, true}}) {
      if (setting.compiled && options.backend == "cpu") continue;
      const std::string name = "first/" + of.name + setting.suffix;
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) {
                                     auto& result = results[name];
                                     for (auto _ : state) {
                                       if (setting.compiled && !std::exchange(filled, true))
                                         fill_compiled(options.backend, kCompiling, compiled.path());
                                       const FirstTimes times = first_frames(of, options.backend, setting.idle_s,
                                                                             setting.compiled ? compiled.path() : "",
                                                                             options.seed + result["seconds"].size());
                                       state.SetIterationTime(times.first_ms / 1e3);
                                       result["seconds"].push_back(times.first_ms / 1e3);
                                       for (const auto& [counter, value] : {std::pair{"ready_ms", times.ready_ms},
                                                                            {"later_ms", times.later_ms},
                                                                            {"again_ms", times.again_ms},
                                                                            {"error", times.error},
                                                                            {"difference", times.difference}}) {
                                         state.counters[counter] = value;
                                         result[counter].push_back(value);
                                       }
                                       state.SetLabel(times.shape);
                                     }
                                   })
          ->UseManualTime()
          ->Iterations(1)
          ->Repetitions(kLongRounds)
          ->Unit(benchmark::kMillisecond);
    }
}

void print_table(const Options& options) {
  fmt::print("\nbackend {}{}, medians, seed {}\n", options.backend, options.latency ? ", option latency" : "",
             options.seed);
  for (const auto& [name, shape] : kIngest) {
    const std::string mine = "ingest/" + name + "/passthrough", plain = "ingest/" + name + "/plain_copy";
    if (!ran(mine) || !ran(plain)) continue;
    fmt::print("{:<58} {:>9.0f} readouts/s, {:.0f} MB/s; plain copy {:.0f} MB/s; ratio {:.2f}\n", mine,
               median(mine, "readouts_per_s"), median(mine, "bytes_per_s") / 1e6, median(plain, "bytes_per_s") / 1e6,
               median(plain) / median(mine));
  }
  for (const auto& [name, values] : results) {
    if (!ran(name)) continue;
    if (name.starts_with("whole_scan/"))
      fmt::print("{:<58} {:>9.3f} s, best {:.3f} s; CPU time of the server {:.3f} s\n", name, median(name),
                 quantile(values.at("seconds"), 0), median(name, "server_cpu_s"));
    if (name.starts_with("latency/")) {
      fmt::print("{:<58} {:>9.3f} ms, p99 {:.3f} ms, max {:.3f} ms over {:.0f} frames\n", name, median(name, "p50_ms"),
                 median(name, "p99_ms"), median(name, "max_ms"), median(name, "frames"));
      for (const auto& [part, what] : {std::pair{"server", "in the server, until queued for sending"},
                                       {"queue", "  until the pipeline takes it"},
                                       {"compute", "  until the image is computed"},
                                       {"copy", "  until its pixels are on the host"},
                                       {"send", "then until its last byte is given to the kernel"}})
        fmt::print("  {:<56} {:>9.3f} ms, p99 {:.3f} ms\n", what, median(name, fmt::format("{}_p50_ms", part)),
                   median(name, fmt::format("{}_p99_ms", part)));
    }
    if (name.starts_with("captured/latency/"))
      fmt::print("{:<58} {:>9.3f} ms, p99 {:.3f} ms\n", name, median(name, "p50_ms"), median(name, "p99_ms"));
    else if (name.starts_with("captured/"))
      fmt::print("{:<58} {:>9.3f} s, best {:.3f} s\n", name, median(name), quantile(values.at("seconds"), 0));
    if (name.starts_with("first/"))
      fmt::print(
          "{:<58} {:>9.2f} ms, worst {:.2f} ms; its next frame {:.2f}, the same scan again {:.2f} ms; error {:.3g}; "
          "ready "
          "after {:.0f} ms\n",
          name, 1e3 * median(name), 1e3 * quantile(values.at("seconds"), 1), median(name, "later_ms"),
          median(name, "again_ms"), median(name, "error"), median(name, "ready_ms"));
    if (name.starts_with("cine/")) fmt::print("{:<58} {:>9.0f} frames/s\n", name, median(name, "frames_per_s"));
  }
  const std::string one = "at_once/cartesian_256_16coils_8frames/1_scans",
                    eight = "at_once/cartesian_256_16coils_8frames/8_scans";
  if (ran(one) && ran(eight))
    fmt::print("{:<58} {:>9.2f} of one scan's rate in all; slowest / fastest {:.2f}\n", eight,
               median(eight, "frames_per_s") / median(one, "frames_per_s"), median(eight, "slowest_to_fastest"));
}

/// Takes our options out of the command line.
Options take_options(int& argc, char** argv) {
  Options options;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--latency") {
      options.latency = true;
    } else if (argument == "--backend" && i + 1 < argc) {
      options.backend = argv[++i];
    } else if (argument == "--frames" && i + 1 < argc) {
      options.frames = std::stoi(argv[++i]);
    } else if (argument == "--idle" && i + 1 < argc) {
      options.idle_s = std::stod(argv[++i]);
    } else if (argument == "--seed" && i + 1 < argc) {
      options.seed = std::stoull(argv[++i]);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return options;
}

int run(int argc, char** argv) {
  const Options options = take_options(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add_machine();
  benchmark::AddCustomContext("backend", options.backend);
  benchmark::AddCustomContext("latency", options.latency ? "true" : "false");
  benchmark::AddCustomContext("seed", std::to_string(options.seed));
  const ServerProcess server(options.backend, {"--latency", options.latency ? "true" : "false", "--per-address-exempt",
                                               "127.0.0.0/8"});  // scanners have addresses of their own
  add_ingest(server);
  add_whole_scans(server);
  add_latency(server, options);
  add_sessions(server);
  if (options.backend != "cpu") add_scanners(server, options);  // more than a CPU can do
  // Captures of scans that ended well are removed at their end: what is measured is the writing.
  const TemporaryFolder captures("/var/tmp");  // on a disk
  const ServerProcess capturing(options.backend,
                                {"--capture-directory", captures.path(), "--capture-policy", "on_error"});
  add_captured(capturing);
  add_first_frames(options);
  benchmark::RunSpecifiedBenchmarks();
  print_table(options);
  return 0;
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) {
  try {
    return echotrain::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_stream: {}\n", error.what());
    return 1;
  }
}
