#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kLanes = 16;              // voxels whose eigenvectors are computed at once
constexpr std::int64_t kTileX = 32, kTileY = 8;  // voxels whose covariances are kept at once
constexpr std::int64_t kVoxelGrain = 16 * 1024;

/// re, im = scale * from, with 0 for values that are not finite.
ECHOTRAIN_CLONES void take_apart(const float* from, float scale, std::int64_t n, float* re, float* im) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float r = from[2 * i], m = from[2 * i + 1];
    const bool finite = r - r == 0 && m - m == 0;
    re[i] = finite ? r * scale : 0.0f;
    im[i] = finite ? m * scale : 0.0f;
  }
}

/// to = a conj(b).
ECHOTRAIN_CLONES void multiply(const float* a_re, const float* a_im, const float* b_re, const float* b_im,
                               std::int64_t n, float* to_re, float* to_im) {
  for (std::int64_t i = 0; i < n; ++i) {
    to_re[i] = a_re[i] * b_re[i] + a_im[i] * b_im[i];
    to_im[i] = a_im[i] * b_re[i] - a_re[i] * b_im[i];
  }
}

/// to[i] = sum over d < count of from[i + d * step].
ECHOTRAIN_CLONES void add_up(const float* from, std::int64_t step, std::int64_t count, std::int64_t n, float* to) {
  std::copy_n(from, n, to);
  for (std::int64_t d = 1; d < count; ++d)
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[d * step + i];
}

/// Matrices, vectors and results of kLanes voxels. Each element holds all real parts, then all imaginary parts.
struct Lanes {
  const float* matrix;  ///< [triangle_size(coils), 2, width], of which the first kLanes are used
  std::int64_t width;
  std::int64_t coils;
  int iterations;  ///< upper bound: fewer where vectors do not change any more
  float crop;      ///< voxels with smaller eigenvalues need no vector; 0: all need one
  const cfloat* reference;
  float* x;           ///< [coils, 2, kLanes], the start; afterwards the eigenvectors of unit length, phases chosen
  float* y;           ///< working space like x
  float* eigenvalue;  ///< [kLanes]
  float* trace;       ///< [kLanes]
};

/// The number of floats that a vector register holds, as a type.
template <int kVectorBytes>
using Floats [[gnu::vector_size(kVectorBytes), gnu::may_alias]] = float;

/// The work on as many voxels as a vector register holds. (Results are passed by reference, as such types have no
/// stable calling convention by value.)
template <int kVectorBytes>
struct Together {
  static constexpr std::int64_t kWidth = kVectorBytes / sizeof(float);
  /// Floats at any address, aligned or not. (Clang keeps the alignment of a class's name for a type, not of an alias
  /// template.)
  using InMemory [[gnu::vector_size(kVectorBytes), gnu::may_alias, gnu::aligned(4)]] = float;
  static_assert(kLanes % kWidth == 0 && sizeof(Floats<kVectorBytes>) == kVectorBytes &&
                sizeof(InMemory) == kVectorBytes);

  static ECHOTRAIN_INLINE const InMemory& load(const float* from) { return *reinterpret_cast<const InMemory*>(from); }
  static ECHOTRAIN_INLINE void store(float* to, const InMemory& v) { *reinterpret_cast<InMemory*>(to) = v; }

  /// y = matrix x * factor.
  static ECHOTRAIN_INLINE void apply(const Lanes& w, const Floats<kVectorBytes>& factor) {
    for (std::int64_t a = 0; a < w.coils; ++a) {
      Floats<kVectorBytes> re{}, im{};
      const float* row = w.matrix + triangle_index(a, 0) * 2 * w.width;
      for (std::int64_t b = 0; b <= a; ++b) {
        const Floats<kVectorBytes> mr = load(row + b * 2 * w.width), mi = load(row + b * 2 * w.width + w.width);
        const Floats<kVectorBytes> xr = load(w.x + b * 2 * kLanes), xi = load(w.x + b * 2 * kLanes + kLanes);
        re += mr * xr - mi * xi;
        im += mr * xi + mi * xr;
      }
      for (std::int64_t b = a + 1; b < w.coils; ++b) {
        const float* element = w.matrix + triangle_index(b, a) * 2 * w.width;
        const Floats<kVectorBytes> mr = load(element), mi = load(element + w.width);
        const Floats<kVectorBytes> xr = load(w.x + b * 2 * kLanes), xi = load(w.x + b * 2 * kLanes + kLanes);
        re += mr * xr + mi * xi;
        im += mr * xi - mi * xr;
      }
      store(w.y + a * 2 * kLanes, re * factor);
      store(w.y + a * 2 * kLanes + kLanes, im * factor);
    }
  }

