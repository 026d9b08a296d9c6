// The command `echotrain scans` tells of this client's detached scans and cancels them; `echotrain fetch` gets the
// images of one.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "clients/cpp/connection/remote_options.h"
#include "config/option.h"

namespace echotrain::client {

struct ScansOptions {
  std::string id;  ///< empty: all
  bool cancel = false;
  RemoteOptions server;
  double timeout_s = 10;
};

struct FetchOptions {
  std::string id;
  std::filesystem::path output;
  std::filesystem::path png;  ///< empty: no pictures
  RemoteOptions server;
  double timeout_s = 60, resume_for_s = 600;
};

config::OptionTable<ScansOptions> scans_options();
config::OptionTable<FetchOptions> fetch_options();

/// Prints a line for each scan, or all about one. Returns 0; 1 when the server does not have the scan.
int scans(const ScansOptions& options, std::ostream& out, std::ostream& err);

/// Waits until the scan has ended, and writes its images as they come. Returns 0 when it has ended well and all its
/// images are there, else 1 (`err` says why).
int fetch(const FetchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
