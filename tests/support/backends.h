// Runs one test suite on every backend: TYPED_TEST_SUITE(Suite, Backends) with a fixture derived from OnBackend.
#pragma once

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "tests/support/expected_cuda.h"
#include "tests/support/resources.h"

namespace echotrain::testing {

struct Cpu {
  static constexpr numerics::Backend kBackend = numerics::Backend::cpu;
};
struct Cuda {
  static constexpr numerics::Backend kBackend = numerics::Backend::cuda;
};
using Backends = ::testing::Types<Cpu, Cuda>;

struct BackendNames {
  template <class B>
  static std::string GetName(int /*index*/) {
    return B::kBackend == numerics::Backend::cpu ? "Cpu" : "Cuda";
  }
};

/// `all`, or `few` where ECHOTRAIN_FEW is set: under a sanitizer of the device, where everything takes many times as
/// long, a test launches the same kernels on smaller problems (.ci/gpu.sh).
template <class T>
T fewer(T all, T few) {
  return std::getenv("ECHOTRAIN_FEW") == nullptr ? all : few;
}

template <class B>
class OnBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = missing_backend(B::kBackend); !reason.empty()) GTEST_SKIP() << reason;
    context_ = std::make_unique<numerics::Context>(B::kBackend, test_resources());
  }

  numerics::Context& context() { return *context_; }

  template <class T>
  numerics::Array<T> upload(const std::vector<T>& values, const numerics::Shape& shape) {
    EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.size());
    return context_->template upload<T>({values.data(), shape});
  }
  template <class T>
  std::vector<T> download(const numerics::Array<T>& array) {
    const numerics::HostArray<T> host = context_->template download<T>(array.cview());
    return std::vector<T>(host.data(), host.data() + host.size());
  }

  std::unique_ptr<numerics::Context> context_;
};

/// Random numbers that are the same in every run.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  numerics::cfloat normal() {
    std::normal_distribution<float> distribution;
    const float re = distribution(engine_);
    return {re, distribution(engine_)};
  }
  std::vector<numerics::cfloat> normals(std::int64_t n) {
    std::vector<numerics::cfloat> values(static_cast<std::size_t>(n));
    for (auto& v : values) v = normal();
    return values;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace echotrain::testing
