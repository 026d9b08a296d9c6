// The list of all gadgets.
#include <any>
#include <memory>
#include <span>
#include <utility>

#include "gadgets/api/registry.h"
#include "gadgets/cartesian/calibrated_images.h"
#include "gadgets/cartesian/cartesian_fft.h"
#include "gadgets/cartesian/cartesian_images.h"
#include "gadgets/cartesian/cartesian_kspace.h"
#include "gadgets/encoding/encoding.h"
#include "gadgets/encoding/grappa.h"
#include "gadgets/encoding/sense.h"
#include "gadgets/epi/epi_phase_correction.h"
#include "gadgets/epi/ramp_regrid.h"
#include "gadgets/gridding/deapodization.h"
#include "gadgets/gridding/density_compensation.h"
#include "gadgets/gridding/gridded_fft.h"
#include "gadgets/gridding/gridded_images.h"
#include "gadgets/gridding/gridding.h"
#include "gadgets/images/average.h"
#include "gadgets/images/coil_combine.h"
#include "gadgets/images/contrast/denoise.h"
#include "gadgets/images/contrast/invert_contrast.h"
#include "gadgets/images/contrast/label.h"
#include "gadgets/images/filter.h"
#include "gadgets/images/image.h"
#include "gadgets/images/messages/from_messages.h"
#include "gadgets/images/orient.h"
#include "gadgets/images/partial_fourier.h"
#include "gadgets/images/resize.h"
#include "gadgets/images/scale.h"
#include "gadgets/images/sobel.h"
#include "gadgets/images/stack_slices.h"
#include "gadgets/least_squares/coil_maps.h"
#include "gadgets/least_squares/fhd.h"
#include "gadgets/least_squares/pcg.h"
#include "gadgets/least_squares/regularised.h"
#include "gadgets/nlinv/nlinv_realtime.h"
#include "gadgets/readouts/cardiac_binning.h"
#include "gadgets/readouts/channels.h"
#include "gadgets/readouts/coil_compression.h"
#include "gadgets/readouts/external_calibration.h"
#include "gadgets/readouts/noise_adjust.h"
#include "gadgets/readouts/partition_fft.h"
#include "gadgets/readouts/passthrough.h"
#include "gadgets/readouts/radial_trajectory.h"
#include "gadgets/steps/mrd_server.h"
#include "gadgets/steps/python.h"
#include "gadgets/ultrasound/angle_compounding.h"
#include "gadgets/ultrasound/echo_spectrum.h"
#include "gadgets/ultrasound/echo_traces.h"
#include "gadgets/ultrasound/log_compression.h"
#include "gadgets/ultrasound/stolt_migration.h"

namespace echotrain {

namespace {

/// The options as their gadget's struct; all forms of a name share one struct.
template <class Options>
const Options& as(const GadgetOptions& options) {
  return std::any_cast<const Options&>(options);
}

bool is_root_sum_of_squares(const GadgetOptions& options) { return as<CoilCombine::Options>(options).method == "rss"; }

/// Gridding, transform and deapodization; with the options of four gadgets, the root sum of squares too.
template <class In>
std::unique_ptr<AnyGadget> fused_gridding(std::span<const GadgetOptions> options) {
  if (as<FftOptions>(options[1]).direction != "inverse") return nullptr;
  const bool combines = options.size() > 3;
  if (combines && !is_root_sum_of_squares(options[3])) return nullptr;
  return std::make_unique<GriddedImages<In>>(as<GriddingOptions>(options[0]), combines);
}

/// Cartesian lines to images; with the options of three gadgets, the root sum of squares too.
std::unique_ptr<AnyGadget> fused_cartesian(std::span<const GadgetOptions> options) {
  const bool combines = options.size() > 2;
  if (combines && !is_root_sum_of_squares(options[2])) return nullptr;
  return std::make_unique<CartesianImages>(fft_direction(as<FftOptions>(options[1])), combines,
                                           as<ReferenceOptions>(options[0]));
}

/// Cartesian lines to images by a gadget that needs their reference lines.
template <class Images>
std::unique_ptr<AnyGadget> fused_calibrated(std::span<const GadgetOptions> options) {
  return std::make_unique<CalibratedImages>(as<ReferenceOptions>(options[0]),
                                            std::make_unique<Images>(as<typename Images::Options>(options[1])));
}

/// A step between any items that messages can carry. RawBatch before Readouts: a pipeline's first step gets messages as
/// the client sent them.
template <class Kind>
void add_step(Registry& to) {
  to.add<Step<Kind, RawBatch, Image>>();
  to.add<Step<Kind, Readouts, Image>>();
  to.add<Step<Kind, Readouts, Readouts>>();
  to.add<Step<Kind, Image, Image>>();
}

}  // namespace

const Registry& Registry::builtin() {
  static const Registry registry = [] {
    Registry r;
    r.add<ExternalCalibration>();
    r.add<NoiseAdjust>();
    r.add<Channels>();
    r.add<CoilCompression>();
    r.add<RampRegrid>();
    r.add<EpiPhaseCorrection>();
    r.add<CardiacBinning>();
    r.add<RadialTrajectory>();
    r.add<RadialTrajectoryOfPlanes>();
    r.add<PartitionFft>();
    r.add<CartesianKSpace>();
    r.add<Encoding>();
    r.add<Grappa>();
    r.add<Sense>();
    r.add<PartialFourier>();
    r.add<PartialFourierOfImages>();
    r.add<Filter>();
    r.add<FilterOfImages>();
    r.add<DensityCompensation>();
    r.add<DensityCompensationOfPlanes>();
    r.add<Gridding>();
    r.add<GriddingOfPlanes>();
    r.add<CartesianFft>();
    r.add<GriddedFft>();
    r.add<Deapodization>();
    r.add<Fhd>();
    r.add<CoilMapsFromData>();
    r.add<PcgSolver>();
    r.add<Regularised>();
    r.add<NlinvRealtime>();
    r.add<NlinvOfEquations>();
    r.add<EchoTraces>();
    r.add<EchoSpectrum>();
    r.add<StoltMigration>();
    r.add<AngleCompounding>();
    r.add<LogCompression>();
    r.add<CoilCombine>();
    r.add<StackSlices>();
    r.add<Average>();
    r.add<Resize>();
    r.add<Orient>();
    r.add<Sobel>();
    r.add<Denoise>();
    r.add<InvertContrast>();
    r.add<Scale>();
    r.add<Label>();
    r.add<ImageOutput>();
    r.add<FromMessages>();
    r.add<Passthrough>();
    add_step<Python>(r);
    add_step<MrdServer>(r);
    for (const auto& [takes, make] : {std::pair{ItemType::samples, &fused_gridding<Samples>},
                                      std::pair{ItemType::plane_samples, &fused_gridding<PlaneSamples>}}) {
      r.fuse({{"gridding", "fft", "deapodization", "coil_combine"}, takes, make});
      r.fuse({{"gridding", "fft", "deapodization"}, takes, make});
    }
    r.fuse({{"cartesian_kspace", "fft", "coil_combine"}, ItemType::readouts, fused_cartesian, /*cpu_only=*/true});
    r.fuse({{"cartesian_kspace", "fft"}, ItemType::readouts, fused_cartesian, /*cpu_only=*/true});
    r.fuse({{"cartesian_kspace", "grappa"}, ItemType::readouts, fused_calibrated<Grappa>, /*cpu_only=*/true});
    r.fuse({{"cartesian_kspace", "sense"}, ItemType::readouts, fused_calibrated<Sense>, /*cpu_only=*/true});
    return r;
  }();
  return registry;
}

}  // namespace echotrain
