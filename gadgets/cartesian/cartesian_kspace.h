// CartesianKSpace collects Cartesian readouts into one k-space per frame.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/acs_reinsertion.h"
#include "gadgets/cartesian/calibrated_frames.h"
#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/cartesian/reference_options.h"
#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain {

/// Places each line at its encoding step as it arrives; partial echoes are placed by center_sample; repeated lines
/// (averages) are averaged. The image's voxels and field of view are those of the header's recon space: readout
/// oversampling is cut away, missing resolution is zero-filled. Missing lines stay zero. Meta attributes: missing_lines
/// (of the announced lines, or of the announced lattice), and for an accelerated scan acceleration ("3x1"),
/// acceleration_effective (lines of the matrix per line that came), acceleration_shift (of the planes, if any).
/// Embedded reference lines fill rows, too (AcsReinsertion); put_back_lines says how many. Reference lines go on with
/// each k-space as a block (CalibrationLines, CalibratedFrames). Throws ClientError when a frame's coils are not its
/// block's.
class CartesianKSpace final : public Gadget<Readouts, KSpace> {
 public:
  using Options = ReferenceOptions;
  static constexpr std::string_view kName = "cartesian_kspace";
  static constexpr std::string_view kSummary =
      "Collects Cartesian readouts into k-space by their encoding steps, one k-space per frame.";
  static Parameters<Options> parameters() { return reference_parameters(); }

  explicit CartesianKSpace(const Options& options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<KSpace>& emit) override;
  void finish(End how, const Emit<KSpace>& emit) override;

 private:
  struct Buffer {
    Array<cfloat> data;              // [coil, z * y, x]
    std::vector<std::int32_t> hits;  // per line: how often it came
    SampleRange samples;
    bool white = true;  // all readouts are
  };

  void add(Buffer& buffer, const CartesianSpace& space, const Readouts& readouts);
  KSpace complete(Buffer buffer, const CartesianSpace& space, const Readouts& readouts);

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<CartesianSpace> spaces_;
  CalibratedFrames<KSpace> frames_;
  AcsReinsertion put_back_;
  std::map<std::uint64_t, Buffer> open_;
};

}  // namespace echotrain
