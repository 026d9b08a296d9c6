#include "server/net/tokens.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <fstream>
#include <stdexcept>
#include <utility>

namespace echotrain::server {

namespace {
constexpr std::size_t kShortest = 16;
}  // namespace

Tokens::Tokens(std::string file) : file_(std::move(file)) { reload(); }

void Tokens::reload() {
  std::ifstream in(file_);
  std::vector<Digest> digests;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.empty() || line.front() == '#') continue;
    if (line.size() < kShortest)
      throw std::runtime_error(fmt::format(
          "{}:{}: a token has at least {} characters; 'openssl rand -hex 16' makes one", file_, number, kShortest));
    digests.push_back(digest_of(line));
  }
  if (digests.empty())
    throw std::runtime_error(fmt::format(
        "the token file '{}' cannot be read or has no token; write one per line ('openssl rand -hex 16' makes one)",
        file_));
  const std::scoped_lock lock(mutex_);
  digests_ = std::move(digests);
}

bool Tokens::contain(const Digest& digest) const {
  const std::scoped_lock lock(mutex_);
  bool found = false;
  for (const Digest& known : digests_) found |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0;
  return found;
}

Tokens::Digest Tokens::digest_of(std::string_view token) {
  Digest digest{};
  if (EVP_Digest(token.data(), token.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  return digest;
}

}  // namespace echotrain::server
