// CUDA is expected to work where tests run on a GPU: a test on CUDA that vanishes there is a failure and not a skip.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "gadgets/numerics/core/context.h"

namespace echotrain::testing {

/// True if CUDA cannot work here, by the `reason` of cuda::probe(): the program does not have it, the GPU is too old
/// for it, or the driver does not work.
constexpr bool cuda_cannot_work(std::string_view reason) {
  for (const std::string_view known : {"built without CUDA", "too old", "CUDA driver"})
    if (reason.find(known) != std::string_view::npos) return true;
  return false;
}

/// `setting`: ECHOTRAIN_EXPECT_CUDA, which decides where it is 1 or 0. Elsewhere CUDA is expected where NVIDIA's driver
/// shows a GPU (`seen`), unless `reason` says that it cannot work there.
constexpr bool cuda_is_expected(std::string_view setting, std::string_view reason, bool seen) {
  return setting == "1" || (setting != "0" && seen && !cuda_cannot_work(reason));
}

/// True if NVIDIA's driver shows a GPU (/dev/nvidia0 and so on) that CUDA_VISIBLE_DEVICES does not hide.
inline bool driver_shows_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && (*visible == '\0' || *visible == '-')) return false;
  constexpr std::string_view kPrefix = "nvidia";
  std::error_code error;
  const std::filesystem::directory_iterator devices("/dev", error);
  return !error && std::any_of(begin(devices), end(devices), [&](const auto& entry) {
    const std::string name = entry.path().filename();
    return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
           std::all_of(name.begin() + kPrefix.size(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  });
}

/// Returns why tests on `backend` are skipped here; empty where they run. The test fails, fatally, if CUDA is expected
/// here.
inline std::string missing_backend(numerics::Backend backend) {
  std::string reason;
  if (numerics::available(backend, &reason)) return "";
  const char* setting = std::getenv("ECHOTRAIN_EXPECT_CUDA");
  if (cuda_is_expected(setting == nullptr ? "" : setting, reason, driver_shows_gpu()))
    [&] { FAIL() << "CUDA is expected here (ECHOTRAIN_EXPECT_CUDA=0 takes that back): " << reason; }();
  return "no usable CUDA device: " + reason;
}

}  // namespace echotrain::testing
