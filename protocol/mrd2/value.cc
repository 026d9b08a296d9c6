#include "protocol/mrd2/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "protocol/data/text.h"

namespace echotrain::protocol::mrd2 {
namespace {

using Kind = Type::Kind;

constexpr std::uint64_t kMostDimensions = 16;

/// A number in memory, of `size` bytes.
void append(std::vector<std::byte>& to, std::uint64_t value, std::size_t size) {
  const auto bytes = std::bit_cast<std::array<std::byte, 8>>(value);
  to.insert(to.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

template <class T>
T load_as(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::uint64_t natural_at(std::span<const std::byte> element) {
  return element.size() == 2   ? load_as<std::uint16_t>(element)
         : element.size() == 4 ? load_as<std::uint32_t>(element)
         : element.size() == 8 ? load_as<std::uint64_t>(element)
                               : std::to_integer<std::uint64_t>(element[0]);
}

std::int64_t integer_at(std::span<const std::byte> element) {
  return element.size() == 2   ? load_as<std::int16_t>(element)
         : element.size() == 4 ? load_as<std::int32_t>(element)
                               : load_as<std::int64_t>(element);
}

bool is_floating(const Type& type) { return type.kind == Kind::real || type.kind == Kind::complex; }

}  // namespace

const Value* Value::find(std::string_view field) const {
  const auto* parts = std::get_if<List>(&content);
  if (type == nullptr || type->kind != Kind::record || parts == nullptr) return nullptr;
  for (std::size_t i = 0; i < parts->size(); ++i)
    if (type->members[i].name == field) return &(*parts)[i];
  return nullptr;
}

Value& Value::operator[](std::string_view field) {
  const Value* found = find(field);
  if (found == nullptr) throw std::logic_error(fmt::format("no field '{}'", field));
  return const_cast<Value&>(*found);
}

Value default_value(const Type& type) {
  Value out;
  out.type = &type;
  switch (type.kind) {
    case Kind::boolean:
    case Kind::natural:
      out.content = std::uint64_t{0};
      break;
    case Kind::integer:
      out.content = type.symbols.empty() ? std::int64_t{0} : type.symbols[0].second;
      break;
    case Kind::real:
    case Kind::complex:
      out.content = 0.0;
      break;
    case Kind::text:
      out.content = std::string();
      break;
    case Kind::record: {
      List parts;
      for (const auto& member : type.members) parts.push_back(default_value(*member.type));
      out.content = std::move(parts);
      break;
    }
    case Kind::choice:
      if (type.members[0].type) out = default_value(*type.members[0].type);
      break;
    case Kind::vector:
    case Kind::map:
      out.content = List();
      break;
    case Kind::array: {
      Numbers none;
      std::size_t count = 1;
      if (type.dimensions)
        for (const auto& length : *type.dimensions) none.shape.push_back(length.value_or(0));
      for (const std::uint64_t length : none.shape) count *= length;
      none.elements = Payload::take(std::vector<std::byte>(count * type.items->element_bytes()));
      out.content = std::move(none);
      break;
    }
  }
  return out;
}

// --- reading

Value ValueReader::read(const Type& type) {
  taken_ = 0;
  return value(type, /*keep=*/true);
}

void ValueReader::skip(const Type& type) { value(type, /*keep=*/false); }

void ValueReader::take(std::uint64_t bytes, std::uint64_t position) {
  if (bytes > most_ - taken_)
    refuse("too-large", position, fmt::format("a value that takes more than {} bytes of memory", most_));
  taken_ += bytes;
}

std::uint64_t ValueReader::natural(const Type& type) {
  const std::uint64_t begin = source_.position();
  const std::uint64_t number = source_.natural();
  if (type.bits < 64 && number >> type.bits != 0)
    refuse("malformed", begin, fmt::format("{} does not fit {} bits", number, type.bits));
  return number;
}

std::int64_t ValueReader::integer(const Type& type) {
  const std::uint64_t begin = source_.position();
  const std::int64_t number = source_.integer();
  if (type.bits < 64 &&
      (number >= std::int64_t{1} << (type.bits - 1) || number < -(std::int64_t{1} << (type.bits - 1))))
    refuse("malformed", begin, fmt::format("{} does not fit {} bits", number, type.bits));
  return number;
}

Value ValueReader::value(const Type& type, bool keep) {
  const std::uint64_t begin = source_.position();
  if (keep) take(sizeof(Value), begin);
  Value out;
  out.type = &type;
  switch (type.kind) {
    case Kind::boolean: {
      const std::uint8_t byte = source_.byte();
      if (byte > 1) refuse("malformed", begin, fmt::format("{} where yes (1) or no (0) is needed", byte));
      out.content = std::uint64_t{byte};
      break;
    }
    case Kind::natural:
      out.content = natural(type);
      break;
    case Kind::integer:
      out.content = integer(type);
      break;
    case Kind::real: {
      std::array<std::byte, 8> bytes{};
      const std::span<std::byte> used(bytes.data(), type.bits / 8);
      source_.read(used);
      out.content = type.bits == 32 ? static_cast<double>(load_as<float>(used)) : load_as<double>(used);
      break;
    }
    case Kind::complex:
      source_.skip(type.bits / 4);  // MRD has them in arrays only
      break;
    case Kind::text: {
      const std::uint64_t length = source_.natural();
      if (!keep) {
        source_.skip(length);
        break;
      }
      take(length, begin);
      const auto bytes = source_.bytes(length);
      std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!is_utf8(text)) refuse("malformed", begin, "a text that is not UTF-8");
      out.content = std::move(text);
      break;
    }
    case Kind::record: {
      List parts;
      for (const auto& member : type.members) {
        Value part = value(*member.type, keep);
        if (keep) parts.push_back(std::move(part));
      }
      out.content = std::move(parts);
      break;
    }
    case Kind::choice: {
      const std::uint64_t which = source_.natural();
      if (which >= type.members.size())
        refuse("malformed", begin, fmt::format("case {} of a union that has {}", which, type.members.size()));
      if (type.members[which].type) out = value(*type.members[which].type, keep);
      out.which = which;
      break;
    }
    case Kind::vector:
      list(*type.items, type.length ? *type.length : source_.natural(), keep, out);
      break;
    case Kind::map: {
      const std::uint64_t count = source_.natural();
      List entries;
      for (std::uint64_t i = 0; i < count; ++i)
        for (const auto& member : type.members) {
          Value part = value(*member.type, keep);
          if (keep) entries.push_back(std::move(part));
        }
      out.content = std::move(entries);
      break;
    }
    case Kind::array:
      array(type, keep, out);
      break;
  }
  return out;
}

void ValueReader::list(const Type& items, std::uint64_t count, bool keep, Value& out) {
  List all;
  for (std::uint64_t i = 0; i < count; ++i) {
    Value item = value(items, keep);
    if (keep) all.push_back(std::move(item));
  }
  out.content = std::move(all);
}

void ValueReader::array(const Type& type, bool keep, Value& out) {
  const std::uint64_t begin = source_.position();
  std::vector<std::uint64_t> shape;
  if (type.dimensions) {
    const auto& lengths = *type.dimensions;
    const bool fixed = lengths[0].has_value();
    for (const auto& length : lengths) shape.push_back(fixed ? length.value_or(0) : source_.natural());
  } else {
    const std::uint64_t dimensions = source_.natural();
    if (dimensions > kMostDimensions)
      refuse("malformed", begin,
             fmt::format("an array of {} dimensions; at most {} are read", dimensions, kMostDimensions));
    for (std::uint64_t i = 0; i < dimensions; ++i) shape.push_back(source_.natural());
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  std::uint64_t count = 1;
  for (const std::uint64_t length : shape) {
    if (length > 0 && count > kMost / length)
      refuse("too-large", begin, fmt::format("an array of {} elements", fmt::join(shape, " x ")));
    count *= length;
  }
  const std::size_t size = type.items->element_bytes();
  if (size == 0) return list(*type.items, count, keep, out);
  if (keep && (count > most_ / size || count * size > most_ - taken_))
    refuse("too-large", begin,
           fmt::format("an array of {} elements of {} bytes; {} bytes are left of {}", fmt::join(shape, " x "), size,
                       most_ - taken_, most_));
  if (keep) take(count * size, begin);
  Numbers all = numbers(*type.items, count, keep);
  all.shape = std::move(shape);
  out.content = std::move(all);
}

Numbers ValueReader::numbers(const Type& items, std::uint64_t count, bool keep) {
  Numbers out;
  const std::size_t size = items.element_bytes();
  if (is_floating(items)) {
    if (keep)
      out.elements = Payload::take(source_.bytes(count * size));
    else
      source_.skip(count * size);
    return out;
  }
  std::vector<std::byte> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t element = items.kind == Kind::integer   ? std::bit_cast<std::uint64_t>(integer(items))
                                  : items.kind == Kind::natural ? natural(items)
                                                                : source_.byte();
    if (keep) append(all, element, size);
  }
  out.elements = Payload::take(std::move(all));
  return out;
}

// --- writing

void ValueWriter::bytes(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
    throw std::system_error(errno, std::generic_category(), "cannot write the stream");
}

void ValueWriter::natural(std::uint64_t value) {
  std::array<std::byte, 10> coded{};
  std::size_t n = 0;
  for (; value >= 0x80; value >>= 7) coded[n++] = static_cast<std::byte>((value & 0x7f) | 0x80);
  coded[n++] = static_cast<std::byte>(value);
  bytes(std::span(coded).first(n));
}

void ValueWriter::integer(std::int64_t value) {
  const auto unsigned_value = static_cast<std::uint64_t>(value);
  natural((unsigned_value << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

void ValueWriter::text(std::string_view text) {
  natural(text.size());
  bytes(std::as_bytes(std::span(text)));
}

void ValueWriter::flush() {
  if (std::fflush(file_.get()) != 0) throw std::system_error(errno, std::generic_category(), "cannot write the stream");
}

void ValueWriter::write(const Type& type, const Value& value) {
  switch (type.kind) {
    case Kind::boolean:
    case Kind::natural:
      return natural(std::get<std::uint64_t>(value.content));
    case Kind::integer:
      return integer(std::get<std::int64_t>(value.content));
    case Kind::real: {
      const double number = std::get<double>(value.content);
      const auto single = static_cast<float>(number);
      return type.bits == 32 ? bytes(std::as_bytes(std::span(&single, 1)))
                             : bytes(std::as_bytes(std::span(&number, 1)));
    }
    case Kind::complex:
      throw std::logic_error("a complex number outside of an array");
    case Kind::text:
      return text(std::get<std::string>(value.content));
    case Kind::record: {
      const List& parts = std::get<List>(value.content);
      for (std::size_t i = 0; i < parts.size(); ++i) write(*type.members[i].type, parts[i]);
      return;
    }
    case Kind::choice: {
      const std::size_t which = type.is_optional() && !value.is_null() ? 1 : value.which;
      natural(which);
      if (type.members.at(which).type) write(*type.members[which].type, value);
      return;
    }
    case Kind::vector: {
      const List& items = std::get<List>(value.content);
      if (!type.length) natural(items.size());
      for (const Value& item : items) write(*type.items, item);
      return;
    }
    case Kind::map: {
      const List& entries = std::get<List>(value.content);
      natural(entries.size() / 2);
      for (std::size_t i = 0; i < entries.size(); ++i) write(*type.members[i % 2].type, entries[i]);
      return;
    }
    case Kind::array:
      return array(type, value);
  }
}

void ValueWriter::array(const Type& type, const Value& value) {
  const Numbers& numbers = std::get<Numbers>(value.content);
  if (!type.dimensions) natural(numbers.shape.size());
  if (!type.dimensions || !type.dimensions->at(0))
    for (const std::uint64_t length : numbers.shape) natural(length);
  const auto all = numbers.elements.bytes;
  if (is_floating(*type.items)) return bytes(all);
  const std::size_t size = type.items->element_bytes();
  for (std::size_t i = 0; i + size <= all.size(); i += size) {
    const auto element = all.subspan(i, size);
    type.items->kind == Kind::integer ? integer(integer_at(element)) : natural(natural_at(element));
  }
}

}  // namespace echotrain::protocol::mrd2
