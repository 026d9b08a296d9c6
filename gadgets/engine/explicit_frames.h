// Frames that end where the pipeline file says: with a flag, or after a number of readouts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "gadgets/engine/open_frames.h"
#include "protocol/data/header.h"

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
  /// How many slices, contrasts, phases and sets the header announces: their frames may fill at the same time.
  void start(const protocol::Header& header);
  /// Takes one readout for images, which is dropped with its frame if a later frame has come whole. `behind`: readouts
  /// that have come after this one, where frames may be left out.
  void add(protocol::Acquisition&& acquisition, std::optional<std::int64_t> behind, Scan& scan,
           const OpenFrames::EmitReadouts& emit);

 private:
  bool left_out(const FrameKey& key, std::int64_t behind, Scan& scan);

  OpenFrames& open_;
  std::int64_t readouts_;
  std::int64_t announced_ = 1;                 // frames that may fill at the same time
  std::set<FrameKey> seen_;                    // the keys that have come, but for the repetition
  std::map<FrameKey, std::int64_t> left_out_;  // readouts that frames which are left out still lack
};

}  // namespace echotrain
