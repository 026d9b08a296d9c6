#include "gadgets/encoding/grappa.h"

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain {
namespace {

UnmixedFramesOptions frames_options(const Grappa::Options& options) {
  UnmixedFramesOptions out(Grappa::kName, options);
  out.weights.kernel.kernel_x = options.kernel_x;
  out.weights.kernel.kernel_y = options.kernel_y;
  out.weights.kernel.kernel_z = options.kernel_z;
  out.weights.kernel.regularization = options.regularization;
  out.weights.coil_images = options.output == "coils";
  out.notes = {{"grappa_kernel", fmt::format("{}x{}x{}", options.kernel_x, options.kernel_y, options.kernel_z)},
               {"grappa_regularization", fmt::format("{:g}", options.regularization)}};
  if (out.weights.coil_images && out.weights.noise)
    throw std::invalid_argument("g_factor and snr_units are of the combined image; output is 'coils'");
  return out;
}

}  // namespace

Parameters<Grappa::Options> Grappa::parameters() {
  return add_unmixed_parameters(
      Parameters<Options>()
          .integer("kernel_x", &Options::kernel_x, 1, 15, "extent of the kernel along each line")
          .unit("samples")
          .integer(
              "kernel_y", &Options::kernel_y, 1, 8,
              "acquired lines that predict a missing one, in each plane; one less where it lies on an acquired one's "
              "place")
          .integer("kernel_z", &Options::kernel_z, 1, 8, "the same for planes of volumes, where planes are left out")
          .number(
              "regularization", &Options::regularization, 0, 1,
              "Tikhonov's weight in the fit, as a share of the mean of the matrix's diagonal; with more equations than "
              "unknowns it is less, by the cube of their ratio")
          .choice("output", &Options::output, {"combined", "coils"},
                  "combined: one image, joined by maps from the reference lines. coils: one image channel per coil"),
      ", or given as coils");
}

Grappa::Grappa(const Options& options) : UnmixedFrames(frames_options(options)) {}

}  // namespace echotrain
