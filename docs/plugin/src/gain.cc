#include "gain.h"

#include "gadgets/api/plugin.h"
#include "gadgets/numerics/layout/layout.h"

namespace example {

echotrain::Parameters<Gain::Options> Gain::parameters() {
  return echotrain::Parameters<Options>().number("factor", &Options::factor, -1e6, 1e6,
                                                 "what images are multiplied by");
}

void Gain::start(const echotrain::protocol::Header& /*header*/, echotrain::Scan& scan) { scan_ = &scan; }

void Gain::process(echotrain::CoilImages&& images, const echotrain::Emit<echotrain::CoilImages>& emit) {
  auto out = scan_->compute.allocate<echotrain::cfloat>(images.data.shape());
  echotrain::numerics::scale(scan_->compute, images.data.view(), static_cast<float>(options_.factor), out.view());
  emit({images.frame, std::move(out)});
}

}  // namespace example

ECHOTRAIN_PLUGIN(registry) { registry.add<example::Gain>(); }
