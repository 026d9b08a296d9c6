#include "server/detached/scan_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "gadgets/shared/store/private_files.h"
#include "server/capture/capture_files.h"
#include "server/net/tokens.h"

namespace echotrain::server {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::uint64_t kMostRecord = 64 << 10;
constexpr std::size_t kIdDigits = 32;
constexpr std::array kGrants{std::pair{config::ClientPipelines::off, "off"},
                             std::pair{config::ClientPipelines::gadgets, "gadgets"},
                             std::pair{config::ClientPipelines::all, "all"}};

bool sync_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool synced = ::fsync(descriptor) == 0;
  ::close(descriptor);
  return synced;
}

}  // namespace

std::int64_t unix_now() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

std::string new_scan_id() {
  std::random_device random;
  std::string id;
  while (id.size() < kIdDigits) id += fmt::format("{:08x}", static_cast<std::uint32_t>(random()));
  return id;
}

bool is_scan_id(std::string_view text) {
  const auto fits = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == kIdDigits && std::all_of(text.begin(), text.end(), fits);
}

void remove_scan_files(const fs::path& folder, const std::string& id) {
  for (const std::string& name : {journal_name(id), results_name(id), record_name(id)})  // the record last
    ::unlink((folder / name).c_str());
}

std::string write_record(const fs::path& folder, const ScanRecord& record, bool sync) {
  nlohmann::ordered_json json{{"echotrain", 1},
                              {"id", record.id},
                              {"pipeline", record.pipeline},
                              {"identity", record.identity.text},
                              {"part", record.identity.part},
                              {"peer", record.peer},
                              {"occasion", record.occasion},
                              {"begun", record.begun},
                              {"keep_h", record.keep_h},
                              {"to_client", record.to_client},
                              {"to_dicom", record.to_dicom},
                              {"power", record.power},
                              {"end", record.end},
                              {"keep_until", record.keep_until},
                              {"failure", record.failure},
                              {"delivered", record.delivered},
                              {"received", record.received},
                              {"images", record.images},
                              {"results_bytes", record.results_bytes}};
  for (const auto& [value, name] : kGrants)
    if (record.granted == value) json["client_pipelines"] = name;
  // A client's texts may be anything: what is no UTF-8 is replaced.
  const std::string text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  const fs::path path = folder / record_name(record.id);
  fs::path temporary;
  if (!write_beside(path, text, temporary)) return "its record cannot be written: " + system_text(errno);
  const bool moved = (!sync || sync_file(temporary)) && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!moved) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return "its record cannot be written: " + system_text(error);
  }
  return sync ? sync_folder(folder) : "";
}

std::optional<ScanRecord> read_record(const fs::path& file) {
  const nlohmann::json json = nlohmann::json::parse(contents(file, kMostRecord), nullptr, false);
  ScanRecord record;
  try {
    record.id = json.at("id");
    record.pipeline = json.at("pipeline");
    record.identity = {json.at("identity"), json.at("part")};
    record.peer = json.at("peer");
    record.occasion = json.at("occasion");
    record.begun = json.at("begun");
    record.keep_until = json.at("keep_until");
    record.keep_h = json.at("keep_h");
    record.to_client = json.at("to_client");
    record.to_dicom = json.at("to_dicom");
    record.power = json.at("power");
    record.end = json.at("end");
    record.failure = json.at("failure");
    record.delivered = json.value("delivered", false);
    record.received = json.at("received");
    record.images = json.at("images");
    record.results_bytes = json.at("results_bytes");
    if (json.contains("client_pipelines"))
      record.granted = config::read_client_pipelines(json.at("client_pipelines").get<std::string>());
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  if (!is_scan_id(record.id) || file.filename() != record_name(record.id)) return std::nullopt;
  return record;
}

namespace {

// JSON's texts that mean the token, however they are written.
void mask_in_json(std::string& text, std::string_view token) {
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    if (end >= text.size()) return;
    const auto value = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                             text.begin() + static_cast<std::ptrdiff_t>(end) + 1, nullptr, false);
    if (value.is_string() && value.get_ref<const std::string&>() == token) {
      text.replace(at + 1, end - at - 1, token.size(), 'x');
      end = at + 1 + token.size();
    }
    at = end + 1;
  }
}

// Lines "token: ...", whatever stands behind them.
void mask_lines(std::string& text) {
  constexpr std::string_view kKey = "token:";
  for (std::size_t at = text.find(kKey); at != std::string::npos; at = text.find(kKey, at)) {
    const bool begins = at == 0 || text[at - 1] == '\n' || at == kByteOrderMark.size();
    at += kKey.size();
    if (begins) text.replace(at, std::min(text.find_first_of("\r\n", at), text.size()) - at, " x");
  }
}

}  // namespace

std::string without_token_value(std::string text, std::string_view token) {
  if (token.empty()) return text;
  constexpr std::string_view kWord = "token";
  for (std::size_t at = text.find(kWord); at != std::string::npos; at = text.find(kWord, at)) {
    at += kWord.size();
    const std::size_t value = text.find(token, at);
    if (value == std::string::npos) break;
    if (text.find('\n', at) >= value)  // in the same line
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(value), token.size(), 'x');
  }
  const std::size_t first =
      text.find_first_not_of(" \t\r\n", text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  if (first != std::string::npos && text[first] == '{')
    mask_in_json(text, token);
  else if (token_in(text) == token)  // written with escapes
    mask_lines(text);
  return text;
}

}  // namespace echotrain::server
