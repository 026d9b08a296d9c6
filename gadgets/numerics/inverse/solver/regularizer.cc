#include "gadgets/numerics/inverse/solver/regularizer.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/solver/regularizer_ops.h"

namespace echotrain::numerics {
namespace {

void require_for_regularizer(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("regularizer: " + problem);
}

void check_image(const Shape& image) {
  constexpr std::int64_t kMostVoxels = INT32_MAX;  // 16 GiB: beyond that no solver's arrays fit
  require_for_regularizer(image.rank() >= 1 && image.rank() <= 3,
                          "an image has one to three axes, not " + image.text());
  std::int64_t voxels = 1;
  for (const auto e : image)
    require_for_regularizer(e >= 1 && (voxels *= e) <= kMostVoxels, "no image can be " + image.text());
}

/// The number of items of x and y, both [batch, image...].
std::int64_t check_batch(const Shape& image, DeviceView<const cfloat> x, DeviceView<cfloat> y) {
  Shape batched{x.shape().rank() > 0 ? x.shape()[0] : 0};
  for (const auto e : image) batched.push_back(e);
  require_for_regularizer(
      x.shape() == batched && y.shape() == batched,
      fmt::format("expected [batch, ...] of {}, got {} and {}", image.text(), x.shape().text(), y.shape().text()));
  return batched[0];
}

void check_one(const Shape& image, DeviceView<float> values) {
  require_for_regularizer(values.shape() == image, values.shape().text() + " is not " + image.text());
}

/// Copies values that were computed on the host to the context's device.
void fill(Context& context, const std::vector<float>& values, DeviceView<float> to) {
  context.copy<float>(HostView<const float>(values.data(), to.shape()), to);
}

template <class T>
Array<T> copied(Context& context, const Array<T>& from) {
  if (!from) return {};
  Array<T> to = context.allocate<T>(from.shape());
  context.copy<T>(from.view(), to.view());
  return to;
}

class Identity final : public Regularizer {
 public:
  explicit Identity(const Shape& image) : image_(image) {}
  const Shape& image() const override { return image_; }
  bool identity() const override { return true; }
  void add(Context& context, float scale, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override {
    if (check_batch(image_, x, y) == 0) return;
    add_identity(context, scale, x.data(), y.data(), x.size());
  }
  void diagonal(Context& context, DeviceView<float> diagonal) const override {
    check_one(image_, diagonal);
    fill(context, std::vector<float>(static_cast<std::size_t>(image_.size()), 1.0f), diagonal);
  }
  void symbol(Context& context, DeviceView<float> symbol) const override { diagonal(context, symbol); }
  std::shared_ptr<const Regularizer> copy(Context&) const override { return std::make_shared<Identity>(image_); }

 private:
  Shape image_;
};

class Differences final : public Regularizer {
 public:
  /// mean: for each axis, the mean of its edges' squared weights, including the factor.
  Differences(const Shape& image, const Stencil& stencil, const std::array<double, 3>& mean, Array<float> weights)
      : image_(image), stencil_(stencil), mean_(mean), weights_(std::move(weights)) {}
  const Shape& image() const override { return image_; }
  void add(Context& context, float scale, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override {
    const std::int64_t batch = check_batch(image_, x, y);
    if (batch == 0) return;
    add_stencil(context, stencil_, scale, x.data(), y.data(), batch);
  }
  void diagonal(Context& context, DeviceView<float> diagonal) const override {
    check_one(image_, diagonal);
    stencil_diagonal(context, stencil_, diagonal.data());
  }
  void symbol(Context& context, DeviceView<float> symbol) const override {
    check_one(image_, symbol);
    // Along an axis D^H D has 2 (n - 1) on its diagonal and -1 on n - 1 places beside it: its T. Chan circulant is the
    // periodic Laplacian, 4 sin^2(pi k / n), times (n - 1) / n.
    const Extents& n = stencil_.n;
    std::array<std::vector<double>, 3> along;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::int64_t k = 0; k < n[a]; ++k) {
        const double extent = static_cast<double>(n[a]),
                     sine = std::sin(std::numbers::pi * static_cast<double>(k) / extent);
        along[a].push_back(mean_[a] * 4 * sine * sine * (extent - 1) / extent);
      }
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(image_.size()));
    for (const double z : along[0])
      for (const double y : along[1])
        for (const double x : along[2]) values.push_back(static_cast<float>(z + y + x));
    fill(context, values, symbol);
  }
  std::shared_ptr<const Regularizer> copy(Context& context) const override {
    auto other = std::make_shared<Differences>(image_, stencil_, mean_, copied(context, weights_));
    for (const float*& weights : other->stencil_.weights)
      if (weights != nullptr) weights = other->weights_.data() + (weights - weights_.data());
    context.synchronize();
    return other;
  }

