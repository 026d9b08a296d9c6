#include "server/metrics/gpu_use.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace echotrain::server {

namespace {

/// The part of NVML's interface that is used here (NVIDIA, "NVML API Reference Guide"); its functions give 0 for
/// success.
class Nvml {
 public:
  explicit Nvml(const std::string& file) : library_(::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = function<int (*)()>("nvmlInit_v2");
    find_ = function<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    rates_ = function<int (*)(void*, Rates*)>("nvmlDeviceGetUtilizationRates");
    end_ = function<int (*)()>("nvmlShutdown");
    works_ = init != nullptr && find_ != nullptr && rates_ != nullptr && end_ != nullptr && init() == 0;
  }
  ~Nvml() {
    if (works_) end_();
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::optional<int> percent(const std::string& pci) {
    void* device = nullptr;
    Rates rates;
    if (!works_ || find_(pci.c_str(), &device) != 0 || rates_(device, &rates) != 0) return std::nullopt;
    return static_cast<int>(std::min(100U, rates.gpu));
  }

 private:
  struct Rates {
    unsigned gpu = 0, memory = 0;
  };
  template <class F>
  F function(const char* name) {
    return reinterpret_cast<F>(::dlsym(library_, name));
  }

  void* const library_;
  int (*find_)(const char*, void**) = nullptr;
  int (*rates_)(void*, Rates*) = nullptr;
  int (*end_)() = nullptr;
  bool works_ = false;
};

}  // namespace

GpuUse::~GpuUse() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<int> GpuUse::percent(const std::string& pci) {
  const std::scoped_lock lock(mutex_);
  const bool anew = known_.find(pci) == known_.end();
  Known& one = known_[pci];
  const auto now = Time::now();
  const bool slept = anew || now - one.wanted > kWanted;
  if (slept) one.percent.reset();  // what was known is old
  one.wanted = now;
  if (!thread_.joinable()) thread_ = std::thread([this] { ask(); });
  if (slept) changed_.notify_all();
  return one.percent;
}

void GpuUse::ask() {
  Nvml nvml(library_);
  std::unique_lock lock(mutex_);
  while (!ending_) {
    std::vector<std::string> wanted;
    for (const auto& [pci, one] : known_)
      if (Time::now() - one.wanted <= kWanted) wanted.push_back(pci);
    if (wanted.empty()) {
      changed_.wait(lock);
      continue;
    }
    for (const std::string& pci : wanted) {
      lock.unlock();
      const std::optional<int> percent = nvml.percent(pci);
      lock.lock();
      known_[pci].percent = percent;
    }
    changed_.wait_for(lock, kEvery);
  }
}

}  // namespace echotrain::server
