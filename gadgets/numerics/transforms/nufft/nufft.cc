#include "gadgets/numerics/transforms/nufft/nufft.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"

namespace echotrain::numerics {
namespace {

/// Bytes of split tiles' partial sums at a time: enough for all coils on a GPU, as a rule.
constexpr std::int64_t kPartialBytes = 256ll << 20, kPartialBytesCuda = 2ll << 30;
/// Bytes of oversampled grids at a time: on a GPU all coils of a large volume, so that samples are placed once.
constexpr std::int64_t kGridBytes = 1ll << 30, kGridBytesCuda = 8ll << 30;

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("nufft: " + problem);
}

/// The number of coils to work on at a time: as many as fit `most` bytes at `bytes_per_coil` each, at least one.
std::int64_t coils_at_a_time(std::int64_t coils, std::int64_t bytes_per_coil, std::int64_t most) {
  return std::clamp<std::int64_t>(most / std::max<std::int64_t>(1, bytes_per_coil), 1, coils);
}

/// Allocates [coils, size] with fewer coils when the budget is too small for that many; `coils` becomes the number that
/// fitted.
Array<cfloat> allocate_for_coils(Context& context, std::int64_t& coils, std::int64_t size) {
  for (;;) {
    try {
      return context.allocate<cfloat>({coils, size});
    } catch (const ResourceError&) {
      if (coils == 1) throw;
      coils = (coils + 1) / 2;
    }
  }
}

/// Calls work(first coil, coils, grid) for as many coils at a time as there is memory for their grids.
template <class Work>
void for_coils(Context& context, const NufftPlan::Impl& plan, std::int64_t coils, const Work& work) {
  const std::int64_t grid_size = volume(plan.grid_extents());
  std::int64_t chunk = coils_at_a_time(coils, grid_size * 8, context.cuda() ? kGridBytesCuda : kGridBytes);
  Array<cfloat> grid = allocate_for_coils(context, chunk, grid_size);
  for (std::int64_t c = 0; c < coils; c += chunk) work(c, std::min(chunk, coils - c), grid.data());
}

template <class T>
std::uint64_t bytes_of(const Array<T>& array) {
  return static_cast<std::uint64_t>(array.size()) * sizeof(T);
}

std::uint64_t bytes_of(const NufftPlan::Impl& plan) {
  return bytes_of(plan.starts) + bytes_of(plan.list) + bytes_of(plan.weights) + bytes_of(plan.deapodization) +
         bytes_of(plan.pieces) + bytes_of(plan.split_tiles) + bytes_of(plan.order) + bytes_of(plan.bins) +
         bytes_of(plan.footprints) + bytes_of(plan.reach);
}

void grid_coils(Context& context, const NufftPlan::Impl& plan, DeviceView<const cfloat> samples,
                DeviceView<const float> weights, std::int64_t first, std::int64_t count, cfloat* grid) {
  const std::int64_t partial_size = static_cast<std::int64_t>(plan.slots) * plan.slot_points,
                     coils = samples.shape()[1];
  std::int64_t chunk = coils_at_a_time(count, partial_size * 8, context.cuda() ? kPartialBytesCuda : kPartialBytes);
  Array<cfloat> partial;
  if (partial_size > 0) partial = allocate_for_coils(context, chunk, partial_size);
  for (std::int64_t c = 0; c < count; c += chunk) {
    const GridArguments arguments{.samples = samples.data(),
                                  .weights = weights.size() == 0 ? nullptr : weights.data(),
                                  .coils = coils,
                                  .first = first + c,
                                  .count = std::min(chunk, count - c),
                                  .partial = partial.data(),
                                  .grid = grid + c * volume(plan.grid_extents())};
    ECHOTRAIN_DISPATCH(context, grid(context, plan, arguments));
  }
}

bool has_item_shape(const Shape& shape, std::int64_t coils, const Shape& item) {
  if (shape.rank() != item.rank() + 1 || shape[0] != coils) return false;
  for (std::size_t a = 0; a < item.rank(); ++a)
    if (shape[a + 1] != item[a]) return false;
  return true;
}

/// `to` holds the grids or images that belong to the samples.
void check_arguments(const Context& context, const NufftPlan::Impl& plan, DeviceView<const cfloat> samples,
                     DeviceView<const float> weights, DeviceView<const cfloat> to, const Shape& item) {
  require(context.backend() == plan.backend, "the plan was made for another backend");
  require(samples.shape().rank() == 2 && samples.shape()[0] == plan.samples,
          fmt::format("expected samples of shape [{}, coil], got {}", plan.samples, samples.shape().text()));
  require(weights.size() == 0 || weights.size() == plan.samples,
          fmt::format("{} density weights for {} samples", weights.size(), plan.samples));
  require(has_item_shape(to.shape(), samples.shape()[1], item),
          fmt::format("{} is not [{} coils] of {}", to.shape().text(), samples.shape()[1], item.text()));
}

void check_problem(HostView<const double> coordinates, const Shape& image, const NufftOptions& options) {
  constexpr std::int64_t kLongestAxis = 1 << 20;
  require(image.rank() >= 1 && image.rank() <= 3, "an image has one to three axes, not " + image.text());
  using O = NufftOptions;
  static_assert(O::kWidest <= FootprintWeights::kWidest);
  require(options.kernel_width >= O::kNarrowest && options.kernel_width <= O::kWidest,
          fmt::format("the kernel width must be {}..{}, not {}", O::kNarrowest, O::kWidest, options.kernel_width));
  require(options.oversampling >= O::kLeastOversampling && options.oversampling <= O::kMostOversampling,
          fmt::format("the oversampling must be {}..{}, not {}", O::kLeastOversampling, O::kMostOversampling,
                      options.oversampling));
  require(std::isfinite(options.slack) && options.slack >= 0,
          fmt::format("the slack must be a number that is not negative, not {}", options.slack));
  double points = 1;
  for (auto e : image) {
    require(e >= 1 && e <= kLongestAxis, "no image can be " + image.text());
    points *= 2.5 * static_cast<double>(e) + 2 * FootprintWeights::kWidest;
  }
  require(points < 1e11, "an image of " + image.text() + " is too large");
  require(coordinates.shape().rank() == 2 && coordinates.shape()[1] == static_cast<std::int64_t>(image.rank()),
          fmt::format("expected coordinates of shape [sample, {}], got {}", image.rank(), coordinates.shape().text()));
  require(coordinates.shape()[0] < INT32_MAX, "too many samples for one plan");
}

void check_tuning(const NufftTuning& tuning, const NufftTuning& usual, Backend backend) {
  const bool same_tile = std::equal(tuning.tile, tuning.tile + 3, usual.tile);
  const bool some_tile =
      std::all_of(tuning.tile, tuning.tile + 3, [](std::int32_t n) { return n >= 1 && n <= 1 << 20; });
  require((backend == Backend::cuda ? same_tile : some_tile) && tuning.most_piece >= 1,
          fmt::format("no plan can have tiles of {} and pieces of {} samples", fmt::join(tuning.tile, " x "),
                      tuning.most_piece));
}

void check_use(const NufftPlan::Impl& plan, NufftUse needed) {
  require(static_cast<int>(plan.options.use) <= static_cast<int>(needed), "the plan was not made for this use");
}

/// Checks the shapes. Returns the number of coils.
std::int64_t check_images(const Context& context, const NufftPlan::Impl& plan, DeviceView<const cfloat> oversampled,
                          DeviceView<const cfloat> image) {
  require(context.backend() == plan.backend, "the plan was made for another backend");
  const std::int64_t coils = oversampled.shape().rank() == 0 ? 0 : oversampled.shape()[0];
  require(has_item_shape(oversampled.shape(), coils, plan.grid) && has_item_shape(image.shape(), coils, plan.image),
          fmt::format("{} and {} are not [coil] of {} and {}", oversampled.shape().text(), image.shape().text(),
                      plan.grid.text(), plan.image.text()));
  return coils;
}

}  // namespace

