#include "gadgets/numerics/inverse/encoding/masked_fourier.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/inverse/encoding/masked_columns_cpu.h"
#include "gadgets/numerics/inverse/encoding/masked_fourier_ops.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kLongest = 4096;  // points along an axis
// Bytes of grids worked on at a time: enough to fill the machine, and on the CPU few enough to stay near the cores.
constexpr std::int64_t kWorkBytes = 16ll << 20, kWorkBytesCuda = 256ll << 20;

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("masked fourier: " + problem);
}

Shape batched(std::int64_t batch, const Shape& item) {
  Shape shape{batch};
  for (const auto e : item) shape.push_back(e);
  return shape;
}

/// The number of items of an array [batch, item...] or [item...].
std::int64_t items_of(const Shape& shape, const Shape& item) {
  if (shape == item) return 1;
  const std::int64_t batch = shape.rank() > 0 ? shape[0] : 0;
  require(shape.rank() == item.rank() + 1 && shape == batched(batch, item),
          fmt::format("expected [batch, ...] of {}, got {}", item.text(), shape.text()));
  return batch;
}

/// Calls work(first, items) for parts of a batch of grids.
template <class Work>
void for_parts(const Context& context, std::int64_t batch, std::int64_t points, const Work& work) {
  const std::int64_t bytes = context.cuda() ? kWorkBytesCuda : kWorkBytes;
  const std::int64_t chunk = std::clamp<std::int64_t>(bytes / (points * static_cast<std::int64_t>(sizeof(cfloat))), 1,
                                                      std::max<std::int64_t>(1, batch));
  for (std::int64_t first = 0; first < batch; first += chunk) work(first, std::min(chunk, batch - first));
}

/// The mask on the transform's grid, in FFT order, times `scale`: [z, y, x], or [z, y] where x is not transformed.
std::vector<float> on_grid(const MaskedGrid& g, HostView<const float> mask, float scale) {
  const std::int64_t nx = g.columns ? 1 : g.padded[2];
  std::vector<float> grid(static_cast<std::size_t>(g.padded[0] * g.padded[1] * nx));
  const auto fits = [&](std::int64_t i, std::size_t a) { return MaskedGrid::fits(i, g.encoded[a], g.padded[a]); };
  const auto at = [&](std::int64_t i, std::size_t a) { return MaskedGrid::wrapped(i, g.encoded[a], g.padded[a]); };
  for (std::int64_t z = 0; z < g.encoded[0]; ++z)
    for (std::int64_t y = 0; y < g.encoded[1]; ++y) {
      if (!fits(z, 0) || !fits(y, 1)) continue;
      const std::int64_t line = z * g.encoded[1] + y;
      float* row = grid.data() + (at(z, 0) * g.padded[1] + at(y, 1)) * nx;
      if (g.columns) {
        *row = scale * mask[line];
        continue;
      }
      for (std::int64_t x = 0; x < g.encoded[2]; ++x)
        if (fits(x, 2)) row[at(x, 2)] = scale * (g.lines ? mask[line] : mask[line * g.encoded[2] + x]);
    }
  return grid;
}

/// Host memory for making a normal operator, apart from arrays of the context: the mask on two grids and, where the
/// image is a part of the transform, a spectrum and the circulant.
std::uint64_t work_bytes(const MaskedGrid& g) {
  const auto points = static_cast<std::uint64_t>(g.points()), voxels = static_cast<std::uint64_t>(g.voxels());
  const std::uint64_t grids = 2 * points * sizeof(float);
  return g.image == g.padded ? grids : grids + points * sizeof(cfloat) + voxels * (sizeof(cfloat) + sizeof(float));
}

/// True if the transforms along x cancel, because lines are acquired in all of their length.
bool cancels_x(const MaskedGrid& g) { return g.lines && g.encoded[2] >= g.padded[2]; }

int transformed_axes(const Extents& padded) { return padded[0] == 1 ? 2 : 3; }

