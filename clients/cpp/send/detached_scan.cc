#include "clients/cpp/send/detached_scan.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "protocol/data/text.h"

namespace echotrain::client {
namespace {

using nlohmann::json;

std::string text_in(const json& scan, const char* name) {
  const auto found = scan.find(name);
  return found != scan.end() && found->is_string() ? protocol::printable(found->get<std::string>(), 300) : "";
}

std::uint64_t count_in(const json& scan, const char* name) {
  const auto found = scan.find(name);
  return found != scan.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// Seconds since 1970, or a text that already is for people; local time.
std::string time_in(const json& scan, const char* name) {
  const auto found = scan.find(name);
  if (found == scan.end() || !found->is_number()) return text_in(scan, name);
  constexpr double kLatest = 253402300799.0;  // of the year 9999
  const double seconds = found->get<double>();
  if (!(seconds > 0 && seconds <= kLatest)) return "";
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

DetachedScan scan_in(const json& scan) {
  if (!scan.is_object()) throw ConnectionError("the server's answer is no detached scan; are the versions the same?");
  return {text_in(scan, "id"),         text_in(scan, "state"),   text_in(scan, "pipeline"),  time_in(scan, "begun"),
          time_in(scan, "keep_until"), text_in(scan, "failure"), count_in(scan, "received"), count_in(scan, "images")};
}

}  // namespace

std::string question(const std::string& what, const std::string& token) {
  return token.empty() ? what : what + "\ntoken: " + token;
}

std::string not_there(const std::string& id, const std::string& answer) {
  if (answer != "unknown")
    return fmt::format("the server answers '{}' for the scan {}", protocol::printable(answer, 300), id);
  return fmt::format(
      "the server has no scan {} of this client: its time to be kept is over, it was sent with another token, "
      "certificate or address, or the server detaches no scans",
      id);
}

std::vector<DetachedScan> read_scans(const std::string& text) {
  const json answer = json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<DetachedScan> scans;
  if (answer.is_array())
    for (const json& scan : answer) scans.push_back(scan_in(scan));
  else
    scans.push_back(scan_in(answer));
  return scans;
}

}  // namespace echotrain::client