  /// sum = the vectors' squared lengths.
  static ECHOTRAIN_INLINE void power(const float* v, std::int64_t coils, Floats<kVectorBytes>& sum) {
    sum = Floats<kVectorBytes>{};
    for (std::int64_t c = 0; c < 2 * coils; ++c) {
      const Floats<kVectorBytes> part = load(v + c * kLanes);
      sum += part * part;
    }
  }

  /// out = 1 / sqrt(v) where v is positive, else 0.
  static ECHOTRAIN_INLINE void inverse_root(const Floats<kVectorBytes>& v, Floats<kVectorBytes>& out) {
    for (std::int64_t i = 0; i < kWidth; ++i) out[i] = v[i] > 0 ? 1 / std::sqrt(v[i]) : 0.0f;
  }

  /// True if |y - l x| < kSame l in all voxels, where x is of unit length, and l = Re(x^H y).
  static ECHOTRAIN_INLINE bool settled(const Lanes& w) {
    constexpr float kSame = 1e-6f;  // rounding leaves a third of it
    Floats<kVectorBytes> value{}, rest{};
    for (std::int64_t c = 0; c < 2 * w.coils; ++c) value += load(w.x + c * kLanes) * load(w.y + c * kLanes);
    for (std::int64_t c = 0; c < 2 * w.coils; ++c) {
      const Floats<kVectorBytes> off = load(w.y + c * kLanes) - value * load(w.x + c * kLanes);
      rest += off * off;
    }
    bool all = true;
    for (std::int64_t i = 0; i < kWidth; ++i) all = all && !(rest[i] > kSame * kSame * value[i] * value[i]);
    return all;
  }

  /// True if all eigenvalues are below `crop` in all voxels, as none exceeds the root of the sum of squares of all
  /// elements.
  static ECHOTRAIN_INLINE bool all_cropped(const Lanes& w) {
    constexpr float kRounding = 1e-3f;
    Floats<kVectorBytes> sum{};
    for (std::int64_t a = 0; a < w.coils; ++a)
      for (std::int64_t b = 0; b <= a; ++b) {
        const float* element = w.matrix + triangle_index(a, b) * 2 * w.width;
        const Floats<kVectorBytes> re = load(element), im = load(element + w.width);
        sum += (re * re + im * im) * (a == b ? 1.0f : 2.0f);
      }
    bool all = true;
    for (std::int64_t i = 0; i < kWidth; ++i) all = all && sum[i] < w.crop * w.crop * (1 - kRounding);
    return all;
  }

