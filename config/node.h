// A node is a YAML value that knows its place, which errors name.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::config {

/// A place in a file; line and column count from 1 (0: the file as a whole).
struct Mark {
  std::string file;
  int line = 0;
  int column = 0;
  std::string text() const;  ///< "file:line:column", or "file" when line is 0
};

/// An error in what a user wrote. what() is "file:line:column: message".
class ConfigError : public std::runtime_error {
 public:
  ConfigError(const Mark& mark, const std::string& message);
  const Mark& mark() const { return mark_; }
  const std::string& message() const { return message_; }

 private:
  Mark mark_;
  std::string message_;
};

/// A YAML value: null, scalar, sequence or map. Immutable and cheap to copy.
class Node {
 public:
  enum class Kind { null, scalar, sequence, map };
  struct Entry;

  Node();  ///< null, without a place
  Kind kind() const;
  const Mark& mark() const;

  // Each throws ConfigError when the value is of another type or out of range, naming both.
  std::string as_string() const;
  bool as_bool() const;  ///< true or false
  std::int64_t as_int(std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                      std::int64_t highest = std::numeric_limits<std::int64_t>::max()) const;
  double as_double(double lowest = std::numeric_limits<double>::lowest(),
                   double highest = std::numeric_limits<double>::max()) const;  ///< finite
  std::string as_choice(std::span<const std::string> choices) const;            ///< suggests the nearest one
  const std::vector<Node>& as_sequence() const;
  const std::vector<Entry>& as_map() const;  ///< in file order; keys are unique

  /// Returns the value of `key` in a map, or null when it is absent or this is null.
  Node get(std::string_view key) const;
  /// Throws ConfigError at the first key of the map that is not in `known`, with the nearest known name.
  void only(std::span<const std::string> known) const;

  // Building blocks of the reader.
  static Node null(Mark mark);
  static Node scalar(Mark mark, std::string text, bool quoted);
  static Node sequence(Mark mark, std::vector<Node> items);
  static Node map(Mark mark, std::vector<Entry> entries);

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

struct Node::Entry {
  std::string key;
  Mark mark;
  Node value;
};

/// Returns `text` between quotes for a message: cut when long, control characters replaced.
std::string in_quotes(std::string_view text);

/// Returns the one of `known` nearest to `name` by edit distance, or empty when none is near.
std::string nearest(std::string_view name, std::span<const std::string> known);

}  // namespace echotrain::config
