// A node reads its value as a type, and makes the message for a value of another type.
#include "config/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace echotrain::config {

std::string Mark::text() const { return line > 0 ? fmt::format("{}:{}:{}", file, line, column) : file; }

ConfigError::ConfigError(const Mark& mark, const std::string& message)
    : std::runtime_error(mark.text().empty() ? message : mark.text() + ": " + message),
      mark_(mark),
      message_(message) {}

struct Node::Data {
  Kind kind = Kind::null;
  Mark mark;
  std::string text;
  bool quoted = false;
  std::vector<Node> items;
  std::vector<Entry> entries;
};

Node::Node() {
  static const auto nowhere = std::make_shared<const Data>();
  data_ = nowhere;
}

Node Node::null(Mark mark) {
  Node node;
  node.data_ = std::make_shared<const Data>(Data{Kind::null, std::move(mark), {}, false, {}, {}});
  return node;
}

Node Node::scalar(Mark mark, std::string text, bool quoted) {
  Node node;
  node.data_ = std::make_shared<const Data>(Data{Kind::scalar, std::move(mark), std::move(text), quoted, {}, {}});
  return node;
}

Node Node::sequence(Mark mark, std::vector<Node> items) {
  Node node;
  node.data_ = std::make_shared<const Data>(Data{Kind::sequence, std::move(mark), {}, false, std::move(items), {}});
  return node;
}

Node Node::map(Mark mark, std::vector<Entry> entries) {
  Node node;
  node.data_ = std::make_shared<const Data>(Data{Kind::map, std::move(mark), {}, false, {}, std::move(entries)});
  return node;
}

Node::Kind Node::kind() const { return data_->kind; }
const Mark& Node::mark() const { return data_->mark; }

