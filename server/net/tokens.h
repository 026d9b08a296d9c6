// A token is a secret that a client must know where the operator wants that.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/server_options.h"
#include "protocol/data/limits.h"

namespace echotrain::server {

/// The rights that a token may have, in sums.
enum class Right : unsigned {
  scan = 1,   ///< to send scans
  read = 2,   ///< to look at the admin port's page, and take images away
  admin = 4,  ///< to change something there; `read` comes with it
};

/// A file of tokens, one per line; empty lines and lines that begin with # are skipped. A line is
/// "NAME:SCOPE:EXPIRY:SHA256": the client's name, rights with commas ("scan,read"), the last day ("2027-01-31", UTC) or
/// "never", and the token's SHA-256 in hexadecimal digits. Or it is the token itself, with all rights, and " name=WORD"
/// behind it. Behind either may stand " client_pipelines=off", "gadgets" or "all", in place of the option of that name.
/// Thread-safe.
class Tokens {
 public:
  /// Reads the file. Throws std::runtime_error when the file cannot be read, has no token, or has one of fewer than 16
  /// characters, or when something is wrong in a line. Warns of tokens that stand as they are.
  explicit Tokens(std::string file);
  /// Reads the file again; what fails leaves the tokens as they were.
  void reload();
  /// True if the file has this token. Takes a time that does not depend on which characters are equal.
  bool contain(std::string_view token, Right right = Right::scan) const { return contain(digest_of(token), right); }

  /// All that is remembered of a token: no dump of this process shows one.
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view token);
  bool contain(const Digest& digest, Right right = Right::scan) const { return find(digest, right).has_value(); }

  /// The rights that a token stands for.
  struct Grant {
    std::string identity;  ///< "token:NAME", or "token#DIGEST" where it has no name; lines may move
    std::optional<config::ClientPipelines> client_pipelines;  ///< nothing: as the option says
    unsigned rights = ~0U;                                    ///< a sum of `Right`
    std::optional<std::chrono::system_clock::time_point> until{};
  };
  /// Returns nothing for a token that the file does not have with this right, or that has expired. Takes a time that
  /// does not depend on which characters are equal.
  std::optional<Grant> find(std::string_view token, Right right = Right::scan) const {
    return find(digest_of(token), right);
  }
  std::optional<Grant> find(const Digest& digest, Right right = Right::scan) const;

 private:
  struct Line {
    Digest digest;
    Grant grant;
    bool plain = false;
  };
  static Line read(std::string line, const std::string& place);

  const std::string file_;
  mutable std::mutex mutex_;
  std::vector<Line> lines_;
};

using protocol::kTokenBytes;  // as much of a config text as is looked at for its token, and as many lines
using protocol::kTokenLines;
/// Returns the token that a config text has in its beginning: a line `token: ...`, or "token" in a host's JSON. Nothing
/// else of the text is read. Empty: there is none.
std::string token_in(std::string_view config_text);

}  // namespace echotrain::server
