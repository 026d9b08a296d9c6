// The reader turns YAML text into Nodes. yaml-cpp parses; its events build the tree, so bad input is refused before it
// is stored.
#include "config/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace echotrain::config {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Mark mark_of(const YAML::Mark& mark, const std::string& file) {
  if (mark.is_null()) return {file, 0, 0};
  return {file, mark.line + 1, mark.column + 1};
}

/// Builds a Node from the events of one document.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const std::string& file, const YamlLimits& limits)
      : text_(text), file_(file), limits_(limits) {
    root_ = Node::null({file, 1, 1});
  }

  const Node& root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) throw ConfigError(mark_of(mark, file_), "a second document starts here; one file holds one document");
    started_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Mark place = enter(mark, anchor);
    add(Node::null(place));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { throw ConfigError(mark_of(mark, file_), kNoAliases); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    throw ConfigError(mark_of(mark, file_), kNoAnchors);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Mark place = enter(mark, anchor);
    check_tag(place, tag);
    if (tag == "!") check_quoted(mark);
    // yaml-cpp gives plain scalars the tag "?", quoted and block ones "!".
    add(Node::scalar(place, value, tag == "!"));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, false);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, true);
  }
  void OnMapEnd() override { close(); }

  static constexpr const char* kNoAliases = "aliases (*name) are not allowed; write the value out";
  static constexpr const char* kNoAnchors = "anchors (&name) are not allowed; write the value out where it is needed";

 private:
  struct Level {
    bool is_map = false;
    Mark mark;
    std::vector<Node> items;
    std::vector<Node::Entry> entries;
    std::optional<Node::Entry> pending;  ///< a key that waits for its value
    std::set<std::string> keys;
  };

  Mark enter(const YAML::Mark& mark, YAML::anchor_t anchor) {
    Mark place = mark_of(mark, file_);
    if (anchor != 0) throw ConfigError(place, kNoAnchors);
    if (++nodes_ > limits_.nodes) {
      throw ConfigError(place,
                        fmt::format("more than {} values; no sensible configuration has as many", limits_.nodes));
    }
    return place;
  }

  static void check_tag(const Mark& place, const std::string& tag) {
    if (tag != "?" && tag != "!" && !tag.empty()) {
      throw ConfigError(place, fmt::format("tags ({}) are not allowed; write the plain value", in_quotes(tag)));
    }
  }

  /// Refuses what yaml-cpp takes: a quoted text that the end of the file cuts off, and a lone '!' in place of a quote.
  void check_quoted(const YAML::Mark& mark) const {
    const auto start = static_cast<std::size_t>(mark.pos);
    if (start >= text_.size()) return;
    const char quote = text_[start];
    if (quote == '!') check_tag(mark_of(mark, file_), "! ");
    if (quote != '"' && quote != '\'') return;
    // A doubled single quote reads as an end and a new start, which does no harm here.
    for (std::size_t at = start + 1; at < text_.size(); ++at) {
      if (text_[at] == quote) return;
      if (text_[at] == '\\' && quote == '"') ++at;
    }
    throw ConfigError(mark_of(mark, file_), fmt::format("the quote {} is not closed", quote));
  }

  bool at_key() const { return !levels_.empty() && levels_.back().is_map && !levels_.back().pending; }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool is_map) {
    Mark place = enter(mark, anchor);
    check_tag(place, tag);
    if (at_key()) throw ConfigError(place, kTextKeys);
    if (levels_.size() >= static_cast<std::size_t>(limits_.depth)) {
      throw ConfigError(place, fmt::format("lists and maps are nested more than {} deep", limits_.depth));
    }
    Level level;
    level.is_map = is_map;
    level.mark = std::move(place);
    levels_.push_back(std::move(level));
  }

  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    add(level.is_map ? Node::map(std::move(level.mark), std::move(level.entries))
                     : Node::sequence(std::move(level.mark), std::move(level.items)));
  }

  void add(Node node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (!level.is_map) {
      level.items.push_back(std::move(node));
    } else if (!level.pending) {
      if (node.kind() != Node::Kind::scalar) throw ConfigError(node.mark(), kTextKeys);
      std::string key = node.as_string();
      if (!level.keys.insert(key).second) {
        throw ConfigError(node.mark(), fmt::format("the key {} is given twice", in_quotes(key)));
      }
      level.pending = Node::Entry{std::move(key), node.mark(), {}};
    } else {
      // yaml-cpp gives an empty value the place of what follows; the mistake is at its key.
      const bool is_elsewhere = node.kind() == Node::Kind::null && node.mark().line != level.pending->mark.line;
      level.pending->value = is_elsewhere ? Node::null(level.pending->mark) : std::move(node);
      level.entries.push_back(std::move(*level.pending));
      level.pending.reset();
    }
  }

  static constexpr const char* kTextKeys = "a key must be a plain text, as in 'key: value'";

  std::string_view text_;
  std::string file_;
  YamlLimits limits_;
  Node root_;
  std::vector<Level> levels_;
  std::size_t nodes_ = 0;
  bool started_ = false;
};

