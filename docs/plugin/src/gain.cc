#include "gain.h"

#include "gadgets/api/plugin.h"
#include "gain_ops.h"

namespace example {

void cpu::amplify(Context& context, View<const cfloat> from, float factor, View<cfloat> to) {
  context.threads().parallel_for(from.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to.data()[i] = factor * from.data()[i];
  });
}

void amplify(Context& context, View<const cfloat> from, float factor, View<cfloat> to) {
#if ECHOTRAIN_PLUGIN_HAS_CUDA
  if (context.cuda()) return cuda::amplify(context, from, factor, to);
#endif
  cpu::amplify(context, from, factor, to);
}

echotrain::Parameters<Gain::Options> Gain::parameters() {
  return echotrain::Parameters<Options>().number("factor", &Options::factor, -1e6, 1e6,
                                                 "what images are multiplied by");
}

void Gain::start(const echotrain::protocol::Header& /*header*/, echotrain::Scan& scan) {
  if (scan.compute.cuda() && !ECHOTRAIN_PLUGIN_HAS_CUDA)
    throw echotrain::ResourceError("gain was compiled without a CUDA compiler; give the pipeline backend: cpu");
  scan_ = &scan;
}

void Gain::process(echotrain::CoilImages&& images, const echotrain::Emit<echotrain::CoilImages>& emit) {
  auto out = scan_->compute.allocate<echotrain::cfloat>(images.data.shape());
  if (out.size() > 0) amplify(scan_->compute, images.data.view(), static_cast<float>(options_.factor), out.view());
  emit({images.frame, std::move(out)});
}

}  // namespace example

ECHOTRAIN_PLUGIN(registry) { registry.add<example::Gain>(); }
