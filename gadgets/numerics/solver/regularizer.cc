#include "gadgets/numerics/solver/regularizer.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/reduce/reductions.h"
#include "gadgets/numerics/solver/regularizer_ops.h"

namespace echotrain::numerics {
namespace {

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("regularizer: " + problem);
}

void check_image(const Shape& image) {
  constexpr std::int64_t kMostVoxels = INT32_MAX;  // columns of matrices are 32 bits wide
  require(image.rank() >= 1 && image.rank() <= 3, "an image has one to three axes, not " + image.text());
  std::int64_t voxels = 1;
  for (const auto e : image) require(e >= 1 && (voxels *= e) <= kMostVoxels, "no image can be " + image.text());
}

/// Number of items of x and y, both [batch, image...].
std::int64_t check_batch(const Shape& image, View<const cfloat> x, View<cfloat> y) {
  Shape batched{x.shape().rank() > 0 ? x.shape()[0] : 0};
  for (const auto e : image) batched.push_back(e);
  require(x.shape() == batched && y.shape() == batched,
          fmt::format("expected [batch, ...] of {}, got {} and {}", image.text(), x.shape().text(), y.shape().text()));
  return batched[0];
}

void check_one(const Shape& image, View<float> values) {
  require(values.shape() == image, values.shape().text() + " is not " + image.text());
}

/// Puts values that are worked out on the host where the context computes.
void fill(Context& context, const std::vector<float>& values, View<float> to) {
  context.copy<float>({values.data(), to.shape()}, to);
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
  void add(Context& context, float scale, View<const cfloat> x, View<cfloat> y) const override {
    if (check_batch(image_, x, y) == 0) return;
    ECHOTRAIN_DISPATCH(context, add_identity(context, scale, x.data(), y.data(), x.size()));
  }
  void diagonal(Context& context, View<float> diagonal) const override {
    check_one(image_, diagonal);
    fill(context, std::vector<float>(static_cast<std::size_t>(image_.size()), 1.0f), diagonal);
  }
  void symbol(Context& context, View<float> symbol) const override { diagonal(context, symbol); }
  std::shared_ptr<const Regularizer> copy(Context&) const override { return std::make_shared<Identity>(image_); }

 private:
  Shape image_;
};

class Differences final : public Regularizer {
 public:
  /// mean: of the squared weights of each axis's edges, the factor included.
  Differences(const Shape& image, const Stencil& stencil, const std::array<double, 3>& mean, Array<float> weights)
      : image_(image), stencil_(stencil), mean_(mean), weights_(std::move(weights)) {}
  const Shape& image() const override { return image_; }
  void add(Context& context, float scale, View<const cfloat> x, View<cfloat> y) const override {
    const std::int64_t batch = check_batch(image_, x, y);
    if (batch == 0) return;
    ECHOTRAIN_DISPATCH(context, add_stencil(context, stencil_, scale, x.data(), y.data(), batch));
  }
  void diagonal(Context& context, View<float> diagonal) const override {
    check_one(image_, diagonal);
    ECHOTRAIN_DISPATCH(context, stencil_diagonal(context, stencil_, diagonal.data()));
  }
  void symbol(Context& context, View<float> symbol) const override {
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
  require(voxel_size.empty() || voxel_size.size() == image.rank(),
          fmt::format("{} voxel sizes for an image of {}", voxel_size.size(), image.text()));
  Stencil stencil = stencil_for(image);
  std::array<double, 3> mean{};
  for (std::size_t a = 0; a < image.rank(); ++a) {
    const double size = voxel_size.empty() ? 1.0 : voxel_size[a], factor = 1 / (size * size);
    require(size > 0 && std::isfinite(factor) && factor > 0, fmt::format("a voxel cannot be {} long", size));
    const std::size_t axis = 3 - image.rank() + a;
    mean[axis] = factor;
    stencil.factor[axis] = static_cast<float>(factor);
  }
  return std::make_shared<Differences>(image, stencil, mean, Array<float>());
}

std::shared_ptr<const Regularizer> edge_stencil(Context& context, const Array<float>& weights) {
  const Shape& shape = weights.shape();
  require(shape.rank() >= 2 && static_cast<std::size_t>(shape[0]) == shape.rank() - 1,
          "edge weights are [axis, image...], not " + shape.text());
  Shape image;
  for (std::size_t a = 1; a < shape.rank(); ++a) image.push_back(shape[a]);
  check_image(image);
  Stencil stencil = stencil_for(image);
  const Array<float> host = context.download<float>(weights.view());
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
        require(std::isfinite(w[i]),
                fmt::format("the weight of the edge after voxel {} along axis {} is not finite", i, a));
        edges.push_back(w[i]);
      }
    const auto count = static_cast<std::int64_t>(edges.size());
    mean[axis] = count > 0 ? on_host::power(context.threads(), View<const float>(edges.data(), {count})) /
                                 static_cast<double>(count)
                           : 0;
  }
  return std::make_shared<Differences>(image, stencil, mean, weights);
}

