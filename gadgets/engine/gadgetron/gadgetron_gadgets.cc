#include "gadgets/engine/gadgetron/gadgetron_gadgets.h"

#include <functional>
#include <map>
#include <string>

#include "config/foreign_names.h"

namespace echotrain {
namespace {

using enum GadgetronGadgets::Fate;

#define FFT "cartesian_kspace: {calibration: none}, fft: {direction: inverse}"
#define LINES "external_calibration: , cartesian_kspace: "
#define ESPIRIT LINES ", encoding: , coil_maps: {method: espirit, calibration: 24, singular: 0.032, crop: 0.8}"
#define GRIDDING                                                                                 \
  "gridding: {kernel_width: 5, oversampling: 1.5}, fft: {direction: inverse}, deapodization: , " \
  "coil_combine: {method: rss}"
#define SENSE                                                                                   \
  "density_compensation: {method: ramp}, fhd: {dimensions: 2, method: nufft, accuracy: 1e-4}, " \
  "coil_maps: {method: adaptive, calibration: 20}"

constexpr GadgetronGadgets kGadgets[] = {
    {"BufferReader BufferWriter AcquisitionBucketReader AcquisitionBucketWriter IsmrmrdImageArrayReader "
     "IsmrmrdImageArrayWriter DicomImageWriter DependencyQueryWriter",
     left_out, "none: these messages are refused"},
    {"NoiseAdjustGadget{,_unoptimized}", mapped, "`noise_adjust`", "noise_adjust: "},
    {"NoiseSummaryGadget DependencyQueryGadget NoiseCovariancePlottingGadget", left_out, "`echotrain noise`"},
    {"PCACoilGadget CoilReductionGadget GenericReconEigenChannelGadget", mapped, "`coil_compression`; `channels`",
     "coil_compression: {channels: 16}",
     "coils_out=coil_compression.channels upstream_coil_compression_num_modesKept=coil_compression.channels"},
    {"ChannelReorderer DeviceChannelSplitterGadget{,FLOAT,USHORT,CPLX}", left_out, "`channels`; branches"},
    {"RemoveROOversamplingGadget CropAndCombineGadget CutXGadget GenericReconFieldOfViewAdjustmentGadget "
     "ImageResizingGadget",
     unneeded, "none needed: images have the header's reconstruction space; `resize`"},
    {"AsymmetricEchoAdjustROGadget PartialFourierAdjustROGadget", unneeded,
     "none needed: readouts are placed by `center_sample`"},
    {"AcquisitionAccumulateTriggerGadget FlagTriggerGadget AccumulatorGadget SliceAccumulator "
     "GenericReconAccumulateImage{2,3}DTriggerGadget GenericReconReferenceKSpaceDelayedBufferGadget "
     "GtPlusAccumulatorWorkOrderTriggerGadget",
     unneeded, "`frame`; slices to volumes: `stack_slices`"},
    {"BucketToBufferGadget GenericReconCartesianReferencePrepGadget ImageAccumulator ImageAccumulatorGadget", unneeded,
     "`cartesian_kspace`"},
    {"FFTGadget cuFFTGadget SimpleReconGadget", mapped, "`fft`, `coil_combine`", FFT ", coil_combine: {method: rss}"},
    {"GenericReconCartesianFFTGadget", mapped, "`fft`, `coil_combine: {method: adaptive}`",
     FFT ", coil_combine: {method: adaptive}"},
    {"ImageFFTGadget", missing, "*none* from images to images"},
    {"CombineGadget CoilComputationGadget", mapped, "`coil_combine`, `coil_maps`", "coil_combine: {method: rss}"},
    {"GenericReconCartesianGrappaGadget GtPlusRecon2DTGadget", mapped, "`grappa: {output: coils}`, `coil_combine`",
     LINES ", grappa: {output: coils, otherwise: transform}, coil_combine: {method: adaptive}",
     "send_out_gfactor=grappa.g_factor send_out_snr_map=grappa.snr_units grappa_kSize_RO=grappa.kernel_x "
     "grappa_kSize_E1=grappa.kernel_y grappa_kSize_E2=grappa.kernel_z"},
    {"GrappaGadget GrappaUnmixingGadget Unmixing cpuWeightsCalculator gpuWeightsCalculator AcquisitionFanout", mapped,
     "`grappa`", LINES ", grappa: {otherwise: transform}"},
    {"GenericReconCartesianGrappaAIGadget", missing, "`grappa`, `python`", LINES ", grappa: {otherwise: transform}"},
    {"GenericReconCartesianSpiritGadget", mapped, "`encoding`, `coil_maps`, `pcg`",
     ESPIRIT ", pcg: {prior: tikhonov, lambda: 0.003, iterations: 20, tolerance: 1e-5}"},
    {"GenericReconCartesianNonLinearSpirit2DTGadget", mapped, "`encoding`, `coil_maps`, `regularised`",
     ESPIRIT ", regularised: {prior: wavelet, lambda: 0.003, iterations: 60, tolerance: 1e-3}"},
    {"GenericReconPartialFourierHandlingFilterGadget", mapped, "`partial_fourier: {method: homodyne}`",
     "partial_fourier: {method: homodyne}"},
    {"GenericReconPartialFourierHandlingPOCSGadget", mapped, "`partial_fourier: {method: pocs}`",
     "partial_fourier: {method: pocs}",
     "partial_fourier_POCS_iters=partial_fourier.iterations "
     "partial_fourier_POCS_transitBand=partial_fourier.transition"},
    {"GenericReconKSpaceFilteringGadget", mapped, "`filter`"},
    {"GenericReconImageArrayScalingGadget ScaleGadget", mapped, "`scale`", "scale: "},
    {"AutoScaleGadget", mapped, "`scale: {percentile: 99}`", "scale: {percentile: 99, to: 2048}", "max_value=scale.to"},
    {"FloatTo{,U}{Short,Int}Gadget", mapped, "`image: {type: ...}`"},
    {"ExtractGadget ComplexToFloatGadget", mapped, "`image: {component: ...}`"},
    {"ImageArraySplitGadget GenericImageReconArrayToImageGadget GenericReconImageToImageArrayGadget "
     "ImageFinishGadget{,CPLX,FLOAT} ImageIndexGadget ImageSortGadget ImageLayerer AugmentImageMetadataGadget "
     "CollectGadget",
     unneeded, "none needed: images leave one by one, numbered; meta attributes: `label`"},
    {"GenericReconNoiseStdMapComputingGadget", mapped, "`grappa: {snr_units: true}`", "grappa: {snr_units: true}"},
    {"PseudoReplicatorGadget", missing, "`grappa: {snr_units: true}`, without replicas"},
    {"DenoiseGadget", mapped, "`denoise`", "denoise: "},
    {"ImageInverter", mapped, "`invert_contrast`", "invert_contrast: "},
    {"EPIReconXGadget", mapped, "`ramp_regrid`", "ramp_regrid: "},
    {"EPICorrGadget EPIPackNavigatorGadget", mapped, "`epi_phase_correction`", "epi_phase_correction: "},
    {"FFTXGadget OneEncodingGadget", unneeded, "none needed: `ramp_regrid` makes lines of k-space"},
    {"CPUGriddingReconGadget GriddingReconGadget", mapped, "`density_compensation`, `gridding`, `fft`, `deapodization`",
     "density_compensation: {method: from_data}, " GRIDDING},
    {"NFFT2DGadget", mapped, "the same, without weights in the data",
     "density_compensation: {method: ramp}, " GRIDDING},
    {"SpiralToGenericGadget gpuSpiralSensePrepGadget", left_out,
     "none: trajectories come with the data; `trajectory_correction`"},
    {"CartesianToGenericGadget", mapped, "`encoding`", LINES ", encoding: "},
    {"gpuRadialSensePrepGadget gpuRadialSpiritPrepGadget", mapped, "`radial_trajectory`", "radial_trajectory: "},
    {"RadialPhaseCorrectionGadget", mapped, "`trajectory_correction`", "trajectory_correction: "},
    {"gpuGenericSensePrepGadget gpuBufferSensePrepGadget", unneeded, "`fhd`, `coil_maps`"},
    {"gpuRetroGatedSensePrepGadget", left_out, "`cardiac_binning`"},
    {"gpuCgSenseGadget gpuCgSpiritGadget", mapped, "`pcg`",
     SENSE ", pcg: {iterations: 12, tolerance: 1e-4, prior: tikhonov, lambda: 0.03}",
     "number_of_iterations=pcg.iterations cg_limit=pcg.tolerance"},
    {"gpuSbSenseGadget gpuNlcgSenseGadget gpuLALMSenseGadget gpuOsSenseGadget", mapped, "`regularised`",
     SENSE ", regularised: {prior: total_variation, lambda: 0.005}"},
    {"gpuCgKtSenseGadget", mapped, "`regularised`, with terms in time",
     SENSE ", regularised: {prior: temporal_variation, series: repetition, frames: 20, lambda: 0.02}"},
    {"gpuSpiralDeblurGadget", mapped, "`off_resonance`",
     "density_compensation: {method: from_data}, off_resonance: , coil_combine: {method: rss}"},
    {"CmrCartesianKSpaceBinningCineGadget", mapped, "`cardiac_binning`",
     "cardiac_binning: {phases: 30}, cartesian_kspace: {calibration: none, put_back: false}, "
     "fft: {direction: inverse}, coil_combine: {method: rss}",
     "number_of_output_phases=cardiac_binning.phases time_tick=cardiac_binning.tick_ms "
     "arrhythmia_rejector_factor=cardiac_binning.reject"},
    {"PhysioInterpolationGadget", left_out, "`cardiac_binning`, of readouts, not of images"},
    {"AcquisitionWaveformBranch WaveformFanout ImageFanout UnorderedMerge", missing, "`branch`"},
    {"PythonGadget BartGadget", missing, "`python`, with a module written anew"},
    {"IsmrmrdDumpGadget CplxDumpGadget", left_out, "captures; `echotrain recon --save-after GADGET FILE.h5`"},
    {"AcquisitionPassthroughGadget", unneeded, "`passthrough`"},
    {"RateLimitGadget WhiteNoiseInjectorGadget", left_out, "`echotrain send --rate`, `echotrain simulate --noise`"},
    {"DicomFinishGadget", left_out, "[DICOM](dicom.md)"},
    {"AcquisitionDistributor BufferDistributor IsmrmrdAcquisitionDistributeGadget", unneeded, "a balancer, ranks"},
    {"FatWaterGadget FlowPhaseSubtractionGadget MaxwellCorrectionGadget T1MocoGadget CmrParametricMappingGadget "
     "CmrParametricT1SRMappingGadget CmrParametricT2MappingGadget CmrRealTimeLAXCineAIAnalysisGadget "
     "{cpu,gpu}RegistrationAveragingGadget2D gpuRegistrationScatteringGadget2D CMRTGadget CMRT3DGadget CSIGadget "
     "gpuCSICoilEstimationGadget",
     missing, "*none*"},
};

#undef FFT
#undef LINES
#undef ESPIRIT
#undef GRIDDING
#undef SENSE

}  // namespace

std::span<const GadgetronGadgets> gadgetron_gadgets() { return kGadgets; }

const GadgetronGadgets* find_gadgetron(std::string_view class_name) {
  static const auto all = [] {
    std::map<std::string, const GadgetronGadgets*, std::less<>> found;
    for (const GadgetronGadgets& each : kGadgets)
      for (std::string& one : config::expanded(each.classes)) found.emplace(std::move(one), &each);
    return found;
  }();
  const auto at = all.find(class_name);
  return at == all.end() ? nullptr : at->second;
}

}  // namespace echotrain
