// The physiology of a real scan says from a text file when a heart beat and how a chest moved; a simulated chest
// breathes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace echotrain::client {

/// A line of the file is `r MS` (an R wave, at that time since the scan began) or `b MS DEPTH` (how deep the breath is
/// then: 0 at expiration, 1 at inspiration). Times of a kind ascend; `#` begins a comment.
struct Physiology {
  struct Breath {
    double ms = 0, depth = 0;
  };
  std::vector<double> beats_ms;   ///< three or more
  std::vector<Breath> breathing;  ///< empty, or two or more; between them, it is interpolated
};

/// Throws UsageError, with file and line, for a file that cannot be read, says something else, or has R waves less than
/// 20 ms apart.
Physiology read_physiology(const std::filesystem::path& file);

/// The depth of the breath at each moment. Without a trace, breaths follow each other, each sin^4(pi t / T) deep at
/// time t of its length T, so that the chest lingers at expiration; lengths deviate normally from the mean, with a
/// standard deviation of `jitter` times the mean, cut at 3 of these. The same seed gives the same breaths. Source:
/// Lujan et al., "A method for incorporating organ motion due to breathing into 3D dose calculations", Med. Phys.
/// 26:715, 1999, equation 1 with n = 2. With a trace, its own depth, and before and after it that of its ends.
class Breathing {
 public:
  /// rate: breaths per minute.
  Breathing(double rate, double jitter, std::uint64_t seed);
  explicit Breathing(std::vector<Physiology::Breath> trace);

  double depth(double ms);  ///< 0 at expiration .. 1 at inspiration
  /// Returns the time since the last breath began: at expiration, or, of a trace, where it rose through 0.5. Negative
  /// before the first.
  double since_ms(double ms);

 private:
  double breath_ms(std::size_t i);  // when it begins
  std::size_t begun(double ms);

  double rate_ = 0, jitter_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<Physiology::Breath> trace_;
  std::vector<double> begins_;
};

}  // namespace echotrain::client
