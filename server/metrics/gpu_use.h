// The use of a GPU is the share of time in which it computes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace echotrain::server {

/// The share of time in which a GPU computes, of all programs that use it, as NVIDIA's management library tells it
/// (NVML, nvmlDeviceGetUtilizationRates), which comes with the driver. A thread of its own asks the library, once a
/// second, while it is asked for; nothing is loaded before. Thread-safe.
class GpuUse {
 public:
  explicit GpuUse(std::string library = "libnvidia-ml.so.1") : library_(std::move(library)) {}
  ~GpuUse();
  GpuUse(const GpuUse&) = delete;
  GpuUse& operator=(const GpuUse&) = delete;

  /// Returns the use [%], some seconds old at most, of the GPU at this place ("0000:3b:00.0"). Nothing: not known yet,
  /// or the library is not there or does not tell (parts of GPUs). Waits for nobody.
  std::optional<int> percent(const std::string& pci);

  static constexpr std::chrono::milliseconds kEvery{1000};
  static constexpr std::chrono::seconds kWanted{5};  ///< so long after a question the next answer is got ready

 private:
  using Time = std::chrono::steady_clock;
  struct Known {
    Time::time_point wanted;
    std::optional<int> percent;
  };
  void ask();

  const std::string library_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::map<std::string, Known> known_;  // by place; as many as this machine has GPUs
  std::thread thread_;
};

}  // namespace echotrain::server
