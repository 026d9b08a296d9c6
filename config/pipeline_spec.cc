#include "config/pipeline_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "config/branch_spec.h"
#include "config/foreign_names.h"
#include "config/mistakes.h"
#include "config/yaml_reader.h"

namespace echotrain::config {

namespace {

constexpr std::array kBackends{std::pair{BackendChoice::automatic, "auto"}, std::pair{BackendChoice::cpu, "cpu"},
                               std::pair{BackendChoice::cuda, "cuda"}};
constexpr std::array kUnits{std::pair{TrajectoryUnit::cycles_per_pixel, "cycles_per_pixel"},
                            std::pair{TrajectoryUnit::cycles_per_fov, "cycles_per_fov"},
                            std::pair{TrajectoryUnit::radians_per_pixel, "radians_per_pixel"},
                            std::pair{TrajectoryUnit::cycles_per_m, "cycles_per_m"}};

constexpr std::array kInputs{std::pair{Input::readouts, "readouts"}, std::pair{Input::images, "images"}};

template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  names.reserve(table.size());
  for (const auto& [value, name] : table) names.emplace_back(name);
  return names;
}

/// The value whose name stands in `node`.
template <typename Table>
auto choice(const Node& node, const Table& table) {
  const std::string text = node.as_choice(names_of(table));
  return std::find_if(table.begin(), table.end(), [&](const auto& pair) { return pair.second == text; })->first;
}

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [each, name] : table) {
    if (each == value) return name;
  }
  return "?";
}

/// True if the file has this key, even without a value: a value left empty by mistake is then refused by its type.
bool is_given(const Node& node) { return node.mark().line > 0; }

