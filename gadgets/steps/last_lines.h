// LastLines are the last lines of a text that comes in pieces.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echotrain {

/// Keeps at most 20 lines, of each the first 500 characters.
class LastLines {
 public:
  void add(std::string_view piece) {
    for (const char c : piece) {
      if (c == '\n')
        finish_line();
      else if (line_.size() < kLongest)
        line_.push_back(c);
    }
  }
  void finish_line() {
    if (line_.empty()) return;
    lines_.push_back(std::exchange(line_, {}));
    if (lines_.size() > kMost) lines_.pop_front();
  }
  std::vector<std::string> get() const { return {lines_.begin(), lines_.end()}; }

 private:
  static constexpr std::size_t kLongest = 500, kMost = 20;
  std::deque<std::string> lines_;
  std::string line_;
};

}  // namespace echotrain
