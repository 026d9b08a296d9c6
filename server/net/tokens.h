// Secrets: where the operator wants that, a client must know one.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::server {

/// A file of tokens, one per line; empty lines and lines that begin with # are skipped. Thread-safe.
class Tokens {
 public:
  /// std::runtime_error when the file cannot be read, has no token, or has one of fewer than 16 characters.
  explicit Tokens(std::string file);
  /// Reads the file again; what fails leaves the tokens as they were.
  void reload();
  /// Takes a time that does not depend on which characters are equal.
  bool contain(std::string_view token) const { return contain(digest_of(token)); }

  /// What may be kept of a token: no dump of this process shows one.
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view token);
  bool contain(const Digest& digest) const;

 private:
  const std::string file_;
  mutable std::mutex mutex_;
  std::vector<Digest> digests_;
};

}  // namespace echotrain::server
