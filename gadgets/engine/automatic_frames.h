// `frame: auto`: frames that end when their counters and the header say so.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "gadgets/engine/open_frames.h"
#include "protocol/data/header.h"

namespace echotrain {

/// A frame ends with a last-in flag if no line of it is missing, else when readouts of another frame show that it is
/// over. Readouts that come later still are left out and counted. ResourceError when the session's memory is exhausted.
class AutomaticFrames {
 public:
  /// `open` outlives this.
  explicit AutomaticFrames(OpenFrames& open) : open_(open) {}

  void start(const protocol::Header& header, Scan& scan);
  /// Takes one readout for images.
  void add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit);
  std::uint64_t late_readouts() const { return late_; }

 private:
  using Line = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>;  // step 1, step 2, average
  struct Expected {
    std::size_t lines = 0;  // of a whole frame; 0: not known
    bool averages = false;  // the header says how many averages there are, so each counts
  };
  struct Closed {
    FrameKey key;
    Line first;
  };
  static Line line_of(const protocol::AcquisitionHeader& head);
  static std::uint64_t with_average(const Line& line);
  static std::uint64_t of_any_average(const Line& line);

  const Expected& expected(const FrameKey& key) const { return expected_.at(key.encoding); }
  bool complete(const OpenFrame& frame) const;
  bool is_late(const FrameKey& key, const Line& line) const;
  void close_finished(const FrameKey& next, const OpenFrames::EmitReadouts& emit);
  void close(const FrameKey& key, const OpenFrames::EmitReadouts& emit);

  OpenFrames& open_;
  Scan* scan_ = nullptr;
  std::vector<Expected> expected_;                 // per encoding
  std::deque<Closed> closed_incomplete_;           // most recent last, bounded
  std::map<std::uint16_t, std::uint16_t> newest_;  // latest repetition so far, by encoding
  FrameKey last_;                                  // of the readout before this one
  std::uint64_t late_ = 0;
};

}  // namespace echotrain
