// A Result<T> is a value or the reason why there is none. Everything that parses bytes from a peer returns one, so that
// a malformed message is an ordinary return value and never an exception.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace echotrain::protocol {

/// The reason why a peer's bytes were refused. `code` is one of the codes of docs/protocol.md ("bad-header",
/// "too-large", ...); `message` says what was found, where, and what is allowed. Both are plain ASCII without control
/// characters.
struct Error {
  std::string code;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor): a Result reads as its value
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return std::holds_alternative<T>(state_); }
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or the reason for a failure.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return !error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace echotrain::protocol