/// Length of the well-formed UTF-8 character at the start of `text` (Unicode 15, table 3-7), or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool beyond = first == 0xF4 && byte(1) > 0x8F;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

/// Refuses bytes that are not text, and texts that make the scanner queue far more tokens than the tree may have nodes:
/// it reads a bracketed list to its end before it reports the list's start.
void check_text(std::string_view text, const std::string& name, const YamlLimits& limits) {
  constexpr std::string_view kTokenStarts = "[]{},:?!&*\"'";
  const std::size_t most_token_starts = limits.nodes * 4;
  std::size_t token_starts = 0;
  Mark mark{name, 1, 1};
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) {
      throw ConfigError(mark, fmt::format("the byte 0x{:02x} is not valid UTF-8 here; save the file as UTF-8", byte));
    }
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      throw ConfigError(mark, fmt::format("the control character 0x{:02x} is not allowed", byte));
    }
    if (kTokenStarts.find(text[at]) != std::string_view::npos && ++token_starts > most_token_starts) {
      throw ConfigError(mark, fmt::format("more than {} values; no sensible configuration has as many", limits.nodes));
    }
    if (byte == '\n') {
      ++mark.line;
      mark.column = 1;
    } else {
      mark.column += static_cast<int>(length);
    }
    at += length;
  }
}

/// Returns what yaml-cpp says is wrong, with what to do about the common mistakes; `line` counts from 1.
std::string in_words(const std::string& message, std::string_view text, int line) {
  for (int at = 1; at < line && text.find('\n') != std::string_view::npos; ++at)
    text.remove_prefix(text.find('\n') + 1);
  const std::string_view indentation = text.substr(0, std::min(text.find_first_not_of(" \t"), text.size()));
  if (indentation.find('\t') != std::string_view::npos)
    return message + "; this line is indented with a tab: use spaces";
  if (message == YAML::ErrorMsg::END_OF_MAP || message == YAML::ErrorMsg::END_OF_SEQ)
    return message +
           "; look at the indentation: this line begins in another column than those that it belongs to, and all "
           "entries of a list or a map begin in the same";
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW)
    return message + "; a bracket that is opened before this place is not closed";
  if (message == YAML::ErrorMsg::MAP_VALUE)
    return message +
           "; a ':' stands where no key can be: look at the indentation of this line, or put a value that has a ':' in "
           "quotes";
  return message;
}

}  // namespace

Node read_yaml(std::string_view text, const std::string& name, const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    throw ConfigError({name, 0, 0},
                      fmt::format("{} bytes; a configuration has at most {} bytes", text.size(), limits.bytes));
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  check_text(text, name, limits);
  TreeBuilder builder(text, name, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    // A second document makes the builder throw; so does text that follows the first one's end.
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const Mark mark = mark_of(error.mark, name);
    if (error.msg.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR)) throw ConfigError(mark, TreeBuilder::kNoAliases);
    throw ConfigError(mark, fmt::format("this is not valid YAML: {}", in_words(error.msg, text, mark.line)));
  }
  return builder.root();
}

std::string read_text_file(const std::filesystem::path& file, std::size_t limit) {
  const Mark mark{file.string(), 0, 0};
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw ConfigError(mark, "there is no such file");
  if (std::filesystem::is_directory(status)) throw ConfigError(mark, "this is a folder; a file is expected");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ConfigError(mark, "the file cannot be opened; check its permissions");
  std::string text;
  char block[1 << 14];
  while (text.size() <= limit && (stream.read(block, sizeof block) || stream.gcount() > 0)) {
    text.append(block, static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) throw ConfigError(mark, "the file cannot be read");
  if (text.size() > limit) throw ConfigError(mark, fmt::format("a configuration has at most {} bytes", limit));
  return text;
}

Node read_yaml_file(const std::filesystem::path& file, const YamlLimits& limits) {
  return read_yaml(read_text_file(file, limits.bytes), file.string(), limits);
}

}  // namespace echotrain::config
