// The kernel tells of this process's threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace echotrain {

/// Returns the threads by their numbers.
inline std::set<std::string> threads_now() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(entry.path().filename().string());
  return threads;
}

/// Returns how often a thread has begun to wait.
inline std::int64_t waits_of(const std::string& thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("voluntary_ctxt_switches:")) return std::stoll(line.substr(line.find(':') + 1));
  return 0;
}

}  // namespace echotrain
