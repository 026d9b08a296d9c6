#include "gadgets/numerics/transforms/partial/partial_fourier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"
#include "gadgets/numerics/transforms/partial/partial_ops.h"
#include "gadgets/numerics/transforms/partial/window.h"

namespace echotrain::numerics {
namespace {

// Bytes of coils that are worked on at a time.
constexpr std::int64_t kPartBytes = 64ll << 20;
constexpr int kMostPocsIterations = 100;

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("partial fourier: " + problem);
}

/// A k-space, its box and the data that follow from both.
class PartialKspace {
 public:
  PartialKspace(Context& context, DeviceView<cfloat> kspace, const AcquiredBox& box)
      : context_(context), kspace_(kspace), box_(box) {
    require(kspace.shape().rank() == 4, "expected [coil, z, y, x], got " + kspace.shape().text());
    n_ = last_axes(kspace.shape(), 3);
    for (std::size_t a = 0; a < 3; ++a) {
      require(box.first[a] >= 0 && box.first[a] < box.last[a] && box.last[a] <= n_[a],
              fmt::format("points {} .. {} of {} cannot be acquired", box.first[a], box.last[a] - 1, n_[a]));
      sides_[a] = one_sided(n_[a], box.first[a], box.last[a]);
      require(!sides_[a].one_sided || sides_[a].band >= 1,
              fmt::format("points {} .. {} of {} do not hold the centre and its neighbours", box.first[a],
                          box.last[a] - 1, n_[a]));
    }
  }

  const OneSided& side(std::size_t axis) const { return sides_[axis]; }
  bool any_side() const {
    return std::any_of(sides_.begin(), sides_.end(), [](const OneSided& s) { return s.one_sided; });
  }
  /// True if more is missing below the centre than above it.
  bool below(std::size_t axis) const { return n_[axis] / 2 - box_.first[axis] == sides_[axis].band; }
  std::int64_t points(std::size_t axis) const { return n_[axis]; }

  /// Makes the factors of all axes from one function of (axis, point).
  template <class Value>
  Array<float> factors(const Value& value) const {
    std::vector<float> all;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::int64_t i = 0; i < n_[a]; ++i) all.push_back(static_cast<float>(value(a, i)));
    return context_.upload<float>({all.data(), {static_cast<std::int64_t>(all.size())}});
  }
  /// Hann's window over the bands of one-sided axes.
  Array<float> phase_window() const {
    std::array<std::vector<float>, 3> hann;
    for (std::size_t a = 0; a < 3; ++a)
      hann[a] = sides_[a].one_sided ? window(n_[a], n_[a] / 2, static_cast<double>(sides_[a].band), WindowKind::hann)
                                    : std::vector<float>(static_cast<std::size_t>(n_[a]), 1.0f);
    return factors([&](std::size_t a, std::int64_t i) { return hann[a][static_cast<std::size_t>(i)]; });
  }
  AxisFactors axes(const Array<float>& factors) const { return {n_, factors.data()}; }

  /// Calls work(coils, their k-space, an image whose phase is the reference, working space) for parts of the coils.
  template <class Work>
  void for_coils(const Work& work) const {
    const Array<float> low = phase_window();
    const std::int64_t coils = kspace_.shape()[0], item = volume(n_);
    const std::int64_t at_once = std::clamp<std::int64_t>(kPartBytes / (item * std::int64_t{sizeof(cfloat)}), 1,
                                                          std::max<std::int64_t>(coils, 1));
    for (std::int64_t first = 0; first < coils; first += at_once) {
      const std::int64_t some = std::min(at_once, coils - first);
      Array<cfloat> reference = context_.allocate<cfloat>({some, n_[0], n_[1], n_[2]}),
                    image = context_.allocate<cfloat>(reference.shape());
      cfloat* data = kspace_.data() + first * item;
      place_weighted(context_, data, axes(low), some, reference.data());
      transform(reference, Direction::inverse);
      work(some, data, reference, image);
    }
  }
  void transform(Array<cfloat>& data, Direction direction) const {
    fft(context_, data.view(), n_[0] > 1 ? 3 : 2, direction);
  }
  float scale() const { return 1 / static_cast<float>(volume(n_)); }

