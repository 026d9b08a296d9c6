// Runs one test suite on teams: of threads on the CPU, and of the first two GPUs where there are two and NCCL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/team.h"
#include "tests/support/backends.h"

namespace echotrain::testing {

/// Why there is no team of two on this backend; empty when there is one.
inline std::string no_team(numerics::Backend backend) {
  std::string reason;
  if (!numerics::available(backend, &reason)) return "no usable CUDA device: " + reason;
  if (backend == numerics::Backend::cpu) return "";
  if (numerics::device_count() < 2) return "there is one GPU only; this test needs two";
  return numerics::can_connect_devices(&reason) ? "" : reason;
}

constexpr std::uint64_t kMemberBudget = 4ull << 30;

template <class B>
class OnTeam : public OnBackend<B> {
 protected:
  void SetUp() override {
    const std::string reason = no_team(B::kBackend);
    if (!reason.empty()) GTEST_SKIP() << reason;
    OnBackend<B>::SetUp();
  }
  /// Teams of two, and of three where members need no device of their own.
  std::vector<std::unique_ptr<numerics::Team>> teams() {
    std::vector<std::unique_ptr<numerics::Team>> all;
    all.push_back(std::make_unique<numerics::Team>(this->context(), std::vector<int>{1}, kMemberBudget));
    if (!this->context().cuda())
      all.push_back(std::make_unique<numerics::Team>(this->context(), std::vector<int>{1, 2}, kMemberBudget));
    return all;
  }
};

}  // namespace echotrain::testing
