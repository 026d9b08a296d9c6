#include "config/server_options.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "config/yaml_reader.h"

namespace echotrain::config {

namespace {

const std::vector<std::pair<std::string, ClientPipelines>>& client_pipelines() {
  static const std::vector<std::pair<std::string, ClientPipelines>> all = {
      {"off", ClientPipelines::off}, {"gadgets", ClientPipelines::gadgets}, {"all", ClientPipelines::all}};
  return all;
}

OptionTable<TlsOptions> tls_options() {
  using O = TlsOptions;
  return OptionTable<O>()
      .integer("port", &O::port, 0, 65535, "TCP port for TLS; 0 takes any free one")
      .path("certificate", &O::certificate, "FILE.pem", "certificate chain of this server; serves TLS when given")
      .path("key", &O::key, "FILE.pem", "private key of the certificate")
      .path("client_crl", &O::client_crl, "FILE.pem",
            "revocation lists (CRL) of the authorities of client_ca, one of each that signs clients")
      .path("client_ca", &O::client_ca, "FILE.pem", "clients over TLS must show a certificate signed by one of these")
      .flag("only", &O::only, "serve TLS only, without the plain port");
}

OptionTable<CaptureOptions> capture_options() {
  using O = CaptureOptions;
  return OptionTable<O>()
      .path("directory", &O::directory, "FOLDER",
            "folder for each session's incoming bytes, which hold patients' data; empty: none are kept")
      .choice_of<O::Policy>("policy", &O::policy, {{"always", O::Policy::always}, {"on_error", O::Policy::on_error}},
                            "captures to keep; on_error removes those of scans that ended well")
      .choice_of<O::Sync>(
          "sync", &O::sync,
          {{"none", O::Sync::none},
           {"end", O::Sync::end},
           {"periodic", O::Sync::periodic},
           {"before_close", O::Sync::before_close}},
          "when to force captures to the disk: never, at a session's end, also every sync_s before it, or also before "
          "the client's CLOSE is answered")
      .seconds("sync_s", &O::sync_s,
               "period of sync: periodic and before_close; a machine that loses power loses at most about that much of "
               "a capture that was not acknowledged")
      .choice_of<O::WhenFull>(
          "when_full", &O::when_full,
          {{"stop_capture", O::WhenFull::stop_capture}, {"end_session", O::WhenFull::end_session}},
          "on a full disk, a failed write or at max_mib: go on without a capture and warn the client, or end the "
          "session")
      .choice_of<O::WhenSlow>("when_slow", &O::when_slow,
                              {{"wait", O::WhenSlow::wait}, {"stop_capture", O::WhenSlow::stop_capture}},
                              "on a disk slower than the data: hold the client back, or go on without a capture")
      .integer("queue_mib", &O::queue_mib, 1, 1 << 20, "bound of a session's bytes that wait for the disk")
      .integer("max_mib", &O::max_mib, 1, 1 << 30, "bound of one capture; there it stops as on a full disk")
      .integer("waiting_mib", &O::waiting_mib, 1, 1 << 30,
               "bound of a capture while its scan waits for a place; there the client is held back")
      .integer("reserve_mib", &O::reserve_mib, 0, 1 << 30,
               "space that captures leave free on their file system; there they stop as on a full disk; 0: none")
      .integer("keep_days", &O::keep_days, 0, 36500, "days after which captures are removed; 0 keeps them")
      .integer(
          "keep_gib", &O::keep_gib, 0, 1 << 20,
          "size of all captures, each of which counts 1 MiB at least, above which the oldest of the client that has "
          "most are removed; 0 keeps them");
}

OptionTable<DetachedOptions> detached_options() {
  using O = DetachedOptions;
  return OptionTable<O>()
      .path("directory", &O::directory, "FOLDER",
            "folder of scans that outlive their connections, which hold patients' data; empty: no such scans")
      .flag("allow", &O::allow, "detach scans whose clients ask for it, besides those whose pipeline says so")
      .integer("max_scans", &O::max_scans, 1, 10000, "detached scans of one client, with those that are kept")
      .integer("max_gib", &O::max_gib, 1, 1 << 20, "size of them all")
      .number("max_keep_h", &O::max_keep_h, 0, 8784, "longest time for which an ended scan is kept")
      .seconds("resume_within_s", &O::resume_within_s,
               "how long a scan waits for a client whose connection broke off; then it ends with what came")
      .integer("reserve_mib", &O::reserve_mib, 0, 1 << 30,
               "space that detached scans leave free on their file system; 0: none");
}

OptionTable<AdminOptions> admin_options() {
  using O = AdminOptions;
  return OptionTable<O>()
      .flag("enabled", &O::enabled, "serve health, metrics and sessions over HTTP")
      .text("bind", &O::bind, "address of the admin port; all who reach it may read what it serves")
      .not_empty()
      .marking(&O::asked_for)
      .integer(
          "port", &O::port, 0, 65535,
          "TCP port of the admin pages; 0 takes any free one; if the default is taken, the server starts without them")
      .marking(&O::asked_for)
      .integer("agent_port", &O::agent_port, -1, 65535,
               "TCP port that answers HAProxy's agent-check; 0 takes any free one; -1: none")
      .path("token_file", &O::token_file, "FILE",
            "file of tokens, one per line, of those who may look at the live page from anywhere, stop sessions, "
            "take images away and replay captures; empty: this is off")
      .choice_of<O::Page>("page", &O::page,
                          {{"off", O::Page::off}, {"loopback", O::Page::loopback}, {"token", O::Page::token}},
                          "who may look at the live page and its images without a login by a token: programs of this "
                          "machine, or nobody; off: there is no page")
      .flag("show_subject", &O::show_subject,
            "show patients' names on the live page, and keep patients' fields in files that are taken away from it")
      .integer("viewers", &O::viewers, 1, 1000, "how many may look at the live page at a time")
      .list("hosts", &O::hosts, "name",
            "name that requests to the admin port may have in their Host header, besides localhost and addresses");
}

OptionTable<DicomOptions> dicom_options() {
  using O = DicomOptions;
  return OptionTable<O>()
      .list("peers", &O::peers, "peer",
            "peer that images may be sent to by C-STORE, as pacs=ORTHANC@10.0.0.5:4242; behind it /tls for TLS, "
            "/enhanced for one multi-frame object per series; pipelines name it: dicom: {send_to: pacs}")
      .list("send_to", &O::send_to, "name",
            "peer that gets the images of every scan of the server's pipelines, whatever they say")
      .text("ae_title", &O::ae_title, "AE title of this server")
      .not_empty()
      .flag("patient", &O::patient, "send the patient's name, number and the like where a scan's header has them")
      .path("spool", &O::spool, "FOLDER",
            "folder for images that wait for a peer, also over a restart; they hold patients' data")
      .integer("spool_mib", &O::spool_mib, 1, 1 << 30,
               "bound of all files in the spool; further images are not sent. A client gets no more than it leaves to "
               "others")
      .integer(
          "refused_mib", &O::refused_mib, 1, 1 << 30,
          "bound of the images of one peer that it would not take, in its folder `refused`; the oldest are removed")
      .integer("refused_days", &O::refused_days, 0, 36500,
               "how long such images are kept; 0: until they are removed by hand")
      .integer("tries", &O::tries, 1, 1000000,
               "how often an image is tried that a peer does not take though it takes others; it is then put aside")
      .integer("queue_mib", &O::queue_mib, 1, 1 << 20,
               "bound of images that wait to be written to the spool; further ones are not sent")
      .seconds("timeout_s", &O::timeout_s, "longest wait for a peer's connection and for each of its answers")
      .seconds("retry_s", &O::retry_s, "longest pause before a peer that failed is tried again")
      .seconds("echo_s", &O::echo_s, "how often a peer that gets no images is asked whether it is there (C-ECHO)")
      .path("tls_ca", &O::tls_ca, "FILE.pem", "peers over TLS must show a certificate signed by one of these")
      .path("tls_certificate", &O::tls_certificate, "FILE.pem", "certificate that this server shows to peers over TLS")
      .path("tls_key", &O::tls_key, "FILE.pem", "private key of that certificate");
}

}  // namespace

const OptionTable<ServerOptions>& server_option_table() {
  using S = ServerOptions;
  static const auto table =
      OptionTable<S>()
          .text("bind", &S::bind, "address to listen on; 0.0.0.0 for every interface")
          .not_empty()
          .integer("port", &S::port, 0, 65535, "TCP port; 0 takes any free one")
          .list("allow", &S::allow, "network",
                "network that may use the plain port, as 10.1.0.0/16 or fd00::/8; without any, all may")
          .flag("insecure", &S::insecure, "open the plain port to everybody who can reach this machine")
          .list("proxy_from", &S::proxy_from, "network",
                "network of balancers that must say who their clients are, by the PROXY protocol, version 2 (HAProxy: "
                "send-proxy-v2); `allow` and limits then go by the clients' addresses")
          .path("token_file", &S::token_file, "FILE",
                "file of tokens, one per line; clients without a certificate must send one in their config text")
          .group("tls", &S::tls, tls_options())
          .group("capture", &S::capture, capture_options())
          .group("detached", &S::detached, detached_options())
          .group("admin", &S::admin, admin_options())
          .group("dicom", &S::dicom, dicom_options())
          .folders("pipelines", &S::pipelines, "folder of pipeline files (*.yaml); later folders win over earlier ones")
          .folders("plugins", &S::plugins,
                   "folder of gadgets compiled elsewhere (*.so), which the server loads when it starts")
          .text("default_pipeline", &S::default_pipeline, "pipeline for clients that ask for none")
          .choice_of<ClientPipelines>(
              "client_pipelines", &S::client_pipelines, client_pipelines(),
              "pipelines that clients may send: none, those of gadgets that compute in the server, or also such that "
              "send to dicom.peers and mrd_servers and run modules of python_modules; a line of token_file may say "
              "otherwise for its client")
          .list("share", &S::share, "group",
                "clients that may use each other's noise and reference lines, as mr1=token:console;address:10.1.2.3: "
                "members are token:NAME, certificate:SUBJECT, address:NETWORK")
          .path("assets", &S::assets, "DIR",
                "folder of files that pipelines may name: coil maps, reference images (ISMRMRD HDF5)")
          .group("", &S::steps, step_option_table())
          .integer(
              "python_warm", &S::python_warm, 0, 64,
              "processes that wait for scans with a Python module loaded, of the modules that were used last; each "
              "counts in the memory budget as one at work, and goes when a scan wants the memory")
          .choice_of<BackendChoice>(
              "backend", &S::backend,
              {{"auto", BackendChoice::automatic}, {"cpu", BackendChoice::cpu}, {"cuda", BackendChoice::cuda}},
              "where pipelines run that name no backend")
          .choice("log_level", &S::log_level, {"trace", "debug", "info", "warning", "error", "critical", "off"},
                  "least severe message to log")
          .choice("log_format", &S::log_format, {"text", "json"},
                  "lines of the log: for people, or JSON objects for programs")
          .list("devices", &S::devices, "device", "GPU to use, by its number from 0; without any, all are used")
          .integer("devices_per_scan", &S::devices_per_scan, 1, 64,
                   "GPUs that work on one scan together, where a gadget can use several (fhd with method: exact, pcg); "
                   "needs NCCL, and `devices` must be a multiple of it")
          .integer("device_scans", &S::device_scans, 0, 10000,
                   "scans at a time on one GPU (or on the GPUs that work together); further ones wait. 0: as many as "
                   "compute as much as 8 that do so all the time, at most 64, while the GPU has memory for them")
          .integer("device_memory_mib", &S::device_memory_mib, 0, 1 << 24,
                   "memory that one scan may use on its GPU; 0 takes session_memory_mib, or 8192")
          .integer("cpu_scans", &S::cpu_scans, 0, 10000,
                   "scans at a time on the CPU; further ones wait; 0 sets no limit")
          .flag("address_turns", &S::address_turns,
                "while scans of several addresses compute, give each address an equal part of the cores, by turns of "
                "10 ms "
                "(docs/reliability.md says where that helps)")
          .flag("latency", &S::latency,
                "while scans run, spin instead of sleeping: one thread that has all sockets, and one thread per scan, "
                "each on a core of its own, while some are left; nobody waits for them to wake, and those cores are "
                "busy all the time (docs/realtime.md)")
          .flag("warm_up", &S::warm_up,
                "after the start, while no scan runs, try the pipelines with small scans, so that the first real one "
                "finds kernels and libraries loaded; stops as soon as a scan comes")
          .variable("ECHOTRAIN_WARM_UP")
          .integer("max_waiting", &S::max_waiting, 0, 100000,
                   "scans that may wait for a GPU or the CPU; further ones are refused")
          .seconds("wait_timeout_s", &S::wait_timeout_s, "longest wait for a GPU or the CPU")
          .integer("max_sessions", &S::max_sessions, 1, 100000, "sessions at a time; further ones are refused")
          .integer("max_sessions_per_address", &S::max_sessions_per_address, 0, 100000,
                   "sessions at a time of one address (of one /64 network of IPv6); 0 takes half of max_sessions")
          .list("per_address_exempt", &S::per_address_exempt, "network",
                "network of which each address may have max_sessions, as a gateway for many clients needs")
          .integer("max_connecting", &S::max_connecting, 1, 10000,
                   "connections at a time, beside the sessions, that have not sent a config (and a token, where one is "
                   "needed); for further ones the oldest of the address that has most is dropped")
          .integer(
              "memory_mib", &S::memory_mib, 0, 1 << 24,
              "memory that the server may use in all, without the GPU's: sessions, caches, pools; the process stays "
              "within 256 MiB above it; 0 takes 15/16 of the container's or 3/4 of the machine's, less 256 MiB")
          .integer("session_memory_mib", &S::session_memory_mib, 0, 1 << 24,
                   "memory that one session may use; 0 takes half of memory_mib, and no more than 8192")
          .integer(
              "recent_images_mib", &S::recent_images_mib, 0, 1 << 24,
              "images of the last scans that stay in memory for the live page, within memory_mib: a scan that needs "
              "the memory gets it; 0: none")
          .integer("queue_mib", &S::queue_mib, 1, 1 << 16, "bound of each of a session's two queues, input and output")
          .seconds(
              "spare_memory_s", &S::spare_memory_s,
              "how long memory of ended sessions is kept for new ones; then unused memory goes back to the machine")
          .seconds("connect_timeout_s", &S::connect_timeout_s,
                   "longest wait for a client's config, from when it connects, and then for its header")
          .seconds("idle_timeout_s", &S::idle_timeout_s, "longest wait for a readout or an image, from the last one")
          .seconds("pause_s", &S::pause_s,
                   "pause without readouts and images (a breath hold) after which a scan's GPU or CPU goes to scans "
                   "that wait; the scan keeps its state, and waits its turn when it goes on")
          .seconds("max_scan_s", &S::max_scan_s,
                   "longest time from a scan's beginning until its client has sent everything; then the scan ends with "
                   "the images of what has come")
          .seconds("max_compute_s", &S::max_compute_s,
                   "longest time that a scan computes after its client has sent everything; then it is stopped")
          .seconds("max_step_s", &S::max_step_s,
                   "longest time that a scan which computes shows no sign of life (steps of milliseconds, as a rule); "
                   "then it hangs: its client hears so, and where a GPU hangs the server ends; 0: no bound",
                   0)
          .seconds("message_timeout_s", &S::message_timeout_s, "longest pause inside a message")
          .seconds("send_timeout_s", &S::send_timeout_s,
                   "longest wait for a client that does not read, and at a scan's end for the disk")
          .seconds("drain_timeout_s", &S::drain_timeout_s,
                   "after an error, how long to go on reading what a client sends")
          .integer("drain_mib", &S::drain_mib, 0, 1 << 16, "after an error, how much to go on reading")
          .seconds("shutdown_delay_s", &S::shutdown_delay_s,
                   "on SIGTERM, how long still to take scans, while senders learn that the server is going", 0)
          .seconds("shutdown_timeout_s", &S::shutdown_timeout_s,
                   "on SIGTERM, how long running scans may take to finish")
          .group("", &S::resources, resource_option_table())
          .naming_errors();
  return table;
}

std::optional<ClientPipelines> read_client_pipelines(std::string_view name) {
  for (const auto& [text, value] : client_pipelines())
    if (text == name) return value;
  return std::nullopt;
}

ServerOptions read_server_variables() {
  ServerOptions options;
  server_option_table().read_variables(options, [](const char* name) -> const char* { return std::getenv(name); });
  return options;
}

ServerOptions read_server_options_file(const std::filesystem::path& file, ServerOptions options) {
  server_option_table().read_into(options, read_yaml_file(file), file.parent_path());
  return options;
}

}  // namespace echotrain::config
