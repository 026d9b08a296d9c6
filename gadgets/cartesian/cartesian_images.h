// Cartesian lines to images in one gadget, on the CPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/cartesian/put_back.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/fft/line_images.h"

namespace echotrain {

/// Does what `cartesian_kspace`, `fft` and, with `rss`, `coil_combine` do one after another, but transforms each line
/// along x and cuts it to the image as it arrives: oversampled samples are never kept, and only the columns are left to
/// do after a frame's last readout. On the CPU the loader replaces those gadgets by this one; it has no name of its
/// own.
class CartesianImages final : public Gadget<Readouts, CoilImages> {
 public:
  CartesianImages(numerics::Direction direction, bool rss, const ReferenceOptions& options)
      : direction_(direction), rss_(rss), options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<CoilImages>& emit) override;

 private:
  struct Buffer {
    Array<cfloat> half;              // [coil, z * y, x of the image]
    std::vector<std::int32_t> hits;  // per line: how often it came
    SampleRange samples;
    std::unique_ptr<numerics::MemoryShare> paid;  // of hits
  };
  numerics::LineGeometry geometry(const CartesianSpace& space) const;
  void add(Buffer& buffer, const CartesianSpace& space, const Readouts& readouts);
  void transform(Buffer& buffer, const CartesianSpace& space, numerics::DeviceView<const cfloat> readouts,
                 numerics::HostView<const std::int32_t> rows, numerics::HostView<const std::uint8_t> repeated,
                 const numerics::LinePlacement& placement);
  CoilImages complete(Buffer buffer, const CartesianSpace& space, const Readouts& readouts);

  numerics::Direction direction_;
  bool rss_;
  ReferenceOptions options_;
  Scan* scan_ = nullptr;
  std::vector<CartesianSpace> spaces_;
  PutBack put_back_;
  std::map<std::uint64_t, Buffer> open_;
};

}  // namespace echotrain
