// An option is declared once: parameters of gadgets, the server's options and command lines are tables of options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/node.h"

namespace echotrain::config {

/// An option as people see it.
struct OptionInfo {
  enum class Kind { integer, number, yes_or_no, choice, text, path, list, pair };

  std::string name;  ///< "max_sessions"; in a group: "tls.port", which is `port` in the map `tls`
  std::string help;  ///< one line
  Kind kind = Kind::text;
  std::string fallback;              ///< the default as text: "64"; empty when there is none
  std::string low, high;             ///< bounds of a number
  std::vector<std::string> choices;  ///< values of a choice
  std::string noun;                  ///< stands for a value of a path, list or pair: "FILE.pem", "network", "LOW HIGH"
  std::string unit;                  ///< "ms"; empty when there is none
  std::string variable;              ///< the environment variable that also sets it; empty when there is none

  // On a command line only (config/command_line.h).
  char letter = 0;                   ///< 'o' of "-o"; 0: none
  bool positional = false;           ///< given by its place, without a flag
  bool required = false;             ///< an error without it
  bool repeats = false;              ///< each time it is given adds a value
  std::optional<std::string> alone;  ///< the value that the flag alone stands for; without one, a value must follow
  std::string heading;               ///< of its part of --help; empty: "Options"

  std::string type() const;     ///< "integer", "number", "true or false", "one of", "text"
  std::string range() const;    ///< "2 .. 8", "rss, none", or empty
  std::string allowed() const;  ///< "1 to 100000", "auto, cpu, cuda", "true or false", "text", "FILE.pem", "networks"
  std::string flag() const;     ///< "--max-sessions"
};

/// An option that lives in a struct S.
template <class S>
struct Option : OptionInfo {
  /// Sets the option from a value. A sequence replaces a list; a scalar extends it. Throws ConfigError when the value
  /// does not fit the option.
  std::function<void(S&, const Node&)> set;
  std::function<void(S&)> clear;  ///< for a list: removes all values
  /// Resolves relative names of files and folders against `folder`.
  std::function<void(S&, const std::filesystem::path& folder)> rebase;
};

namespace detail {
std::string text_of(double value);
/// Returns the values of a scalar or a sequence, none of them empty. `noun` names one value, for messages.
std::vector<std::string> list_of(const Node& node, const std::string& noun);
/// Returns `error` again, with the option's name before its message and what is allowed after it.
ConfigError named(const OptionInfo& info, const ConfigError& error);

template <class T>
std::string default_text(const T& value) {
  if constexpr (requires { value.has_value(); })
    return value.has_value() ? default_text(*value) : "";
  else if constexpr (std::is_floating_point_v<T>)
    return text_of(value);
  else if constexpr (std::is_arithmetic_v<T>)
    return std::to_string(value);
  else if constexpr (std::is_same_v<T, std::filesystem::path>)
    return value.string();
  else
    return value;
}
inline void get(const Node& node, std::string& value) { value = node.as_string(); }
inline void get(const Node& node, double& value) { value = node.as_double(); }

template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};
}  // namespace detail

/// The options of struct `S`. Usage:
///   OptionTable<Options>()
///       .integer("kernel_width", &Options::kernel_width, 2, 8, "width of the kernel").unit("grid cells")
///       .choice("method", &Options::method, {"rss", "none"}, "how coils are combined");
/// Defaults are those of a default-constructed S. unit(), variable(), letter() and the like apply to the option
/// declared before them.
template <class S>
class OptionTable {
 public:
  template <class T>
  OptionTable integer(const std::string& name, T S::*place, std::int64_t low, std::int64_t high,
                      const std::string& help) && {
    using Value = typename detail::ValueOf<T>::Type;
    Option<S>& option = add(OptionInfo::Kind::integer, name, place, help);
    option.low = std::to_string(low);
    option.high = std::to_string(high);
    option.set = [=](S& s, const Node& node) { s.*place = static_cast<Value>(node.as_int(low, high)); };
    return std::move(*this);
  }

  template <class T>
  OptionTable number(const std::string& name, T S::*place, double low, double high, const std::string& help) && {
    using Value = typename detail::ValueOf<T>::Type;
    Option<S>& option = add(OptionInfo::Kind::number, name, place, help);
    option.low = detail::text_of(low);
    option.high = detail::text_of(high);
    option.set = [=](S& s, const Node& node) { s.*place = static_cast<Value>(node.as_double(low, high)); };
    return std::move(*this);
  }

  /// A time in seconds, up to a day.
  OptionTable seconds(const std::string& name, double S::*place, const std::string& help, double shortest = 0.01) && {
    constexpr double kDay = 86400;
    return std::move(*this).number(name, place, shortest, kDay, help).unit("s");
  }

  /// true or false; on a command line the flag alone means true.
  OptionTable flag(const std::string& name, bool S::*place, const std::string& help) && {
    Option<S>& option = add(OptionInfo::Kind::yes_or_no, name, place, help);
    option.fallback = S{}.*place ? "true" : "false";
    option.alone = "true";
    option.set = [=](S& s, const Node& node) { s.*place = node.as_bool(); };
    return std::move(*this);
  }

