// Each option of the server is declared once, in server_option_table(): the command line, the options file, --help and
// the range checks all come from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/option.h"
#include "config/pipeline_spec.h"
#include "config/resource_options.h"
#include "config/step_options.h"

namespace echotrain::config {

/// A listener for TLS beside the plain one, or in its place. It exists when `certificate` is set.
struct TlsOptions {
  std::int64_t port = 9003;
  std::string certificate;  ///< PEM file: the server's certificate, then those between it and the root
  std::string key;          ///< PEM file
  std::string client_crl;   ///< PEM file of revoked certificates of client_ca; empty: none is
  std::string client_ca;    ///< PEM file: clients must show a certificate that these vouch for; empty: they need none
  bool only = false;        ///< no plain port
};

/// Raw capture puts each session's incoming bytes in a file of their own (docs/capture.md).
struct CaptureOptions {
  enum class Policy { always, on_error };  ///< which captures are kept; on_error: those of scans that did not end well
  /// The times when written bytes are forced to the disk; before_close: periodically, and all of them before CLOSE is
  /// answered.
  enum class Sync { none, end, periodic, before_close };
  enum class WhenFull { stop_capture, end_session };
  enum class WhenSlow { wait, stop_capture };
  std::string directory;  ///< empty: nothing is captured
  Policy policy = Policy::always;
  Sync sync = Sync::periodic;
  double sync_s = 1;
  WhenFull when_full = WhenFull::stop_capture;
  WhenSlow when_slow = WhenSlow::wait;
  std::int64_t queue_mib = 256;
  std::int64_t max_mib = 65536;     ///< of one capture
  std::int64_t waiting_mib = 1024;  ///< of a capture whose scan waits for its place
  std::int64_t reserve_mib = 1024;  ///< that stay free on the file system; 0: none
  std::int64_t keep_days = 0;       ///< 0: for ever
  std::int64_t keep_gib = 0;        ///< 0: no bound
};

/// Detached scans outlive their connections (docs/long_reconstructions.md).
struct DetachedOptions {
  std::string directory;        ///< empty: `detached` in that of the captures; without either there are none
  bool allow = true;            ///< also scans whose client asks for it, not their pipeline
  std::int64_t max_scans = 32;  ///< of one client that are kept
  std::int64_t max_gib = 64;    ///< of these, and so of one
  double max_keep_h = 168;
  double resume_within_s = 3600;    ///< after a cut; then a scan is incomplete
  std::int64_t reserve_mib = 1024;  ///< that stay free on the file system; 0: none
};

/// The DICOM peers to which images go that leave a scan (docs/dicom.md).
struct DicomOptions {
  std::vector<std::string> peers;  ///< "NAME=AE_TITLE@HOST:PORT", with "/tls" behind it for TLS
  std::vector<std::string>
      send_to;  ///< of these, those that get images of all the operator's pipelines (ScanRequest::trusted)
  std::string ae_title = "ECHOTRAIN";
  bool patient = false;                          ///< keep the header's patient fields
  std::string spool;                             ///< folder for images that wait for a peer
  std::int64_t spool_mib = 4096;                 ///< of all of them
  std::int64_t refused_mib = 1024;               ///< of each peer's, that it would not take
  std::int64_t refused_days = 30;                ///< how long these are kept; 0: until removed by hand
  std::int64_t tries = 10;                       ///< of an image that a peer does not take though it answers
  std::int64_t queue_mib = 256;                  ///< of images that wait to be written there
  double timeout_s = 10;                         ///< for a connection, and for each answer
  double retry_s = 30;                           ///< longest pause between two attempts
  double echo_s = 60;                            ///< between two C-ECHOs to a peer that gets no images
  std::string tls_ca, tls_certificate, tls_key;  ///< PEM files
};

/// A port for those who watch over the server: HTTP, without authentication.
struct AdminOptions {
  bool enabled = true;
  std::string bind = "127.0.0.1";
  std::int64_t port = 9004;
  std::int64_t agent_port = -1;  ///< for HAProxy's agent-check; -1: none
  std::string token_file;        ///< of administrators, who may stop sessions; empty: there are none
  enum class Page { off, loopback, token };
  Page page = Page::loopback;  ///< loopback: this machine needs no token to look, others do
  bool show_subject = false;   ///< patients' names on the page and in downloads
  std::int64_t viewers = 20;
  std::vector<std::string> hosts;  ///< names by which browsers and others may ask, besides localhost and addresses
  bool asked_for = false;          ///< bind or port was given: a failure to bind is then an error
};

/// The pipelines of their own that clients may send.
enum class ClientPipelines {
  off,      ///< they name one that the server has
  gadgets,  ///< of gadgets that compute in the server, without DICOM peers, Python modules and other servers
  all       ///< of all that the server's options let pipelines name
};
/// Reads one of these by its name, as options have it; nothing for another text.
std::optional<ClientPipelines> read_client_pipelines(std::string_view name);

/// The options that main() starts a server with. Times are in seconds, sizes in MiB (2^20 bytes).
struct ServerOptions {
  std::string bind = "127.0.0.1";
  std::int64_t port = 9002;
  std::vector<std::string> allow;  ///< networks that may use the plain port: "10.1.0.0/16"; empty: all
  bool insecure = false;           ///< permits a plain port without `allow` that everybody can reach
  /// Networks of balancers that say who their clients are (PROXY protocol, version 2).
  std::vector<std::string> proxy_from;
  std::string token_file;  ///< clients without a certificate must send a token from this file
  TlsOptions tls;
  CaptureOptions capture;
  DetachedOptions detached;
  AdminOptions admin;
  DicomOptions dicom;
  std::vector<std::string> pipelines;
  std::vector<std::string> plugins;  ///< folders
  std::string default_pipeline;
  ClientPipelines client_pipelines = ClientPipelines::gadgets;
  std::vector<std::string> share;  ///< groups of clients that are one: "NAME=MEMBER;MEMBER"
  std::string assets;              ///< folder of the files that pipelines may name
  StepOptions steps;
  std::int64_t python_warm = 1;
  BackendChoice backend = BackendChoice::automatic;
  std::string log_level = "info";
  std::string log_format = "text";
  std::vector<std::string> devices;  ///< numbers of GPUs; empty: all
  std::int64_t devices_per_scan = 1;
  std::int64_t device_scans = 0;
  std::int64_t device_memory_mib = 0;
  std::int64_t cpu_scans = 0;
  bool address_turns = true;
  bool latency = false;
  bool warm_up = true;
  std::int64_t max_waiting = 32;
  double wait_timeout_s = 300;
  std::int64_t max_sessions = 64;
  std::int64_t max_sessions_per_address = 0;  ///< 0: half of max_sessions
  std::vector<std::string> per_address_exempt;
  std::int64_t max_connecting = 256;
  std::int64_t memory_mib = 0;
  std::int64_t session_memory_mib = 0;
  std::int64_t recent_images_mib = 256;  ///< for the live page; 0: none are kept
  std::int64_t queue_mib = 64;
  double spare_memory_s = 60;
  double connect_timeout_s = 10;
  double idle_timeout_s = 300;
  double pause_s = 10;
  double max_scan_s = 43200;     ///< from the scan's beginning to the client's CLOSE
  double max_compute_s = 21600;  ///< after that
  double max_step_s = 600;       ///< without a step of a scan that works; 0: no bound
  double message_timeout_s = 30;
  double send_timeout_s = 60;
  double drain_timeout_s = 5;
  std::int64_t drain_mib = 256;
  double shutdown_delay_s = 0;
  double shutdown_timeout_s = 30;
  ResourceOptions resources;
};

/// Every option, in the order in which --help shows them. Errors name the option and say what is allowed.
const OptionTable<ServerOptions>& server_option_table();

/// Returns the defaults, overridden by environment variables. Throws ConfigError that names the variable.
ServerOptions read_server_variables();

/// Returns `options`, overridden by a YAML map of option names. Relative files and folders are resolved against the
/// file's folder. Throws ConfigError with file:line:column for anything unknown, of a wrong type or out of range.
ServerOptions read_server_options_file(const std::filesystem::path& file, ServerOptions options = {});

/// Returns an options file in which every option is commented out, with its help, range and default: a reference, and a
/// start for one's own file.
std::string server_options_template();

}  // namespace echotrain::config