  static ECHOTRAIN_INLINE void find(const Lanes& w) {
    const Floats<kVectorBytes> zero{};
    Floats<kVectorBytes> trace{};
    for (std::int64_t a = 0; a < w.coils; ++a) trace += load(w.matrix + triangle_index(a, a) * 2 * w.width);
    store(w.trace, trace);
    if (w.crop > 0 && all_cropped(w)) {
      store(w.eigenvalue, zero);
      return;
    }
    const Floats<kVectorBytes> factor = trace > zero ? 1.0f / trace : zero;
    // A step shrinks the dominant part by a factor of the number of coils at most, so not every step has to scale it.
    constexpr int kUnscaled = 4;
    Floats<kVectorBytes> norm{}, root{};
    for (int i = 0; i < w.iterations; ++i) {
      apply(w, factor);
      const bool last = i + 1 == w.iterations || (i > 0 && i % kUnscaled == 0 && settled(w));
      Floats<kVectorBytes> scale = zero + 1.0f;
      if (last || i % kUnscaled == kUnscaled - 1 || i + 2 == w.iterations) {
        power(w.y, w.coils, norm);
        inverse_root(norm, root);
        scale = root;
      }
      for (std::int64_t c = 0; c < 2 * w.coils; ++c) store(w.x + c * kLanes, load(w.y + c * kLanes) * scale);
      if (last) break;
    }
    // |M x|, as x was of unit length before the last step.
    store(w.eigenvalue, norm * root * trace);

    Floats<kVectorBytes> re{}, im{};
    for (std::int64_t c = 0; c < w.coils; ++c) {
      const Floats<kVectorBytes> xr = load(w.x + c * 2 * kLanes), xi = load(w.x + c * 2 * kLanes + kLanes);
      const float ur = w.reference[c].real(), ui = w.reference[c].imag();
      re += ur * xr + ui * xi;
      im += ur * xi - ui * xr;
    }
    Floats<kVectorBytes> scale{};
    inverse_root(re * re + im * im, scale);
    const Floats<kVectorBytes> turn_re = scale > zero ? re * scale : zero + 1.0f, turn_im = -im * scale;
    for (std::int64_t c = 0; c < w.coils; ++c) {
      const Floats<kVectorBytes> xr = load(w.x + c * 2 * kLanes), xi = load(w.x + c * 2 * kLanes + kLanes);
      store(w.x + c * 2 * kLanes, xr * turn_re - xi * turn_im);
      store(w.x + c * 2 * kLanes + kLanes, xr * turn_im + xi * turn_re);
    }
  }
};

template <int kVectorBytes>
ECHOTRAIN_INLINE void find_in_parts(Lanes w) {
  constexpr std::int64_t kWidth = Together<kVectorBytes>::kWidth;
  for (std::int64_t part = 0; part < kLanes; part += kWidth) {
    Together<kVectorBytes>::find(w);
    w.matrix += kWidth;
    w.x += kWidth;
    w.y += kWidth;
    w.eigenvalue += kWidth;
    w.trace += kWidth;
  }
}

ECHOTRAIN_VECTOR_CLONES(void find_eigenvectors(const Lanes& w), find_in_parts<kVectorBytes>(w))

/// maps[c * stride + i] = x for n voxels, 0 for those that are not kept.
void put(const float* x, std::int64_t coils, std::int64_t n, const bool* keep, cfloat* maps, std::int64_t stride) {
  for (std::int64_t c = 0; c < coils; ++c)
    for (std::int64_t i = 0; i < n; ++i)
      maps[c * stride + i] = keep[i] ? cfloat(x[c * 2 * kLanes + i], x[c * 2 * kLanes + kLanes + i]) : cfloat{};
}

/// A power of two that makes the largest finite part 1..2; 1 for images of zeros.
float unit_scale(ThreadPool& threads, const cfloat* images, std::int64_t count) {
  const Extremes found =
      on_host::extremes(threads, HostView<const float>(reinterpret_cast<const float*>(images), {2 * count}));
  const float most = std::max(-found.least, found.most);
  // The inverse of such a power of two is a float, too.
  return most > 0 ? std::ldexp(1.0f, std::clamp(-std::ilogb(most), -126, 126)) : 1.0f;
}

