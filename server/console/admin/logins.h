// The logins are the browsers that have shown an administrator's token to the live page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/net/tokens.h"

namespace echotrain::server {

/// Browsers that are logged in, each with a cookie that no script can read and a word that requests which change
/// something must repeat in a header (against cross-site request forgery). Both are 256 random bits. All members are
/// for the admin port's strand.
class Logins {
 public:
  static constexpr std::size_t kMost = 64;  ///< one more ends the oldest
  static constexpr std::chrono::hours kLasts{8};

  /// `tokens` may be null: nobody can log in.
  explicit Logins(std::shared_ptr<const Tokens> tokens) : tokens_(std::move(tokens)) {}

  bool possible() const { return tokens_ != nullptr; }
  struct Login {
    std::string cookie, csrf;
    Tokens::Digest token{};  ///< valid only as long as the file of tokens has it
    Clock::time_point until;
  };
  /// Logs a browser in; returns null for a wrong token.
  const Login* log_in(std::string_view token, Clock::time_point now = Clock::now());
  /// Finds a login by the value of its cookie; returns null where there is none.
  const Login* find(std::string_view cookie, Clock::time_point now = Clock::now());
  void log_out(std::string_view cookie);

  static constexpr int kTries = 10;                  ///< with wrong tokens, of one address at once
  static constexpr std::chrono::seconds kPerTry{6};  ///< and one more in this time
  /// Limits the rate of guesses: returns how long an address that shows a token has to wait until the token is looked
  /// at. Zero: it is looked at now, and counts as a try if it is not `right`. A right one waits as long, so that the
  /// wait does not tell that it is right.
  Clock::duration wait_of(const std::string& address, bool right, Clock::time_point now = Clock::now());

 private:
  const std::shared_ptr<const Tokens> tokens_;
  std::list<Login> logins_;                         // the oldest first
  std::map<std::string, Clock::time_point> tries_;  // until when the tries of an address count
};

/// Compares in a time that does not depend on which characters are equal.
bool same_secret(std::string_view a, std::string_view b);

/// The value of a cookie in a Cookie header; empty when it is not there.
std::string_view cookie_value(std::string_view header, std::string_view name);

}  // namespace echotrain::server