 private:
  Context& context_;
  DeviceView<cfloat> kspace_;
  AcquiredBox box_;
  Extents n_{};
  std::array<OneSided, 3> sides_{};
};

}  // namespace

OneSided one_sided(std::int64_t n, std::int64_t first, std::int64_t last) {
  const std::int64_t below = n / 2 - first, above = last - 1 - n / 2;
  const std::int64_t missing = std::abs(below - above);
  return {missing > 1, missing > 1 ? missing - (n % 2 == 0 && first == 0 ? 1 : 0) : 0, std::min(below, above)};
}

void homodyne(Context& context, DeviceView<cfloat> kspace, const AcquiredBox& box, int axis) {
  require(axis >= 0 && axis <= 2, fmt::format("there is no axis {}", axis));
  const PartialKspace partial(context, kspace, box);
  const auto along = static_cast<std::size_t>(axis);
  if (kspace.size() == 0 || !partial.side(along).one_sided) return;
  const std::int64_t n = partial.points(along), band = partial.side(along).band;
  const double sign = partial.below(along) ? 1 : -1;
  const Array<float> ramp = partial.factors([&](std::size_t a, std::int64_t i) {
    if (a != along || 2 * i == 2 * (n / 2) - n) return 1.0;  // frequency -n / 2 is its own opposite
    const double k = static_cast<double>(i - n / 2) / static_cast<double>(band);
    return std::clamp(1 + sign * k, 0.0, 2.0);
  });
  const Extents all = last_axes(kspace.shape(), 3);
  partial.for_coils([&](std::int64_t coils, cfloat* data, Array<cfloat>& reference, Array<cfloat>& image) {
    place_weighted(context, data, partial.axes(ramp), coils, image.data());
    partial.transform(image, Direction::inverse);
    project(context, reference.data(), image.size(), true, image.data());
    partial.transform(image, Direction::forward);
    ECHOTRAIN_DISPATCH(context, crop(context, image.data(), data, coils, centred(all, all), partial.scale()));
  });
}

void pocs(Context& context, DeviceView<cfloat> kspace, const AcquiredBox& box, int iterations,
          std::int64_t transition) {
  require(iterations >= 1 && iterations <= kMostPocsIterations,
          fmt::format("expected 1..{} iterations, got {}", kMostPocsIterations, iterations));
  require(transition >= 0, "a transition cannot be negative");
  const PartialKspace partial(context, kspace, box);
  if (kspace.size() == 0 || !partial.any_side()) return;
  const auto inside = [&](std::size_t a, std::int64_t i) { return i >= box.first[a] && i < box.last[a]; };
  const Array<float> acquired = partial.factors([&](std::size_t a, std::int64_t i) {
    if (!inside(a, i)) return 0.0;
    const OneSided& side = partial.side(a);
    const std::int64_t width = side.one_sided ? std::min(transition, side.band) : 0;
    const std::int64_t from_edge = partial.below(a) ? i - box.first[a] : box.last[a] - 1 - i;
    if (from_edge >= width) return 1.0;
    return 0.5 - 0.5 * std::cos(std::numbers::pi * (static_cast<double>(from_edge) + 0.5) / static_cast<double>(width));
  });
  const Array<float> filled = partial.factors([&](std::size_t a, std::int64_t i) {
    const std::int64_t n = partial.points(a), opposite = 2 * (n / 2) - i;  // the opposite of frequency -n / 2 is
                                                                           // itself, modulo n
    return inside(a, opposite < n ? opposite : opposite - n) ? 1.0 : 0.0;
  });
  partial.for_coils([&](std::int64_t coils, cfloat* data, Array<cfloat>& reference, Array<cfloat>& image) {
    const Extents all = last_axes(kspace.shape(), 3);
    ECHOTRAIN_DISPATCH(context, place(context, data, image.data(), coils, centred(all, all)));
    for (int i = 1; i <= iterations; ++i) {
      partial.transform(image, Direction::inverse);
      project(context, reference.data(), image.size(), false, image.data());
      partial.transform(image, Direction::forward);
      keep_acquired(context, data, partial.axes(acquired), partial.axes(filled), coils, partial.scale(),
                    i == iterations, image.data());
    }
  });
}

}  // namespace echotrain::numerics