/// The virtual coil: the principal component of all voxels.
std::vector<cfloat> virtual_coil(Context& context, const AdaptiveMaps& w, float scale) {
  constexpr std::int64_t kPieces = 64, kRun = 256;  // so many for any number of threads
  const std::int64_t voxels = volume(w.n), pairs = triangle_size(w.coils);
  const std::int64_t per_piece = (voxels + kPieces - 1) / kPieces;
  std::vector<cdouble> partial(static_cast<std::size_t>(kPieces * pairs));
  context.threads().parallel_for(
      kPieces, std::max<std::int64_t>(1, kVoxelGrain / per_piece), [&](auto begin, auto end) {
        std::vector<float> parts(static_cast<std::size_t>(2 * w.coils * kRun)), product(2 * kRun);
        for (std::int64_t p = begin; p < end; ++p) {
          cdouble* sums = partial.data() + p * pairs;
          const std::int64_t last = std::min(voxels, (p + 1) * per_piece);
          for (std::int64_t v = p * per_piece; v < last; v += kRun) {
            const std::int64_t n = std::min(kRun, last - v);
            for (std::int64_t c = 0; c < w.coils; ++c)
              take_apart(reinterpret_cast<const float*>(w.images + c * voxels + v), scale, n, &parts[2 * c * kRun],
                         &parts[(2 * c + 1) * kRun]);
            for (std::int64_t a = 0; a < w.coils; ++a)
              for (std::int64_t b = 0; b <= a; ++b) {
                multiply(&parts[2 * a * kRun], &parts[(2 * a + 1) * kRun], &parts[2 * b * kRun],
                         &parts[(2 * b + 1) * kRun], n, product.data(), &product[kRun]);
                double re[kLanes] = {}, im[kLanes] = {};
                std::fill(product.begin() + n, product.begin() + kRun, 0.0f);
                std::fill(product.begin() + kRun + n, product.end(), 0.0f);
                for (std::int64_t i = 0; i < n; i += kLanes)
                  for (std::int64_t l = 0; l < kLanes; ++l) {
                    re[l] += static_cast<double>(product[i + l]);
                    im[l] += static_cast<double>(product[kRun + i + l]);
                  }
                for (std::int64_t l = 0; l < kLanes; ++l) sums[triangle_index(a, b)] += cdouble(re[l], im[l]);
              }
          }
        }
      });
  std::vector<cdouble> covariance(static_cast<std::size_t>(pairs));
  for (std::int64_t p = 0; p < kPieces; ++p)
    for (std::int64_t i = 0; i < pairs; ++i) covariance[i] += partial[p * pairs + i];
  std::vector<cfloat> vector(static_cast<std::size_t>(w.coils));
  principal_component(covariance.data(), w.coils, vector.data());
  return vector;
}

cfloat start_value(std::int64_t coil) { return cfloat(std::polar(1.0, 2 * std::numbers::pi * start_turns(coil))); }

/// The maps of columns of kTileY lines of kTileX voxels, all planes. Sums over blocks are made axis by axis: products
/// are added up along x and y as their plane is read, and `reach` planes of these sums are kept. Voxels beyond the
/// edges count 0.
class Column {
 public:
  Column(const AdaptiveMaps& work, float scale, const cfloat* reference)
      : w_(work),
        scale_(scale),
        reference_(reference),
        reach_(work.before + work.after),
        reach_y_(work.n[1] > 1 ? reach_ : 0),
        width_(kTileX + reach_),
        height_(kTileY + reach_y_),
        planes_(std::min(work.n[0], reach_ + 1)),
        pairs_(triangle_size(work.coils)) {
    parts_.resize(static_cast<std::size_t>(work.coils * height_ * 2 * width_));
    product_.resize(static_cast<std::size_t>(2 * width_));
    lines_.resize(static_cast<std::size_t>(height_ * 2 * kTileX));
    sums_.resize(static_cast<std::size_t>(planes_ * pairs_ * kTileY * 2 * kTileX));
    matrix_.resize(static_cast<std::size_t>(pairs_ * 2 * kTileX));
    x_.resize(static_cast<std::size_t>(work.coils * 2 * kLanes));
    y_.resize(x_.size());
  }

  /// power: [z, y, x], the mean over the block of the coils' power; or nullptr.
  void run(std::int64_t first_x, std::int64_t first_y, float* power) {
    first_x_ = first_x;
    first_y_ = first_y;
    for (std::int64_t z = 0; z < std::min(w_.n[0], w_.after); ++z) add_plane(z);
    for (std::int64_t z = 0; z < w_.n[0]; ++z) {
      if (z + w_.after < w_.n[0]) add_plane(z + w_.after);
      for (std::int64_t y = 0; y < std::min(kTileY, w_.n[1] - first_y_); ++y) line(z, y, power);
    }
  }

 private:
  float* part(std::int64_t coil, std::int64_t y) { return parts_.data() + (coil * height_ + y) * 2 * width_; }
  float* sums(std::int64_t z, std::int64_t pair) {
    return sums_.data() + (z % planes_ * pairs_ + pair) * kTileY * 2 * kTileX;
  }
  std::int64_t before_y() const { return reach_y_ > 0 ? w_.before : 0; }

