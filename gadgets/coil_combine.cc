#include "gadgets/coil_combine.h"

#include "gadgets/numerics/coil.h"

namespace echotrain {

Parameters<CoilCombine::Options> CoilCombine::parameters() {
  return Parameters<Options>().choice("method", &Options::method, {"rss", "none"},
                                      "rss: root sum of squares. none: one image channel per coil");
}

void CoilCombine::start(const protocol::Header& /*header*/, Session& session) { session_ = &session; }

void CoilCombine::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (options_.method == "none") {
    emit(std::move(images));
    return;
  }
  const auto& shape = images.data.shape();
  CoilImages out{images.frame, session_->compute.allocate<cfloat>({1, shape[1], shape[2], shape[3]})};
  numerics::root_sum_of_squares(session_->compute, images.data.view(), out.data.view());
  emit(std::move(out));
}

}  // namespace echotrain
