#include "config/server_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace echotrain::config {

namespace {

using Set = std::function<void(ServerOptions&, const Node&)>;

/// One row of the table; errors of `set` get the option's name and what is allowed.
OptionInfo option(std::string name, std::string help, std::string default_text, std::string allowed, Set set) {
  Set named = [name, allowed, set = std::move(set)](ServerOptions& options, const Node& node) {
    try {
      set(options, node);
    } catch (const ConfigError& error) {
      const std::string detail = error.message().find(allowed) == std::string::npos ? "; allowed is " + allowed : "";
      throw ConfigError(error.mark(), fmt::format("{}: {}{}", name, error.message(), detail));
    }
  };
  OptionInfo info;
  info.name = std::move(name);
  info.help = std::move(help);
  info.default_text = std::move(default_text);
  info.allowed = std::move(allowed);
  info.set = std::move(named);
  return info;
}

/// Where an option lives in the struct.
template <class T>
using Member = T& (*)(ServerOptions&);

template <class T>
T default_of(Member<T> member) {
  ServerOptions defaults;
  return member(defaults);
}

OptionInfo integer(std::string name, Member<std::int64_t> member, std::int64_t lowest, std::int64_t highest,
                   std::string help) {
  return option(std::move(name), std::move(help), fmt::format("{}", default_of(member)),
                fmt::format("{} to {}", lowest, highest),
                [=](ServerOptions& options, const Node& node) { member(options) = node.as_int(lowest, highest); });
}

OptionInfo seconds(std::string name, Member<double> member, std::string help, double shortest = 0.01) {
  constexpr double kLongest = 86400;
  return option(std::move(name), std::move(help), fmt::format("{}", default_of(member)),
                fmt::format("{} to {}", shortest, kLongest), [=](ServerOptions& options, const Node& node) {
                  member(options) = node.as_double(shortest, kLongest);
                });
}

OptionInfo text(std::string name, Member<std::string> member, bool may_be_empty, std::string help) {
  return option(std::move(name), std::move(help), default_of(member), "text",
                [=](ServerOptions& options, const Node& node) {
                  std::string value = node.as_string();
                  if (value.empty() && !may_be_empty) throw ConfigError(node.mark(), "the text is empty");
                  member(options) = std::move(value);
                });
}

/// A file or a folder; empty for none.
OptionInfo path(std::string name, Member<std::string> member, std::string allowed, std::string help) {
  OptionInfo info = option(std::move(name), std::move(help), default_of(member), std::move(allowed),
                           [=](ServerOptions& options, const Node& node) { member(options) = node.as_string(); });
  info.rebase = [=](ServerOptions& options, const std::filesystem::path& folder) {
    std::string& value = member(options);
    if (!value.empty()) value = (folder / value).string();
  };
  return info;
}

OptionInfo yes_or_no(std::string name, Member<bool> member, std::string help) {
  OptionInfo info = option(std::move(name), std::move(help), default_of(member) ? "true" : "false", "true or false",
                           [=](ServerOptions& options, const Node& node) { member(options) = node.as_bool(); });
  info.is_switch = true;
  return info;
}

template <typename Assign>
OptionInfo choice(std::string name, std::string default_text, std::vector<std::string> choices, Assign assign,
                  std::string help) {
  std::string allowed = fmt::format("{}", fmt::join(choices, ", "));
  return option(std::move(name), std::move(help), std::move(default_text), std::move(allowed),
                [choices = std::move(choices), assign](ServerOptions& options, const Node& node) {
                  assign(options, node.as_choice(choices));
                });
}

template <typename E>
OptionInfo choice_of(std::string name, std::vector<std::pair<std::string, E>> choices, Member<E> member,
                     std::string help) {
  std::vector<std::string> names;
  std::string default_text;
  for (const auto& [text, value] : choices) {
    names.push_back(text);
    if (value == default_of(member)) default_text = text;
  }
  return choice(
      std::move(name), std::move(default_text), std::move(names),
      [choices = std::move(choices), member](ServerOptions& options, const std::string& given) {
        for (const auto& [text, value] : choices)
          if (text == given) member(options) = value;
      },
      std::move(help));
}

/// One value or a sequence of values, none of them empty. `what` is one of them: "folder".
OptionInfo list(std::string name, Member<std::vector<std::string>> member, const std::string& what, std::string help) {
  OptionInfo info = option(std::move(name), std::move(help), "", what + "s",
                           [member, what](ServerOptions& options, const Node& node) {
                             const bool is_list = node.kind() == Node::Kind::sequence;
                             std::vector<std::string> given;
                             for (const Node& item : is_list ? node.as_sequence() : std::vector<Node>{node}) {
                               given.push_back(item.as_string());
                               if (given.back().empty())
                                 throw ConfigError(item.mark(), fmt::format("the {}'s name is empty", what));
                             }
                             std::vector<std::string>& values = member(options);
                             if (is_list) values.clear();
                             values.insert(values.end(), given.begin(), given.end());
                           });
  info.is_list = true;
  info.clear = [member](ServerOptions& options) { member(options).clear(); };
  return info;
}

OptionInfo folders(std::string name, Member<std::vector<std::string>> member, std::string help) {
  OptionInfo info = list(std::move(name), member, "folder", std::move(help));
  info.rebase = [member](ServerOptions& options, const std::filesystem::path& folder) {
    for (std::string& value : member(options)) value = (folder / value).string();
  };
  return info;
}

/// `option` with its `mark` set by whoever gives it a value.
OptionInfo marking(OptionInfo option, Member<bool> mark) {
  option.set = [mark, set = std::move(option.set)](ServerOptions& options, const Node& node) {
    set(options, node);
    mark(options) = true;
  };
  return option;
}

const OptionInfo* find_option(std::string_view name) {
  for (const OptionInfo& info : server_option_table()) {
    if (name == info.name || name == info.flag()) return &info;
  }
  return nullptr;
}

/// Sets the options of a map of the file: those whose names begin with `prefix` ("" or "capture.").
void read_group(ServerOptions& options, const Node& map, const std::string& prefix) {
  std::vector<std::string> known;
  for (const OptionInfo& info : server_option_table()) {
    if (!info.name.starts_with(prefix)) continue;
    const std::string rest = info.name.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (known.empty() || known.back() != key) known.push_back(key);
  }
  map.only(known);
  if (map.kind() == Node::Kind::null) return;
  for (const Node::Entry& entry : map.as_map()) {
    const std::string name = prefix + entry.key;
    if (const OptionInfo* info = find_option(name))
      info->set(options, entry.value);
    else
      read_group(options, entry.value, name + ".");
  }
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const OptionInfo& info : server_option_table()) names.push_back(info.name);
  return names;
}

}  // namespace