  void add_plane(std::int64_t z) {
    std::fill(parts_.begin(), parts_.end(), 0.0f);
    const std::int64_t from_x = std::max<std::int64_t>(0, first_x_ - w_.before),
                       to_x = std::min(w_.n[2], first_x_ + kTileX + w_.after);
    const std::int64_t skipped = from_x - (first_x_ - w_.before);
    for (std::int64_t c = 0; c < w_.coils; ++c)
      for (std::int64_t i = 0; i < height_; ++i) {
        const std::int64_t y = first_y_ - before_y() + i;
        if (y < 0 || y >= w_.n[1]) continue;
        const cfloat* from = w_.images + ((c * w_.n[0] + z) * w_.n[1] + y) * w_.n[2] + from_x;
        take_apart(reinterpret_cast<const float*>(from), scale_, to_x - from_x, part(c, i) + skipped,
                   part(c, i) + width_ + skipped);
      }
    for (std::int64_t a = 0; a < w_.coils; ++a)
      for (std::int64_t b = 0; b <= a; ++b) {
        for (std::int64_t i = 0; i < height_; ++i) {
          multiply(part(a, i), part(a, i) + width_, part(b, i), part(b, i) + width_, width_, product_.data(),
                   product_.data() + width_);
          float* to = lines_.data() + i * 2 * kTileX;
          add_up(product_.data(), 1, reach_ + 1, kTileX, to);
          add_up(product_.data() + width_, 1, reach_ + 1, kTileX, to + kTileX);
        }
        add_up(lines_.data(), 2 * kTileX, reach_y_ + 1, kTileY * 2 * kTileX, sums(z, triangle_index(a, b)));
      }
  }

  void line(std::int64_t z, std::int64_t line, float* power) {
    const std::int64_t first_z = std::max<std::int64_t>(0, z - w_.before), last_z = std::min(w_.n[0] - 1, z + w_.after);
    for (std::int64_t p = 0; p < pairs_; ++p) {
      float* to = matrix_.data() + p * 2 * kTileX;
      std::copy_n(sums(first_z, p) + line * 2 * kTileX, 2 * kTileX, to);
      for (std::int64_t u = first_z + 1; u <= last_z; ++u) {
        const float* from = sums(u, p) + line * 2 * kTileX;
        for (std::int64_t i = 0; i < 2 * kTileX; ++i) to[i] += from[i];
      }
    }
    const std::int64_t y = first_y_ + line, voxels = volume(w_.n);
    const std::int64_t lines_in = std::min(w_.n[1] - 1, y + w_.after) - std::max<std::int64_t>(0, y - w_.before) + 1;
    for (std::int64_t x = first_x_; x < std::min(w_.n[2], first_x_ + kTileX); x += kLanes) {
      const std::int64_t n = std::min(kLanes, w_.n[2] - x), v = (z * w_.n[1] + y) * w_.n[2] + x;
      start(v, n);
      float eigenvalue[kLanes], trace[kLanes];
      find_eigenvectors({.matrix = matrix_.data() + (x - first_x_),
                         .width = kTileX,
                         .coils = w_.coils,
                         .iterations = kAdaptiveIterations,
                         .crop = 0,
                         .reference = reference_,
                         .x = x_.data(),
                         .y = y_.data(),
                         .eigenvalue = eigenvalue,
                         .trace = trace});
      bool keep[kLanes];
      for (std::int64_t i = 0; i < n; ++i) {
        keep[i] = trace[i] > 0;
        if (power == nullptr) continue;
        const std::int64_t columns_in =
            std::min(w_.n[2] - 1, x + i + w_.after) - std::max<std::int64_t>(0, x + i - w_.before) + 1;
        power[v + i] = trace[i] / static_cast<float>((last_z - first_z + 1) * lines_in * columns_in);
      }
      put(x_.data(), w_.coils, n, keep, w_.maps + v, voxels);
    }
  }

