// Collects Cartesian readouts into one k-space per frame.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain {

/// Places each line at its encoding step as it arrives; partial echoes are placed by center_sample; repeated lines
/// (averages) are averaged. The image's voxels and field of view are those of the header's recon space: readout
/// oversampling is cut away, missing resolution is zero-filled. Missing lines stay zero and are counted in the image's
/// meta attributes.
class CartesianKSpace final : public Gadget<Readouts, KSpace> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "cartesian_kspace";
  static constexpr std::string_view kSummary =
      "Collects Cartesian readouts into k-space by their encoding steps, one k-space per frame.";
  static Parameters<Options> parameters();

  explicit CartesianKSpace(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<KSpace>& emit) override;

 private:
  struct Buffer {
    Array<cfloat> data;                                                           // [coil, z * y, x]
    std::vector<std::int32_t> hits;                                               // per line: how often it came
    std::int64_t first_x = 0, last_x = std::numeric_limits<std::int64_t>::max();  // samples that all lines have
    std::unique_ptr<numerics::MemoryShare> paid;                                  // of hits
  };

  void add(Buffer& buffer, const CartesianSpace& space, const Readouts& readouts);
  KSpace complete(Buffer buffer, const CartesianSpace& space, const Readouts& readouts);

  Scan* scan_ = nullptr;
  std::vector<CartesianSpace> spaces_;
  std::map<std::uint64_t, Buffer> open_;
};

}  // namespace echotrain
