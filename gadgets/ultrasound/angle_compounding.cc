#include "gadgets/ultrasound/angle_compounding.h"

#include "gadgets/numerics/mri/ultrasound/plane_wave.h"

namespace echotrain {

Parameters<AngleCompounding::Options> AngleCompounding::parameters() {
  return Parameters<Options>().choice("method", &Options::method, {"coherent", "incoherent"},
                                      "mean of the waves' complex images, or of their envelopes");
}

void AngleCompounding::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void AngleCompounding::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const auto& shape = images.data.shape();  // [wave, z, y, x]
  CoilImages out{images.frame, scan_->compute.allocate<cfloat>({1, shape[1], shape[2], shape[3]})};
  numerics::mean_of_channels(scan_->compute, images.data.view(), options_.method == "incoherent", out.data.view());
  emit(std::move(out));
}

}  // namespace echotrain
