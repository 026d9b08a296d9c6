// A token is a secret that a client must know where the operator wants that.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/server_options.h"
#include "protocol/data/limits.h"

namespace echotrain::server {

/// A file of tokens, one per line; empty lines and lines that begin with # are skipped. Behind a token may stand "
/// name=WORD", by which it is known, and " client_pipelines=off", "gadgets" or "all", in place of the option of that
/// name. Thread-safe.
class Tokens {
 public:
  /// Reads the file. Throws std::runtime_error when the file cannot be read, has no token, or has one of fewer than 16
  /// characters, or when something is wrong behind one.
  explicit Tokens(std::string file);
  /// Reads the file again; what fails leaves the tokens as they were.
  void reload();
  /// True if the file has this token. Takes a time that does not depend on which characters are equal.
  bool contain(std::string_view token) const { return contain(digest_of(token)); }

  /// All that is remembered of a token: no dump of this process shows one.
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view token);
  bool contain(const Digest& digest) const { return find(digest).has_value(); }

  /// The rights that a token stands for.
  struct Grant {
    std::string identity;  ///< "token:NAME", or "token#DIGEST" where it has no name; lines may move
    std::optional<config::ClientPipelines> client_pipelines;  ///< nothing: as the option says
  };
  /// Returns nothing for a token that the file does not have. Takes a time that does not depend on which characters are
  /// equal.
  std::optional<Grant> find(std::string_view token) const { return find(digest_of(token)); }
  std::optional<Grant> find(const Digest& digest) const;

 private:
  struct Line {
    Digest digest;
    Grant grant;
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
