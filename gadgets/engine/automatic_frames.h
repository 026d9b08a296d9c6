// The frame rule `frame: auto`: frames that end when their counters and the header say so.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "gadgets/engine/open_frames.h"
#include "gadgets/shared/lattice_count.h"
#include "protocol/data/header.h"

namespace echotrain {

/// A frame ends with a last-in flag if no line of it is missing, else when readouts of another frame show that it is
/// over. Readouts that come even later are left out and counted. Throws ResourceError when the session's memory is
/// exhausted.
///
/// An undersampled frame (`parallelImaging`) misses no line when the lattice of its lines is whole and no reference
/// lines are to follow the flag. They may follow where the header does not say that they are sent apart from the images
/// (calibrationMode separate, external or interleaved) and none has come yet, or where they have done so before.
class AutomaticFrames {
 public:
  /// `open` must outlive this.
  explicit AutomaticFrames(OpenFrames& open) : open_(open) {}

  void start(const protocol::Header& header, Scan& scan);
  /// Takes one readout for images.
  void add(protocol::Acquisition&& acquisition, const OpenFrames::EmitReadouts& emit);
  /// Call it when a reference line that is not for images came.
  void calibration_came(const protocol::AcquisitionHeader& head);
  std::uint64_t late_readouts() const { return late_; }

 private:
  using Line = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>;  // step 1, step 2, average
  struct Expected {
    std::size_t lines = 0;  // lines of a whole frame; 0: not known
    bool averages = false;  // the header says how many averages there are, so each counts
    std::optional<LineLattice> lattice;
    bool references_apart = false;  // no reference lines come between imaging lines
  };
  struct References {
    bool seen = false;    // some have come
    bool follow = false;  // some came after a frame's last-in flag
  };
  struct Closed {
    FrameKey key;
    Line first;
    bool by_lattice;
  };
  static Line line_of(const protocol::AcquisitionHeader& head);
  static std::uint64_t with_average(const Line& line);
  static std::uint64_t of_any_average(const Line& line);
  static Expected expected_of(const protocol::Encoding& encoding);

  const Expected& expected(const FrameKey& key) const { return expected_.at(key.encoding); }
  bool complete(const OpenFrame& frame) const;
  bool lattice_complete(const OpenFrame& frame) const;
  bool is_late(const FrameKey& key, const protocol::AcquisitionHeader& head) const;
  void close_finished(const FrameKey& next, const OpenFrames::EmitReadouts& emit);
  void close_lattices(const FrameKey& key, const OpenFrames::EmitReadouts& emit);
  void close(const FrameKey& key, const OpenFrames::EmitReadouts& emit, bool by_lattice = false);

  OpenFrames& open_;
  Scan* scan_ = nullptr;
  std::vector<Expected> expected_;                  // per encoding
  std::map<std::uint16_t, References> references_;  // by encoding
  std::deque<Closed> closed_incomplete_;            // most recent last, bounded
  std::map<std::uint16_t, std::uint16_t> newest_;   // latest repetition so far, by encoding
  FrameKey last_;                                   // key of the previous readout
  std::uint64_t late_ = 0;
};

}  // namespace echotrain