CsrMatrix edge_stencil_matrix(View<const float> weights) {
  const Shape& shape = weights.shape();
  require(shape.rank() >= 2 && static_cast<std::size_t>(shape[0]) == shape.rank() - 1,
          "edge weights are [axis, image...], not " + shape.text());
  CsrMatrix m;
  const std::int64_t voxels = shape.size() / shape[0];
  m.columns = voxels;
  m.row_starts.push_back(0);
  for (std::size_t a = 1; a < shape.rank(); ++a) {
    std::int64_t step = 1;
    for (std::size_t inner = a + 1; inner < shape.rank(); ++inner) step *= shape[inner];
    for (std::int64_t i = 0; i < voxels; ++i) {
      if (i / step % shape[a] + 1 >= shape[a]) continue;
      const float w = weights[(static_cast<std::int64_t>(a) - 1) * voxels + i];
      m.column.insert(m.column.end(), {i, i + step});
      m.values.insert(m.values.end(), {cfloat(-w), cfloat(w)});
      m.row_starts.push_back(static_cast<std::int64_t>(m.column.size()));
    }
  }
  m.rows = static_cast<std::int64_t>(m.row_starts.size()) - 1;
  return m;
}

namespace {

class Sparse final : public Regularizer {
 public:
  Sparse(Context& context, const Shape& image, const CsrMatrix& w) : image_(image), rows_(w.rows) {
    forward_.set(context, w.row_starts, w.column, w.values);
    // W^H by rows: the values of a column of W in the order of its rows.
    const auto columns = static_cast<std::size_t>(w.columns);
    std::vector<std::int64_t> starts(columns + 1, 0), column(w.column.size());
    std::vector<cfloat> values(w.values.size());
    for (const auto c : w.column) ++starts[static_cast<std::size_t>(c) + 1];
    for (std::size_t c = 0; c < columns; ++c) starts[c + 1] += starts[c];
    std::vector<std::int64_t> next(starts.begin(), starts.end() - 1);
    for (std::int64_t row = 0; row < w.rows; ++row)
      for (auto k = w.row_starts[static_cast<std::size_t>(row)]; k < w.row_starts[static_cast<std::size_t>(row) + 1];
           ++k) {
        const auto from = static_cast<std::size_t>(k), c = static_cast<std::size_t>(w.column[from]);
        const auto to = static_cast<std::size_t>(next[c]++);
        column[to] = row;
        values[to] = std::conj(w.values[from]);
      }
    transposed_.set(context, starts, column, values);
    const View<const cfloat> all(w.values.data(), {static_cast<std::int64_t>(w.values.size())});
    mean_diagonal_ = static_cast<float>(on_host::power(context.threads(), all) / static_cast<double>(w.columns));
  }
  const Shape& image() const override { return image_; }
  void add(Context& context, float scale, View<const cfloat> x, View<cfloat> y) const override {
    const std::int64_t batch = check_batch(image_, x, y), voxels = image_.size();
    if (batch == 0 || rows_ == 0) return;
    Array<cfloat> product = context.allocate<cfloat>({rows_});
    const CsrView w = forward_.view(rows_), wh = transposed_.view(voxels);
    for (std::int64_t b = 0; b < batch; ++b) {
      ECHOTRAIN_DISPATCH(context, multiply_sparse(context, w, 1.0f, false, x.data() + b * voxels, product.data()));
      ECHOTRAIN_DISPATCH(context, multiply_sparse(context, wh, scale, true, product.data(), y.data() + b * voxels));
    }
  }
  void diagonal(Context& context, View<float> diagonal) const override {
    check_one(image_, diagonal);
    ECHOTRAIN_DISPATCH(context, sparse_diagonal(context, transposed_.view(image_.size()), diagonal.data()));
  }
  void symbol(Context& context, View<float> symbol) const override {
    check_one(image_, symbol);
    fill(context, std::vector<float>(static_cast<std::size_t>(image_.size()), mean_diagonal_), symbol);
  }
  std::shared_ptr<const Regularizer> copy(Context& context) const override {
    auto other = std::make_shared<Sparse>(*this);
    for (Stored* stored : {&other->forward_, &other->transposed_}) {
      stored->row_starts = copied(context, stored->row_starts);
      stored->column = copied(context, stored->column);
      stored->values = copied(context, stored->values);
    }
    context.synchronize();
    return other;
  }

