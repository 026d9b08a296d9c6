// The schema describes the types of a yardl stream: the JSON text at its beginning. Source:
// https://microsoft.github.io/yardl/reference/protocol-schema.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echotrain::protocol::mrd2 {

struct Type;
using TypePointer = std::shared_ptr<const Type>;

/// A type with all names and parameters resolved. Types contain no circles.
struct Type {
  enum class Kind {
    boolean,
    natural,  ///< unsigned varint of up to `bits` bits
    integer,  ///< zig-zag varint; also enumerations without a base, dates and times
    real,     ///< IEEE 754 of `bits` bits
    complex,  ///< two of them
    text,
    record,  ///< `members` with their names
    choice,  ///< a union: `members` with their tags; a null pointer is "nothing"
    vector,  ///< of items; `length` where it is fixed
    array,   ///< of items
    map,     ///< members: key, value
  };
  struct Member {
    std::string name;
    TypePointer type;
  };

  Kind kind = Kind::boolean;
  std::string name;  ///< of a primitive, a record or an enumeration, without its namespace: "Image<float32>"
  unsigned bits = 0;
  std::vector<Member> members;
  TypePointer items;
  std::optional<std::uint64_t> length;
  /// Arrays have one entry per dimension, its length where it is fixed. Nothing where each array says how many it has.
  std::optional<std::vector<std::optional<std::uint64_t>>> dimensions;
  std::vector<std::pair<std::string, std::int64_t>> symbols;  ///< of enumerations and flags
  std::uint64_t least_bytes = 0;                              ///< a value takes at least these

  /// Returns the bytes of one element in memory; 0 where it is no number.
  std::size_t element_bytes() const;
  /// True if a value may be absent (a union of nothing and one type).
  bool is_optional() const { return kind == Kind::choice && members.size() == 2 && !members[0].type; }
};

/// A step of a protocol.
struct Step {
  std::string name;
  TypePointer type;  ///< of the value, or of a stream's items
  bool is_stream = false;
};

struct Schema {
  std::string protocol;
  std::vector<Step> steps;
};

inline constexpr std::size_t kMostSchemaBytes = 1 << 20;

/// Reads a schema. `position` is the text's place in its stream. Throws a Refusal ("bad-schema") that says what is
/// wrong: what is no JSON, nests deeper than 64, names types that are missing, unknown or contain themselves, has more
/// than 4096 types, or types whose values take no bytes (they could come in any number).
Schema read_schema(std::string_view text, std::uint64_t position);

}  // namespace echotrain::protocol::mrd2
