#include "gadgets/least_squares/coil_maps_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/least_squares/middle_of_block.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/mri/espirit/espirit.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/shared/cache/espirit_map_cache.h"

namespace echotrain {

Parameters<CoilMapsFromData::Options> CoilMapsFromData::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"adaptive", "espirit", "given"},
              "adaptive: local correlation of the coils' low-resolution images (Walsh). espirit: from the middle of "
              "k-space (Uecker), slower and sharper. Both take the scan's reference lines where it has some, else the "
              "frame's own k-space. given: from `file`, or sent by the client as an image of role coil_maps")
      .integer("calibration", &Options::calibration, 8, 256,
               "extent of the middle of k-space that is used, per axis; without reference lines, it must be sampled "
               "fully enough")
      .unit("samples")
      .integer("block", &Options::block, 1, numerics::kMostBlock, "adaptive only; extent of the neighbourhood")
      .unit("voxels")
      .number("threshold", &Options::threshold, 0, 1,
              "adaptive only; voxels with less signal than this part of the largest have no sensitivity")
      .integer("kernel", &Options::kernel, 0, 16,
               "espirit only; extent of its kernels, per axis. 0: 6 for planes, 4 for volumes")
      .unit("samples")
      .number("singular", &Options::singular, 0, 0.9,
              "espirit only; singular values of the calibration data below this part of the largest are taken for "
              "noise")
      .number("crop", &Options::crop, 0, 1,
              "espirit only; voxels whose data the maps explain to less than this part have no sensitivity")
      .choice("sets", &Options::sets, {"auto", "1", "2"},
              "espirit only; 2: two places of an object larger than the field of view lie in one voxel; pcg and "
              "regularised solve for both and join them. auto: 2 for slices whose calibration data show it, else 1")
      .flag("keep", &Options::keep,
            "true: the maps of a slice's first frame serve all its later ones; false: each frame makes its own. Frames "
            "of the same reference lines share their maps in any case")
      .text("file", &Options::file,
            "given only; a file of the server's assets: an ISMRMRD file whose images hold the maps as channels, one "
            "image per slice. Empty: the client sends them");
}

CoilMapsFromData::CoilMapsFromData(Options options) : options_(std::move(options)) {
  if (options_.kernel == 1) throw std::invalid_argument("kernel: expected 0 or 2 to 16");
  if (options_.sets == "2" && options_.method != "espirit")
    throw std::invalid_argument("sets: only method espirit finds more than one set of maps");
  if (!options_.file.empty() && options_.method != "given")
    throw std::invalid_argument("file names coil maps, but method is not 'given'");
  if (!options_.file.empty() && !SideImages::is_file_name(options_.file))
    throw std::invalid_argument("file is the name of a file of the server's assets, not a path");
}

void CoilMapsFromData::start(const protocol::Header& /*header*/, Scan& scan) {
  scan_ = &scan;
  if (options_.method == "given") scan.side_images.want("coil_maps", options_.file);
}

Array<cfloat> CoilMapsFromData::given_maps(const NormalEquations& equations) const {
  const Array<cfloat>& maps = scan_->side_images.find("coil_maps", equations.frame->key.slice);
  if (!(maps.shape() == equations.right.shape()))
    throw ClientError(fmt::format("coil_maps: the maps given are {} [coil, z, y, x], but this scan needs {}",
                                  maps.shape().text(), equations.right.shape().text()));
  return maps;
}

void CoilMapsFromData::give_zero(NormalEquations&& equations, const Emit<NormalEquations>& emit) {
  const auto& shape = equations.right.shape();
  scan_->warn("coil_maps: a frame holds no signal; its image is zero");
  equations.right = scan_->compute.zeros<cfloat>({1, shape[1], shape[2], shape[3]});
  emit(std::move(equations));
}

