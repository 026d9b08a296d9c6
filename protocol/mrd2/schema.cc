#include "protocol/mrd2/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "protocol/data/text.h"
#include "protocol/mrd2/byte_source.h"

namespace echotrain::protocol::mrd2 {
namespace {

using nlohmann::json;
using Kind = Type::Kind;

constexpr int kMostDepth = 64;
constexpr std::size_t kMostTypes = 4096;
constexpr std::uint64_t kMuch = std::uint64_t{1} << 40;

struct Primitive {
  std::string_view name;
  Kind kind;
  unsigned bits;
};
// 8-bit integers are left out: the documents and the programs disagree on how they are written, and MRD has none.
constexpr std::array<Primitive, 15> kPrimitives{{{"bool", Kind::boolean, 8},
                                                 {"uint16", Kind::natural, 16},
                                                 {"uint32", Kind::natural, 32},
                                                 {"uint64", Kind::natural, 64},
                                                 {"size", Kind::natural, 64},
                                                 {"int16", Kind::integer, 16},
                                                 {"int32", Kind::integer, 32},
                                                 {"int64", Kind::integer, 64},
                                                 {"date", Kind::integer, 64},
                                                 {"time", Kind::integer, 64},
                                                 {"datetime", Kind::integer, 64},
                                                 {"float32", Kind::real, 32},
                                                 {"float64", Kind::real, 64},
                                                 {"complexfloat32", Kind::complex, 32},
                                                 {"complexfloat64", Kind::complex, 64}}};

std::uint64_t times(std::uint64_t a, std::uint64_t b) { return a == 0 || b <= kMuch / a ? a * b : kMuch; }

std::string without_namespace(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\') ++i;
      quoted = i >= text.size() || text[i] != '"';
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '[' || text[i] == '{') {
      if (++depth > kMostDepth) return true;
    } else if (text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
  return false;
}

class SchemaReader {
 public:
  explicit SchemaReader(std::uint64_t position) : position_(position) {}

  Schema read(std::string_view text) {
    if (nests_too_deep(text)) wrong(fmt::format("nests deeper than {}", kMostDepth));
    const json all = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (all.is_discarded()) wrong("is no JSON");
    for (const json& type : member(all, "types", json::value_t::array))
      definitions_.emplace(text_of(type, "name"), type);
    const json& protocol = member(all, "protocol", json::value_t::object);
    Schema out;
    out.protocol = text_of(protocol, "name");
    for (const json& each : member(protocol, "sequence", json::value_t::array)) {
      Step step;
      step.name = text_of(each, "name");
      const json& type = member(each, "type");
      step.is_stream = type.is_object() && type.contains("stream");
      step.type = resolve(step.is_stream ? member(member(type, "stream", json::value_t::object), "items") : type, {});
      out.steps.push_back(std::move(step));
    }
    return out;
  }

 private:
  using Parameters = std::map<std::string, TypePointer>;

  [[noreturn]] void wrong(const std::string& why) const {
    refuse("bad-schema", position_, "the stream's schema " + why);
  }
  const json& member(const json& of, const char* name) const {
    if (!of.is_object() || !of.contains(name)) wrong(fmt::format("lacks '{}' where it is needed", name));
    return of.at(name);
  }
  const json& member(const json& of, const char* name, json::value_t kind) const {
    const json& found = member(of, name);
    if (found.type() != kind) wrong(fmt::format("has a '{}' of the wrong kind", name));
    return found;
  }
  std::string text_of(const json& of, const char* name) const {
    return member(of, name, json::value_t::string).get<std::string>();
  }
  std::uint64_t natural_of(const json& number) const {
    if (!number.is_number_unsigned()) wrong("has a length that is no whole number");
    return number.get<std::uint64_t>();
  }

