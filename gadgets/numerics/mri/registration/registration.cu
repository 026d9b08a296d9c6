#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/registration/registration.h"

namespace echotrain::numerics {

/// Counts for each value how many are less; the median is that of rank (n - 1) / 2.
struct MedianVoxel {
  const float* images;
  std::int64_t batch, size;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t voxel) const {
    for (std::int64_t i = 0; i < batch; ++i) {
      const float value = images[i * size + voxel];
      std::int64_t less = 0, equal = 0;
      for (std::int64_t j = 0; j < batch; ++j) {
        const float other = images[j * size + voxel];
        less += other < value ? 1 : 0;
        equal += other == value ? 1 : 0;
      }
      const std::int64_t middle = (batch - 1) / 2;
      if (less <= middle && middle < less + equal) {
        to[voxel] = value;
        return;
      }
    }
    to[voxel] = images[voxel];  // none, where values are not numbers
  }
};
ECHOTRAIN_MAP(MedianVoxel, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/registration/smooth.h"
#include "gadgets/numerics/mri/registration/steps.h"

namespace echotrain::numerics {
namespace {

using namespace registration;

/// How a kind of motion is found. The steps at each size, that of the images first; the last one stands for all
/// smaller.
struct Method {
  int steps[4];
  float regularisation;  ///< voxels, by default
  float contrast;        ///< the Gaussian of local_contrast() and of correlations [voxels]
};
Method method_of(Motion motion) {
  switch (motion) {
    case Motion::rigid:
      return {{4, 6, 8, 12}, 0, 2};
    case Motion::fast:
      return {{0, 4, 6, 6}, 1.5f, 3};
    case Motion::robust:
      break;
  }
  return {{2, 4, 6, 6}, 2, 2};
}
constexpr float kWindow = 3;
constexpr int kCoarsestSteps = 6;  ///< at least, as all of the motion is still to be found

/// Images of one size. Those of the full size are the caller's.
struct Level {
  Array<float> memory;
  DeviceView<const float> images, reference;
};

/// What a batch needs, made for the largest images; smaller ones use the beginnings.
class Registering {
 public:
  Registering(Context& context, const Shape& images, std::int64_t references, const RegistrationOptions& options)
      : context_(context),
        motion_(options.motion),
        method_(method_of(options.motion)),
        batch_(images[0]),
        references_(references) {
    if (options.regularisation > 0) method_.regularisation = options.regularisation;
    const std::int64_t size = images[1] * images[2], planes = motion_ == Motion::fast ? 2 : 5;
    reference_ = context.allocate<float>({references * size});
    images_ = context.allocate<float>({batch_ * size});
    floors_ = context.allocate<float>({batch_ + references});
    fixed_ = context.allocate<float>({references * size * 3});
    systems_ = context.allocate<float>({batch_ * size * planes});
    scratch_ = context.allocate<float>({std::max(batch_ * planes, references * 3) * size});
    field_ = context.allocate<float>({batch_ * size * 2});
    if (motion_ != Motion::fast) {
      moved_ = context.allocate<float>({batch_ * size});
      products_ = context.allocate<float>({batch_ * size * 2});
    }
    if (motion_ == Motion::rigid) {
      motions_ = context.allocate<float>({batch_, 3});
      sums_ = context.allocate<double>({9 * batch_ * (images[1] + 1)});
    }
  }

  void run(DeviceView<const float> images, DeviceView<const float> reference, DeviceView<float> fields) {
    std::vector<Level> levels{{{}, images, reference}};
    while (const auto next = smaller(levels.back())) levels.push_back(*next);
    if (motion_ == Motion::rigid) context_.clear(motions_.view());
    for (std::size_t i = levels.size(); i-- > 0;) {
      const Shape& n = levels[i].images.shape();
      DeviceView<float> field = i == 0 ? fields : field_.view().part(0, {batch_, 2, n[1], n[2]});
      if (i + 1 == levels.size()) {
        context_.clear(field);
      } else if (motion_ == Motion::rigid) {
        refine_motions(context_, motions_.view());
      } else {
        const Shape& h = levels[i + 1].images.shape();
        const Shape coarse{batch_, 2, h[1], h[2]};
        const auto copy = scratch_.view().part(0, coarse);
        context_.copy<float>(field_.cview().part(0, coarse), copy);
        refine_fields(context_, copy, field);
      }
      const int least = i + 1 == levels.size() ? kCoarsestSteps : 0;
      const int steps = std::max(method_.steps[std::min<std::size_t>(i, 3)], least);
      if (steps > 0) take_steps(levels[i], steps, field);
    }
    if (motion_ == Motion::rigid) rigid_fields(context_, motions_.view(), fields);
  }

 private:
  std::optional<Level> smaller(const Level& of) {
    const Shape& n = of.images.shape();
    const std::int64_t ny = (n[1] + 1) / 2, nx = (n[2] + 1) / 2;
    if (std::min(ny, nx) < kLeastRegistered) return {};
    Level out{context_.allocate<float>({batch_ + references_, ny, nx}), {}, {}};
    const auto images = out.memory.view().part(0, {batch_, ny, nx});
    const auto reference = out.memory.view().part(batch_ * ny * nx, {references_, ny, nx});
    halve(context_, of.images, images);
    halve(context_, of.reference, reference);
    out.images = images;
    out.reference = reference;
    return out;
  }

  void take_steps(const Level& level, int steps, DeviceView<float> field) {
    const Shape &n = level.images.shape(), &f = level.reference.shape();
    const std::int64_t size = n[1] * n[2];
    const auto images = images_.view().part(0, n), reference = reference_.view().part(0, f);
    local_contrast(context_, method_.contrast, level.images, scratch_.view(), images, floors_.view().part(0, {n[0]}));
    local_contrast(context_, method_.contrast, level.reference, scratch_.view(), reference,
                   floors_.view().part(n[0], {f[0]}));
    if (motion_ == Motion::fast) {
      const auto products = fixed_.view().part(0, {f[0], 3, n[1], n[2]});
      gradient_products(context_, reference, products);
      smooth(kWindow, products);
    } else {
      const auto products = fixed_.view().part(0, f);
      squares(context_, reference, products);
      gaussian_filter(context_, method_.contrast, products, scratch_.view());
    }
    for (int step = 0; step < steps; ++step) {
      if (motion_ == Motion::fast) {
        const auto forces = systems_.view().part(0, {n[0], 2, n[1], n[2]});
        difference_forces(context_, reference, images, floors_.cview(), field, forces);
        smooth(kWindow, forces);
        update(field, {fixed_.data(), forces.data(), f[0] == 1 ? 0 : 3 * size, 2 * size});
        continue;
      }
      if (motion_ == Motion::rigid) rigid_fields(context_, motions_.view(), field);
      const auto moved = moved_.view().part(0, n);
      const auto products = products_.view().part(0, {n[0], 2, n[1], n[2]});
      const auto systems = systems_.view().part(0, {n[0], 5, n[1], n[2]});
      move_images(context_, reference, images, field, moved, products);
      smooth(method_.contrast, products);
      correlation_systems(context_, reference, fixed_.cview().part(0, f), moved, products, field, systems);
      if (motion_ == Motion::rigid) {
        take_rigid_step(context_, systems, sums_.view(), motions_.view());
        continue;
      }
      smooth(kWindow, systems);
      update(field, {systems.data(), systems.data() + 3 * size, 5 * size, 5 * size});
    }
  }

  void smooth(float sigma, DeviceView<float> planes) {
    const Shape& n = planes.shape();
    gaussian_filter(context_, sigma, planes.reshaped({n[0] * n[1], n[2], n[3]}), scratch_.view());
  }

  /// Takes a step and smooths the field.
  void update(DeviceView<float> field, const SmoothedSystems& systems) {
    const auto before = scratch_.view().part(0, field.shape());
    context_.copy<float>(field, before);
    take_step(context_, systems, before, field);
    smooth(method_.regularisation, field);
  }

  Context& context_;
  const Motion motion_;
  Method method_;
  const std::int64_t batch_, references_;
  Array<float> reference_, images_, floors_, fixed_, systems_, scratch_, field_, moved_, products_, motions_;
  Array<double> sums_;
};

}  // namespace

void register_images(Context& context, DeviceView<const float> images, DeviceView<const float> reference,
                     const RegistrationOptions& options, DeviceView<float> fields) {
  const Shape &n = images.shape(), &r = reference.shape(), &f = fields.shape();
  const bool for_all = r.rank() == 2;
  if (n.rank() != 3 || !(f == Shape{n[0], 2, n[1], n[2]}) || !(for_all ? r == Shape{n[1], n[2]} : r == n))
    throw std::invalid_argument(
        fmt::format("register_images: images {} (expected [batch, y, x]), reference {} and fields {} do not fit",
                    n.text(), r.text(), f.text()));
  if (std::min(n[1], n[2]) < kLeastRegistered || n[1] * n[2] > INT32_MAX)
    throw std::invalid_argument(
        fmt::format("register_images: images of {} x {} are too small (at least {} voxels) or too large", n[1], n[2],
                    kLeastRegistered));
  if (options.regularisation != 0 && !(options.regularisation >= 0.5f && options.regularisation <= kMostSigma))
    throw std::invalid_argument(fmt::format("register_images: a regularisation of {} voxels is neither 0 nor 0.5 to {}",
                                            options.regularisation, kMostSigma));
  // Few images at a time stay in the caches of the CPU; many fill a GPU, in bounded memory.
  const std::int64_t most = context.cuda() ? 64 : 2;
  const Shape plane{n[1], n[2]};
  std::optional<Registering> work;
  for (std::int64_t first = 0, made = 0; first < n[0]; first += most) {
    const std::int64_t count = std::min(most, n[0] - first), references = for_all ? 1 : count, size = n[1] * n[2];
    const Shape part{count, n[1], n[2]};
    if (made != count) work.emplace(context, part, references, options);
    made = count;
    work->run(images.part(first * size, part), reference.part(for_all ? 0 : first * size, {references, n[1], n[2]}),
              fields.part(2 * first * size, {count, 2, n[1], n[2]}));
  }
}

void check_registrable(Context& context, DeviceView<const float> images) {
  const Shape& n = images.shape();
  if (n.rank() != 3 || std::min(n[1], n[2]) < kLeastRegistered)
    throw std::invalid_argument(fmt::format("registration: images {} are not [batch, y, x] of at least {} x {}",
                                            n.text(), kLeastRegistered, kLeastRegistered));
  for (std::int64_t b = 0; b < n[0]; ++b)
    if (!std::isfinite(sum(context, images.slice(b))))
      throw std::invalid_argument(fmt::format("registration: image {} has values that are not finite", b));
}

void median_image(Context& context, DeviceView<const float> images, DeviceView<float> to) {
  const Shape& n = images.shape();
  if (n.rank() != 3 || n[0] == 0 || !(to.shape() == Shape{n[1], n[2]}))
    throw std::invalid_argument(fmt::format("median_image: images {} and {} do not fit", n.text(), to.shape().text()));
  map(context, {to.size()}, MedianVoxel{images.data(), n[0], to.size(), to.data()}, 512);
}

}  // namespace echotrain::numerics
#endif
