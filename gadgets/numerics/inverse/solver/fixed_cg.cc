#include "gadgets/numerics/inverse/solver/fixed_cg.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/solver/fixed_cg_ops.h"

namespace echotrain::numerics {
namespace {

void require_for_frames(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("conjugate gradients of frames: " + problem);
}

bool is_weight(double v) { return v >= 0 && std::isfinite(v); }

}  // namespace

FixedCg::FixedCg(Context& context, const Shape& image, const FixedCgOptions& options)
    : impl_(std::make_unique<Impl>()) {
  require_for_frames(
      options.iterations >= 1 && options.iterations <= FixedCgOptions::kMostIterations,
      fmt::format("expected 1..{} iterations, got {}", FixedCgOptions::kMostIterations, options.iterations));
  require_for_frames(is_weight(options.previous) && is_weight(options.size), "a weight is finite and not negative");
  require_for_frames(image.size() > 0, "an image of " + image.text() + " has no voxels");
  Impl& impl = *impl_;
  impl.options = options;
  impl.backend = context.backend();
  for (Array<cfloat>* each : {&impl.b, &impl.x, &impl.r, &impl.p, &impl.q, &impl.s})
    *each = context.zeros<cfloat>(image);
  const std::int64_t parts = ECHOTRAIN_DISPATCH(context, fixed_cg_parts(image.size()));
  impl.partial = context.zeros<double>({parts, 2});
  impl.arrived = context.zeros<std::int32_t>({1});
  impl.state = context.zeros<FixedCgState>({1});
}
FixedCg::~FixedCg() = default;

DeviceView<cfloat> FixedCg::right() { return impl_->b.view(); }
DeviceView<cfloat> FixedCg::image() { return impl_->x.view(); }

void FixedCg::forget(Context& context, DeviceView<const std::int32_t> forgets) {
  require_for_frames(context.backend() == impl_->backend, "it was made for another backend");
  require_for_frames(forgets.size() == 1, "whether to forget is one number");
  ECHOTRAIN_DISPATCH(context, fixed_cg_forget(context, *impl_, forgets.data()));
}

void FixedCg::solve(Context& context, const Apply& apply, DeviceView<const float> scale, bool may_record) {
  Impl& impl = *impl_;
  require_for_frames(context.backend() == impl.backend, "it was made for another backend");
  require_for_frames(scale.size() == 1, "the scale is one number");
  const auto work = [&] {
    apply(impl.x.cview(), impl.q.view());
    ECHOTRAIN_DISPATCH(context, fixed_cg_begin(context, impl, scale.data()));
    for (int i = 0; i < impl.options.iterations; ++i) {
      apply(impl.r.cview(), impl.q.view());
      ECHOTRAIN_DISPATCH(context, fixed_cg_sums(context, impl, scale.data()));
      ECHOTRAIN_DISPATCH(context, fixed_cg_step(context, impl));
    }
    ECHOTRAIN_DISPATCH(context, fixed_cg_end(context, impl));
  };
  ECHOTRAIN_DISPATCH(context, fixed_cg_run(context, impl, may_record, work));
  ++impl.solved;
}

}  // namespace echotrain::numerics
