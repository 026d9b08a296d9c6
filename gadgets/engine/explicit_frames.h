// Frame rules of the pipeline file: frames that end with a flag, or after a number of readouts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "gadgets/engine/open_frames.h"
#include "protocol/data/header.h"

namespace echotrain {

/// The rule `frame: {until: last_in_slice}` and the like: a frame ends with the readout that has the flag.
class FlaggedFrames {
 public:
  /// `until`: one of config::until_flags(). `open` must outlive this.
  FlaggedFrames(OpenFrames& open, const std::string& until);
  /// Takes one readout for images.
  void add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit);

 private:
  OpenFrames& open_;
  std::uint64_t mask_;
};

/// The rule `frame: {readouts: N}` without a stride: readouts that agree in all counters but the repetition, N by N.
class CountedFrames {
 public:
  /// `open` must outlive this.
  CountedFrames(OpenFrames& open, std::int64_t readouts) : open_(open), readouts_(readouts) {}
  /// Takes from the header the number of slices, contrasts, phases and sets: their frames may fill at the same time.
  void start(const protocol::Header& header);
  /// Takes one readout for images, which is dropped with its frame if a later frame has come whole. `behind`: number of
  /// later readouts that wait, if frames may be left out.
  void add(protocol::Acquisition&& acquisition, std::optional<std::int64_t> behind, Scan& scan,
           const OpenFrames::EmitReadouts& emit);

 private:
  bool left_out(const FrameKey& key, std::int64_t behind, Scan& scan);

  OpenFrames& open_;
  std::int64_t readouts_;
  std::int64_t announced_ = 1;                 // frames that may fill at the same time
  std::set<FrameKey> seen_;                    // the keys that have come, without the repetition
  std::map<FrameKey, std::int64_t> left_out_;  // readouts still missing from frames that are left out
};

}  // namespace echotrain
