// Frames that end where the pipeline file says: with a flag, or after a number of readouts.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/engine/open_frames.h"

namespace echotrain {

/// `frame: {until: last_in_slice}` and the like: a frame ends with the readout that has the flag.
class FlaggedFrames {
 public:
  /// `until`: one of config::until_flags(). `open` outlives this.
  FlaggedFrames(OpenFrames& open, const std::string& until);
  /// Takes one readout for images.
  void add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit);

 private:
  OpenFrames& open_;
  std::uint64_t mask_;
};

/// `frame: {readouts: N}` without a stride: readouts that agree in all counters but the repetition, N by N.
class CountedFrames {
 public:
  /// `open` outlives this.
  CountedFrames(OpenFrames& open, std::int64_t readouts) : open_(open), readouts_(readouts) {}
  /// Takes one readout for images.
  void add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit);

 private:
  OpenFrames& open_;
  std::int64_t readouts_;
};

}  // namespace echotrain
