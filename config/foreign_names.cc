#include "config/foreign_names.h"

#include <algorithm>
#include <functional>
#include <map>

namespace echotrain::config {
namespace {

constexpr std::string_view kTrajectories = "trajectories with the data, or by `radial_trajectory`";
constexpr std::string_view kPriors = "with `regularised` for `pcg`";
constexpr std::string_view kModule = "a module for the step `python`";

constexpr ForeignNames kForeign[] = {
    {"default{,_short,_optimized}.xml", "cartesian_2d", true, "floats; 16 bits: `cartesian_display`"},
    {"default_measurement_dependencies{,_ismrmrd_storage}.xml", "cartesian_2d", true, ""},
    {"Generic_Cartesian_FFT.xml distributed_{default,generic_default,image_default}.xml "
     "external_equivalent_example.xml",
     "cartesian_2d", true, "floats; one server computes a scan"},
    {"Generic_Cartesian_Grappa{,_T2W,_ImageArray,_RealTimeCine,_RealTimeCine_Cloud}.xml CMR_RTCine_Recon.xml "
     "grappa{,_cpu,_float,_float_cpu,_unoptimized,_unoptimized_float}.xml",
     "cartesian_grappa", true, "floats; images leave one by one"},
    {"Generic_Cartesian_Grappa_Complex.xml", "cartesian_grappa", false, "with `image: {component: complex}`"},
    {"Generic_Cartesian_Grappa_SNR{,_CoilQA}.xml pseudoreplica.xml", "cartesian_grappa", false,
     "with `grappa: {snr_units: true, g_factor: true}`, from weights, not by replicas; no plot of coils"},
    {"Generic_Cartesian_Grappa_Cine_Denoise.xml", "cartesian_cine", false, "with `denoise`, of one image each"},
    {"Generic_Cartesian_Grappa_{AI,RealTimeCine_Python}.xml CMR_RTCine_LAX_AI.xml python_{short,passthrough,buckets,"
     "image_array_recon}.xml external_python_{acquisition,bucket,buffer}_example.xml external_example.xml",
     "cartesian_grappa", false, "with a step `python`, of modules written anew"},
    {"external_connect_example.xml external_matlab_{acquisition,bucket,buffer,tiny}_example.xml "
     "external_julia_acquisition_example.xml",
     "cartesian_grappa", false, "with a step `mrd_server`, if theirs serves MRD messages"},
    {"BART_Recon{,_cloud,_cloud_Standard}.xml", "cartesian_sense", false, "with a step `python` that calls BART"},
    {"Generic_Cartesian_Grappa_FatWater.xml", "cartesian_grappa", false, "fat and water are not separated"},
    {"CMR_2DT_T1Mapping_SASHA.xml", "t1_sasha", false, "times in the header; no registration"},
    {"MOLLI_T1_Moco{,_istore}.xml", "t1_molli", false, "times in the header; no registration"},
    {"{cpu,gpu}reg_cartesian_averaging.xml", "cartesian_sense", false, "no registration"},
    {"grappa_device{,_cpu}.xml", "cartesian_grappa", false, "devices are not tracked"},
    {"Generic_Cartesian_Grappa_EPI.xml epi.xml epi_gtplus_grappa.xml", "epi_2d", true,
     "floats; series: `epi_timeseries`"},
    {"Generic_Cartesian_Grappa_EPI_AVE.xml", "epi_2d", false, "with `average`"},
    {"Generic_Cartesian_Spirit{,_RealTimeCine,_SASHA}.xml", "cartesian_sense", true,
     "ESPIRiT's coil maps, not SPIRiT's kernels"},
    {"Generic_Cartesian_{,RandomSampling_}NonLinear_Spirit_RealTimeCine{,_Cloud}.xml", "cartesian_compressed_sensing",
     true, "each frame by itself; `regularised` has temporal terms"},
    {"CMR_2DT_RTCine_KspaceBinning{,_MultiSeries}{,_Cloud}.xml", "cartesian_cine_ecg", true,
     "13 phases of the heart; no registration between beats"},
    {"Generic_Spiral{,_Flag}.xml Generic_CPU_Gridding_Recon.xml", "spiral_2d", true,
     "trajectories and weights with the data"},
    {"Generic_Spiral_SNR.xml", "spiral_2d", false, "no SNR units"},
    {"deblurring_recon_acctrig.xml", "spiral_off_resonance", true, "a field map is sent, or an asset"},
    {"NFFT2D.xml", "radial_2d", true, "trajectories with the data"},
    {"fixed_radial_mode{0,1}_realtime.xml golden_radial_mode{2,2_os,3_os}_realtime.xml", "cg_sense_realtime", true,
     kTrajectories},
    {"fixed_radial_mode{0,1}_gpusense_cg{,_unoptimized}.xml golden_radial_mode{2,3}_gpusense_cg.xml "
     "golden_radial_mode2_gpusense_cg_unoptimized.xml spirit.xml",
     "cg_sense_2d", true, kTrajectories},
    {"generic_gpusense_cg{,_singleshot}.xml spiral_interactive.xml", "cg_sense_2d", true,
     "trajectories with the data; weights: `density_compensation: {method: from_data}`"},
    {"fixed_radial_mode{0,1}_gpusense_sb{,_unoptimized}.xml golden_radial_mode2_gpusense_{sb,nlcg}{,_unoptimized}.xml "
     "golden_radial_mode3_gpusense_sb.xml generic_gpusense_{nlcg,sb}_singleshot.xml",
     "cg_sense_2d", false, kPriors},
    {"fixed_radial_mode{0,1}_gpu_ktsense.xml golden_radial_mode2_gpu_ktsense.xml generic_gpu_ktsense_singleshot.xml",
     "grasp_2d", true, "total variation in time"},
    {"spiral_flow_{generic_gpusense_cg,generic_gpusense_sb,gpusense_cg,gpusense_cg_ecg,gpusense_cg_unoptimized,"
     "gpusense_sb,gpusense_sb_unoptimized}.xml",
     "cg_sense_2d", false, "images only: neither differences of phases nor Maxwell terms"},
    {"Generic_Cartesian_Image_Chain_FFT.xml", "", false, "pipelines of images have no Fourier transform"},
    {"CMR_Image_Chain_RTCine_LAX_AI.xml", "images_display", false, "with a step `python`; the network is yours"},
    {"stream_{complex_to_float,float_to_short,image_array,image_array_scaling,image_array_split}.xml", "images_display",
     false, "parts of pipelines: `scale`, `image`"},
    {"parallel_bypass_example.xml", "cartesian_2d", false, "with `branch` and `invert_contrast`"},
    {"dicom.xml", "cartesian_2d", false, "`echotrain export --dicom`, option `dicom.send_to`"},
    {"ismrmrd_dump.xml", "passthrough", false,
     "`--capture-directory DIR` keeps every scan; `echotrain convert` "
     "makes HDF5 of it"},
    {"isalive.xml", "passthrough", true, "`echotrain health` asks by HTTP"},
    {"gtquery.xml NoiseSummary.xml", "", false, "`echotrain noise --server HOST:PORT --id ID`"},
    {"CMRT.xml CMRT3D.xml FS-CSI.xml", "", false, "no spectroscopy, no tomography"},
    {"bartfire", "cartesian_plain", true, "the same transform, without BART; floats"},
    {"null savedataonly", "passthrough", true, "images come back; `--capture-directory DIR` keeps scans"},
    {"analyzeflow helloworld report rgb saveall saveimages spectroscopy", "images_display", false, kModule},
};

/// Calls `take` with every name of one pattern.
void expand(const std::string& pattern, const std::function<void(std::string)>& take) {
  const std::size_t open = pattern.find('{'), close = pattern.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return take(pattern);
  for (std::size_t at = open + 1; at <= close;) {
    const std::size_t end = pattern.find_first_of(",}", at);
    expand(pattern.substr(0, open) + pattern.substr(at, end - at) + pattern.substr(close + 1), take);
    at = end + 1;
  }
}

}  // namespace

std::span<const ForeignNames> foreign_names() { return kForeign; }

std::vector<std::string> expanded(std::string_view patterns) {
  std::vector<std::string> names;
  while (!patterns.empty()) {
    const std::string_view one = patterns.substr(0, patterns.find(' '));
    expand(std::string(one), [&](std::string name) { names.push_back(std::move(name)); });
    patterns.remove_prefix(std::min(patterns.size(), one.size() + 1));
  }
  return names;
}

const ForeignNames* find_foreign(std::string_view name) {
  static const auto all = [] {
    std::map<std::string, const ForeignNames*, std::less<>> found;
    for (const ForeignNames& each : kForeign)
      for (std::string& one : expanded(each.patterns)) found.emplace(std::move(one), &each);
    return found;
  }();
  const auto at = all.find(name);
  return at == all.end() ? nullptr : at->second;
}

}  // namespace echotrain::config
