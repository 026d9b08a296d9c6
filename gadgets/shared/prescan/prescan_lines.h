// The PrescanLines collect the lines of a prescan, by place and coils.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gadgets/shared/store/prescan_store.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Collects Cartesian lines of flag 29 (IS_SURFACECOILCORRECTIONSCAN_DATA), 2D or 3D. Of k-space the middle is kept: 32
/// points per axis of the recon space's field of view, at most 64. Lines that come again are averaged. The most
/// channels are the array, the fewest the body coil; of each, lines of the least encoding space, contrast and set that
/// came. Nothing else is kept, whatever else a client sends, and no more places than kMostBytes hold.
class PrescanLines {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;

  /// Takes a readout of the prescan, and leaves out those that are no line of it: of another trajectory, reversed,
  /// beside the matrix. Returns false, with nothing taken, for readouts without the flag.
  bool take(const protocol::Acquisition& readout, const protocol::Encoding& encoding);
  /// True if no readout of a prescan came.
  bool empty() const { return taken_ == 0; }
  /// The bytes of all that is kept.
  std::uint64_t bytes() const { return bytes_; }
  /// The places that both coils have, if there are any; if not, null, and `why_not` completes "the prescan ...".
  /// labels: of the header; those that do not name each of the array's coils are left out.
  std::shared_ptr<const PrescanRecord> record(const std::vector<std::string>& labels, std::string& why_not) const;

 private:
  struct Volume : PrescanVolume {        // of sums
    std::vector<std::uint32_t> lines{};  // of each row [z, y]
  };
  using Slices = std::map<std::uint16_t, Volume>;
  /// Number of channels, encoding, contrast, set.
  using Coils = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;

  Slices* slices_of(const Coils& coils);
  void forget(std::map<Coils, Slices>::iterator coils);

  std::uint64_t taken_ = 0, bytes_ = 0;
  bool full_ = false;  // some places were left out
  std::map<Coils, Slices> coils_;
  std::vector<numerics::cfloat> samples_;
};

}  // namespace echotrain
