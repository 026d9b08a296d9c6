// A k-space is where a sequence's ADC events measure: their samples' places, integrals of the gradients since the
// excitation, and the labels that count them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "protocol/pulseq/sequence.h"
#include "protocol/pulseq/waveform.h"

namespace echotrain::protocol::pulseq {

using Place = std::array<double, 3>;  ///< along the sequence's x, y, z [cycles/m]

/// Labels that become counters, in the order of kCounterLabels, and those that become flags.
enum class Counter { line, partition, slice, repetition, set, contrast, average, phase, segment };
inline constexpr std::array<const char*, 9> kCounterLabels{"LIN", "PAR", "SLC", "REP", "SET",
                                                           "ECO", "AVG", "PHS", "SEG"};
enum class Flag { reversed, navigator, reference, imaged, noise };
inline constexpr std::array<const char*, 5> kFlagLabels{"REV", "NAV", "REF", "IMA", "NOISE"};

/// The plays of a sequence that is played several times in which an event takes place (the label ONCE).
enum class Plays { each, first, last };

struct Labels {
  std::array<std::int32_t, kCounterLabels.size()> counters{};
  std::array<std::int32_t, kFlagLabels.size()> flags{};
  std::int32_t once = 0;
  std::int32_t counter(Counter which) const { return counters[static_cast<std::size_t>(which)]; }
  bool has(Flag flag) const { return flags[static_cast<std::size_t>(flag)] != 0; }
  Plays plays() const { return once == 0 ? Plays::each : once == 1 ? Plays::first : Plays::last; }
};

/// The way that a block takes through k-space.
class Path {
 public:
  Place at(double seconds) const;  ///< seconds from the block's begin

 private:
  friend class KSpace;
  Place moved(double until_s) const;  // by the block's gradients
  Place begin_{};
  std::array<const GradientWave*, 3> waves_{};
  const Matrix3* rotation_ = nullptr;
  const RfAction* action_ = nullptr;
};

class KSpace {
 public:
  /// Goes through all blocks. Throws DatasetError where events are missing, a label leaves 0 to 65535 at an ADC event,
  /// or the sequence has no ADC event.
  explicit KSpace(Sequence sequence);

  const Sequence& sequence() const { return *sequence_; }
  std::size_t readouts() const { return readouts_.size(); }  ///< ADC events, in the order of time
  const Adc& adc(std::size_t readout) const;
  const Labels& labels(std::size_t readout) const { return readouts_[readout].labels; }
  /// Returns how many excitations came before: readouts with one number belong together.
  std::uint32_t excitation(std::size_t readout) const { return readouts_[readout].excitation; }
  /// True if the sequence sets the label somewhere.
  bool uses(Counter counter) const { return used_counters_[static_cast<std::size_t>(counter)]; }
  bool uses(Flag flag) const { return used_flags_[static_cast<std::size_t>(flag)]; }
  Place place(std::size_t readout, std::size_t sample) const;  ///< in the middle of the sample's dwell time
  /// Equal for readouts with the same places.
  using PathKey = std::tuple<std::uint32_t, std::uint32_t, std::array<std::uint32_t, 3>, const Matrix3*, Place>;
  PathKey path_key(std::size_t readout) const;
  /// Returns `count` places from the sample `first` on, every `stride`-th one.
  std::vector<Place> places(std::size_t readout, std::size_t first, std::size_t count, std::size_t stride = 1) const;

 private:
  struct Readout {
    std::uint32_t block = 0, excitation = 0;
    Place begin{};  ///< k at the block's begin
    const Matrix3* rotation = nullptr;
    Labels labels;
  };
  /// Returns the block's rotation, null for none.
  const Matrix3* apply_extensions(const Block& block, Labels& labels);
  Path path(const Block& block, const Place& begin, const Matrix3* rotation) const;
  [[noreturn]] void refuse(const Block& block, const std::string& why) const;

  std::unique_ptr<const Sequence> sequence_;
  std::unordered_map<std::uint32_t, GradientWave> waveforms_;
  std::unordered_map<std::uint32_t, std::optional<RfAction>> actions_;
  std::array<bool, kCounterLabels.size()> used_counters_{};
  std::array<bool, kFlagLabels.size()> used_flags_{};
  std::vector<Readout> readouts_;
};

}  // namespace echotrain::protocol::pulseq
