#include "clients/cpp/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace echotrain::client {

bool ProgressChoice::wanted(const std::ostream& err) const {
  return !no_progress && (progress || (&err == &std::cerr && ::isatty(STDERR_FILENO) == 1));
}

Progress::Progress(bool wanted, std::size_t total, std::ostream& err)
    : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) == 1), total_(total), err_(err) {}

bool Progress::due(bool last) {
  if (!wanted_) return false;
  const auto now = std::chrono::steady_clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(2000);
  if (!last && now - shown_ < pause) return false;
  shown_ = now;
  return true;
}

void Progress::show(std::size_t done, const std::string& what, bool last) {
  if (!due(last)) return;
  constexpr std::size_t kWidth = 30;
  std::string line = fmt::format("{} {}", done, what);
  if (total_ > 0) {
    const std::size_t filled = kWidth * std::min(done, total_) / total_;
    line =
        fmt::format("[{}{}] {}/{} {}", std::string(filled, '#'), std::string(kWidth - filled, '.'), done, total_, what);
  }
  err_ << (terminal_ ? "\r" + line + (last ? "\n" : "") : line + "\n") << std::flush;
  open_ = terminal_ && !last;
}

void Progress::show(std::size_t readouts, std::size_t images, bool last) {
  if (wanted_) show(readouts, fmt::format("readouts, {} images", images), last);
}

void Progress::interrupt() {
  if (open_) err_ << '\n' << std::flush;
  open_ = false;
}

}  // namespace echotrain::client
