#include "clients/cpp/send/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "clients/cpp/connection/server_connection.h"
#include "protocol/data/text.h"

namespace echotrain::client {

namespace {

using nlohmann::json;

constexpr std::size_t kMostState = 64 << 20;  // bytes of an answer that is read

struct Answered {
  int status = 0;
  std::string body;
};

Answered ask(const WatchOptions& options, const std::string& token, const std::string& path) {
  const std::chrono::duration<double> timeout(options.timeout_s);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout);
  ServerConnection connection({options.host, options.port, {}}, timeout);
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n", path, options.host,
                  token.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", token));
  const std::atomic<bool> stop = false;
  connection.write(std::as_bytes(std::span(request)), stop);
  std::string answer;
  std::vector<std::byte> room(1 << 16);
  while (answer.size() < kMostState) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw ConnectionError("the server did not answer in time");
    const auto read = connection.read(room, left);
    if (!read) continue;
    if (*read == 0) break;
    answer.append(reinterpret_cast<const char*>(room.data()), *read);
  }
  const std::size_t body = answer.find("\r\n\r\n");
  constexpr std::size_t kStatus = std::string_view("HTTP/1.1 ").size();
  if (!answer.starts_with("HTTP/1.") || body == std::string::npos)
    throw ConnectionError(fmt::format("what answers at {} port {} is no admin port: give the number of admin.port",
                                      options.host, options.port));
  return {std::atoi(answer.substr(kStatus, 3).c_str()), answer.substr(body + 4)};
}

std::string first_line(const std::string& file) {
  if (file.empty()) return "";
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line))
    if (!line.empty() && line[0] != '#') return line;
  throw std::runtime_error(fmt::format("{} has no token: one line with at least 16 characters is needed", file));
}

std::string bar(double share) {
  constexpr int kCells = 24;
  const int full = static_cast<int>(std::lround(kCells * std::clamp(share, 0.0, 1.0)));
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kCells - full), '.') + "]";
}

std::string text_of(const json& object, const char* name) {
  return protocol::printable(object.value(name, std::string()), 300);
}

std::string told(const json& scan) {
  const double lines = scan.value("lines", 0.0), announced = scan.value("lines_announced", 0.0);
  std::string out =
      fmt::format("{:>6} {:<10} {:<24} {} {:.0f}/{:.0f} lines  {} images  {:.1f} MiB in  {}\n", scan.value("id", 0),
                  text_of(scan, "state"), text_of(scan, "pipeline"), bar(announced > 0 ? lines / announced : 0), lines,
                  announced, scan.value("images", 0), scan.value("bytes_in", 0.0) / (1 << 20), text_of(scan, "peer"));
  if (scan.contains("error") && scan["error"].is_object())
    out += fmt::format("       {}: {}\n", text_of(scan["error"], "code"), text_of(scan["error"], "text"));
  return out;
}

/// A plane in characters, dark to bright, each the mean of the pixels that it stands for.
std::string picture(const std::string& image) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  constexpr std::size_t kColumns = 64, kRows = 32;  // a character is about twice as high as wide
  std::uint32_t length = 0;
  if (image.size() < sizeof(length)) return "";
  std::memcpy(&length, image.data(), sizeof(length));
  if (image.size() - sizeof(length) < length) return "";
  const json head = json::parse(image.substr(sizeof(length), length));
  const auto width = head.value("width", std::size_t{0}), height = head.value("height", std::size_t{0});
  const std::size_t first = sizeof(length) + length;
  if (width == 0 || height == 0 || width > 65535 || height > 65535 || (image.size() - first) / 4 < width * height)
    return "";
  const float low = head.value("low", 0.0f), high = head.value("high", 0.0f);
  std::string out = fmt::format("scan {}, series {}, image {}, {} x {}, {:.4g} to {:.4g}\n", head.value("scan", 0),
                                head.value("series", 0), head.value("index", 0), width, height, low, high);
  const std::size_t columns = std::min(kColumns, width), rows = std::max<std::size_t>(1, std::min(kRows, height));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0, pixels = 0;
      for (std::size_t y = row * height / rows; y < (row + 1) * height / rows; ++y)
        for (std::size_t x = column * width / columns; x < (column + 1) * width / columns; ++x) {
          float value = 0;
          std::memcpy(&value, image.data() + first + 4 * (y * width + x), sizeof(value));
          if (!std::isfinite(value)) continue;
          sum += value;
          ++pixels;
        }
      const double grey = high > low && pixels > 0 ? (sum / pixels - low) / (high - low) : 0;
      out +=
          kShades[static_cast<std::size_t>(std::clamp(grey, 0.0, 1.0) * static_cast<double>(kShades.size() - 1) + 0.5)];
    }
    out += '\n';
  }
  return out;
}