namespace {

/// Returns what a message calls the value that is there.
std::string describe(Node::Kind kind, const std::string& text, bool is_quoted) {
  switch (kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  return std::string(is_quoted ? "the quoted text " : "") + in_quotes(text);
}

std::string with_suggestion(std::string message, std::string_view name, std::span<const std::string> known) {
  const std::string near = nearest(name, known);
  if (!near.empty()) message += fmt::format("; did you mean '{}'?", near);
  return message;
}

/// "at least 1", "at most 5", "0 to 65535"; empty when both ends are open.
template <typename T>
std::string allowed_range(T lowest, T highest) {
  const bool open_below = lowest == std::numeric_limits<T>::lowest();
  const bool open_above = highest == std::numeric_limits<T>::max();
  if (open_below && open_above) return {};
  if (open_above) return fmt::format("at least {}", lowest);
  if (open_below) return fmt::format("at most {}", highest);
  return fmt::format("{} to {}", lowest, highest);
}

/// Reads all of `text` as a number; a leading '+' is allowed.
template <typename T>
std::errc read_number(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::errc::invalid_argument;
  return error;
}

}  // namespace

std::string Node::as_string() const {
  if (kind() != Kind::scalar) {
    throw ConfigError(mark(), fmt::format("a text is expected, not {}", describe(kind(), {}, false)));
  }
  return data_->text;
}

bool Node::as_bool() const {
  if (kind() == Kind::scalar && !data_->quoted) {
    if (data_->text == "true") return true;
    if (data_->text == "false") return false;
  }
  throw ConfigError(mark(),
                    fmt::format("write true or false here, not {}", describe(kind(), data_->text, data_->quoted)));
}

std::int64_t Node::as_int(std::int64_t lowest, std::int64_t highest) const {
  std::int64_t value = 0;
  std::errc error = std::errc::invalid_argument;
  if (kind() == Kind::scalar && !data_->quoted) error = read_number(data_->text, value);
  if (error == std::errc::invalid_argument) {
    throw ConfigError(mark(),
                      fmt::format("a whole number is expected, not {}", describe(kind(), data_->text, data_->quoted)));
  }
  if (error != std::errc{} || value < lowest || value > highest) {
    std::string allowed = allowed_range(lowest, highest);
    if (allowed.empty()) allowed = fmt::format("{} to {}", lowest, highest);
    throw ConfigError(mark(), fmt::format("{} is out of range; allowed is {}", in_quotes(data_->text), allowed));
  }
  return value;
}

double Node::as_double(double lowest, double highest) const {
  double value = 0;
  std::errc error = std::errc::invalid_argument;
  if (kind() == Kind::scalar && !data_->quoted) error = read_number(data_->text, value);
  if (error == std::errc::invalid_argument || (error == std::errc{} && !std::isfinite(value))) {
    throw ConfigError(mark(),
                      fmt::format("a finite number is expected, not {}", describe(kind(), data_->text, data_->quoted)));
  }
  if (error != std::errc{} || value < lowest || value > highest) {
    std::string allowed = allowed_range(lowest, highest);
    if (allowed.empty()) allowed = "any number that a double can hold";
    throw ConfigError(mark(), fmt::format("{} is out of range; allowed is {}", in_quotes(data_->text), allowed));
  }
  return value;
}

std::string Node::as_choice(std::span<const std::string> choices) const {
  const std::string expected = fmt::format("{}", fmt::join(choices.begin(), choices.end(), ", "));
  if (kind() != Kind::scalar) {
    throw ConfigError(mark(), fmt::format("one of {} is expected, not {}", expected, describe(kind(), {}, false)));
  }
  if (std::find(choices.begin(), choices.end(), data_->text) == choices.end()) {
    throw ConfigError(mark(), with_suggestion(fmt::format("{} is not one of {}", in_quotes(data_->text), expected),
                                              data_->text, choices));
  }
  return data_->text;
}

const std::vector<Node>& Node::as_sequence() const {
  if (kind() != Kind::sequence) {
    throw ConfigError(mark(), fmt::format("a list is expected, not {}", describe(kind(), data_->text, data_->quoted)));
  }
  return data_->items;
}

const std::vector<Node::Entry>& Node::as_map() const {
  if (kind() != Kind::map) {
    throw ConfigError(
        mark(), fmt::format("a map of 'key: value' is expected, not {}", describe(kind(), data_->text, data_->quoted)));
  }
  return data_->entries;
}

Node Node::get(std::string_view key) const {
  if (kind() == Kind::null) return {};
  for (const Entry& entry : as_map()) {
    if (entry.key == key) return entry.value;
  }
  return {};
}

void Node::only(std::span<const std::string> known) const {
  if (kind() == Kind::null) return;
  for (const Entry& entry : as_map()) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    std::string message = fmt::format("unknown key {}", in_quotes(entry.key));
    if (known.empty()) {
      message += "; no keys are allowed here";
    } else if (nearest(entry.key, known).empty()) {
      message += fmt::format("; known keys: {}", fmt::join(known.begin(), known.end(), ", "));
    }
    throw ConfigError(entry.mark, with_suggestion(message, entry.key, known));
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string shown(text.substr(0, kLongest));
  if (text.size() > kLongest) {
    // Never end inside a UTF-8 character.
    while (!shown.empty() && (static_cast<unsigned char>(text[shown.size()]) & 0xC0) == 0x80) shown.pop_back();
  }
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (text.size() > kLongest) shown += "...";
  return "'" + shown + "'";
}

std::string nearest(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 64;
  if (name.empty() || name.size() > kLongest) return {};
  std::size_t best = std::clamp<std::size_t>(name.size() / 3, 1, 3) + 1;
  std::string found;
  for (const std::string& word : known) {
    if (word.size() > kLongest) continue;
    // Edits, with a swap of neighbours as one (optimal string alignment), in three rolling rows.
    std::vector<std::size_t> before(word.size() + 1), last(word.size() + 1), row(word.size() + 1);
    for (std::size_t j = 0; j <= word.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      before = std::exchange(last, row);
      row[0] = i;
      for (std::size_t j = 1; j <= word.size(); ++j) {
        const std::size_t change = last[j - 1] + (name[i - 1] == word[j - 1] ? 0 : 1);
        row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
        if (i > 1 && j > 1 && name[i - 1] == word[j - 2] && name[i - 2] == word[j - 1]) {
          row[j] = std::min(row[j], before[j - 2] + 1);
        }
      }
    }
    // A word in which everything differs is not near, however short it is.
    if (row.back() < best && row.back() < std::max(name.size(), word.size())) {
      best = row.back();
      found = word;
    }
  }
  if (!found.empty()) return found;
  for (const std::string& word : known) {
    if (name.size() >= 3 && word.starts_with(name)) return word;
  }
  return {};
}

}  // namespace echotrain::config