  /// x = the voxels' own values, start_turns() where these are 0.
  void start(std::int64_t v, std::int64_t n) {
    const std::int64_t voxels = volume(w_.n);
    std::fill(x_.begin(), x_.end(), 0.0f);
    float size[kLanes] = {};
    for (std::int64_t c = 0; c < w_.coils; ++c) {
      float* x = x_.data() + c * 2 * kLanes;
      take_apart(reinterpret_cast<const float*>(w_.images + c * voxels + v), scale_, n, x, x + kLanes);
      for (std::int64_t i = 0; i < n; ++i) size[i] += std::abs(x[i]) + std::abs(x[kLanes + i]);
    }
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < w_.coils; ++c) {
        float* x = x_.data() + c * 2 * kLanes + i;
        if (size[i] > 0) {
          x[0] /= size[i];
          x[kLanes] /= size[i];
        } else {
          x[0] = start_value(c).real();
          x[kLanes] = start_value(c).imag();
        }
      }
  }

  const AdaptiveMaps& w_;
  const float scale_;
  const cfloat* reference_;
  const std::int64_t reach_, reach_y_, width_, height_, planes_, pairs_;
  std::int64_t first_x_ = 0, first_y_ = 0;
  std::vector<float> parts_;    // [coil, line, 2, width]: a plane of the images
  std::vector<float> product_;  // [2, width]
  std::vector<float> lines_;    // [line, 2, kTileX]: products added up along x
  std::vector<float> sums_;     // [plane, pair, kTileY, 2, kTileX]: and along y
  std::vector<float> matrix_;   // [pair, 2, kTileX]: and along z
  std::vector<float> x_, y_;    // [coil, 2, kLanes]
};

}  // namespace

void adaptive_maps(Context& context, const AdaptiveMaps& work) {
  const std::int64_t voxels = volume(work.n);
  const float scale = unit_scale(context.threads(), work.images, work.coils * voxels);
  const std::vector<cfloat> reference = virtual_coil(context, work, scale);
  const bool masked = work.threshold > 0;
  Array<float> power;
  if (masked) power = context.allocate<float>({voxels});
  const std::int64_t across = (work.n[2] + kTileX - 1) / kTileX, down = (work.n[1] + kTileY - 1) / kTileY;
  context.threads().parallel_for(across * down, 1, [&](std::int64_t begin, std::int64_t end) {
    Column column(work, scale, reference.data());
    for (std::int64_t t = begin; t < end; ++t)
      column.run(t % across * kTileX, t / across * kTileY, masked ? power.data() : nullptr);
  });
  if (!masked) return;
  const float least =
      work.threshold * work.threshold * on_host::extremes(context.threads(), readable(power.cview())).most;
  context.threads().parallel_for(voxels, kVoxelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v)
      if (power.data()[v] < least)
        for (std::int64_t c = 0; c < work.coils; ++c) work.maps[c * voxels + v] = 0;
  });
}

void eigen_maps(Context& context, const EigenMaps& work) {
  const std::int64_t pairs = triangle_size(work.coils), blocks = (work.voxels + kLanes - 1) / kLanes;
  context.threads().parallel_for(blocks, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> matrix(static_cast<std::size_t>(pairs * 2 * kLanes)),
        x(static_cast<std::size_t>(work.coils * 2 * kLanes)), y(x.size());
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t v = block * kLanes, n = std::min(kLanes, work.voxels - v);
      for (std::int64_t p = 0; p < pairs; ++p)
        take_apart(reinterpret_cast<const float*>(work.matrices + p * work.voxels + v), 1, n, &matrix[2 * p * kLanes],
                   &matrix[(2 * p + 1) * kLanes]);
      for (std::int64_t c = 0; c < work.coils; ++c) {
        std::fill_n(&x[2 * c * kLanes], kLanes, work.start[c].real());
        std::fill_n(&x[(2 * c + 1) * kLanes], kLanes, work.start[c].imag());
      }
      float eigenvalue[kLanes], trace[kLanes];
      find_eigenvectors({.matrix = matrix.data(),
                         .width = kLanes,
                         .coils = work.coils,
                         .iterations = kEspiritIterations,
                         .crop = work.crop,
                         .reference = work.reference,
                         .x = x.data(),
                         .y = y.data(),
                         .eigenvalue = eigenvalue,
                         .trace = trace});
      bool keep[kLanes];
      for (std::int64_t i = 0; i < n; ++i) keep[i] = trace[i] > 0 && eigenvalue[i] >= work.crop;
      put(x.data(), work.coils, n, keep, work.maps + v, work.stride);
    }
  });
}

}  // namespace echotrain::numerics::cpu