/// The scan whose image is the newest; 0: there is none.
std::uint64_t newest_scan(const json& state) {
  std::uint64_t scan = 0, newest = 0;
  for (const char* list : {"scans", "ended"})
    for (const json& one : state.value(list, json::array()))
      if (const auto number = one.value("newest_image", std::uint64_t{0}); number > newest) {
        newest = number;
        scan = one.value("id", std::uint64_t{0});
      }
  return scan;
}

}  // namespace

config::OptionTable<WatchOptions> watch_options() {
  using O = WatchOptions;
  return config::OptionTable<O>()
      .text("host", &O::host, "host of the server")
      .positional()
      .integer("port", &O::port, 1, 65535, "its admin port")
      .letter('p')
      .number("interval", &O::interval_s, 0.1, 3600, "time between two looks")
      .unit("s")
      .flag("once", &O::once, "look once")
      .path("token-file", &O::token_file, "FILE",
            "file with a token of the server's admin.token_file, if it asks for one")
      .number("timeout", &O::timeout_s, 0.001, 1e6, "longest wait for an answer")
      .unit("s");
}

std::string watch_text(const std::string& text, const std::string& image) {
  const json state = json::parse(text);
  const json server = state.value("server", json::object()), delays = state.value("delays", json::object());
  constexpr double kMiB = 1 << 20;
  std::string out = fmt::format("echotrain-server {}: {}  memory {:.0f}", text_of(server, "version"),
                                text_of(server, "state"), server.value("memory_used", 0.0) / kMiB);
  if (const double bound = server.value("memory_bound", 0.0); bound > 0) out += fmt::format(" of {:.0f}", bound / kMiB);
  out += fmt::format(" MiB  queues {:.1f} MiB\n", server.value("queue_bytes", 0.0) / kMiB);
  out += fmt::format("last minute: {} images, {:.1f} ms (median), {:.1f} ms (p99) after the last readout\n",
                     delays.value("images", 0), delays.value("p50_ms", 0.0), delays.value("p99_ms", 0.0));
  const json scans = state.value("scans", json::array()), ended = state.value("ended", json::array());
  if (scans.empty()) out += "no scan runs\n";
  for (const json& scan : scans) out += told(scan);
  if (scans.empty() && !ended.empty())
    out += fmt::format("the last one: {}\n{}", text_of(ended[0], "outcome"), told(ended[0]));
  return out + picture(image);
}

int watch(const WatchOptions& options, std::ostream& out, bool clear) {
  const std::string token = first_line(options.token_file);
  for (;;) {
    const Answered state = ask(options, token, "/live/state");
    if (state.status != 200)
      throw ConnectionError(
          fmt::format("the server answers with status {}: {}", state.status, protocol::printable(state.body, 300)));
    try {
      std::string image;
      if (const std::uint64_t scan = newest_scan(json::parse(state.body)); scan != 0)
        if (Answered answered = ask(options, token, fmt::format("/live/image?scan={}", scan)); answered.status == 200)
          image = std::move(answered.body);
      if (clear) out << "\033[H\033[2J";
      out << watch_text(state.body, image) << std::flush;
    } catch (const json::exception&) {
      throw ConnectionError("the server's answer is not what this program understands; are their versions the same?");
    }
    if (options.once || !out) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  }
}

}  // namespace echotrain::client
