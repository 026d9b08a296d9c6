// Collects the reference lines of Cartesian scans into blocks of k-space without gaps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/cartesian_lines.h"

namespace echotrain {

/// The largest box about the middle row, found by adding sides while these are full, of rows z * ny + y with hits > 0:
/// first y, first z, last y, last z. Empty when the middle row has not come.
std::optional<std::array<std::int64_t, 4>> full_box(const std::vector<std::int32_t>& hits, std::int64_t ny,
                                                    std::int64_t nz);

/// One block for each encoding space, slice, contrast and set, of at most kMost rows per axis in the middle:
///
/// | source   | of                                                  | whole when |
/// |----------|-----------------------------------------------------|--------------------------------------------------|
/// | separate | calibration readouts, where calibrationMode is      | an imaging readout of the slice, or a | | |
/// separate or external                                | calibration readout of another one, has come     | | embedded
/// | all readouts of the first frame that has reference  | an imaging readout that is no reference has come | | | lines
/// (flags 20, 21)                                | after them and they have no gap, or at its end   | | center   | the
/// first frame of an accelerated scan without them | the frame ends                                   |
///
/// Lines that come several times are averaged. Samples that not all lines have are cut away.
class CalibrationLines {
 public:
  static constexpr std::int64_t kMost = 64;

  void start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces, Scan& scan);
  /// Whether blocks are made in this encoding space: where lines are left out, or where reference lines come apart.
  bool wanted(std::uint16_t encoding) const {
    const auto [ry, rz] = spaces_.at(encoding).acceleration;
    return ry > 1 || rz > 1 || apart_.at(encoding);
  }
  /// Takes what is needed of readouts of kinds calibration and imaging. ClientError when the number of coils changes
  /// within a block. Readouts that do not fit the matrix are left out with a warning.
  void add(const Readouts& readouts);
  /// The frame's last readout has been added.
  void frame_ends(const Frame& frame);
  /// The block for a frame; if its contrast or set has none, that of the slice's lowest; null: there is none (yet).
  std::shared_ptr<const Calibration> of(const FrameKey& key) const;
  /// The blocks that have become whole since the last call.
  std::vector<std::shared_ptr<const Calibration>> take_new();

 private:
  struct Band {                                     // rows of the middle of k-space
    std::array<std::int64_t, 2> first{}, extent{};  // y, z
  };
  struct Block {
    FrameKey owner;                          // embedded, center: the frame that it is taken from
    bool separate = false, flagged = false;  // flagged: reference lines have come
    Array<cfloat> rows;                      // [coil, z * y of the band, x]
    std::vector<std::int32_t> hits;          // per row of the band
    std::vector<std::uint8_t> references;    // per row of the band: a reference line came
    SampleRange samples;
  };
  bool apart(const FrameKey& key) const { return apart_.at(key.encoding); }
  Block* block_for(const protocol::AcquisitionHeader& head, std::int64_t coils);
  bool without_gap(const Block& block, const Band& band) const;
  void finish_separate(const FrameKey& now, bool imaging);
  void finish(const FrameKey& key);

  Scan* scan_ = nullptr;
  std::vector<CartesianSpace> spaces_;
  std::vector<Band> bands_;         // per encoding
  std::vector<bool> apart_;         // per encoding: separate or external
  std::map<FrameKey, Block> open_;  // by encoding, slice, contrast, set
  std::map<FrameKey, std::shared_ptr<const Calibration>> whole_;
  std::vector<std::shared_ptr<const Calibration>> new_;
  std::uint64_t next_id_ = 0;
};

}  // namespace echotrain
