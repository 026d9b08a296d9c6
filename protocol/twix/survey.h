// A survey is what one pass over a measurement's scan heads finds, which its header needs before the first readout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/twix/raid.h"
#include "protocol/twix/scan_head.h"

namespace echotrain::protocol::twix {

struct Survey {
  std::size_t readouts = 0;    ///< with samples
  std::size_t noise = 0;       ///< noise readouts among them
  std::size_t prescan = 0;     ///< and lines for a receive field
  std::size_t references = 0;  ///< and reference lines that are not imaged
  std::size_t lines = 0;       ///< and image lines
  std::size_t navigators = 0;  ///< phase correction readouts of a slice before the first image line, after references
  std::uint16_t navigated_slice = 0;  ///< their slice
  bool reversed = false;              ///< image lines in both directions
  std::size_t empty = 0;              ///< heads without samples, left out
  std::size_t sync_blocks = 0;        ///< data of other devices, left out
  std::uint64_t sync_bytes = 0;
  bool complete = false;          ///< the head that ends the measurement was there
  std::uint64_t begin = 0;        ///< the byte of the first scan head
  std::uint64_t end = 0;          ///< the byte behind the last whole readout
  std::optional<ScanHead> first;  ///< of image lines; without one, of all readouts
  std::uint16_t most_channels = 0;
  std::uint16_t most_before = 0, most_after = 0;  ///< most samples of a line before its centre, and from it on

  /// Highest counters of image and reference lines.
  struct Highest {
    std::uint16_t line = 0, partition = 0, average = 0, slice = 0, echo = 0, phase = 0, repetition = 0, set = 0,
                  segment = 0;
  } highest;
};

/// Reads the scan heads from byte `begin` on. A measurement that ends early has `complete` false, and what lies before
/// that. Throws DatasetError for a readout of more channels or samples than limits allow, and for lengths that lead
/// nowhere. The time is that of the bytes, and the memory is fixed.
Survey survey(const RaidFile& file, const RaidEntry& entry, std::uint64_t begin);

/// True if a readout of this head is for other scans as well: noise, or a line for a receive field.
bool is_preparation(const ScanHead& head);

}  // namespace echotrain::protocol::twix