/// F^H W F: pad, transform, multiply, transform back, cut.
class MaskedNormal final : public NormalOperator {
 public:
  MaskedNormal(Context& context, HostView<const float> mask, MaskedGrid grid, const Shape& image)
      : grid_(grid), image_(image), backend_(context.backend()) {
    grid_.columns = cancels_x(grid) && ECHOTRAIN_DISPATCH(context, transforms_columns());
    if (grid_.columns) grid_.padded[2] = grid_.image[2];
    MemoryShare(context.account()).grow_to(work_bytes(grid));  // makes room for it
    const std::vector<float> factors = on_grid(grid_, mask, 1 / static_cast<float>(transformed()));
    factors_ = context.upload<float>({factors.data(), {static_cast<std::int64_t>(factors.size())}});
    const std::vector<float> points = on_grid(grid, mask, 1.0f);
    double sum = 0;
    for (const float value : points) {
      sum += static_cast<double>(value);
      largest_ = std::max(largest_, static_cast<double>(value));
    }
    diagonal_ = sum / static_cast<double>(points.size());
    find_circulant(context, grid.padded, points);
    context.synchronize();
  }

  const Shape& image() const override { return image_; }
  Backend backend() const override { return backend_; }
  std::uint64_t bytes() const override {
    return static_cast<std::uint64_t>(factors_.size() + circulant_.size()) * sizeof(float);
  }
  double largest() const override { return largest_; }
  double diagonal() const override { return diagonal_; }
  DeviceView<const float> circulant() const override { return circulant_.cview(); }

  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override {
    require(context.backend() == backend_, "the operator was made for another backend");
    const std::int64_t batch = items_of(x.shape(), image_), voxels = grid_.voxels();
    require(y.shape() == x.shape(), fmt::format("{} is not {}", y.shape().text(), x.shape().text()));
    for_parts(context, batch, grid_.points(), [&](std::int64_t first, std::int64_t items) {
      around(context, {.batch = items}, x.data() + first * voxels, false, y.data() + first * voxels);
    });
  }

