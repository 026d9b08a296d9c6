// A test waits for what another thread brings about.
#pragma once

#include <chrono>
#include <thread>

namespace echotrain::server {

/// False: it did not come true within a minute.
template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace echotrain::server