  /// The opposite of flag(): "no_truth" makes `truth` false.
  OptionTable no_flag(const std::string& name, bool S::*place, const std::string& help) && {
    OptionTable table = std::move(*this).flag(name, place, help);
    table.options_.back().fallback = S{}.*place ? "false" : "true";
    table.options_.back().set = [=](S& s, const Node& node) { s.*place = !node.as_bool(); };
    return table;
  }

  OptionTable choice(const std::string& name, std::string S::*place, const std::vector<std::string>& choices,
                     const std::string& help) && {
    Option<S>& option = add(OptionInfo::Kind::choice, name, place, help);
    option.choices = choices;
    option.set = [=](S& s, const Node& node) { s.*place = node.as_choice(choices); };
    return std::move(*this);
  }

  /// A choice stored as a bool or an enum; `values` pairs each name with its value.
  template <class E>
  OptionTable choice_of(const std::string& name, E S::*place, std::vector<std::pair<std::string, E>> values,
                        const std::string& help) && {
    Option<S>& option = add(OptionInfo::Kind::choice, name, static_cast<std::string S::*>(nullptr), help);
    for (const auto& [text, value] : values) {
      option.choices.push_back(text);
      if (value == S{}.*place) option.fallback = text;
    }
    option.set = [place, values = std::move(values), choices = option.choices](S& s, const Node& node) {
      const std::string given = node.as_choice(choices);
      for (const auto& [text, value] : values)
        if (text == given) s.*place = value;
    };
    return std::move(*this);
  }

  template <class T>
  OptionTable text(const std::string& name, T S::*place, const std::string& help) && {
    Option<S>& option = add(OptionInfo::Kind::text, name, place, help);
    option.set = [=](S& s, const Node& node) { s.*place = node.as_string(); };
    return std::move(*this);
  }

  /// A file or a folder; empty for none. `noun` stands for it in a table of options: "FILE.pem".
  template <class T>
  OptionTable path(const std::string& name, T S::*place, const std::string& noun, const std::string& help) && {
    Option<S>& option = add(OptionInfo::Kind::path, name, place, help);
    option.noun = noun;
    option.set = [=](S& s, const Node& node) { s.*place = node.as_string(); };
    option.rebase = [=](S& s, const std::filesystem::path& folder) {
      if (s.*place != T{}) s.*place = (folder / detail::default_text(s.*place)).string();
    };
    return std::move(*this);
  }

  /// One value or a sequence of values, none of them empty. `noun` names one value: "network".
  OptionTable list(const std::string& name, std::vector<std::string> S::*place, const std::string& noun,
                   const std::string& help) && {
    Option<S>& option = add(OptionInfo::Kind::list, name, static_cast<std::string S::*>(nullptr), help);
    option.noun = noun;
    option.repeats = true;
    option.set = [=](S& s, const Node& node) {
      const std::vector<std::string> given = detail::list_of(node, noun);
      if (node.kind() == Node::Kind::sequence) (s.*place).clear();
      (s.*place).insert((s.*place).end(), given.begin(), given.end());
    };
    option.clear = [=](S& s) { (s.*place).clear(); };
    return std::move(*this);
  }

  OptionTable folders(const std::string& name, std::vector<std::string> S::*place, const std::string& help) && {
    OptionTable table = std::move(*this).list(name, place, "folder", help);
    table.options_.back().rebase = [=](S& s, const std::filesystem::path& folder) {
      for (std::string& value : s.*place) value = (folder / value).string();
    };
    return table;
  }

  /// Two values that belong together. `place` is an optional pair, or a vector of pairs, to which each one is added.
  template <class T>
  OptionTable pair(const std::string& name, T S::*place, const std::string& noun, const std::string& help) && {
    using Pair = typename T::value_type;
    Option<S>& option = add(OptionInfo::Kind::pair, name, static_cast<std::string S::*>(nullptr), help);
    option.noun = noun;
    option.repeats = requires(T all, Pair one) { all.push_back(one); };
    option.set = [=](S& s, const Node& node) {
      const std::vector<Node>& two = node.as_sequence();
      if (two.size() != 2) throw ConfigError(node.mark(), "two values are expected: " + noun);
      Pair pair;
      detail::get(two[0], pair.first);
      detail::get(two[1], pair.second);
      if constexpr (requires { (s.*place).push_back(pair); })
        (s.*place).push_back(std::move(pair));
      else
        s.*place = std::move(pair);
    };
    if (option.repeats) option.clear = [=](S& s) { s.*place = T{}; };
    return std::move(*this);
  }

  /// The options of a struct in S, named "`name`.option"; an empty `name` adds no prefix.
  template <class T>
  OptionTable group(const std::string& name, T S::*place, const OptionTable<T>& table) && {
    for (const Option<T>& inner : table.all()) {
      Option<S>& option = options_.emplace_back();
      static_cast<OptionInfo&>(option) = inner;
      if (!name.empty()) option.name = name + "." + inner.name;
      option.set = [place, set = inner.set](S& s, const Node& node) { set(s.*place, node); };
      if (inner.clear) option.clear = [place, clear = inner.clear](S& s) { clear(s.*place); };
      if (inner.rebase)
        option.rebase = [place, rebase = inner.rebase](S& s, const std::filesystem::path& folder) {
          rebase(s.*place, folder);
        };
    }
    return std::move(*this);
  }

