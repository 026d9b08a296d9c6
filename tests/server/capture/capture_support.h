// The support of tests of raw capture is a folder that goes away, a view of its files, and disks that misbehave.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/capture/capture.h"

namespace echotrain::server {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "/echotrain_capture_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Returns the files without the checksums of what is there, and without the folder's salt.
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename());
    std::erase_if(names, [all = names](const std::string& name) {
      return name == "salt" || (name.ends_with(".mrd.crc32c") && all.contains(name.substr(0, name.size() - 7)));
    });
    return names;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) std::filesystem::remove(entry.path());
  }
  /// The bytes of the only capture that is there; "no file" or "N files" when there is not one.
  std::string only() const {
    const auto all = names();
    if (all.size() != 1) return all.empty() ? "no file" : std::to_string(all.size()) + " files";
    return read(*all.begin());
  }

 private:
  std::filesystem::path path_;
};

inline config::CaptureOptions capture_to(const TemporaryFolder& folder) {
  config::CaptureOptions options;
  options.directory = folder.path();
  options.reserve_mib = 0;  // the machine's disk may be full
  return options;
}

/// Waits for a condition that another thread brings about.
template <class Condition>
bool comes_true_soon(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Returns the verdict of `echotrain verify` on the only capture; `unchecked` while there is none.
inline protocol::Verdict verdict_of(const TemporaryFolder& folder) {
  const auto names = folder.names();
  return names.empty() ? protocol::Verdict{} : protocol::verify(folder.path() / *names.begin());
}

/// Takes `room` bytes in all, then answers ENOSPC.
inline Disk disk_of(std::size_t room) {
  auto left = std::make_shared<std::atomic<std::size_t>>(room);
  return {[left](int descriptor, const iovec* parts, int /*count*/) -> ssize_t {
            const std::size_t n = std::min(left->load(), parts[0].iov_len);
            if (n == 0) {
              errno = ENOSPC;
              return -1;
            }
            *left -= n;
            return ::write(descriptor, parts[0].iov_base, n);
          },
          {},
          {}};
}

/// Writes nothing before it is opened.
class Gate {
 public:
  void open() {
    {
      const std::scoped_lock lock(mutex_);
      open_ = true;
    }
    opened_.notify_all();
  }
  Disk disk() {
    return {[this](int descriptor, const iovec* parts, int count) -> ssize_t {
              {
                std::unique_lock lock(mutex_);
                opened_.wait(lock, [this] { return open_; });
              }
              return ::writev(descriptor, parts, count);
            },
            {},
            {}};
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace echotrain::server
