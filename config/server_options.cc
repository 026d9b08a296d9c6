#include "config/server_options.h"

#include <fmt/format.h>

#include <algorithm>

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
  return {std::move(name), std::move(help), std::move(default_text), std::move(allowed), false, std::move(named)};
}

OptionInfo integer(std::string name, std::int64_t ServerOptions::*member, std::int64_t lowest, std::int64_t highest,
                   std::string help) {
  return option(std::move(name), std::move(help), fmt::format("{}", ServerOptions{}.*member),
                fmt::format("{} to {}", lowest, highest),
                [=](ServerOptions& options, const Node& node) { options.*member = node.as_int(lowest, highest); });
}

OptionInfo seconds(std::string name, double ServerOptions::*member, std::string help) {
  constexpr double kShortest = 0.01;
  constexpr double kLongest = 86400;
  return option(std::move(name), std::move(help), fmt::format("{}", ServerOptions{}.*member),
                fmt::format("{} to {}", kShortest, kLongest), [=](ServerOptions& options, const Node& node) {
                  options.*member = node.as_double(kShortest, kLongest);
                });
}

OptionInfo text(std::string name, std::string ServerOptions::*member, bool may_be_empty, std::string help) {
  return option(std::move(name), std::move(help), ServerOptions{}.*member, "text",
                [=](ServerOptions& options, const Node& node) {
                  std::string value = node.as_string();
                  if (value.empty() && !may_be_empty) throw ConfigError(node.mark(), "the text is empty");
                  options.*member = std::move(value);
                });
}

template <typename Assign>
OptionInfo choice(std::string name, std::string default_text, std::vector<std::string> choices, Assign assign,
                  std::string help) {
  const std::string allowed = fmt::format("{}", fmt::join(choices, ", "));
  return option(std::move(name), std::move(help), std::move(default_text), allowed,
                [choices = std::move(choices), assign](ServerOptions& options, const Node& node) {
                  assign(options, node.as_choice(choices));
                });
}

OptionInfo folders() {
  OptionInfo info = option("pipelines", "folder of pipeline files (*.yaml); a later one wins over an earlier one", "",
                           "folders", [](ServerOptions& options, const Node& node) {
                             const bool is_list = node.kind() == Node::Kind::sequence;
                             std::vector<std::string> given;
                             for (const Node& item : is_list ? node.as_sequence() : std::vector<Node>{node}) {
                               given.push_back(item.as_string());
                               if (given.back().empty()) throw ConfigError(item.mark(), "the folder's name is empty");
                             }
                             if (is_list) options.pipelines.clear();
                             options.pipelines.insert(options.pipelines.end(), given.begin(), given.end());
                           });
  info.is_list = true;
  return info;
}

const OptionInfo* find_option(std::string_view name) {
  for (const OptionInfo& info : server_option_table()) {
    if (name == info.name || name == info.flag()) return &info;
  }
  return nullptr;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const OptionInfo& info : server_option_table()) names.push_back(info.name);
  return names;
}

}  // namespace

std::string OptionInfo::flag() const {
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

const std::vector<OptionInfo>& server_option_table() {
  using S = ServerOptions;
  static const std::vector<OptionInfo> table{
      text("bind", &S::bind, false, "address to listen on; 0.0.0.0 for every interface"),
      integer("port", &S::port, 0, 65535, "TCP port; 0 takes any free one"),
      folders(),
      text("default_pipeline", &S::default_pipeline, true, "pipeline for clients that ask for none"),
      choice(
          "backend", std::string(to_string(S{}.backend)), {"auto", "cpu", "cuda"},
          [](S& options, const std::string& value) { options.backend = parse_backend(value); },
          "where pipelines run that do not say so themselves"),
      choice(
          "log_level", S{}.log_level, {"trace", "debug", "info", "warning", "error", "critical", "off"},
          [](S& options, const std::string& value) { options.log_level = value; }, "least severe message to log"),
      integer("max_sessions", &S::max_sessions, 1, 100000, "sessions at a time; further ones are refused"),
      integer("memory_mib", &S::memory_mib, 0, 1 << 24,
              "memory that all sessions together may use, without the GPU's; 0 takes 3/4 of the machine's"),
      integer("session_memory_mib", &S::session_memory_mib, 1, 1 << 24, "memory that one session may use"),
      integer("queue_mib", &S::queue_mib, 1, 1 << 16, "bound of each of a session's two queues, input and output"),
      seconds("connect_timeout_s", &S::connect_timeout_s, "longest wait for a client's config message"),
      seconds("idle_timeout_s", &S::idle_timeout_s, "longest pause between two messages"),
      seconds("message_timeout_s", &S::message_timeout_s, "longest pause inside a message"),
      seconds("send_timeout_s", &S::send_timeout_s, "longest wait for a client that does not read"),
      seconds("drain_timeout_s", &S::drain_timeout_s, "after an error, how long to go on reading what a client sends"),
      integer("drain_mib", &S::drain_mib, 0, 1 << 16, "after an error, how much to go on reading"),
      seconds("shutdown_timeout_s", &S::shutdown_timeout_s, "on SIGTERM, how long running scans may take to finish"),
      integer("threads", &S::threads, 0, 4096, "CPU threads for reconstruction; 0 uses all"),
  };
  return table;
}

ServerOptions read_server_options_file(const std::filesystem::path& file) {
  const Node root = read_yaml_file(file);
  root.only(option_names());
  ServerOptions options;
  if (root.kind() == Node::Kind::null) return options;
  for (const Node::Entry& entry : root.as_map()) find_option(entry.key)->set(options, entry.value);
  for (std::string& folder : options.pipelines) folder = (file.parent_path() / folder).string();
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
