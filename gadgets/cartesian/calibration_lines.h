// CalibrationLines collects the reference lines of Cartesian scans into blocks of k-space without gaps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/calibration_block.h"
#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/cartesian/reference_options.h"

namespace echotrain {

/// Makes one block for each encoding space, slice, contrast and set, of at most `calibration_lines` rows per axis in
/// the middle:
///   separate: from calibration readouts, where calibrationMode is separate or external (the block's source is then
///     external). Whole when an imaging readout of the slice comes. If it has kAtOnce lines without a gap, it is whole
///     already when a calibration readout of another slice comes, unless slices take turns.
///   embedded: from all readouts of the first frame that has reference lines (flags 20, 21). Whole when the frame ends.
///     If it has kAtOnce reference lines without a gap, it is whole already when another imaging readout comes, unless
///     the two kinds take turns.
///   sliding: where calibrationMode is interleaved, from the newest lines of several frames (TGRAPPA: Breuer et al.,
///     MRM 53:981-985, 2005). Whole when as many frames have brought new lines as the header's R; these frames wait
///     until then. Made anew every `refresh` frames. Under `auto`, the first frame's reference lines are preferred.
///   average: the mean over frames (source: sliding), where the options ask for it and lines do not come apart. Whole
///   when a frame ends and
///     the reference lines have no gap or, where these are all lines (interleaved), none is missing; frames wait until
///     then, kMostHeld at most. Where there are neither, from what has come when the first frame ends.
///   center: from the first frame of an accelerated scan that has no reference lines. Whole when the frame ends.
/// ReferenceOptions::calibration may ask for one of these, whatever the header says.
///
/// Lines that come several times are averaged. Samples that not all lines have are cut away. From lines with gaps, the
/// largest box about the middle is taken, with a warning.
class CalibrationLines {
 public:
  static constexpr std::int64_t kAtOnce = 8;
  static constexpr std::int64_t kMostHeld = 256;  ///< the most frames that wait for a block

  void start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces, const ReferenceOptions& options,
             Scan& scan);
  /// True if blocks are made in this encoding space: where lines are left out, where reference lines come apart, or
  /// where the options ask for them.
  bool wanted(std::uint16_t encoding) const { return rules_.at(encoding) != Rule::none; }
  /// Takes readouts of kinds calibration and imaging, as far as blocks need them. Throws ClientError when the number of
  /// coils changes within a block. Readouts that do not fit the matrix are left out with a warning.
  void add(const Readouts& readouts);
  /// Call it when the frame's last readout has been added.
  void frame_ends(const Frame& frame);
  /// The key of a frame's block: frames of the same encoding space, slice, contrast and set share it.
  static FrameKey block_of(const FrameKey& frame);
  /// True if such frames are to wait, because their block is made from several frames.
  bool holds(const FrameKey& key) const;
  /// Call it when all frames have ended: it makes the possible blocks from frames that still wait.
  void scan_ends();
  /// The block for a frame; if its contrast or set has none, that of the slice's lowest; else one of another encoding
  /// space with the same field of view, by indices of the frame's matrix. Null if there is none (yet).
  std::shared_ptr<const Calibration> of(const FrameKey& key);
  /// The block that of() will give for a frame that has not ended, if no more of its reference lines come. Null if it
  /// is not made yet, will be made anew, or belongs to another contrast, set or encoding space.
  std::shared_ptr<const Calibration> ready(const FrameKey& key) const;

 private:
  enum class Rule { none, automatic, embedded, separate, sliding, average, center };
  struct Band {                                     // rows of the middle of k-space
    std::array<std::int64_t, 2> first{}, extent{};  // y, z
  };
  struct Block {
    FrameKey owner;                        // embedded, center: the frame that it is taken from
    bool flagged = false;                  // reference lines have come
    bool given = false;                    // the block is up to date
    bool interrupted = false;              // by other readouts, since its last reference
    bool in_turns = false;                 // interrupted before its last reference
    std::int64_t frames = 0;               // average: that have ended
    Array<cfloat> rows;                    // [coil, z * y of the band, x]
    std::vector<std::int32_t> hits;        // per row of the band
    std::vector<std::uint8_t> references;  // per row of the band: a reference line came
    SampleRange samples;
  };
  struct Newest {                                   // sliding
    Block block;                                    // hits are 0 or 1
    std::int64_t frames = 0, moved = 0, since = 0;  // frames that came; that brought new lines; since the block was
                                                    // given
    std::int64_t repetitions = 0;                   // number of repetitions that the frames were of
    std::uint16_t repetition = 0;                   // the last frame's
  };
  Rule rule_of(const protocol::Encoding& encoding, const CartesianSpace& space, bool accelerated) const;
  bool apart(const FrameKey& key) const { return rules_.at(key.encoding) == Rule::separate; }
  Calibration::Source source_apart(const FrameKey& key) const {
    return external_.at(key.encoding) ? Calibration::Source::external : Calibration::Source::separate;
  }
  void add_run(const Readouts& readouts, std::int64_t begin, std::int64_t end,
               const numerics::LinePlacement& placement);
  Block* block_for(const FrameKey& frame, bool imaging, bool reference, std::int64_t coils);
  bool without_gap(const Block& block, const Band& band) const;
  bool slice_has_references(const FrameKey& key) const;
  bool averaged(const Block& block, const FrameKey& key) const;
  bool enough(const Block& block, const Band& band) const;
  void end_run_of_references(const FrameKey& frame);
  void end_run_of_slice(const FrameKey& key, Block& block);
  void finish_separate(const FrameKey& now, bool imaging);
  void finish(const FrameKey& key);
  FrameKey open_key(const FrameKey& frame) const {
    return rules_.at(frame.encoding) == Rule::sliding ? frame : block_of(frame);
  }
  bool needs_more(const FrameKey& key) const;
  void slide(const FrameKey& frame);
  void slide(Newest& newest, Block block, std::uint16_t slice);
  void give_up(const FrameKey& key, Newest& newest);
  void give(const FrameKey& key, Block& block, Calibration::Source source);
  void warn_of_gaps(const FrameKey& key, const Block& block, const std::optional<std::array<std::int64_t, 4>>& box);
  std::shared_ptr<const Calibration> of_other_encoding(const FrameKey& key);
  std::shared_ptr<const Calibration> moved(const Calibration& block, std::uint16_t encoding);

  Scan* scan_ = nullptr;
  ReferenceOptions options_;
  std::vector<CartesianSpace> spaces_;
  std::vector<std::array<double, 3>> fov_mm_;  // per encoding: field of view of the encoded matrix
  std::vector<Band> bands_;                    // per encoding
  std::vector<Rule> rules_;                    // per encoding
  std::vector<bool> moving_;                   // per encoding: the header says that lines are interleaved
  std::vector<bool> external_;                 // per encoding: the header says so
  std::vector<std::int64_t> phases_;           // per encoding: phases that the header announces
  std::map<FrameKey, Block> open_;             // by encoding, slice, contrast, set; sliding: by frame
  std::map<FrameKey, Newest> sliding_;         // by encoding, slice, contrast, set
  std::map<FrameKey, std::shared_ptr<const Calibration>> whole_;
  std::set<FrameKey> lent_;  // keys without reference lines of their own: opened by such lines only
  std::map<std::pair<std::uint64_t, std::uint16_t>, std::shared_ptr<const Calibration>> moved_;  // by block, encoding
  bool warned_of_gaps_ = false, warned_of_sliding_ = false;
  std::uint64_t next_id_ = 0;
};

}  // namespace echotrain
