// A sequence is the contents of a Pulseq file (.seq, versions 1.4 and 1.5) as far as they place samples in k-space and
// count them: blocks, gradients, RF pulses, ADC events, labels and definitions. Facts of the format: Pulseq's
// specification (pulseq.github.io); Layton et al., MRM 77, 2017.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace echotrain::protocol::pulseq {

inline constexpr std::size_t kMostFileBytes = std::size_t{128} << 20;
inline constexpr std::size_t kMostBlocks = std::size_t{1} << 21, kMostEvents = std::size_t{1} << 20;  ///< of a kind
inline constexpr double kMostShape = 1 << 22, kMostReadout = 0xFFFF;   ///< samples of a shape, and of an ADC event
inline constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 31;  ///< of all ADC events

/// Events of other kinds are named by their id, 0 being none.
struct Block {
  double seconds = 0;
  std::uint32_t rf = 0, adc = 0, extension = 0;
  std::array<std::uint32_t, 3> gradients{};  ///< along x, y, z
};

/// Samples, run-length coded where there are fewer values than samples.
struct Shape {
  std::size_t samples = 0;
  std::vector<double> values;
};

struct RfPulse {
  double hz = 0;
  std::uint32_t magnitude = 0, phase = 0, times = 0;  ///< shapes
  double delay_s = 0;
  std::optional<double> center_s;  ///< from version 1.5 on
  char use = 'u';                  ///< the initial of "excitation", "refocusing", ...; before 1.5 it is unknown: 'u'
};

/// A trapezoid, or a shape: at the middles of raster times, at twice as many places (oversampled), or at times of its
/// own.
struct Gradient {
  bool is_trapezoid = false, oversampled = false;
  double hz_per_m = 0, delay_s = 0;
  double rise_s = 0, flat_s = 0, fall_s = 0;
  std::uint32_t shape = 0, times = 0;
  std::optional<double> first, last;  ///< at the ends of a shape [Hz/m]; from version 1.5 on
};

struct Adc {
  std::size_t samples = 0;
  double dwell_s = 0, delay_s = 0;
};

enum class ExtensionKind { other, set_label, add_label, rotation };

using Matrix3 = std::array<std::array<double, 3>, 3>;

struct Extension {
  ExtensionKind kind = ExtensionKind::other;
  std::uint32_t event = 0, next = 0;
};

/// Sets a label, or adds to it.
struct LabelEvent {
  std::string name;
  std::int64_t value = 0;
};

struct Sequence {
  std::string name;  ///< of the file
  int minor = 0;     ///< of the version 1.4 or 1.5
  std::map<std::string, std::string> definitions;
  double gradient_raster_s = 1e-5, rf_raster_s = 1e-6, block_raster_s = 1e-5;
  std::vector<Block> blocks;  ///< in the order of time
  std::unordered_map<std::uint32_t, RfPulse> rf;
  std::unordered_map<std::uint32_t, Gradient> gradients;
  std::unordered_map<std::uint32_t, Adc> adcs;
  std::unordered_map<std::uint32_t, Extension> extensions;
  std::unordered_map<std::uint32_t, LabelEvent> sets, additions;
  std::unordered_map<std::uint32_t, Matrix3> rotations;  ///< of a block's gradients; from version 1.5 on
  std::unordered_map<std::uint32_t, Shape> shapes;

  /// Returns the numbers of a definition; empty where there is none, or where it is no numbers.
  std::vector<double> numbers(const std::string& definition) const;
};

/// Throws DatasetError, naming the line, for a file that is none, of another version, or larger than kMostFileBytes.
Sequence read_sequence(const std::filesystem::path& file);

}  // namespace echotrain::protocol::pulseq