 private:
  Shape image_;
  Stencil stencil_;
  std::array<double, 3> mean_;
  Array<float> weights_;
};

Stencil stencil_for(const Shape& image) {
  Stencil stencil;
  stencil.n = last_axes(image, static_cast<int>(image.rank()));
  return stencil;
}

}  // namespace

std::shared_ptr<const Regularizer> tikhonov(const Shape& image) {
  check_image(image);
  return std::make_shared<Identity>(image);
}

std::shared_ptr<const Regularizer> smoothness(const Shape& image, const std::vector<double>& voxel_size) {
  check_image(image);
  require_for_regularizer(voxel_size.empty() || voxel_size.size() == image.rank(),
                          fmt::format("{} voxel sizes for an image of {}", voxel_size.size(), image.text()));
  Stencil stencil = stencil_for(image);
  std::array<double, 3> mean{};
  for (std::size_t a = 0; a < image.rank(); ++a) {
    const double size = voxel_size.empty() ? 1.0 : voxel_size[a], factor = 1 / (size * size);
    require_for_regularizer(size > 0 && std::isfinite(factor) && factor > 0,
                            fmt::format("a voxel cannot be {} long", size));
    const std::size_t axis = 3 - image.rank() + a;
    mean[axis] = factor;
    stencil.factor[axis] = static_cast<float>(factor);
  }
  return std::make_shared<Differences>(image, stencil, mean, Array<float>());
}

std::shared_ptr<const Regularizer> edge_stencil(Context& context, const Array<float>& weights) {
  const Shape& shape = weights.shape();
  require_for_regularizer(shape.rank() >= 2 && static_cast<std::size_t>(shape[0]) == shape.rank() - 1,
                          "edge weights are [axis, image...], not " + shape.text());
  Shape image;
  for (std::size_t a = 1; a < shape.rank(); ++a) image.push_back(shape[a]);
  check_image(image);
  Stencil stencil = stencil_for(image);
  const HostArray<float> host = context.download<float>(weights.view());
  std::array<double, 3> mean{};
  for (std::size_t a = 0; a < image.rank(); ++a) {
    const std::size_t axis = 3 - image.rank() + a;
    stencil.factor[axis] = 1;
    stencil.weights[axis] = weights.data() + static_cast<std::int64_t>(a) * image.size();
    const float* w = host.data() + static_cast<std::int64_t>(a) * image.size();
    std::int64_t step = 1;
    for (std::size_t inner = a + 1; inner < image.rank(); ++inner) step *= image[inner];
    std::vector<float> edges;
    for (std::int64_t i = 0; i < image.size(); ++i)
      if (i / step % image[a] + 1 < image[a]) {
        require_for_regularizer(std::isfinite(w[i]),
                                fmt::format("the weight of the edge after voxel {} along axis {} is not finite", i, a));
        edges.push_back(w[i]);
      }
    const auto count = static_cast<std::int64_t>(edges.size());
    mean[axis] = count > 0 ? on_host::power(context.threads(), HostView<const float>(edges.data(), {count})) /
                                 static_cast<double>(count)
                           : 0;
  }
  return std::make_shared<Differences>(image, stencil, mean, weights);
}

}  // namespace echotrain::numerics