const Node::Entry* entry_of(const Node& map, std::string_view key) {
  for (const Node::Entry& entry : map.as_map()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string read_name(const Node& node) {
  std::string name = node.as_string();
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > 64 || name[0] < 'a' || name[0] > 'z' ||
      !std::all_of(name.begin(), name.end(), fits)) {
    throw ConfigError(node.mark(), fmt::format("{} is no name: use a to z, 0 to 9 and _, a letter first, at most 64",
                                               in_quotes(name)));
  }
  return name;
}

std::vector<std::string> read_aliases(const Node& node) {
  std::vector<std::string> aliases;
  for (const Node& item : node.as_sequence()) {
    const std::string alias = item.as_string();
    const auto fits = [](char c) { return c > 0x20 && c < 0x7F && c != '/' && c != '\\'; };
    if (alias.empty() || alias.size() > 255 || !std::all_of(alias.begin(), alias.end(), fits)) {
      throw ConfigError(item.mark(), fmt::format("{} is no alias: use 1 to 255 letters, digits and signs, without "
                                                 "blanks and slashes",
                                                 in_quotes(alias)));
    }
    if (std::find(aliases.begin(), aliases.end(), alias) != aliases.end()) {
      throw ConfigError(item.mark(), fmt::format("the alias {} is given twice", in_quotes(alias)));
    }
    aliases.push_back(alias);
  }
  return aliases;
}

FrameRule read_frame(const Node& node) {
  FrameRule rule;
  rule.mark = node.mark();
  if (!is_given(node)) return rule;
  const std::string forms = "auto, {until: FLAG}, {readouts: N} or {readouts: N, stride: M, when_behind: drop_oldest}";
  if (node.kind() != Node::Kind::map) {
    if (node.kind() != Node::Kind::scalar || node.as_string() != "auto") {
      throw ConfigError(node.mark(), fmt::format("a frame is {}", forms));
    }
    return rule;
  }
  node.only(std::vector<std::string>{"until", "readouts", "stride", "when_behind"});
  const Node until = node.get("until");
  const Node readouts = node.get("readouts");
  const Node stride = node.get("stride");
  const Node when_behind = node.get("when_behind");
  if (is_given(until) == is_given(readouts) || (is_given(until) && (is_given(stride) || is_given(when_behind)))) {
    throw ConfigError(node.mark(), fmt::format("a frame is one of: {}", forms));
  }
  if (is_given(until)) {
    rule.kind = FrameRule::Kind::until;
    rule.until = until.as_choice(until_flags());
  } else {
    rule.kind = FrameRule::Kind::readouts;
    rule.readouts = readouts.as_int(1, std::numeric_limits<std::int32_t>::max());
    rule.stride = is_given(stride) ? stride.as_int(1, rule.readouts) : rule.readouts;
    if (is_given(when_behind) &&
        when_behind.as_choice(std::vector<std::string>{"wait", "drop_oldest"}) == "drop_oldest")
      rule.when_behind = WhenBehind::drop_oldest;
  }
  return rule;
}

/// `dicom: {send_to: NAME}` or `{send_to: [NAME, NAME]}`.
std::vector<std::string> read_dicom(const Node& node) {
  node.only(std::vector<std::string>{"send_to"});
  const Node to = node.get("send_to");
  std::vector<std::string> peers;
  if (to.kind() == Node::Kind::sequence) {
    for (const Node& each : to.as_sequence()) peers.push_back(each.as_string());
  } else if (is_given(to)) {
    peers.push_back(to.as_string());
  }
  if (peers.empty() || std::find(peers.begin(), peers.end(), "") != peers.end())
    throw ConfigError(node.mark(), "name a DICOM peer of the server: 'dicom: {send_to: NAME}'");
  return peers;
}

/// `detach: {keep_h: 24, deliver: [client, dicom], durable: write}`, each of which may be missing.
DetachSpec read_detach(const Node& node) {
  constexpr double kMost_h = 24 * 366;
  DetachSpec detach;
  node.only(std::vector<std::string>{"keep_h", "deliver", "durable"});
  const Node keep = node.get("keep_h"), deliver = node.get("deliver"), durable = node.get("durable");
  if (is_given(keep)) detach.keep_h = keep.as_double(0, kMost_h);
  if (is_given(durable)) detach.power = durable.as_choice(std::vector<std::string>{"write", "power"}) == "power";
  if (!is_given(deliver)) return detach;
  detach.to_client = detach.to_dicom = false;
  for (const Node& each : deliver.as_sequence()) {
    const bool client = each.as_choice(std::vector<std::string>{"client", "dicom"}) == "client";
    (client ? detach.to_client : detach.to_dicom) = true;
  }
  if (!detach.to_client && !detach.to_dicom)
    throw ConfigError(deliver.mark(), "'deliver' is empty; name client, dicom or both");
  return detach;
}

GadgetSpec read_gadget(const Node& node) {
  GadgetSpec gadget;
  gadget.mark = node.mark();
  if (node.kind() == Node::Kind::scalar) {
    gadget.name = node.as_string();
  } else if (node.kind() == Node::Kind::map && !node.as_map().empty()) {
    const std::vector<Node::Entry>& entries = node.as_map();
    if (entries.size() > 1) {
      throw ConfigError(entries[1].mark,
                        fmt::format("{} is at the same level as the gadget {}; indent its parameters further, or "
                                    "start a new '- ' for another gadget",
                                    in_quotes(entries[1].key), in_quotes(entries[0].key)));
    }
    gadget.name = entries[0].key;
    gadget.mark = entries[0].mark;
    gadget.parameters = entries[0].value;
    if (gadget.parameters.kind() != Node::Kind::null) gadget.parameters.as_map();
  }
  if (gadget.name.empty()) {
    throw ConfigError(gadget.mark, "a gadget is expected: '- name' or '- name: {parameter: value}'");
  }
  return gadget;
}

/// Text that begins with '<' is XML. Stock clients send Gadgetron's configurations, so say what to do instead.
void refuse_xml(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '<') return;
  const Mark mark{name, 1 + static_cast<int>(std::count(text.begin(), text.begin() + start, '\n')),
                  static_cast<int>(start - (text.substr(0, start).rfind('\n') + 1)) + 1};
  // The first "<letter" opens the root element, unless it is inside a comment.
  std::string root;
  for (std::size_t at = start; at != std::string_view::npos && at + 1 < text.size(); at = text.find('<', at + 1)) {
    if (text.substr(at).starts_with("<!--")) {
      at = text.find("-->", at);
      if (at == std::string_view::npos) break;
    } else if (std::isalpha(static_cast<unsigned char>(text[at + 1])) != 0) {
      root = text.substr(at + 1, text.find_first_of(" \t\r\n/>", at + 1) - at - 1);
      break;
    }
  }
  const std::string local = root.substr(root.find(':') + 1);
  const std::string what = local == "gadgetronStreamConfiguration" || local == "configuration"
                               ? fmt::format("a Gadgetron XML configuration (<{}>)", local)
                               : "XML";
  throw ConfigError(mark, fmt::format("this is {}; Echotrain takes YAML. Ask for a pipeline by name instead, such as "
                                      "cartesian_2d, or make one of it (echotrain convert-config)",
                                      what));
}

