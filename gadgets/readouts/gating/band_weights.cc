#include "gadgets/readouts/gating/band_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gadgets/numerics/mri/coils/compression.h"

namespace echotrain {
namespace {

using numerics::cdouble;
using Gram = std::vector<cdouble>;  // [coil, coil], real

constexpr double kMore = 1e-6;

Gram gram_of(const Columns& columns) {
  Gram gram;
  for (const auto& a : columns)
    for (const auto& b : columns) gram.emplace_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
  return gram;
}

/// v^T gram v.
double energy_in(const std::vector<double>& v, const Gram& gram) {
  double sum = 0;
  for (std::size_t a = 0; a < v.size(); ++a)
    for (std::size_t b = 0; b < v.size(); ++b) sum += v[a] * gram[a * v.size() + b].real() * v[b];
  return sum;
}

/// The first eigenvectors of a gram matrix with a positive trace.
Columns eigenvectors(const numerics::ThreadPool& threads, const Gram& gram, std::size_t coils, std::size_t kept) {
  const auto found = numerics::compression_by_pca(threads, gram, static_cast<std::int64_t>(coils),
                                                  {.channels = static_cast<std::int64_t>(kept)});
  Columns rows(kept);
  for (std::size_t i = 0; i < found.matrix.size(); ++i)
    rows[i / coils].push_back(static_cast<double>(found.matrix[i].real()));
  return rows;
}

}  // namespace

std::vector<double> band_weights(const numerics::ThreadPool& threads, const Columns& band, const Columns& rest) {
  const std::size_t coils = band.size();
  Gram unwanted = gram_of(rest);
  threads.check_stop();
  double energy = 0;
  for (std::size_t c = 0; c < coils; ++c)
    energy += std::inner_product(band[c].begin(), band[c].end(), band[c].begin(), unwanted[c * coils + c].real());
  const double more = kMore * energy / static_cast<double>(coils);
  for (std::size_t c = 0; c < coils; ++c) unwanted[c * coils + c] += more;
  // In the basis `white`, the unwanted part is the same in all directions.
  Columns white = eigenvectors(threads, unwanted, coils, coils);
  for (auto& row : white) {
    const double scale = 1 / std::sqrt(std::max(energy_in(row, unwanted), more));
    for (double& value : row) value *= scale;
  }
  Columns seen;
  for (const auto& row : white) seen.push_back(weighted_sum(band, row));
  threads.check_stop();
  return weighted_sum(white, eigenvectors(threads, gram_of(seen), coils, 1)[0]);
}

std::vector<double> weighted_sum(const Columns& columns, const std::vector<double>& weights) {
  std::vector<double> sum(columns[0].size());
  for (std::size_t c = 0; c < columns.size(); ++c)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weights[c] * columns[c][i];
  return sum;
}

}  // namespace echotrain
