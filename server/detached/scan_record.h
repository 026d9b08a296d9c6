// The record of a detached scan is the file beside its journal that says whose and what it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "config/server_options.h"
#include "server/net/identity.h"

namespace echotrain::server {

/// Facts of a scan that outlive the server.
struct ScanRecord {
  std::string id;  ///< 32 hexadecimal digits
  std::string pipeline;
  Identity identity;  ///< as it is: when the scan runs again, it must find its client's noise
  std::string peer;
  std::optional<config::ClientPipelines> granted;
  std::string occasion;
  std::int64_t begun = 0;       ///< [s] since 1970
  std::int64_t keep_until = 0;  ///< the same; 0: it has not ended
  double keep_h = 24;
  bool to_client = true, to_dicom = true, power = false;
  std::string end;  ///< "done", "failed", "incomplete", "cancelled"; empty: it has not ended
  std::string failure;
  bool delivered = false;                                     ///< its client has all of it
  std::uint64_t received = 0, images = 0, results_bytes = 0;  ///< of one that has ended
};

std::string new_scan_id();
bool is_scan_id(std::string_view text);

// The files of a scan in its folder.
inline std::string record_name(const std::string& id) { return id + ".json"; }
inline std::string journal_name(const std::string& id) { return id + ".mrd"; }
inline std::string results_name(const std::string& id) { return id + ".out"; }
void remove_scan_files(const std::filesystem::path& folder, const std::string& id);

/// Writes the record in place of the one before; `sync`: forced to the disk. Returns what failed, or nothing.
std::string write_record(const std::filesystem::path& folder, const ScanRecord& record, bool sync);
/// Returns nothing where there is none that can be read.
std::optional<ScanRecord> read_record(const std::filesystem::path& file);

std::int64_t unix_now();

/// Returns a config's or a TEXT's text with the token in its beginning made unreadable; everything else stays.
std::string without_token_value(std::string text, std::string_view token);

}  // namespace echotrain::server