/// Finds what the entries of `expose` set, and writes their defaults there.
void read_exposed_into(PipelineSpec& spec, const Node& node) {
  spec.exposed = read_exposed(node);
  for (const ExposedSpec& each : spec.exposed) {
    const std::vector<Node> given = parameters_of(spec, each.gadget, each.parameter);
    if (given.empty()) {
      std::vector<std::string> names;
      for (const auto* chain : {&spec.gadgets, &spec.accelerated})
        for (const GadgetSpec& gadget : gadgets_in(*chain)) names.push_back(gadget.name);
      const std::string near = nearest(each.gadget, names);
      throw ConfigError(each.sets_mark, fmt::format("the pipeline has no gadget {}{}", in_quotes(each.gadget),
                                                    near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    if (!is_given(each.fallback)) continue;
    for (const Node& value : given)
      if (is_given(value))
        throw ConfigError(each.fallback.mark(), fmt::format("{}.{} has a value already ({}); write the default in one "
                                                            "place only",
                                                            each.gadget, each.parameter, value.mark().text()));
    set_parameter(spec, each.gadget, each.parameter, each.fallback);
  }
}

PipelineSpec read_spec(const Node& root) {
  if (root.kind() != Node::Kind::map) {
    throw ConfigError(root.mark(), "a pipeline file is expected: a map that begins with 'echotrain: 1'");
  }
  const auto attempt = [](auto&& read) { return Mistakes::attempt(read); };
  for (const Node::Entry& entry : root.as_map())
    attempt([&] {
      Node::map(root.mark(), {entry})
          .only(std::vector<std::string>{"echotrain", "name", "description", "aliases", "backend", "input", "frame",
                                         "trajectory_unit", "dicom", "detach", "expose", "pipeline", "accelerated"});
    });
  const auto read_required = [&](const char* key, const auto& read) {
    attempt([&] {
      const Node::Entry* entry = entry_of(root, key);
      if (entry == nullptr)
        throw ConfigError(root.mark(), fmt::format("the key '{}' is missing; a pipeline file has echotrain, name, "
                                                   "description and pipeline",
                                                   key));
      read(entry->value);
    });
  };
  const auto read_given = [&](const char* key, const auto& read) {
    if (const Node node = root.get(key); is_given(node)) attempt([&] { read(node); });
  };
  PipelineSpec spec;
  spec.mark = root.mark();
  read_required("echotrain", [&](const Node& version) {
    if (version.as_int() != 1)
      throw ConfigError(version.mark(),
                        fmt::format("format version {} is not known; write 'echotrain: 1'", version.as_int()));
  });
  read_required("name", [&](const Node& name) { spec.name = read_name(name); });
  read_required("description", [&](const Node& description) {
    spec.description = description.as_string();
    if (spec.description.empty()) throw ConfigError(description.mark(), "the description is empty; say what it is for");
  });
  read_given("aliases", [&](const Node& aliases) { spec.aliases = read_aliases(aliases); });
  read_given("backend", [&](const Node& backend) {
    spec.backend = choice(backend, kBackends);
    spec.backend_mark = backend.mark();
  });
  read_given("input", [&](const Node& input) { spec.input = choice(input, kInputs); });
  attempt([&] { spec.frame = read_frame(root.get("frame")); });
  for (const char* of_readouts : {"frame", "trajectory_unit", "accelerated"})
    read_given(of_readouts, [&](const Node& node) {
      if (spec.input == Input::images)
        throw ConfigError(node.mark(),
                          "'frame', 'trajectory_unit' and 'accelerated' are for readouts; with 'input: images' every "
                          "image is a frame, and stack_slices makes volumes");
    });
  read_given("trajectory_unit", [&](const Node& unit) { spec.trajectory_unit = choice(unit, kUnits); });
  read_given("dicom", [&](const Node& dicom) {
    spec.dicom_peers = read_dicom(dicom);
    spec.dicom_mark = dicom.mark();
  });
  read_given("detach", [&](const Node& detach) { spec.detach = read_detach(detach); });
  std::size_t size = 0;
  read_required("pipeline", [&](const Node& chain) { spec.gadgets = read_chain(chain, "pipeline", size); });
  read_given("accelerated", [&](const Node& chain) { spec.accelerated = read_chain(chain, "accelerated", size); });
  attempt([&] {
    for (const auto* chain : {&spec.gadgets, &spec.accelerated})
      for (const GadgetSpec& gadget : gadgets_in(*chain))
        if (gadget.name.empty()) return;  // not read: it may be the one that is exposed
    read_exposed_into(spec, root.get("expose"));
  });
  return spec;
}

}  // namespace

std::vector<GadgetSpec> read_chain(const Node& list, const std::string& key, std::size_t& size) {
  std::vector<GadgetSpec> chain;
  size = 0;
  for (const Node& item : list.as_sequence()) {
    chain.emplace_back().mark = item.mark();  // without a name: it could not be read
    Mistakes::attempt([&] {
      chain.back() = read_gadget(item);
      size += 1 + (chain.back().name == kBranch ? read_branch(chain.back()).size : 0);
    });
    if (size > kMostGadgets)
      throw ConfigError(item.mark(), fmt::format("a pipeline has at most {} gadgets", kMostGadgets));
  }
  if (chain.empty()) throw ConfigError(list.mark(), fmt::format("'{}' is empty; name at least one gadget", key));
  return chain;
}

std::string_view to_string(BackendChoice choice) { return name_in(kBackends, choice); }

std::string_view to_string(TrajectoryUnit unit) { return name_in(kUnits, unit); }

std::vector<std::string> until_flags() {
  return {"last_in_encode_step1", "last_in_encode_step2", "last_in_average", "last_in_slice",   "last_in_contrast",
          "last_in_phase",        "last_in_repetition",   "last_in_set",     "last_in_segment", "last_in_measurement"};
}

PipelineSpec read_pipeline(std::string_view text, const std::string& name) {
  refuse_xml(text, name);
  PipelineSpec spec = read_spec(read_yaml(text, name));
  spec.text = text;
  return spec;
}

namespace {
/// The text without its line `token: ...`: the secret is no part of what tells pipelines apart.
std::string without_token(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.size(), text.find('\n') + 1));
    const std::string_view whole = line.empty() ? text : line;
    if (!whole.starts_with("token:")) out += whole;
    text.remove_prefix(whole.size());
  }
  return out;
}
}  // namespace