  TypePointer resolve(const json& type, const Parameters& parameters) {
    if (depth_ >= kMostDepth) wrong(fmt::format("has types that nest deeper than {}", kMostDepth));
    ++depth_;
    TypePointer out = resolve_now(type, parameters);
    --depth_;
    // Values that take no bytes could come in any number.
    if (out->least_bytes == 0) wrong("has a type whose values take no bytes");
    return out;
  }

  TypePointer resolve_now(const json& type, const Parameters& parameters) {
    if (type.is_string()) return named(type.get<std::string>(), {}, parameters);
    if (type.is_array()) return choice(type, parameters);
    if (!type.is_object()) wrong("has a type that is neither a name nor a list nor an object");
    if (type.contains("name")) {
      std::vector<TypePointer> arguments;
      for (const json& each : member(type, "typeArguments", json::value_t::array))
        arguments.push_back(resolve(each, parameters));
      return named(text_of(type, "name"), arguments, parameters);
    }
    if (type.contains("vector")) return vector_of(type.at("vector"), parameters);
    if (type.contains("array")) return array_of(type.at("array"), parameters);
    if (type.contains("map")) {
      auto out = fresh(Kind::map);
      out->members = {{"key", some(member(type.at("map"), "keys"), parameters)},
                      {"value", some(member(type.at("map"), "values"), parameters)}};
      out->least_bytes = 1;
      return out;
    }
    wrong("has a type of a kind that is not known here");
  }

  std::shared_ptr<Type> fresh(Kind kind) {
    if (++made_ > kMostTypes) wrong(fmt::format("makes more than {} types", kMostTypes));
    auto out = std::make_shared<Type>();
    out->kind = kind;
    return out;
  }

  /// A type that is not "nothing".
  TypePointer some(const json& type, const Parameters& parameters) {
    TypePointer out = type.is_null() ? nullptr : resolve(type, parameters);
    if (!out) wrong("has null where a type is needed");
    return out;
  }

  TypePointer choice(const json& cases, const Parameters& parameters) {
    auto out = fresh(Kind::choice);
    for (const json& each : cases) {
      const bool tagged = each.is_object() && each.contains("tag");
      Type::Member one;
      if (tagged) one.name = text_of(each, "tag");
      if (!each.is_null()) one.type = some(tagged ? member(each, "type") : each, parameters);
      out->members.push_back(std::move(one));
    }
    if (out->members.empty()) wrong("has a union of no types");
    out->least_bytes = 1;
    return out;
  }

  TypePointer vector_of(const json& given, const Parameters& parameters) {
    auto out = fresh(Kind::vector);
    out->items = some(member(given, "items"), parameters);
    if (given.contains("length")) out->length = natural_of(given.at("length"));
    out->least_bytes = out->length ? times(*out->length, out->items->least_bytes) : 1;
    return out;
  }

  TypePointer array_of(const json& given, const Parameters& parameters) {
    auto out = fresh(Kind::array);
    out->items = some(member(given, "items"), parameters);
    out->least_bytes = 1;
    if (!given.contains("dimensions")) return out;
    const json& dimensions = given.at("dimensions");
    auto& lengths = out->dimensions.emplace();
    if (dimensions.is_number()) {
      lengths.resize(std::min<std::uint64_t>(natural_of(dimensions), kMostDepth));
    } else if (dimensions.is_array()) {
      for (const json& each : dimensions)
        lengths.push_back(each.is_object() && each.contains("length") ? std::optional(natural_of(each.at("length")))
                                                                      : std::nullopt);
    } else {
      wrong("has dimensions that are neither a number nor a list");
    }
    if (lengths.empty() || lengths.size() > kMostDepth) wrong("has an array of no dimensions, or of too many");
    const auto fixed = std::count_if(lengths.begin(), lengths.end(), [](const auto& one) { return one.has_value(); });
    if (fixed != 0 && fixed != std::ssize(lengths)) wrong("has an array with some lengths fixed and others not");
    if (fixed != 0) {
      out->least_bytes = out->items->least_bytes;
      for (const auto& length : lengths) out->least_bytes = times(out->least_bytes, *length);
    }
    return out;
  }