void CoilMapsFromData::process(NormalEquations&& equations, const Emit<NormalEquations>& emit) {
  const auto shape = equations.right.shape();  // [coil, z, y, x]
  if (shape[0] == 1 || equations.maps) {       // one coil is its own reference
    emit(std::move(equations));
    return;
  }
  FrameKey key;  // a key without contrast, phase, set and repetition, on which sensitivities do not depend
  key.encoding = equations.frame->key.encoding;
  key.slice = equations.frame->key.slice;
  const numerics::Shape image{shape[1], shape[2], shape[3]};
  if (options_.method == "given") {
    equations.maps = given_maps(equations);
  } else if (equations.calibration && equations.padded.rank() == 3) {
    const Calibration& block = *equations.calibration;
    if (kept_of_block(block.id, shape) == nullptr && !(numerics::norm(scan_->compute, block.data.view()) > 0))
      return give_zero(std::move(equations), emit);
    equations.maps = maps_of_block(equations);
  } else {
    Kept& kept = kept_[key];
    if (!options_.keep || !(kept.of == shape)) {
      if (!(scan_->compute.download<double>(equations.power.view()).data()[0] > 0)) {
        return give_zero(std::move(equations), emit);
      }
      kept.maps = maps_of(middle_of_kspace(scan_->compute, equations.right, options_.calibration), image,
                          /*of_lines=*/false);
      kept.of = shape;
    }
    equations.maps = kept.maps;
  }
  equations.sets = equations.maps.shape()[0] / shape[0];
  if (options_.method == "espirit")
    equations.frame = with_notes(*equations.frame, {{"coil_map_sets", std::to_string(equations.sets)}});
  Array<cfloat> joined = scan_->compute.zeros<cfloat>({equations.sets, shape[1], shape[2], shape[3]});
  if (equations.sets == 1)
    numerics::combine(scan_->compute, equations.maps.view(), equations.right.view(), joined.view(),
                      /*divide=*/false);
  else
    numerics::gather_from_coils(scan_->compute, equations.maps.view(), equations.right.view(), joined.view(),
                                equations.sets);
  equations.right = std::move(joined);
  emit(std::move(equations));
}

/// The maps of one set or two that were made of this block for images of right-hand sides [coil, z, y, x], or null.
const Array<cfloat>* CoilMapsFromData::kept_of_block(std::uint64_t block, const numerics::Shape& right) {
  for (std::int64_t sets = 1; sets <= most_sets(); ++sets)
    if (const auto* kept = of_blocks_.find(block, {sets * right[0], right[1], right[2], right[3]})) return kept;
  return nullptr;
}

/// Makes maps from the reference lines that came with the equations.
Array<cfloat> CoilMapsFromData::maps_of_block(const NormalEquations& equations) {
  const Calibration& block = *equations.calibration;
  const auto& n = equations.right.shape();
  const numerics::Shape image{n[1], n[2], n[3]};
  const int slice = block.key.slice;
  if (block.data.shape()[0] != n[0])
    throw ClientError(fmt::format("coil_maps: slice {} has reference lines of {} coils and image lines of {}", slice,
                                  block.data.shape()[0], n[0]));
  if (const auto* kept = kept_of_block(block.id, n)) return *kept;
  const auto have = extents_of_middle(block, equations.padded, image, options_.calibration);
  constexpr std::int64_t kLeastForAdaptive = 4;
  const std::int64_t kernel = options_.method == "espirit" ? kernel_of(image) : kLeastForAdaptive;
  std::array<std::int64_t, 3> need{};
  bool enough = true;
  for (std::size_t a = 0; a < 3; ++a) {
    need[a] = options_.method == "espirit" && image[a] > 1 ? kernel : std::min(kernel, image[a]);
    enough = enough && have[a] >= need[a];
  }
  if (!enough)
    throw ClientError(fmt::format(
        "coil_maps: slice {}: {} x {} x {} samples (x, y, z) about the centre of k-space can be had from the reference "
        "lines, but method {} needs {} x {} x {}; acquire more of them{}",
        slice, std::max<std::int64_t>(have[2], 0), std::max<std::int64_t>(have[1], 0),
        std::max<std::int64_t>(have[0], 0), options_.method, need[2], need[1], need[0],
        options_.method == "espirit" ? ", or choose a smaller kernel or method adaptive" : ""));
  of_blocks_.make_room(static_cast<std::uint64_t>(most_sets() * n.size()) * sizeof(cfloat));
  const auto make = [&] {
    return maps_of(middle_of_block(scan_->compute, block, equations.padded, image, options_.calibration), image,
                   /*of_lines=*/true);
  };
  Array<cfloat> maps;
  try {
    maps = make();
  } catch (const numerics::ResourceError&) {
    if (of_blocks_.bytes() == 0) throw;
    of_blocks_.make_room(CoilMapCache::kMostBytes);  // maps of other blocks can be made again
    maps = make();
  }
  of_blocks_.keep(block.id, maps);
  return maps;
}

