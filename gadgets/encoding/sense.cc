#include "gadgets/encoding/sense.h"

#include <fmt/format.h>

namespace echotrain {
namespace {

UnmixedFramesOptions frames_options(const Sense::Options& options) {
  UnmixedFramesOptions out;
  out.name = Sense::kName;
  out.weights.method = WeightsOptions::Method::unfold;
  out.weights.lambda = options.lambda;
  out.weights.espirit = options.maps == "espirit";
  out.weights.noise = options.g_factor || options.snr_units;
  out.transform = options.otherwise == "transform";
  out.g_factor = options.g_factor;
  out.snr_units = options.snr_units;
  out.notes = {{"sense_lambda", fmt::format("{:g}", options.lambda)}};
  return out;
}

}  // namespace

Parameters<Sense::Options> Sense::parameters() {
  return Parameters<Options>()
      .choice("maps", &Options::maps, {"espirit", "adaptive"},
              "espirit: sharp, and 0 outside the object, for up to 32 coils (24 of volumes); more have adaptive ones. "
              "adaptive: local correlation of the coils' low-resolution images")
      .number("lambda", &Options::lambda, 0, 1,
              "Tikhonov's weight of each voxel's solution, as a share of the matrix's largest diagonal element")
      .choice("otherwise", &Options::otherwise, {"refuse", "transform"},
              "of frames without acceleration, reference lines or a regular pattern. refuse: they give no image, and a "
              "warning says why. transform: what came is transformed as it is and joined by root sum of squares; the "
              "warning says why, and that images alias")
      .flag("g_factor", &Options::g_factor,
            "true: also maps of the g-factor, as a series of their own, one for each set of weights")
      .flag("snr_units", &Options::snr_units,
            "true: each image also in units of the noise's standard deviation, as a series of its own; noise_adjust "
            "must have whitened the data");
}

Sense::Sense(const Options& options) : frames_(frames_options(options)) {}

}  // namespace echotrain
