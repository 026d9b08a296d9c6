#include "gadgets/least_squares/coil_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/coils/coil_maps.h"
#include "gadgets/numerics/fft/fft.h"
#include "gadgets/numerics/layout/layout.h"
#include "gadgets/numerics/operators/map_products.h"

namespace echotrain {

Parameters<CoilMapsFromData::Options> CoilMapsFromData::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"adaptive", "espirit", "given"},
              "adaptive: local correlation of the coils' low-resolution images (Walsh). espirit: from the middle of "
              "k-space (Uecker), slower and sharper. given: from `file`, or sent by the client as an image of role "
              "coil_maps")
      .integer("calibration", &Options::calibration, 8, 256,
               "extent of the middle of k-space that is used, per axis; it must be sampled fully enough")
      .unit("samples")
      .integer("block", &Options::block, 1, numerics::kMostBlock, "adaptive only; extent of the neighbourhood")
      .unit("voxels")
      .number("threshold", &Options::threshold, 0, 1,
              "adaptive only; voxels with less signal than this part of the largest have no sensitivity")
      .integer(
          "sets", &Options::sets, 1, 2,
          "espirit only; 2: where the object is larger than the field of view, two places lie in one voxel and have "
          "sensitivities of their own; pcg solves for both and joins them")
      .flag("keep", &Options::keep,
            "true: the maps of a slice's first frame serve all its later ones; false: each frame makes its own")
      .text("file", &Options::file,
            "given only; a file of the server's assets: an ISMRMRD file whose images hold the maps as channels, one "
            "image per slice. Empty: the client sends them");
}

CoilMapsFromData::CoilMapsFromData(Options options) : options_(std::move(options)) {
  if (options_.sets > 1 && options_.method != "espirit")
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

void CoilMapsFromData::process(NormalEquations&& equations, const Emit<NormalEquations>& emit) {
  const auto shape = equations.right.shape();  // [coil, z, y, x]
  if (shape[0] == 1 || equations.maps) {       // one coil is its own reference
    emit(std::move(equations));
    return;
  }
  FrameKey key;  // sensitivities do not depend on contrast, phase, set or repetition
  key.encoding = equations.frame->key.encoding;
  key.slice = equations.frame->key.slice;
  Array<cfloat>& kept = kept_[key];
  Array<cfloat> joined = scan_->compute.zeros<cfloat>({options_.sets, shape[1], shape[2], shape[3]});
  if (options_.method == "given") {
    kept = given_maps(equations);
  } else if (!options_.keep || !kept ||
             !(kept.shape() == numerics::Shape({options_.sets * shape[0], shape[1], shape[2], shape[3]}))) {
    if (!(scan_->compute.download<double>(equations.power.view()).data()[0] > 0)) {
      scan_->warn("coil_maps: a frame holds no signal; its image is zero");
      equations.right = scan_->compute.zeros<cfloat>({1, shape[1], shape[2], shape[3]});
      emit(std::move(equations));
      return;
    }
    kept = maps_of(equations.right);
  }
  equations.maps = kept;
  equations.sets = options_.sets;
  if (options_.sets == 1)
    numerics::combine(scan_->compute, equations.maps.view(), equations.right.view(), joined.view(),
                      /*divide=*/false);
  else
    numerics::gather_from_coils(scan_->compute, equations.maps.view(), equations.right.view(), joined.view(),
                                options_.sets);
  equations.right = std::move(joined);
  emit(std::move(equations));
}

/// images: [coil, z, y, x].
Array<cfloat> CoilMapsFromData::maps_of(const Array<cfloat>& images) const {
  const auto& n = images.shape();
  // ESPIRiT's matrix and Walsh's correlations grow with the square of the coils.
  const std::int64_t most = options_.method == "espirit" ? (n[1] > 1 ? 24 : 32) : 128;
  if (n[0] > most)
    throw ClientError(
        fmt::format("coil_maps: method {} is for up to {} channels, not {}", options_.method, most, n[0]));
  try {
    return maps_of_checked(images);
  } catch (const std::invalid_argument& error) {  // the image is too small for the method's kernels
    throw ClientError(fmt::format("coil_maps: {}", error.what()));
  }
}

Array<cfloat> CoilMapsFromData::maps_of_checked(const Array<cfloat>& images) const {
  numerics::Context& compute = scan_->compute;
  const auto& n = images.shape();
  numerics::Shape middle{n[0]}, whole, block;
  for (std::size_t a = 1; a < 4; ++a) {
    whole.push_back(n[a]);
    block.push_back(std::min(options_.calibration, n[a]));
    middle.push_back(block[a - 1]);
  }
  Array<cfloat> kspace = compute.allocate<cfloat>(middle),
                maps = compute.allocate<cfloat>({options_.sets * n[0], n[1], n[2], n[3]});
  const float scale = 1.0f / static_cast<float>(whole.size());
  numerics::centered_fft(compute, images.view(), kspace.view(), whole, 3, numerics::Direction::forward, scale);
  if (options_.method == "espirit") {
    numerics::EspiritOptions espirit;
    espirit.calibration = options_.calibration;
    espirit.sets = options_.sets;
    numerics::espirit_maps(compute, kspace.view(), espirit, maps.view());
    return maps;
  }
  // A Hann window, which does not ring, line by line.
  std::vector<float> factors;
  const auto hann = [](std::int64_t i, std::int64_t extent, std::int64_t of) {
    if (extent == of) return 1.0;  // the whole axis, or one sample
    const double at = (static_cast<double>(i) - static_cast<double>(extent / 2)) / static_cast<double>(extent);
    return 0.5 + 0.5 * std::cos(2 * std::numbers::pi * at);
  };
  for (std::int64_t z = 0; z < block[0]; ++z)
    for (std::int64_t y = 0; y < block[1]; ++y)
      for (std::int64_t x = 0; x < block[2]; ++x)
        factors.push_back(
            static_cast<float>(hann(z, block[0], n[1]) * hann(y, block[1], n[2]) * hann(x, block[2], n[3])));
  numerics::scale_lines(compute, {factors.data(), {block.size()}}, kspace.view().reshaped({n[0], block.size(), 1}));
  Array<cfloat> smooth = compute.allocate<cfloat>(n);
  numerics::centered_fft(compute, kspace.view(), smooth.view(), whole, 3, numerics::Direction::inverse, 1);
  numerics::adaptive_maps(compute, smooth.view(), static_cast<int>(options_.block), maps.view(),
                          static_cast<float>(options_.threshold));
  return maps;
}

}  // namespace echotrain
