#include "gadgets/least_squares/pcg_priors.h"

#include <fmt/format.h>

#include <algorithm>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/inverse/operators/normal_operator.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/images/sobel.h"

namespace echotrain {

void PcgPriors::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (options_.prior == "anatomical" && options_.reference == "given")
    scan.side_images.want("reference", options_.reference_file);
  for (const auto& encoding : header.encodings) {
    geometries_.push_back(image_geometry(encoding));
    std::vector<double> voxel;
    for (int a = geometries_.back().dims; a-- > 0;)
      voxel.push_back(encoding.recon.fov_mm[static_cast<std::size_t>(a)] /
                      encoding.recon.matrix[static_cast<std::size_t>(a)]);
    const double smallest = *std::min_element(voxel.begin(), voxel.end());
    for (double& v : voxel) v /= smallest;  // lambda does not depend on the unit
    voxel_size_.push_back(std::move(voxel));
  }
}

PcgPriors::RegularizerPtr PcgPriors::prior_of(const NormalEquations& equations) {
  if (equations.sets > 1 && options_.prior == "tikhonov") {
    numerics::Shape of_all;
    for (const auto extent : equations.matrix->image())
      of_all.push_back(of_all.rank() == 0 ? equations.sets * extent : extent);
    return numerics::tikhonov(of_all);
  }
  return options_.prior == "anatomical" ? given_edges(equations) : plain(equations.frame->key.encoding);
}

PcgPriors::RegularizerPtr PcgPriors::plain(std::uint16_t encoding) {
  if (options_.prior == "none") return nullptr;
  RegularizerPtr& prior = plain_[encoding];
  if (!prior) {
    const numerics::Shape image = geometries_.at(encoding).extents();
    prior = options_.prior == "tikhonov" ? numerics::tikhonov(image)
                                         : numerics::smoothness(image, voxel_size_.at(encoding));
  }
  return prior;
}

PcgPriors::RegularizerPtr PcgPriors::edges_of(const std::vector<Array<cfloat>>& drafts, std::uint16_t encoding) {
  numerics::Context& compute = scan_->compute;
  const auto& shape = drafts.front().shape();
  const std::int64_t voxels = shape[1] * shape[2] * shape[3];
  std::int64_t images = 0;
  for (const Array<cfloat>& draft : drafts) images += draft.shape()[0];
  Array<cfloat> all = compute.allocate<cfloat>({images, shape[1], shape[2], shape[3]});
  std::int64_t at = 0;
  for (const Array<cfloat>& draft : drafts) {
    const auto& each = draft.shape();
    if (each[1] * each[2] * each[3] != voxels)
      throw ClientError("pcg: contrasts of different matrices share no anatomy");
    compute.copy<cfloat>(draft.view(), all.view().part(at * voxels, each));
    at += each[0];
  }
  return edges_in(all, encoding);
}

/// The edges of the reference given for this slice.
PcgPriors::RegularizerPtr PcgPriors::given_edges(const NormalEquations& equations) {
  FrameKey key;
  key.encoding = equations.frame->key.encoding;
  key.slice = equations.frame->key.slice;
  RegularizerPtr& edges = given_[key];
  if (edges) return edges;
  const Array<cfloat>& reference = scan_->side_images.find("reference", key.slice);
  const auto &has = reference.shape(), &needs = equations.right.shape();
  if (has[1] != needs[1] || has[2] != needs[2] || has[3] != needs[3])
    throw ClientError(
        fmt::format("pcg: the reference given has {} x {} x {} voxels [z, y, x], but this scan's images "
                    "have {} x {} x {}",
                    has[1], has[2], has[3], needs[1], needs[2], needs[3]));
  edges = edges_in(reference, key.encoding);
  return edges;
}

/// The prior from the magnitude of images [image, z, y, x] of the same anatomy.
PcgPriors::RegularizerPtr PcgPriors::edges_in(const Array<cfloat>& all, std::uint16_t encoding) {
  numerics::Context& compute = scan_->compute;
  const auto& shape = all.shape();
  const std::int64_t voxels = shape[1] * shape[2] * shape[3];
  Array<cfloat> power = compute.allocate<cfloat>({1, shape[1], shape[2], shape[3]});
  numerics::root_sum_of_squares(compute, all.view(), power.view());
  Array<float> reference = compute.allocate<float>({shape[1], shape[2], shape[3]});
  numerics::component(compute, power.view(), numerics::Component::magnitude, 1,
                      reference.view().reshaped({1, shape[1], shape[2], shape[3]}));
  const std::int64_t axes = numerics::image_axes(reference.shape());
  Array<float> weights = compute.allocate<float>({axes, shape[1], shape[2], shape[3]});
  numerics::EdgeOptions options;
  options.strength = options_.edge_strength;
  numerics::edge_weights(compute, reference.view(), options, weights.view());
  // The filter counts axes from x on, the prior from the slowest one. A volume may have one plane, and no edges along
  // z.
  const int dims = geometries_.at(encoding).dims;
  numerics::Shape of_prior{dims};
  for (std::size_t a = dims == 2 ? 2 : 1; a < 4; ++a) of_prior.push_back(shape[a]);
  Array<float> turned = compute.zeros<float>(of_prior);
  for (std::int64_t a = 0; a < axes; ++a)
    compute.copy<float>(weights.view().slice(a).reshaped({voxels}),
                        turned.view().part((dims - 1 - a) * voxels, {voxels}));
  return numerics::edge_stencil(compute, turned);
}

}  // namespace echotrain