NufftPlan::NufftPlan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NufftPlan::~NufftPlan() = default;
const Shape& NufftPlan::image_shape() const { return impl_->image; }
const Shape& NufftPlan::grid_shape() const { return impl_->grid; }
std::int64_t NufftPlan::samples() const { return impl_->samples; }
const NufftOptions& NufftPlan::options() const { return impl_->options; }
const NufftTuning& NufftPlan::tuning() const { return impl_->tuning; }
Backend NufftPlan::backend() const { return impl_->backend; }
std::uint64_t NufftPlan::bytes() const { return impl_->bytes; }

std::shared_ptr<const NufftPlan> NufftPlan::make(Context& context, HostView<const double> coordinates,
                                                 const Shape& image, const NufftOptions& options,
                                                 const std::optional<NufftTuning>& given) {
  check_problem(coordinates, image, options);
  const NufftTuning usual = default_tuning(static_cast<int>(image.rank()), context.backend());
  const NufftTuning tuning = given.value_or(usual);
  check_tuning(tuning, usual, context.backend());
  auto impl = std::make_unique<Impl>();
  impl->tiling = make_tiling(image, options, tuning);
  impl->image = image;
  for (int a = 3 - impl->tiling.dims; a < 3; ++a) impl->grid.push_back(impl->tiling.grid[a]);
  impl->options = options;
  impl->tuning = tuning;
  impl->samples = coordinates.shape()[0];
  impl->backend = context.backend();
  impl->stream = context.stream();
  const std::vector<float> factors = deapodization_factors(impl->tiling);
  impl->deapodization = context.upload<float>({factors.data(), {static_cast<std::int64_t>(factors.size())}});
  ECHOTRAIN_DISPATCH(context, fill_plan(context, coordinates, *impl));
  impl->bytes = bytes_of(*impl);
  context.synchronize();  // from here on the plan may be used on other streams
  return std::make_shared<const NufftPlan>(std::move(impl));
}