  void apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                   DeviceView<cfloat> y) const override {
    require(context.backend() == backend_, "the operator was made for another backend");
    require(maps.shape().rank() == image_.rank() + 1 && maps.shape()[0] >= 1 &&
                maps.shape() == batched(maps.shape()[0], image_),
            fmt::format("expected coil maps of [coil, ...] of {}, got {}", image_.text(), maps.shape().text()));
    require(x.shape() == image_ && y.shape() == image_,
            fmt::format("expected images of {}, got {} and {}", image_.text(), x.shape().text(), y.shape().text()));
    if (grid_.columns && grid_.padded[0] == 1) {
      context.check_stop();
      cpu::masked_columns(context, grid_, factors_.data(), {maps.shape()[0], maps.data()}, x.data(), y.data());
      return;
    }
    for_parts(context, maps.shape()[0], grid_.points(), [&](std::int64_t first, std::int64_t items) {
      around(context, {.batch = items, .maps = maps.data() + first * grid_.voxels()}, x.data(), first > 0, y.data());
    });
  }

  std::shared_ptr<const NormalOperator> copy(Context& context) const override {
    require(context.backend() == backend_, "the operator was made for another backend");
    return std::shared_ptr<const MaskedNormal>(new MaskedNormal(*this, context));
  }

 private:
  MaskedNormal(const MaskedNormal& other, Context& context)
      : grid_(other.grid_),
        image_(other.image_),
        backend_(other.backend_),
        largest_(other.largest_),
        diagonal_(other.diagonal_) {
    factors_ = context.allocate<float>(other.factors_.shape());
    circulant_ = context.allocate<float>(other.circulant_.shape());
    context.copy<float>(other.factors_.cview(), factors_.view());
    context.copy<float>(other.circulant_.cview(), circulant_.view());
    context.synchronize();
  }

  /// The points of a transform: x is separate where it is not transformed.
  std::int64_t transformed() const { return grid_.points() / (grid_.columns ? grid_.padded[2] : 1); }

  void around(Context& context, const GridImages& images, const cfloat* x, bool add, cfloat* y) const {
    const Extents& p = grid_.padded;
    const std::int64_t items = images.batch * (grid_.columns ? p[2] : 1);
    Array<cfloat> grid = grid_.columns ? context.allocate<cfloat>({items, p[0], p[1]})
                         : p[0] == 1   ? context.allocate<cfloat>({items, p[1], p[2]})
                                       : context.allocate<cfloat>({items, p[0], p[1], p[2]});
    const int dims = transformed_axes(p) - (grid_.columns ? 1 : 0);
    ECHOTRAIN_DISPATCH(context, images_to_grid(context, grid_, images, x, grid.data()));
    fft(context, grid.view(), dims, Direction::forward);
    ECHOTRAIN_DISPATCH(context, scale_grid(context, factors_.data(), items, transformed(), grid.data()));
    fft(context, grid.view(), dims, Direction::inverse);
    ECHOTRAIN_DISPATCH(context, images_from_grid(context, grid_, images, grid.data(), 1.0f, add, y));
  }

  /// T. Chan's circulant (SISC 9, 1988) of the Toeplitz matrix q(r - r'), where q is the mask's inverse transform: lags
  /// j and j - n weighed by (n - j) / n and j / n. Where the image is all of the transform, the circulant is the mask
  /// itself.
  void find_circulant(Context& context, const Extents& p, const std::vector<float>& points) {
    const Extents& n = grid_.image;
    if (n == p) {
      circulant_ = context.upload<float>({points.data(), image_});
      return;
    }
    std::vector<cfloat> spectrum(points.begin(), points.end());
    Array<cfloat> spread = context.upload<cfloat>({spectrum.data(), {p[0], p[1], p[2]}});
    fft(context, spread.view(), transformed_axes(p), Direction::inverse);
    const HostArray<cfloat> q = context.download<cfloat>(spread.cview());
    std::vector<cfloat> column(static_cast<std::size_t>(volume(n)));
    const auto sources = [&](std::int64_t j, std::size_t a) {
      const float share = static_cast<float>(j) / static_cast<float>(n[a]);
      return std::array<std::pair<std::int64_t, float>, 2>{{{j, 1 - share}, {j + p[a] - n[a], share}}};
    };
    context.threads().parallel_for(n[0] * n[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t x = 0; x < n[2]; ++x) {
          cfloat sum = 0;
          for (const auto& [sz, wz] : sources(row / n[1], 0))
            for (const auto& [sy, wy] : sources(row % n[1], 1))
              for (const auto& [sx, wx] : sources(x, 2)) sum += wz * wy * wx * q.data()[(sz * p[1] + sy) * p[2] + sx];
          column[static_cast<std::size_t>(row * n[2] + x)] = sum / static_cast<float>(volume(p));
        }
    });
    Array<cfloat> there = context.upload<cfloat>({column.data(), image_});
    fft(context, there.view(), static_cast<int>(image_.rank()), Direction::forward);
    const HostArray<cfloat> eigenvalues = context.download<cfloat>(there.cview());
    std::vector<float> real;
    real.reserve(static_cast<std::size_t>(eigenvalues.size()));
    for (std::int64_t i = 0; i < eigenvalues.size(); ++i) real.push_back(eigenvalues.data()[i].real());
    circulant_ = context.upload<float>({real.data(), image_});
  }

  MaskedGrid grid_;
  Shape image_;
  Backend backend_;
  double largest_ = 0, diagonal_ = 0;
  Array<float> factors_;    // the mask in FFT order over the number of points, as the grid is laid out
  Array<float> circulant_;  // [image...]
};

}  // namespace

