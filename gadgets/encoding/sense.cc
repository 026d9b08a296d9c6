#include "gadgets/encoding/sense.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/mri/espirit/espirit.h"

namespace echotrain {
namespace {

UnmixedFramesOptions frames_options(const Sense::Options& options) {
  if (options.sets == "2" && options.maps != "espirit")
    throw std::invalid_argument("sets: only maps of espirit come in two sets");
  UnmixedFramesOptions out(Sense::kName, options);
  out.weights.method = WeightsOptions::Method::unfold;
  out.weights.lambda = options.lambda;
  out.weights.espirit = options.maps == "espirit";
  out.weights.sets = options.sets == "auto" ? numerics::kSetsAsNeeded : options.sets == "2" ? 2 : 1;
  out.notes = {{"sense_lambda", fmt::format("{:g}", options.lambda)}};
  return out;
}

}  // namespace

Parameters<Sense::Options> Sense::parameters() {
  return add_unmixed_parameters(
      Parameters<Options>()
          .choice(
              "maps", &Options::maps, {"espirit", "adaptive"},
              "espirit: sharp, and 0 outside the object; more than 32 coils (24 of volumes) are compressed to so many "
              "for it. adaptive: local correlation of the coils' low-resolution images")
          .choice("sets", &Options::sets, {"auto", "1", "2"},
                  "espirit only; as in coil_maps. Two sets have no g-factors")
          .number("lambda", &Options::lambda, 0, 1,
                  "Tikhonov's weight of each voxel's solution, as a share of the matrix's largest diagonal element"));
}

Sense::Sense(const Options& options) : UnmixedFrames(frames_options(options)) {}

}  // namespace echotrain