ClientConfig read_client_config(std::string_view text, const std::string& name, std::string* token) {
  refuse_xml(text, name);
  const Node root = read_yaml(text, name);
  ClientConfig config;
  if (root.kind() != Node::Kind::map || (entry_of(root, "token") == nullptr && entry_of(root, "use") == nullptr)) {
    config.pipeline = read_spec(root);
    config.pipeline->text = text;
    return config;
  }
  std::vector<Node::Entry> rest;
  for (const Node::Entry& entry : root.as_map())
    if (entry.key != "token") rest.push_back(entry);
  if (entry_of(root, "token") != nullptr) config.token = root.get("token").as_string();
  if (token != nullptr) *token = config.token;
  const Node others = Node::map(root.mark(), std::move(rest));
  if (entry_of(others, "use") != nullptr) {
    others.only(std::vector<std::string>{"use"});
    config.use = others.get("use").as_string();
    if (config.use.empty()) throw ConfigError(others.get("use").mark(), "name a pipeline after 'use:'");
  } else if (!others.as_map().empty()) {
    config.pipeline = read_spec(others);
    config.pipeline->text = without_token(text);
  }
  return config;
}

PipelineSpec read_pipeline_file(const std::filesystem::path& file) {
  return read_pipeline(read_text_file(file, YamlLimits{}.bytes), file.string());
}