  OptionTable unit(const std::string& text) && {
    options_.back().unit = text;
    return std::move(*this);
  }
  OptionTable variable(const std::string& name) && {
    options_.back().variable = name;
    return std::move(*this);
  }
  /// The text must not be empty.
  OptionTable not_empty() && {
    options_.back().set = [set = std::move(options_.back().set)](S& s, const Node& node) {
      if (node.as_string().empty()) throw ConfigError(node.mark(), "the text is empty");
      set(s, node);
    };
    return std::move(*this);
  }
  /// It also has a flag of one letter on a command line.
  OptionTable letter(char letter) && {
    options_.back().letter = letter;
    return std::move(*this);
  }
  /// A command line gives it by its place, without a flag.
  OptionTable positional() && {
    options_.back().positional = true;
    return std::move(*this);
  }
  /// A command line without it is an error.
  OptionTable required() && {
    options_.back().required = true;
    return std::move(*this);
  }
  /// On a command line its flag alone stands for `value`.
  OptionTable alone(const std::string& value) && {
    options_.back().alone = value;
    return std::move(*this);
  }
  /// Its default is not shown: the help says what happens without it.
  OptionTable default_in_help() && {
    options_.back().fallback.clear();
    return std::move(*this);
  }
  /// All options declared so far stand under `text` in --help.
  OptionTable heading(const std::string& text) && {
    for (Option<S>& option : options_) option.heading = text;
    return std::move(*this);
  }
  /// Giving the option a value sets `mark`.
  OptionTable marking(bool S::*mark) && {
    options_.back().set = [mark, set = std::move(options_.back().set)](S& s, const Node& node) {
      set(s, node);
      s.*mark = true;
    };
    return std::move(*this);
  }
  /// Errors of all options declared so far say the option's name and what is allowed.
  OptionTable naming_errors() && {
    for (Option<S>& option : options_)
      option.set = [info = static_cast<const OptionInfo&>(option), set = std::move(option.set)](S& s,
                                                                                                const Node& node) {
        try {
          set(s, node);
        } catch (const ConfigError& error) {
          throw detail::named(info, error);
        }
      };
    return std::move(*this);
  }

  const std::vector<Option<S>>& all() const { return options_; }

  std::vector<OptionInfo> info() const { return {options_.begin(), options_.end()}; }

  /// Finds an option by its name or its flag; null when there is none.
  const Option<S>* find(std::string_view name) const {
    for (const Option<S>& option : options_)
      if (name == option.name || name == option.flag()) return &option;
    return nullptr;
  }

  /// Reads a map (or null: all defaults). Throws ConfigError on an unknown key, a wrong type or a value out of range.
  S read(const Node& map) const {
    S values{};
    read_into(values, map, {});
    return values;
  }

  /// Same as read(), but changes `values`. Relative files and folders are resolved against `folder`.
  void read_into(S& values, const Node& map, const std::filesystem::path& folder,
                 const std::string& prefix = "") const {
    map.only(keys(prefix));
    if (map.kind() == Node::Kind::null) return;
    for (const Node::Entry& entry : map.as_map()) {
      const std::string name = prefix + entry.key;
      if (const Option<S>* option = find(name)) {
        option->set(values, entry.value);
        if (option->rebase) option->rebase(values, folder);
      } else {
        read_into(values, entry.value, folder, name + ".");
      }
    }
  }

  /// Sets the options whose variable is not empty; `get` is like std::getenv. ConfigError names the variable.
  void read_variables(S& values, const std::function<const char*(const char*)>& get) const {
    for (const Option<S>& option : options_) {
      const char* text = option.variable.empty() ? nullptr : get(option.variable.c_str());
      if (text != nullptr && *text != '\0') option.set(values, Node::scalar({option.variable, 0, 0}, text, false));
    }
  }

 private:
  template <class T>
  Option<S>& add(OptionInfo::Kind kind, const std::string& name, T S::*place, const std::string& help) {
    Option<S>& option = options_.emplace_back();
    option.kind = kind;
    option.name = name;
    option.help = help;
    if (place != nullptr) option.fallback = detail::default_text(S{}.*place);
    return option;
  }

  /// Keys allowed in the map of the options whose names begin with `prefix` ("" or "tls.").
  std::vector<std::string> keys(const std::string& prefix) const {
    std::vector<std::string> known;
    for (const Option<S>& option : options_) {
      if (!option.name.starts_with(prefix)) continue;
      const std::string rest = option.name.substr(prefix.size());
      std::string key = rest.substr(0, rest.find('.'));
      if (known.empty() || known.back() != key) known.push_back(std::move(key));
    }
    return known;
  }

  std::vector<Option<S>> options_;
};

}  // namespace echotrain::config
