// The acquisition check compares each readout, waveform and image with the header, before anything indexes with its
// counters.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/data/header.h"
#include "protocol/data/messages.h"

namespace echotrain::protocol {

/// The purpose of a readout, from its flags (docs/protocol.md, "Acquisition flags").
enum class ReadoutKind { imaging, noise, calibration, navigator, phase_correction, other };
ReadoutKind readout_kind(const AcquisitionHeader& head);
/// Returns it where the scan's trajectory is known: readouts of EPI that are flagged as reversed are lines like the
/// others.
ReadoutKind readout_kind(const AcquisitionHeader& head, Trajectory trajectory);

/// The reason why a message was consumed and counted, but left out. `kind` is a short fixed text, of the program's
/// lifetime (one warning per kind is sent).
struct SkipReason {
  std::string_view kind;
  std::string message;
};

/// Returns why an image's attributes must be dropped (the image itself is kept): not XML, or not ismrmrdMeta. Nothing
/// when they are well-formed or empty.
std::optional<SkipReason> check_attributes(const Image& image, const Limits& limits);

/// True if there is neither NaN nor infinity among the numbers of a readout.
bool all_finite(const Acquisition& acquisition);

/// Remembers what the first readout of each group looked like. One per session; not thread-safe.
class AcquisitionCheck {
 public:
  explicit AcquisitionCheck(Header header) : header_(std::move(header)) {}

  /// Returns why `acquisition` must be skipped (docs/protocol.md, "Validation and answers"), or nothing. Non-finite
  /// trajectories and samples are a reason too. A group is an encoding space and a kind of readout; its first good
  /// readout fixes channels and samples. Only the first reason of a kind has a message: a scan may have millions.
  std::optional<SkipReason> check(const Acquisition& acquisition);

 private:
  struct Shape {
    std::uint16_t channels;
    std::uint16_t samples;
    std::uint16_t trajectory_dimensions;
  };
  template <class Text>
  SkipReason because(std::string_view kind, const Text& text);
  std::optional<SkipReason> check_counters(const AcquisitionHeader& head, const Encoding& encoding);

  Header header_;
  std::set<std::string_view> told_;  // kinds whose message was given
  std::map<std::pair<std::uint16_t, ReadoutKind>, Shape> groups_;
};

}  // namespace echotrain::protocol
