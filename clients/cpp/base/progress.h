// A progress line says on stderr how far a command is.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace echotrain::client {

/// The switches --progress and --no-progress.
struct ProgressChoice {
  bool progress = false, no_progress = false;
  /// As chosen, else on a terminal. Only the program's own stderr is one.
  bool wanted(const std::ostream& err) const;
};

/// One line that rewrites itself on a terminal; a line every two seconds elsewhere.
class Progress {
 public:
  /// `total`: of what is counted; 0: not known.
  Progress(bool wanted, std::size_t total, std::ostream& err);
  ~Progress() { interrupt(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `what`: the words behind the count: "readouts, 3 images".
  void show(std::size_t done, const std::string& what, bool last = false);
  void show(std::size_t readouts, std::size_t images, bool last);
  /// Ends the line that is being rewritten, so that other text can follow.
  void interrupt();

 private:
  bool due(bool last);

  bool wanted_, terminal_;
  std::size_t total_;
  std::ostream& err_;
  std::chrono::steady_clock::time_point shown_{};
  bool open_ = false;
};

}  // namespace echotrain::client
