#include "gadgets/images/kspace/unring_gadget.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gadgets/numerics/transforms/partial/unring.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {

Parameters<Unring::Options> Unring::parameters() {
  return Parameters<Options>().integer("shifts", &Options::shifts, 1, numerics::kMostUnringShifts,
                                       "places tried on either side, up to half a voxel away");
}

void Unring::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  extent_ = AcquiredExtent(header);
}

std::string Unring::hindrance(const CoilImages& images) const {
  const Frame& frame = *images.frame;
  const auto& n = images.data.shape();  // [coil, z, y, x]
  if (frame.notes.contains("partial_fourier")) return "it is one of partial Fourier";
  if (frame.notes.contains("filter")) return "it was filtered";
  if (!frame.acquired) return "it is not known what of its k-space was acquired";
  if (std::min(n[2], n[3]) < numerics::kFewestUnringPoints) return "it is too small";
  const auto ranges = extent_.of(frame);
  for (std::size_t a = 1; a < 3; ++a) {
    if (!ranges[a]) return "an axis was not encoded";
    const auto half = static_cast<double>(n[a + 1] / 2);
    // A lattice of lines may end a few before the matrix; a sixteenth is what partial_fourier leaves, too.
    const double most = half / 8 + 1, below = half + ranges[a]->first, above = half - 1 - ranges[a]->last;
    if (std::max(below, above) > most)
      return std::abs(below - above) > most ? "of its k-space one side is longer"
                                            : "its k-space ends before the matrix does";
  }
  return "";
}

void Unring::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (has_own_unit(*images.frame) || are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  if (const std::string why = hindrance(images); !why.empty()) {
    scan_->warn("unring: an image stays as it is, because " + why);
    images.frame = with_notes(*images.frame, {{"unring", "none, because " + why}});
    return emit(std::move(images));
  }
  CoilImages out{with_notes(*images.frame, {{"unring", std::to_string(options_.shifts) + " shifts"}}),
                 scan_->compute.allocate<cfloat>(images.data.shape())};
  scan_->compute.copy(images.data.cview(), out.data.view());
  numerics::unring(scan_->compute, out.data.view(), static_cast<int>(options_.shifts));
  emit(std::move(out));
}

}  // namespace echotrain