  TypePointer named(const std::string& full, const std::vector<TypePointer>& arguments, const Parameters& parameters) {
    if (const auto found = parameters.find(full); found != parameters.end()) return found->second;
    std::string key = without_namespace(full);
    for (std::size_t i = 0; i < arguments.size(); ++i)
      key += fmt::format("{}{}", i == 0 ? "<" : ",",
                         arguments[i]->name.empty() ? fmt::format("#{}", made_) : arguments[i]->name);
    if (!arguments.empty()) key += ">";
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    if (key.size() > 1000) wrong("has type parameters without end");
    for (const Primitive& each : kPrimitives)
      if (key == each.name) return known_[key] = primitive(each);
    if (key == "string") {
      auto out = fresh(Kind::text);
      out->name = key;
      out->least_bytes = 1;
      return known_[key] = out;
    }
    const auto definition = definitions_.find(without_namespace(full));
    if (definition == definitions_.end()) wrong(fmt::format("names a type '{}' that is not known", quotable(full)));
    if (!open_.insert(key).second) wrong(fmt::format("has a type '{}' that contains itself", quotable(key)));
    TypePointer out = define(definition->second, key, arguments);
    open_.erase(key);
    return known_[key] = out;
  }

  TypePointer primitive(const Primitive& from) {
    auto out = fresh(from.kind);
    out->name = from.name;
    out->bits = from.bits;
    out->least_bytes = from.kind == Kind::real ? from.bits / 8 : from.kind == Kind::complex ? from.bits / 4 : 1;
    return out;
  }

  TypePointer define(const json& definition, const std::string& name, const std::vector<TypePointer>& arguments) {
    Parameters parameters;
    if (definition.contains("typeParameters")) {
      const json& names = member(definition, "typeParameters", json::value_t::array);
      if (names.size() != arguments.size()) wrong(fmt::format("gives '{}' too few or too many types", quotable(name)));
      for (std::size_t i = 0; i < arguments.size(); ++i)
        if (names[i].is_string()) parameters[names[i].get<std::string>()] = arguments[i];
    }
    if (definition.contains("type")) return some(definition.at("type"), parameters);
    if (definition.contains("values")) return enumeration(definition, name);
    auto out = fresh(Kind::record);
    out->name = name;
    for (const json& field : member(definition, "fields", json::value_t::array)) {
      out->members.push_back({text_of(field, "name"), some(member(field, "type"), parameters)});
      out->least_bytes = std::min(kMuch, out->least_bytes + out->members.back().type->least_bytes);
    }
    return out;
  }

  TypePointer enumeration(const json& definition, const std::string& name) {
    const TypePointer base = named(definition.contains("base") ? text_of(definition, "base") : "int32", {}, {});
    if (base->kind != Kind::natural && base->kind != Kind::integer) wrong("has an enumeration that is no whole number");
    auto out = fresh(base->kind);
    out->name = name;
    out->bits = base->bits;
    out->least_bytes = 1;
    for (const json& each : member(definition, "values", json::value_t::array)) {
      if (!member(each, "value").is_number_integer()) wrong("has an enumeration with a value that is no number");
      out->symbols.emplace_back(text_of(each, "symbol"), each.at("value").get<std::int64_t>());
    }
    return out;
  }

  const std::uint64_t position_;
  std::map<std::string, json> definitions_;
  std::map<std::string, TypePointer> known_;
  std::set<std::string> open_;
  int depth_ = 0;
  std::size_t made_ = 0;
};

}  // namespace

std::size_t Type::element_bytes() const {
  switch (kind) {
    case Kind::boolean:
    case Kind::natural:
    case Kind::integer:
    case Kind::real:
      return bits / 8;
    case Kind::complex:
      return bits / 4;
    default:
      return 0;
  }
}

Schema read_schema(std::string_view text, std::uint64_t position) { return SchemaReader(position).read(text); }

}  // namespace echotrain::protocol::mrd2