std::shared_ptr<const MaskedFourier> MaskedFourier::make(Context& context, HostView<const float> mask,
                                                         const Shape& encoded, const Shape& padded,
                                                         const Shape& image) {
  const std::size_t dims = image.rank();
  require(dims == 2 || dims == 3, "an image has two or three axes, not " + image.text());
  require(encoded.rank() == dims && padded.rank() == dims,
          fmt::format("{}, {} and {} do not have the same axes", encoded.text(), padded.text(), image.text()));
  Shape lines;
  for (std::size_t a = 0; a < dims; ++a) {
    for (const Shape& shape : {encoded, padded, image})
      require(shape[a] >= 1 && shape[a] <= kLongest, "an axis cannot be as long as in " + shape.text());
    require(image[a] <= padded[a], fmt::format("{} is larger than {}", image.text(), padded.text()));
    if (a + 1 < dims) lines.push_back(encoded[a]);
  }
  require(mask.shape() == encoded || mask.shape() == lines,
          fmt::format("expected a mask of {} or {}, got {}", lines.text(), encoded.text(), mask.shape().text()));
  require(std::all_of(mask.data(), mask.data() + mask.size(), [](float w) { return w >= 0 && w <= 1; }),
          "weights are from 0 to 1");
  auto impl = std::make_unique<Impl>();
  impl->encoded = encoded;
  impl->padded = padded;
  impl->image = image;
  impl->backend = context.backend();
  impl->grid.encoded = last_axes(encoded, static_cast<int>(dims));
  impl->grid.padded = last_axes(padded, static_cast<int>(dims));
  impl->grid.image = last_axes(image, static_cast<int>(dims));
  impl->grid.lines = mask.shape() == lines;
  impl->mask = context.upload<float>(mask);
  impl->normal = std::make_shared<const MaskedNormal>(context, mask, impl->grid, image);
  return std::shared_ptr<const MaskedFourier>(new MaskedFourier(std::move(impl)));
}
MaskedFourier::MaskedFourier(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
MaskedFourier::~MaskedFourier() = default;

const Shape& MaskedFourier::image() const { return impl_->image; }
Shape MaskedFourier::samples(std::int64_t batch) const { return batched(batch, impl_->encoded); }
std::shared_ptr<const NormalOperator> MaskedFourier::normal() const { return impl_->normal; }
std::uint64_t MaskedFourier::bytes() const {
  return static_cast<std::uint64_t>(impl_->mask.size()) * sizeof(float) + impl_->normal->bytes();
}

void MaskedFourier::forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> d) const {
  require(context.backend() == impl_->backend, "the operator was made for another backend");
  const MaskedGrid& g = impl_->grid;
  const std::int64_t batch = items_of(x.shape(), impl_->image);
  require(items_of(d.shape(), impl_->encoded) == batch,
          fmt::format("{} is not for {} images", d.shape().text(), batch));
  const auto scale = static_cast<float>(static_cast<double>(impl_->encoded.size()) / static_cast<double>(g.points()));
  for_parts(context, batch, g.points(), [&](std::int64_t first, std::int64_t items) {
    Array<cfloat> grid = context.allocate<cfloat>({items, g.padded[0], g.padded[1], g.padded[2]});
    const cfloat* from = x.data() + first * g.voxels();
    cfloat* to = d.data() + first * impl_->encoded.size();
    ECHOTRAIN_DISPATCH(context, images_to_grid(context, g, {.batch = items}, from, grid.data()));
    fft(context, grid.view(), transformed_axes(g.padded), Direction::forward);
    ECHOTRAIN_DISPATCH(context, samples_from_grid(context, g, impl_->mask.data(), items, grid.data(), scale, to));
  });
}

void MaskedFourier::adjoint(Context& context, DeviceView<const cfloat> d, DeviceView<cfloat> x) const {
  require(context.backend() == impl_->backend, "the operator was made for another backend");
  const MaskedGrid& g = impl_->grid;
  const std::int64_t batch = items_of(x.shape(), impl_->image);
  require(items_of(d.shape(), impl_->encoded) == batch,
          fmt::format("{} is not for {} images", d.shape().text(), batch));
  const float scale = 1 / static_cast<float>(impl_->encoded.size());
  for_parts(context, batch, g.points(), [&](std::int64_t first, std::int64_t items) {
    Array<cfloat> grid = context.allocate<cfloat>({items, g.padded[0], g.padded[1], g.padded[2]});
    const cfloat* from = d.data() + first * impl_->encoded.size();
    cfloat* to = x.data() + first * g.voxels();
    ECHOTRAIN_DISPATCH(context, samples_to_grid(context, g, impl_->mask.data(), items, from, grid.data()));
    fft(context, grid.view(), transformed_axes(g.padded), Direction::inverse);
    ECHOTRAIN_DISPATCH(context, images_from_grid(context, g, {.batch = items}, grid.data(), scale, false, to));
  });
}

}  // namespace echotrain::numerics