 private:
  struct Stored {
    Array<std::int64_t> row_starts;
    Array<std::int32_t> column;
    Array<cfloat> values;
    void set(Context& context, const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& wide,
             const std::vector<cfloat>& v) {
      const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
      const auto n = static_cast<std::int64_t>(v.size());
      row_starts = context.upload<std::int64_t>({starts.data(), {static_cast<std::int64_t>(starts.size())}});
      column = context.upload<std::int32_t>({narrow.data(), {n}});
      values = context.upload<cfloat>({v.data(), {n}});
    }
    CsrView view(std::int64_t rows) const { return {rows, row_starts.data(), column.data(), values.data()}; }
  };

  Shape image_;
  std::int64_t rows_;
  Stored forward_, transposed_;
  float mean_diagonal_ = 0;
};

}  // namespace

std::shared_ptr<const Regularizer> sparse(Context& context, const Shape& image, const CsrMatrix& w) {
  check_image(image);
  require(w.columns == image.size(),
          fmt::format("W has {} columns, an image of {} has {} voxels", w.columns, image.text(), image.size()));
  require(w.rows >= 0 && w.rows <= INT32_MAX, fmt::format("W cannot have {} rows", w.rows));
  require(w.row_starts.size() == static_cast<std::size_t>(w.rows) + 1,
          fmt::format("W has {} row starts for {} rows; there must be one more", w.row_starts.size(), w.rows));
  require(w.column.size() == w.values.size(),
          fmt::format("W has {} columns for {} values", w.column.size(), w.values.size()));
  require(w.row_starts.front() == 0 && w.row_starts.back() == static_cast<std::int64_t>(w.values.size()),
          fmt::format("W's row starts run from {} to {}, not from 0 to {}", w.row_starts.front(), w.row_starts.back(),
                      w.values.size()));
  for (std::size_t row = 0; row + 1 < w.row_starts.size(); ++row)
    require(w.row_starts[row] <= w.row_starts[row + 1], fmt::format("row {} of W ends before it starts", row));
  for (std::size_t row = 0; row + 1 < w.row_starts.size(); ++row)
    for (auto k = w.row_starts[row]; k < w.row_starts[row + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      require(w.column[at] >= 0 && w.column[at] < w.columns,
              fmt::format("row {} of W has a value in column {} of {}", row, w.column[at], w.columns));
      require(std::isfinite(w.values[at].real()) && std::isfinite(w.values[at].imag()),
              fmt::format("row {} of W has a value that is not finite", row));
    }
  return std::make_shared<Sparse>(context, image, w);
}

}  // namespace echotrain::numerics
