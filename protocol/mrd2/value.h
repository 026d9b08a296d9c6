// A Value holds a value of any type of a yardl stream; readers and writers convert it from and to bytes.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/mrd2/byte_source.h"
#include "protocol/mrd2/schema.h"

namespace echotrain::protocol::mrd2 {

/// Numbers of an array: elements as in memory, little-endian, of element_bytes() each, last dimension fastest.
struct Numbers {
  std::vector<std::uint64_t> shape;
  Payload elements;
};

struct Value;
using List = std::vector<Value>;

struct Value {
  /// Nothing, a boolean or natural, an integer, a real, a text, an array of numbers; or the parts of a record, the
  /// items of a vector or of another array, the keys and values of a map in turn. Of a union: the value of its case.
  std::variant<std::monostate, std::uint64_t, std::int64_t, double, std::string, Numbers, List> content;
  const Type* type = nullptr;  ///< of the case where the type is a union; lives as long as its schema
  std::size_t which = 0;       ///< a union's case

  /// Returns the field of a record. Throws std::logic_error where there is none: only for fields of a model of this
  /// program.
  Value& operator[](std::string_view field);
  /// Returns the field of a record, or nullptr.
  const Value* find(std::string_view field) const;
  bool is_null() const { return std::holds_alternative<std::monostate>(content); }
};

/// Returns the value that a writer begins with: zeros, empty lists, nothing where that is allowed.
Value default_value(const Type& type);

class ValueReader {
 public:
  /// `most_bytes` bounds the memory for one value.
  ValueReader(ByteSource& source, std::uint64_t most_bytes) : source_(source), most_(most_bytes) {}

  /// Returns the next value of a type. Throws a Refusal with the byte where it is malformed, or "too-large".
  Value read(const Type& type);
  /// Passes over a value of any size.
  void skip(const Type& type);

 private:
  Value value(const Type& type, bool keep);
  void list(const Type& items, std::uint64_t count, bool keep, Value& out);
  void array(const Type& type, bool keep, Value& out);
  Numbers numbers(const Type& items, std::uint64_t count, bool keep);
  std::uint64_t natural(const Type& type);
  std::int64_t integer(const Type& type);
  void take(std::uint64_t bytes, std::uint64_t position);

  ByteSource& source_;
  std::uint64_t most_, taken_ = 0;
};

/// Writes values to a file. std::system_error when they cannot be written.
class ValueWriter {
 public:
  explicit ValueWriter(FileHandle file) : file_(std::move(file)) {}
  void bytes(std::span<const std::byte> bytes);
  void natural(std::uint64_t value);
  void integer(std::int64_t value);
  void text(std::string_view text);
  void write(const Type& type, const Value& value);
  void flush();

 private:
  void array(const Type& type, const Value& value);
  FileHandle file_;
};

}  // namespace echotrain::protocol::mrd2