/// The extent of ESPIRiT's kernels for an image [z, y, x].
std::int64_t CoilMapsFromData::kernel_of(const numerics::Shape& image) const {
  if (options_.kernel > 0) return options_.kernel;
  return image[0] > 1 && image[1] > 1 && image[2] > 1 ? 4 : 6;  // a plane may lie across the readout
}

/// Makes maps. kspace: [coil, z, y, x], the middle of that of images [z, y, x], which is overwritten. ESPIRiT's maps
/// from reference lines are kept for later scans that have the same lines.
Array<cfloat> CoilMapsFromData::maps_of(Array<cfloat> kspace, const numerics::Shape& image, bool of_lines) const {
  numerics::Context& compute = scan_->compute;
  const std::int64_t coils = kspace.shape()[0];
  // ESPIRiT's matrix and Walsh's correlations grow with the square of the coils.
  const std::int64_t most = options_.method == "espirit" ? (image[0] > 1 ? 24 : 32) : 128;
  if (coils > most)
    throw ClientError(
        fmt::format("coil_maps: method {} is for up to {} channels, not {}; put coil_compression before it",
                    options_.method, most, coils));
  if (options_.method == "espirit") {
    numerics::EspiritOptions espirit;
    espirit.calibration = options_.calibration;
    espirit.kernel = kernel_of(image);
    espirit.threshold = options_.singular;
    espirit.crop = options_.crop;
    espirit.sets = options_.sets == "auto" ? numerics::kSetsAsNeeded : most_sets();
    try {
      return of_lines ? cached_espirit_maps(compute, kspace, espirit, image)
                      : numerics::espirit_maps(compute, kspace.view(), espirit, image);
    } catch (const std::invalid_argument& error) {  // the image is too small for the kernels
      throw ClientError(fmt::format("coil_maps: {}", error.what()));
    }
  }
  Array<cfloat> maps = compute.allocate<cfloat>({coils, image[0], image[1], image[2]});
  adaptive_maps_of_middle(compute, kspace, static_cast<int>(options_.block), static_cast<float>(options_.threshold),
                          maps);
  return maps;
}

Array<cfloat> middle_of_kspace(numerics::Context& compute, const Array<cfloat>& images, std::int64_t extent) {
  const auto& n = images.shape();
  numerics::Shape middle{n[0]}, whole;
  for (std::size_t a = 1; a < 4; ++a) {
    whole.push_back(n[a]);
    middle.push_back(std::min(extent, n[a]));
  }
  Array<cfloat> kspace = compute.allocate<cfloat>(middle);
  const float scale = 1.0f / static_cast<float>(whole.size());
  numerics::centered_fft(compute, images.view(), kspace.view(), whole, 3, numerics::Direction::forward, scale);
  return kspace;
}

void adaptive_maps_of_middle(numerics::Context& compute, Array<cfloat> kspace, int block, float threshold,
                             Array<cfloat>& maps) {
  const auto &n = kspace.shape(), &of_maps = maps.shape();
  const numerics::Shape image{of_maps[1], of_maps[2], of_maps[3]};
  // A Hann window, which does not ring, line by line.
  std::vector<float> factors;
  const auto hann = [](std::int64_t i, std::int64_t extent, std::int64_t of) {
    if (extent == of) return 1.0;  // the whole axis, or one sample
    const double at = (static_cast<double>(i) - static_cast<double>(extent / 2)) / static_cast<double>(extent);
    return 0.5 + 0.5 * std::cos(2 * std::numbers::pi * at);
  };
  for (std::int64_t z = 0; z < n[1]; ++z)
    for (std::int64_t y = 0; y < n[2]; ++y)
      for (std::int64_t x = 0; x < n[3]; ++x)
        factors.push_back(
            static_cast<float>(hann(z, n[1], image[0]) * hann(y, n[2], image[1]) * hann(x, n[3], image[2])));
  const auto block_size = static_cast<std::int64_t>(factors.size());
  numerics::scale_lines(compute, {factors.data(), {block_size}}, kspace.view().reshaped({n[0], block_size, 1}));
  Array<cfloat> smooth = compute.allocate<cfloat>(of_maps);
  numerics::centered_fft(compute, kspace.view(), smooth.view(), image, 3, numerics::Direction::inverse, 1);
  numerics::adaptive_maps(compute, smooth.view(), block, maps.view(), threshold);
}

}  // namespace echotrain
