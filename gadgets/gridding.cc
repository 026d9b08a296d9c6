#include "gadgets/gridding.h"

#include <fmt/format.h>

#include <algorithm>

namespace echotrain {
namespace {
constexpr std::size_t kCachedPlans = 4;
}

Parameters<Gridding::Options> Gridding::parameters() {
  return Parameters<Options>()
      .integer("dimensions", &Options::dimensions, 2, 3,
               "dimensions of the encoding; a scan with another number is refused at its header")
      .integer("kernel_width", &Options::kernel_width, 2, 8,
               "width of the kernel [grid cells]; wider is more accurate and slower")
      .number("oversampling", &Options::oversampling, 1.25, 2.0,
              "grid extent / image extent; larger is more accurate and takes more memory");
}

void Gridding::start(const protocol::Header& header, Session& session) {
  session_ = &session;
  for (const auto& encoding : header.encodings) {
    geometries_.push_back(image_geometry(encoding));
    if (session.stacked) geometries_.back().dims = 2;
    if (geometries_.back().dims != options_.dimensions)
      throw ClientError(fmt::format(
          "this pipeline grids {}D data, but the header's encoded matrix is {} x {} x {}; use {}", options_.dimensions,
          encoding.encoded.matrix[0], encoding.encoded.matrix[1], encoding.encoded.matrix[2],
          geometries_.back().dims == 3 ? "kooshball_3d" : "radial_2d or spiral_2d"));
    const std::int64_t acceleration = std::int64_t{encoding.acceleration[0]} * encoding.acceleration[1];
    if (acceleration > 1)
      session.warn(fmt::format("R={}: image will show undersampling streaks, this pipeline fills no missing data",
                               acceleration));
  }
}

void Gridding::process(Samples&& samples, const Emit<Grid>& emit) {
  Grid grid;
  grid.frame = samples.frame;
  grid.plan = plan(*samples.positions, samples.frame->key.encoding);
  numerics::Shape shape{samples.data.shape()[1]};
  for (auto extent : grid.plan->grid_shape()) shape.push_back(extent);
  grid.data = session_->compute.allocate<cfloat>(shape);
  grid.plan->grid(session_->compute, samples.data.view(), samples.weights.view(), grid.data.view());
  emit(std::move(grid));
}

std::shared_ptr<const numerics::NufftPlan> Gridding::plan(const SamplePositions& positions, std::uint16_t encoding) {
  for (std::size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i].digest == positions.digest && plans_[i].encoding == encoding) {
      std::rotate(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(i),
                  plans_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return plans_.front().plan;
    }
  const ImageGeometry& geometry = geometries_.at(encoding);
  std::vector<double> coordinates = positions.coordinates;
  const auto dims = static_cast<std::size_t>(positions.dims);
  for (std::size_t i = 0; i < coordinates.size(); ++i) coordinates[i] *= geometry.voxel_ratio[i % dims];
  numerics::Shape image;
  for (std::size_t a = 3 - dims; a < 3; ++a) image.push_back(geometry.image[a]);
  numerics::NufftOptions options;
  options.kernel_width = static_cast<int>(options_.kernel_width);
  options.oversampling = options_.oversampling;
  const auto count = static_cast<std::int64_t>(coordinates.size() / dims);
  auto made =
      numerics::NufftPlan::make(session_->compute, {coordinates.data(), {count, positions.dims}}, image, options);
  plans_.insert(plans_.begin(), {positions.digest, encoding, made});
  if (plans_.size() > kCachedPlans) plans_.pop_back();
  return made;
}

}  // namespace echotrain