PipelineLibrary::PipelineLibrary(const std::vector<std::filesystem::path>& folders) {
  for (const std::filesystem::path& folder : folders) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".yaml") files.push_back(at->path());
    }
    if (error) {
      throw ConfigError({folder.string(), 0, 0},
                        fmt::format("the pipeline folder cannot be read: {}", error.message()));
    }
    std::sort(files.begin(), files.end());
    const auto same_name = [](const PipelineSpec& a) {
      return [&a](const PipelineSpec& b) { return a.name == b.name; };
    };
    std::vector<PipelineSpec> found;
    for (const std::filesystem::path& file : files) {
      PipelineSpec spec = read_pipeline_file(file);
      const auto twin = std::find_if(found.begin(), found.end(), same_name(spec));
      if (twin != found.end()) {
        throw ConfigError(spec.mark, fmt::format("the name '{}' is also that of {}", spec.name, twin->mark.file));
      }
      found.push_back(std::move(spec));
    }
    for (PipelineSpec& spec : found) {
      const auto earlier = std::find_if(specs_.begin(), specs_.end(), same_name(spec));
      if (earlier != specs_.end()) specs_.erase(earlier);
      specs_.push_back(std::move(spec));
    }
  }
  for (const PipelineSpec& spec : specs_) {
    for (const std::string& alias : spec.aliases) {
      for (const PipelineSpec& other : specs_) {
        const bool claims =
            other.name == alias ||
            (&other != &spec && std::find(other.aliases.begin(), other.aliases.end(), alias) != other.aliases.end());
        if (claims) {
          throw ConfigError(spec.mark, fmt::format("the alias '{}' is also claimed by '{}' ({})", alias, other.name,
                                                   other.mark.file));
        }
      }
    }
  }
  adopt_foreign_names();
}

void PipelineLibrary::adopt_foreign_names() {
  for (const ForeignNames& each : foreign_names()) {
    if (!each.alias) continue;
    const auto ours = std::find_if(specs_.begin(), specs_.end(),
                                   [&each](const PipelineSpec& spec) { return spec.name == each.pipeline; });
    if (ours == specs_.end()) continue;
    for (const std::string& name : expanded(each.patterns)) {
      if (find(name) != nullptr) continue;
      ours->aliases.push_back(name);
      adopted_.insert(name);
    }
  }
}

const PipelineSpec* PipelineLibrary::find(std::string_view name) const {
  const auto exactly = [this](std::string_view wanted) -> const PipelineSpec* {
    for (const PipelineSpec& spec : specs_) {
      if (spec.name == wanted || std::find(spec.aliases.begin(), spec.aliases.end(), wanted) != spec.aliases.end()) {
        return &spec;
      }
    }
    return nullptr;
  };
  if (const PipelineSpec* spec = exactly(name)) return spec;
  // Removes one ending only: names come from the network and may be as long as a text.
  for (const std::string_view ending : {".yaml", ".xml"}) {
    if (name.ends_with(ending)) return exactly(name.substr(0, name.size() - ending.size()));
  }
  return nullptr;
}

std::vector<std::string> PipelineLibrary::names() const {
  std::vector<std::string> names;
  for (const PipelineSpec& spec : specs_) names.push_back(spec.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string PipelineLibrary::unknown(std::string_view name) const {
  std::string said = fmt::format("no pipeline is called '{}'", name);
  if (const ForeignNames* theirs = find_foreign(name)) {
    const std::string_view whose = name.ends_with(".xml") ? "Gadgetron's" : "python-ismrmrd-server's";
    if (theirs->pipeline.empty())
      return fmt::format("{}, and none does what {} does; {}", said, whose, theirs->differs);
    const bool here = find(theirs->pipeline) != nullptr;
    return fmt::format("{}; nearest to {} is '{}'{}{}{}", said, whose, theirs->pipeline,
                       here ? "" : ", which is not here", theirs->differs.empty() ? "" : ": ", theirs->differs);
  }
  std::vector<std::string> known;
  for (const PipelineSpec& spec : specs_) {
    known.push_back(spec.name);
    known.insert(known.end(), spec.aliases.begin(), spec.aliases.end());
  }
  if (const std::string near = nearest(name, known); !near.empty())
    return fmt::format("{}; did you mean '{}'?", said, near);
  if (name.ends_with(".xml")) return said + "; `echotrain convert-config` makes one of a Gadgetron configuration";
  return fmt::format("{}; there are: {}", said, fmt::join(names(), ", "));
}

std::string PipelineLibrary::remark_on(std::string_view name) const {
  const ForeignNames* theirs = adopted_.contains(name) ? find_foreign(name) : nullptr;
  if (theirs == nullptr || theirs->differs.empty()) return "";
  return fmt::format("'{}' stands for '{}': {}", name, theirs->pipeline, theirs->differs);
}

std::vector<std::string> PipelineLibrary::keep_if(const std::function<bool(const PipelineSpec&)>& serves) {
  const auto left = std::stable_partition(specs_.begin(), specs_.end(), serves);
  std::vector<std::string> names;
  for (auto at = left; at != specs_.end(); ++at) names.push_back(at->name);
  specs_.erase(left, specs_.end());
  return names;
}

}  // namespace echotrain::config