std::shared_ptr<const NufftPlan> NufftPlan::with_samples(Context& context, HostView<const double> coordinates) const {
  check_problem(coordinates, impl_->image, impl_->options);
  require(context.backend() == impl_->backend && context.stream() == impl_->stream,
          "the plan was made with another context");
  auto impl = std::make_unique<Impl>();
  impl->tiling = impl_->tiling;
  impl->image = impl_->image;
  impl->grid = impl_->grid;
  impl->options = impl_->options;
  impl->options.use = NufftUse::accumulate;
  impl->tuning = impl_->tuning;
  impl->samples = coordinates.shape()[0];
  impl->backend = impl_->backend;
  impl->stream = impl_->stream;
  impl->deapodization = impl_->deapodization;
  ECHOTRAIN_DISPATCH(context, fill_plan(context, coordinates, *impl));
  impl->bytes = bytes_of(*impl);
  return std::make_shared<const NufftPlan>(std::move(impl));
}

void NufftPlan::grid(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
                     DeviceView<cfloat> grid) const {
  check_arguments(context, *impl_, samples, weights, grid, impl_->grid);
  check_use(*impl_, NufftUse::adjoint);
  if (grid.size() == 0) return;
  grid_coils(context, *impl_, samples, weights, 0, samples.shape()[1], grid.data());
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::accumulate(Context& context, std::int64_t first, DeviceView<const cfloat> samples,
                           DeviceView<const float> weights, float sign, DeviceView<cfloat> grid) const {
  require(context.backend() == impl_->backend, "the plan was made for another backend");
  require(samples.shape().rank() == 2, "expected samples of shape [sample, coil], got " + samples.shape().text());
  const std::int64_t count = samples.shape()[0], coils = samples.shape()[1];
  require(first >= 0 && first <= impl_->samples - count,
          fmt::format("samples {} .. {} are not among the plan's {}", first, first + count - 1, impl_->samples));
  require(weights.size() == 0 || weights.size() == count,
          fmt::format("{} density weights for {} samples", weights.size(), count));
  require(has_item_shape(grid.shape(), coils, impl_->grid),
          fmt::format("{} is not [{} coils] of {}", grid.shape().text(), coils, impl_->grid.text()));
  if (samples.size() == 0 || grid.size() == 0) return;
  const AccumulateArguments arguments{.first = first,
                                      .samples_count = count,
                                      .samples = samples.data(),
                                      .weights = weights.size() == 0 ? nullptr : weights.data(),
                                      .sign = sign,
                                      .coils = coils,
                                      .grid = grid.data()};
  ECHOTRAIN_DISPATCH(context, accumulate(context, *impl_, arguments));
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::to_images(Context& context, DeviceView<cfloat> grid, DeviceView<cfloat> image) const {
  const std::int64_t coils = check_images(context, *impl_, grid, image);
  if (image.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, to_images(context, *impl_, grid.data(), coils, image.data(), GridOf::anything));
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::deapodize(Context& context, DeviceView<const cfloat> oversampled, DeviceView<cfloat> image) const {
  const std::int64_t coils = check_images(context, *impl_, oversampled, image);
  if (image.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, deapodize(context, *impl_, oversampled.data(), coils, image.data()));
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::adjoint(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
                        DeviceView<cfloat> image) const {
  check_arguments(context, *impl_, samples, weights, image, impl_->image);
  check_use(*impl_, NufftUse::adjoint);
  if (image.size() == 0) return;
  for_coils(context, *impl_, samples.shape()[1], [&](std::int64_t first, std::int64_t count, cfloat* grid) {
    grid_coils(context, *impl_, samples, weights, first, count, grid);
    cfloat* to = image.data() + first * impl_->image.size();
    ECHOTRAIN_DISPATCH(context, to_images(context, *impl_, grid, count, to, GridOf::plan));
  });
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::apodize(Context& context, DeviceView<const cfloat> image, DeviceView<cfloat> oversampled) const {
  const std::int64_t coils = check_images(context, *impl_, oversampled, image);
  if (image.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, apodize(context, *impl_, image.data(), coils, oversampled.data()));
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::interpolate(Context& context, DeviceView<const cfloat> grid, DeviceView<cfloat> samples) const {
  check_arguments(context, *impl_, samples, {}, grid, impl_->grid);
  check_use(*impl_, NufftUse::all);
  if (samples.size() == 0) return;
  const std::int64_t coils = samples.shape()[1];
  const InterpolateArguments arguments{
      .grid = grid.data(), .coils = coils, .first = 0, .count = coils, .samples = samples.data()};
  ECHOTRAIN_DISPATCH(context, interpolate(context, *impl_, arguments));
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

void NufftPlan::forward(Context& context, DeviceView<const cfloat> image, DeviceView<cfloat> samples) const {
  check_arguments(context, *impl_, samples, {}, image, impl_->image);
  check_use(*impl_, NufftUse::all);
  if (samples.size() == 0) return;
  const std::int64_t coils = samples.shape()[1];
  for_coils(context, *impl_, coils, [&](std::int64_t first, std::int64_t count, cfloat* grid) {
    const cfloat* from = image.data() + first * impl_->image.size();
    ECHOTRAIN_DISPATCH(context, to_grid(context, *impl_, from, count, grid));
    const InterpolateArguments arguments{
        .grid = grid, .coils = coils, .first = first, .count = count, .samples = samples.data()};
    ECHOTRAIN_DISPATCH(context, interpolate(context, *impl_, arguments));
  });
  ECHOTRAIN_DISPATCH(context, release_after(context, *impl_));
}

std::uint64_t trajectory_digest(HostView<const double> coordinates) {
  // FNV-1a over 64-bit words, each stirred first so that every bit reaches every other.
  std::uint64_t hash = 14695981039346656037ull;
  const auto take = [&hash](std::uint64_t word) {
    word *= 0x9e3779b97f4a7c15ull;
    word ^= word >> 32;
    hash = (hash ^ word) * 1099511628211ull;
    hash ^= hash >> 29;
  };
  take(static_cast<std::uint64_t>(coordinates.size()));
  for (auto extent : coordinates.shape()) take(static_cast<std::uint64_t>(extent));
  for (std::int64_t i = 0; i < coordinates.size(); ++i) take(std::bit_cast<std::uint64_t>(coordinates[i]));
  return hash;
}

}  // namespace echotrain::numerics
