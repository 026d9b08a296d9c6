// A dense matrix is one of the solver's problems written out in full, in float64, from its definition.
#pragma once

#include <Eigen/Dense>
#include <Eigen/Sparse>
#include <map>
#include <numbers>
#include <vector>

#include "gadgets/numerics/inverse/solver/regularizer.h"

namespace echotrain::testing {

/// Position of voxel i along the axes, counted from 0.
inline std::vector<std::int64_t> position(const numerics::Shape& image, std::int64_t i) {
  std::vector<std::int64_t> at(image.rank());
  for (std::size_t a = image.rank(); a-- > 0; i /= image[a]) at[a] = i % image[a];
  return at;
}

/// F: samples times voxels, times the root of each sample's weight. coordinates: [sample, dims], component 0 = the last
/// axis.
inline Eigen::MatrixXcd fourier_matrix(const std::vector<double>& coordinates, const std::vector<float>& weights,
                                       const numerics::Shape& image) {
  const std::size_t dims = image.rank();
  const auto samples = static_cast<std::int64_t>(coordinates.size() / dims);
  Eigen::MatrixXcd f(samples, image.size());
  for (std::int64_t r = 0; r < image.size(); ++r) {
    const auto at = position(image, r);
    for (std::int64_t s = 0; s < samples; ++s) {
      double turns = 0;
      for (std::size_t a = 0; a < dims; ++a)
        turns +=
            coordinates[static_cast<std::size_t>(s) * dims + dims - 1 - a] * static_cast<double>(at[a] - image[a] / 2);
      const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[static_cast<std::size_t>(s)]);
      f(s, r) = std::polar(std::sqrt(weight), -2 * std::numbers::pi * turns);
    }
  }
  return f;
}

/// F^H F by its entries, sums over samples for each distance of two voxels.
inline Eigen::MatrixXcd gram_matrix(const std::vector<double>& coordinates, const std::vector<float>& weights,
                                    const numerics::Shape& image) {
  const std::size_t dims = image.rank(), samples = coordinates.size() / dims;
  std::map<std::vector<std::int64_t>, numerics::cdouble> known;
  const auto entry = [&](const std::vector<std::int64_t>& lag) {
    const auto [found, fresh] = known.try_emplace(lag);
    if (fresh)
      for (std::size_t s = 0; s < samples; ++s) {
        double turns = 0;
        for (std::size_t a = 0; a < dims; ++a)
          turns += coordinates[s * dims + dims - 1 - a] * static_cast<double>(lag[a]);
        const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[s]);
        found->second += std::polar(weight, 2 * std::numbers::pi * turns);
      }
    return found->second;
  };
  Eigen::MatrixXcd gram(image.size(), image.size());
  for (std::int64_t r = 0; r < image.size(); ++r)
    for (std::int64_t c = 0; c < image.size(); ++c) {
      auto lag = position(image, r);
      const auto other = position(image, c);
      for (std::size_t a = 0; a < dims; ++a) lag[a] -= other[a];
      gram(r, c) = entry(lag);
    }
  return gram;
}

/// A row w (x[next] - x[this]) for each pair of neighbours, axis by axis. weights: [axis, image...].
inline Eigen::SparseMatrix<numerics::cdouble> difference_matrix(const numerics::Shape& image,
                                                                const std::vector<float>& weights) {
  std::vector<Eigen::Triplet<numerics::cdouble>> entries;
  int row = 0;
  for (std::size_t a = 0; a < image.rank(); ++a)
    for (std::int64_t i = 0; i < image.size(); ++i) {
      if (position(image, i)[a] + 1 == image[a]) continue;
      std::int64_t step = 1;
      for (std::size_t inner = a + 1; inner < image.rank(); ++inner) step *= image[inner];
      const auto w =
          static_cast<double>(weights[a * static_cast<std::size_t>(image.size()) + static_cast<std::size_t>(i)]);
      entries.emplace_back(row, static_cast<int>(i), -w);
      entries.emplace_back(row++, static_cast<int>(i + step), w);
    }
  Eigen::SparseMatrix<numerics::cdouble> m(row, image.size());
  m.setFromTriplets(entries.begin(), entries.end());
  return m;
}

/// W^H W
inline Eigen::MatrixXcd square(const Eigen::SparseMatrix<numerics::cdouble>& w) {
  return Eigen::MatrixXcd(Eigen::SparseMatrix<numerics::cdouble>(w.adjoint() * w));
}

}  // namespace echotrain::testing
