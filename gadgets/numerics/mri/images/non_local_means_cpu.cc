#include <algorithm>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/images/non_local_means_ops.h"

namespace echotrain::numerics::cpu {
namespace {

/// An image whose lines along x are longer by `margin` voxels at both ends, which repeat the last one.
class PaddedLines {
 public:
  PaddedLines(Context& context, const float* image, const LocalMeans& how)
      : n_(how.n),
        parts_(how.parts),
        margin_(how.patch[2] + how.search[2]),
        length_((n_[2] + 2 * margin_) * parts_),
        memory_(context.allocate<float>({n_[0] * n_[1], length_})) {
    context.threads().parallel_for(n_[0] * n_[1], 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* from = image + row * n_[2] * parts_;
        float* to = memory_.data() + row * length_;
        std::copy_n(from, n_[2] * parts_, to + margin_ * parts_);
        for (std::int64_t i = 0; i < margin_; ++i) {
          std::copy_n(from, parts_, to + i * parts_);
          std::copy_n(from + (n_[2] - 1) * parts_, parts_, to + (margin_ + n_[2] + i) * parts_);
        }
      }
    });
  }
  /// Voxel x = 0 of the line nearest to (z, y); `margin` voxels before it and after the line may be read.
  const float* at(std::int64_t z, std::int64_t y) const {
    z = std::clamp<std::int64_t>(z, 0, n_[0] - 1);
    y = std::clamp<std::int64_t>(y, 0, n_[1] - 1);
    return memory_.data() + (z * n_[1] + y) * length_ + margin_ * parts_;
  }

 private:
  Extents n_;
  std::int64_t parts_, margin_, length_;
  Array<float> memory_;
};

ECHOTRAIN_CLONES void add_differences(const float* a, const float* b, std::int64_t n, float* sums) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = a[i] - b[i];
    sums[i] += d * d;
  }
}

ECHOTRAIN_CLONES void add_windows(const float* from, std::int64_t n, std::int64_t width, float* to) {
  std::fill_n(to, n, 0.0f);
  for (std::int64_t k = 0; k < width; ++k)
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i + k];
}

/// The weighted sums of one line.
struct LineOfMeans {
  LineOfMeans(const LocalMeans& how)
      : squares(static_cast<std::size_t>((how.n[2] + 2 * how.patch[2]) * how.parts)),
        distances(static_cast<std::size_t>(how.n[2])),
        weights(distances.size()),
        sums(distances.size() * static_cast<std::size_t>(how.parts)) {}
  std::vector<float> squares, distances, weights, sums;
};

/// Adds the neighbours at offset (dz, dy, dx) of the line (z, y).
void add_neighbours(const PaddedLines& lines, const LocalMeans& how, std::int64_t z, std::int64_t y, std::int64_t dz,
                    std::int64_t dy, std::int64_t dx, LineOfMeans& line) {
  const std::int64_t nx = how.n[2], reach = how.patch[2], parts = how.parts;
  std::fill(line.squares.begin(), line.squares.end(), 0.0f);
  for (std::int64_t pz = -how.patch[0]; pz <= how.patch[0]; ++pz)
    for (std::int64_t py = -how.patch[1]; py <= how.patch[1]; ++py)
      add_differences(lines.at(z + pz, y + py) - reach * parts,
                      lines.at(z + dz + pz, y + dy + py) + (dx - reach) * parts, (nx + 2 * reach) * parts,
                      line.squares.data());
  if (parts == 2)
    for (std::int64_t i = 0; i < nx + 2 * reach; ++i)
      line.squares[static_cast<std::size_t>(i)] =
          line.squares[static_cast<std::size_t>(2 * i)] + line.squares[static_cast<std::size_t>(2 * i + 1)];
  add_windows(line.squares.data(), nx, 2 * reach + 1, line.distances.data());
  const float* other = lines.at(z + dz, y + dy) + dx * parts;
  const std::int64_t begin = std::max<std::int64_t>(0, -dx), end = std::min(nx, nx - dx);
  for (std::int64_t x = begin; x < end; ++x) {
    const auto i = static_cast<std::size_t>(x);
    const float weight = how.weight(line.distances[i]);
    if (weight == 0) continue;  // the neighbour may be infinite
    line.weights[i] += weight;
    if (parts == 2) {
      line.sums[2 * i] += weight * other[2 * x];
      line.sums[2 * i + 1] += weight * other[2 * x + 1];
    } else {
      line.sums[i] += weight * (how.bias >= 0 ? other[x] * other[x] : other[x]);
    }
  }
}

}  // namespace

void non_local_means(Context& context, const float* image, const LocalMeans& how, float* to) {
  const PaddedLines lines(context, image, how);
  const auto& n = how.n;
  context.threads().parallel_for(n[0] * n[1], 1, [&](std::int64_t begin, std::int64_t end) {
    LineOfMeans line(how);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t z = row / n[1], y = row % n[1];
      std::fill(line.weights.begin(), line.weights.end(), 0.0f);
      std::fill(line.sums.begin(), line.sums.end(), 0.0f);
      for (std::int64_t dz = std::max<std::int64_t>(-how.search[0], -z);
           dz <= std::min<std::int64_t>(how.search[0], n[0] - 1 - z); ++dz)
        for (std::int64_t dy = std::max<std::int64_t>(-how.search[1], -y);
             dy <= std::min<std::int64_t>(how.search[1], n[1] - 1 - y); ++dy) {
          context.check_stop();
          for (std::int64_t dx = -how.search[2]; dx <= how.search[2]; ++dx)
            if (dx < n[2] && -dx < n[2]) add_neighbours(lines, how, z, y, dz, dy, dx, line);
        }
      for (std::int64_t i = 0; i < n[2] * how.parts; ++i) {
        const float weight = line.weights[static_cast<std::size_t>(i / how.parts)];
        const float mean = line.sums[static_cast<std::size_t>(i)] / weight;
        const std::int64_t at = row * n[2] * how.parts + i;
        to[at] = weight > 0 ? (how.bias >= 0 ? how.without_bias(mean) : mean) : image[at];
      }
    }
  });
}

void details(Context& context, const float* image, const Extents& n, int parts, float* to) {
  const std::int64_t ny = n[1] / 2, nx = n[2] / 2;
  context.threads().parallel_for(n[0] * ny, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t i = 0; i < nx * parts; ++i) {
        const std::int64_t z = row / ny, y = row % ny, x = i / parts, part = i % parts;
        const float* block = image + (((z * n[1] + 2 * y) * n[2]) + 2 * x) * parts + part;
        to[row * nx * parts + i] = detail_of(block, parts, n[2] * parts);
      }
  });
}

}  // namespace echotrain::numerics::cpu
