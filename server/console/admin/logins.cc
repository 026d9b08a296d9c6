#include "server/console/admin/logins.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace echotrain::server {

namespace {

std::string random_word() {
  std::array<unsigned char, 32> bytes{};
  if (::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw std::runtime_error("this system gives no random numbers");
  std::string word;
  for (const unsigned char byte : bytes) word += fmt::format("{:02x}", byte);
  return word;
}

}  // namespace

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

const Logins::Login* Logins::log_in(std::string_view token, Clock::time_point now) {
  const Tokens::Digest digest = Tokens::digest_of(token);
  if (!tokens_ || !tokens_->contain(digest, Right::read)) return nullptr;
  if (logins_.size() >= kMost) logins_.pop_front();
  return &logins_.emplace_back(Login{random_word(), random_word(), digest, now + kLasts});
}

const Logins::Login* Logins::find(std::string_view cookie, Clock::time_point now) {
  logins_.remove_if([&](const Login& one) { return one.until <= now || !tokens_->contain(one.token, Right::read); });
  for (const Login& one : logins_)
    if (same_secret(one.cookie, cookie)) return &one;
  return nullptr;
}

void Logins::log_out(std::string_view cookie) {
  logins_.remove_if([&](const Login& one) { return same_secret(one.cookie, cookie); });
}

Clock::duration Logins::wait_of(const std::string& address, bool right, Clock::time_point now) {
  constexpr std::size_t kMostAddresses = 1024;  // others share one limit
  std::erase_if(tries_, [now](const auto& each) { return each.second <= now; });
  const bool own = tries_.size() < kMostAddresses || tries_.contains(address);
  Clock::time_point& until = tries_[own ? address : ""];
  until = std::max(until, now);
  const Clock::duration wait = until - now - (kTries - 1) * Clock::duration(kPerTry);
  if (wait <= Clock::duration::zero() && !right) until += kPerTry;
  return std::max(wait, Clock::duration::zero());
}

std::string_view cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = std::min(header.find(';'), header.size());
    std::string_view one = header.substr(0, end);
    header.remove_prefix(std::min(header.size(), end + 1));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return {};
}

}  // namespace echotrain::server
