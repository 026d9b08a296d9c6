#include "gadgets/images/kspace/over_kspace.h"

#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {

CoilImages changed(numerics::Context& compute, const CoilImages& images, const KSpaceChange& change) {
  const auto& n = images.data.shape();  // [coil, z, y, x]
  const numerics::Shape whole{n[1], n[2], n[3]};
  Array<cfloat> kspace = compute.allocate<cfloat>(n);
  numerics::centered_fft(compute, images.data.view(), kspace.view(), whole, 3, numerics::Direction::forward,
                         1.0f / static_cast<float>(whole.size()));
  CoilImages out{with_notes(*images.frame, change(kspace.view())), compute.allocate<cfloat>(n)};
  numerics::centered_fft(compute, kspace.view(), out.data.view(), whole, 3, numerics::Direction::inverse, 1);
  return out;
}

}  // namespace echotrain