std::string OptionInfo::flag() const {
  std::string flag = "--" + name;
  std::replace_if(
      flag.begin(), flag.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return flag;
}

const std::vector<OptionInfo>& server_option_table() {
  using S = ServerOptions;
  using Capture = CaptureOptions;
  static const std::vector<OptionInfo> table{
      text(
          "bind", [](S & o) -> auto& { return o.bind; }, false, "address to listen on; 0.0.0.0 for every interface"),
      integer(
          "port", [](S & o) -> auto& { return o.port; }, 0, 65535, "TCP port; 0 takes any free one"),
      list(
          "allow", [](S & o) -> auto& { return o.allow; }, "network",
          "network that may use the plain port, as 10.1.0.0/16 or fd00::/8; none: all may"),
      yes_or_no(
          "insecure", [](S & o) -> auto& { return o.insecure; },
          "open the plain port to everybody who can reach this machine"),
      path(
          "token_file", [](S & o) -> auto& { return o.token_file; }, "FILE",
          "file of tokens, one per line; clients without a certificate must send one in their config text"),
      integer(
          "tls.port", [](S & o) -> auto& { return o.tls.port; }, 0, 65535, "TCP port for TLS; 0 takes any free one"),
      path(
          "tls.certificate", [](S & o) -> auto& { return o.tls.certificate; }, "FILE.pem",
          "certificate chain of this server; serves TLS when given"),
      path(
          "tls.key", [](S & o) -> auto& { return o.tls.key; }, "FILE.pem", "private key of the certificate"),
      path(
          "tls.client_ca", [](S & o) -> auto& { return o.tls.client_ca; }, "FILE.pem",
          "clients over TLS must show a certificate signed by one of these"),
      yes_or_no(
          "tls.only", [](S & o) -> auto& { return o.tls.only; }, "serve TLS only, without the plain port"),
      path(
          "capture.directory", [](S & o) -> auto& { return o.capture.directory; }, "FOLDER",
          "folder for each session's incoming bytes, which hold patients' data; empty: none are kept"),
      choice_of<Capture::Policy>(
          "capture.policy", {{"always", Capture::Policy::always}, {"on_error", Capture::Policy::on_error}},
          [](S & o) -> auto& { return o.capture.policy; },
          "captures to keep; on_error removes that of a scan that ended well"),
      choice_of<Capture::Sync>(
          "capture.sync",
          {{"none", Capture::Sync::none}, {"end", Capture::Sync::end}, {"periodic", Capture::Sync::periodic}},
          [](S & o) -> auto& { return o.capture.sync; },
          "when to force captures to the disk: never, at a session's end, or also every sync_s before it"),
      seconds(
          "capture.sync_s", [](S & o) -> auto& { return o.capture.sync_s; },
          "period of sync: periodic; a machine that loses power loses at most about that much of a capture"),
      choice_of<Capture::WhenFull>(
          "capture.when_full",
          {{"stop_capture", Capture::WhenFull::stop_capture}, {"end_session", Capture::WhenFull::end_session}},
          [](S & o) -> auto& { return o.capture.when_full; },
          "on a full disk or a failed write: go on without, and warn the client, or end the session"),
      choice_of<Capture::WhenSlow>(
          "capture.when_slow", {{"wait", Capture::WhenSlow::wait}, {"stop_capture", Capture::WhenSlow::stop_capture}},
          [](S & o) -> auto& { return o.capture.when_slow; },
          "on a disk slower than the data: hold the client back, or go on without"),
      integer(
          "capture.queue_mib", [](S & o) -> auto& { return o.capture.queue_mib; }, 1, 1 << 20,
          "bound of a session's bytes that wait for the disk"),
      integer(
          "capture.keep_days", [](S & o) -> auto& { return o.capture.keep_days; }, 0, 36500,
          "days after which captures are removed; 0 keeps them"),
      integer(
          "capture.keep_gib", [](S & o) -> auto& { return o.capture.keep_gib; }, 0, 1 << 20,
          "size of all captures from which on the oldest are removed; 0 keeps them"),
      yes_or_no(
          "admin.enabled", [](S & o) -> auto& { return o.admin.enabled; },
          "serve health, metrics and sessions over HTTP"),
      marking(
          text(
              "admin.bind", [](S & o) -> auto& { return o.admin.bind; }, false,
              "address for them; everybody who reaches it may read them"),
          [](S & o) -> auto& { return o.admin.asked_for; }),
      marking(
          integer(
              "admin.port", [](S & o) -> auto& { return o.admin.port; }, 0, 65535,
              "TCP port for them; 0 takes any free one; if the default is taken, the server starts without"),
          [](S & o) -> auto& { return o.admin.asked_for; }),
      integer(
          "admin.agent_port", [](S & o) -> auto& { return o.admin.agent_port; }, -1, 65535,
          "TCP port that answers HAProxy's agent-check; 0 takes any free one; -1: none"),
      folders(
          "pipelines", [](S & o) -> auto& { return o.pipelines; },
          "folder of pipeline files (*.yaml); a later one wins over an earlier one"),
      folders(
          "plugins", [](S & o) -> auto& { return o.plugins; },
          "folder of gadgets compiled elsewhere (*.so), which the server loads when it starts"),
      text(
          "default_pipeline", [](S & o) -> auto& { return o.default_pipeline; }, true,
          "pipeline for clients that ask for none"),
      path(
          "assets", [](S & o) -> auto& { return o.assets; }, "DIR",
          "folder of files that pipelines may name: coil maps, reference images (ISMRMRD HDF5)"),
      choice(
          "backend", std::string(to_string(S{}.backend)), {"auto", "cpu", "cuda"},
          [](S& options, const std::string& value) { options.backend = parse_backend(value); },
          "where pipelines run that do not say so themselves"),
      choice(
          "log_level", S{}.log_level, {"trace", "debug", "info", "warning", "error", "critical", "off"},
          [](S& options, const std::string& value) { options.log_level = value; }, "least severe message to log"),
      choice(
          "log_format", S{}.log_format, {"text", "json"},
          [](S& options, const std::string& value) { options.log_format = value; },
          "lines of the log: for people, or JSON objects for programs"),
      list(
          "devices", [](S & o) -> auto& { return o.devices; }, "device",
          "GPU to use, by its number from 0; none: all that are there"),
      integer(
          "devices_per_scan", [](S & o) -> auto& { return o.devices_per_scan; }, 1, 64,
          "GPUs that work on one scan together, where a gadget can use several (fhd with method: exact, pcg); needs "
          "NCCL, "
          "and `devices` must be a multiple of it"),
      integer(
          "device_scans", [](S & o) -> auto& { return o.device_scans; }, 1, 10000,
          "scans at a time on one GPU, or on those of one scan; further ones wait"),
      integer(
          "device_memory_mib", [](S & o) -> auto& { return o.device_memory_mib; }, 0, 1 << 24,
          "memory that one scan may use on its GPU; 0 takes session_memory_mib"),
      integer(
          "cpu_scans", [](S & o) -> auto& { return o.cpu_scans; }, 0, 10000,
          "scans at a time on the CPU; further ones wait; 0 sets no limit"),
      integer(
          "max_waiting", [](S & o) -> auto& { return o.max_waiting; }, 0, 100000,
          "scans that may wait for a GPU or the CPU; further ones are refused"),
      seconds(
          "wait_timeout_s", [](S & o) -> auto& { return o.wait_timeout_s; }, "longest wait for a GPU or the CPU"),
      integer(
          "max_sessions", [](S & o) -> auto& { return o.max_sessions; }, 1, 100000,
          "sessions at a time; further ones are refused"),
      integer(
          "memory_mib", [](S & o) -> auto& { return o.memory_mib; }, 0, 1 << 24,
          "memory that all sessions together may use, without the GPU's; 0 takes 3/4 of the machine's"),
      integer(
          "session_memory_mib", [](S & o) -> auto& { return o.session_memory_mib; }, 1, 1 << 24,
          "memory that one session may use"),
      integer(
          "queue_mib", [](S & o) -> auto& { return o.queue_mib; }, 1, 1 << 16,
          "bound of each of a session's two queues, input and output"),
      seconds(
          "spare_memory_s", [](S & o) -> auto& { return o.spare_memory_s; },
          "how long memory of ended sessions stays for others; unused for so long it goes back to the machine"),
      seconds(
          "connect_timeout_s", [](S & o) -> auto& { return o.connect_timeout_s; },
          "longest wait for a client's config message"),
      seconds(
          "idle_timeout_s", [](S & o) -> auto& { return o.idle_timeout_s; }, "longest pause between two messages"),
      seconds(
          "message_timeout_s", [](S & o) -> auto& { return o.message_timeout_s; }, "longest pause inside a message"),
      seconds(
          "send_timeout_s", [](S & o) -> auto& { return o.send_timeout_s; },
          "longest wait for a client that does not read, and at a scan's end for the disk"),
      seconds(
          "drain_timeout_s", [](S & o) -> auto& { return o.drain_timeout_s; },
          "after an error, how long to go on reading what a client sends"),
      integer(
          "drain_mib", [](S & o) -> auto& { return o.drain_mib; }, 0, 1 << 16,
          "after an error, how much to go on reading"),
      seconds(
          "shutdown_delay_s", [](S & o) -> auto& { return o.shutdown_delay_s; },
          "on SIGTERM, how long still to take scans, while those who send them learn that the server goes", 0),
      seconds(
          "shutdown_timeout_s", [](S & o) -> auto& { return o.shutdown_timeout_s; },
          "on SIGTERM, how long running scans may take to finish"),
      integer(
          "threads", [](S & o) -> auto& { return o.threads; }, 0, 4096, "CPU threads for reconstruction; 0 uses all"),
  };
  return table;
}

ServerOptions read_server_options_file(const std::filesystem::path& file) {
  const Node root = read_yaml_file(file);
  ServerOptions options;
  read_group(options, root, "");
  for (const OptionInfo& info : server_option_table())
    if (info.rebase) info.rebase(options, file.parent_path());
  return options;
}

void set_option(ServerOptions& options, std::string_view name, const std::string& text) {
  const OptionInfo* info = find_option(name);
  if (info == nullptr) {
    const std::string near = nearest(name, option_names());
    throw ConfigError({"command line", 0, 0}, fmt::format("unknown option {}{}", in_quotes(name),
                                                          near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  info->set(options, Node::scalar({info->flag(), 0, 0}, text, false));
}

}  // namespace echotrain::config
