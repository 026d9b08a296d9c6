#include "gadgets/encoding/sense.h"

#include <fmt/format.h>

namespace echotrain {
namespace {

UnmixedFramesOptions frames_options(const Sense::Options& options) {
  UnmixedFramesOptions out(Sense::kName, options);
  out.weights.method = WeightsOptions::Method::unfold;
  out.weights.lambda = options.lambda;
  out.weights.espirit = options.maps == "espirit";
  out.notes = {{"sense_lambda", fmt::format("{:g}", options.lambda)}};
  return out;
}

}  // namespace

Parameters<Sense::Options> Sense::parameters() {
  return add_unmixed_parameters(
      Parameters<Options>()
          .choice(
              "maps", &Options::maps, {"espirit", "adaptive"},
              "espirit: sharp, and 0 outside the object, for up to 32 coils (24 of volumes); more have adaptive ones. "
              "adaptive: local correlation of the coils' low-resolution images")
          .number("lambda", &Options::lambda, 0, 1,
                  "Tikhonov's weight of each voxel's solution, as a share of the matrix's largest diagonal element"));
}

Sense::Sense(const Options& options) : UnmixedFrames(frames_options(options)) {}

}  // namespace echotrain
