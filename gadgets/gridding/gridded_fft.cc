#include "gadgets/gridding/gridded_fft.h"

#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain {

void GriddedFft::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void GriddedFft::process(Grid&& grid, const Emit<OversampledImages>& emit) {
  numerics::fft(scan_->compute, grid.data.view(), static_cast<int>(grid.plan->grid_shape().rank()),
                fft_direction(options_));
  emit({grid.frame, grid.data, grid.plan, grid.planes});
}

}  // namespace echotrain
