#include "gadgets/numerics/transforms/exact/split_adjoint.h"

#include <cstring>

namespace echotrain::numerics {

SplitAdjoint::SplitAdjoint(Context& context, Team* team, const Shape& image, std::int64_t coils, VoxelBasis basis,
                           Precision precision)
    : team_(team) {
  // A second device does not pay where each device would have fewer planes (lines in 2D) than this.
  constexpr std::int64_t kLeastLines = 8;
  if (team != nullptr && image.rank() > 0 && image[0] < kLeastLines * team->size()) team_ = nullptr;
  if (team_ == nullptr) {
    parts_.push_back(std::make_unique<DirectAdjoint>(context, image, coils, basis, precision));
    return;
  }
  parts_.resize(static_cast<std::size_t>(team_->size()));
  team_->run(Team::Sums::none, [&](Member& member) {
    parts_[static_cast<std::size_t>(member.rank())] = std::make_unique<DirectAdjoint>(
        member.context, image, coils, basis, precision, ImagePart{member.rank(), member.size()});
  });
}

void SplitAdjoint::add(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples,
                       HostView<const float> weights) {
  if (team_ == nullptr) return parts_[0]->add(context, coordinates, samples, weights);
  team_->run(Team::Sums::none, [&](Member& member) {
    Context& own = member.context;
    DirectAdjoint& part = *parts_[static_cast<std::size_t>(member.rank())];
    if (&own == &context) return part.add(own, coordinates, samples, weights);
    Array<cfloat> copy = own.allocate<cfloat>(samples.shape());
    own.copy<cfloat>(samples, copy.view());
    part.add(own, coordinates, copy.cview(), weights);
  });
}

void SplitAdjoint::get(Context& context, DeviceView<cfloat> image) {
  if (team_ == nullptr) return parts_[0]->get(context, image);
  team_->run(Team::Sums::none, [&](Member& member) {
    Context& own = member.context;
    DirectAdjoint& part = *parts_[static_cast<std::size_t>(member.rank())];
    if (&own == &context) return part.get(own, image);
    Array<cfloat> copy = own.allocate<cfloat>(image.shape());
    part.get(own, copy.view());
    const std::int64_t coils = image.shape()[0], voxels = image.size() / coils, n = part.voxels();
    for (std::int64_t coil = 0; coil < coils; ++coil) {
      const std::int64_t at = coil * voxels + part.first_voxel();
      own.copy<cfloat>(copy.view().part(at, {n}), image.part(at, {n}));
    }
  });
  if (team_->in_one_process()) return;
  const std::int64_t coils = image.shape()[0], voxels = image.size() / coils;
  for (int rank = 0; rank < team_->size(); ++rank) {
    const auto& own = parts_[static_cast<std::size_t>(rank)];
    std::vector<std::byte> bytes(2 * sizeof(std::int64_t));
    std::int64_t place[2] = {own ? own->first_voxel() : 0, own ? own->voxels() : 0};
    std::memcpy(bytes.data(), place, sizeof(place));
    team_->share(bytes, rank);
    std::memcpy(place, bytes.data(), sizeof(place));
    for (std::int64_t coil = 0; coil < coils; ++coil)
      team_->share(context, image.part(coil * voxels + place[0], {place[1]}), rank);
  }
}

std::optional<double> SplitAdjoint::sampled_error(Context& context, DeviceView<const cfloat> image) const {
  if (team_ != nullptr) return std::nullopt;
  return parts_[0]->sampled_error(context, image);
}

}  // namespace echotrain::numerics
