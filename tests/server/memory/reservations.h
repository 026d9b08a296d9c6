// The reservations of a small budget, and who asks for them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "server/memory/memory_admission.h"

namespace echotrain::server {

using numerics::MemoryAccount;
using numerics::MemoryBudget;

class ReservationsTest : public testing::Test {
 protected:
  std::shared_ptr<MemoryAccount> account() { return std::make_shared<MemoryAccount>(budget_); }
  auto ask(std::uint64_t bytes, const std::string& address) {
    return all_->ask({account(), bytes, address}, [this] { ++woken_; });
  }
  // An eighth is 14, of which a small scan has at most 3; half of the rest is 50.
  const std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(114);
  const std::shared_ptr<MemoryAdmission> all_ = std::make_shared<MemoryAdmission>(budget_, 2);
  int woken_ = 0;
};

}  // namespace echotrain::server
