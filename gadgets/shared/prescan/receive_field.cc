#include "gadgets/shared/prescan/receive_field.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/intensity/receive_ratio.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/shared/place.h"

namespace echotrain {
namespace {

using numerics::cfloat;
using numerics::Extents;

/// The root sum of squares of some coils' images: [z, y, x].
std::vector<double> magnitudes(numerics::Context& compute, const PrescanVolume& volume,
                               const std::vector<std::size_t>& coils, const std::vector<cfloat>& whitening) {
  const Extents& n = volume.n;
  const std::int64_t voxels = numerics::volume(n), count = static_cast<std::int64_t>(coils.size());
  std::vector<cfloat> kspace;
  for (const std::size_t c : coils) {
    const auto from = volume.kspace.begin() + static_cast<std::ptrdiff_t>(c) * voxels;
    kspace.insert(kspace.end(), from, from + voxels);
  }
  numerics::Array<cfloat> data = compute.upload<cfloat>({kspace.data(), {count, n[0], n[1], n[2]}});
  if (!whitening.empty())
    numerics::apply_coil_matrix(compute, compute.upload<cfloat>({whitening.data(), {count, count}}).view(),
                                data.view().reshaped({1, count, voxels}));
  numerics::Array<cfloat> images = compute.allocate<cfloat>(data.shape()),
                          joined = compute.allocate<cfloat>({1, n[0], n[1], n[2]});
  numerics::centered_fft(compute, data.view(), images.view(), {n[0], n[1], n[2]}, 3, numerics::Direction::inverse, 1);
  numerics::root_sum_of_squares(compute, images.view(), joined.view());
  const numerics::HostArray<cfloat> host = compute.download<cfloat>(joined.view());
  std::vector<double> out;
  for (std::int64_t v = 0; v < voxels; ++v) out.push_back(host.data()[v].real());
  return out;
}

/// The four neighbours along an axis, and their weights.
struct Taps {
  std::array<std::int64_t, 4> at;
  std::array<double, 4> weight;
  int count = 4;

  Taps(double place, std::int64_t n) : at{}, weight{1, 0, 0, 0} {
    const double u = place > 0 ? std::min(place, static_cast<double>(n - 1)) : 0.0;  // 0 for what is no number
    const auto first = static_cast<std::int64_t>(u);
    const double t = u - static_cast<double>(first);
    for (std::int64_t k = 0; k < 4; ++k)
      at[static_cast<std::size_t>(k)] = std::clamp<std::int64_t>(first + k - 1, 0, n - 1);
    if (n == 1) count = 1;
    if (n > 1)
      weight = {((-t + 2) * t - 1) * t / 2, ((3 * t - 5) * t * t + 2) / 2, ((-3 * t + 4) * t + 1) * t / 2,
                (t - 1) * t * t / 2};
  }
};

double interpolated(const std::vector<double>& field, const Extents& n, const std::array<double, 3>& at) {
  const Taps z(at[0], n[0]), y(at[1], n[1]), x(at[2], n[2]);
  double sum = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(z.count); ++k)
    for (std::size_t j = 0; j < static_cast<std::size_t>(y.count); ++j) {
      const double* const row = field.data() + (z.at[k] * n[1] + y.at[j]) * n[2];
      double of_row = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(x.count); ++i) of_row += x.weight[i] * row[x.at[i]];
      sum += z.weight[k] * y.weight[j] * of_row;
    }
  return sum;
}

}  // namespace

ReceiveField::ReceiveField(numerics::Context& compute, const PrescanRecord& record,
                           const std::vector<std::size_t>& coils, const std::vector<cfloat>& whitening) {
  double signal = 0, sum = 0, squares = 0;
  for (const auto& [array, body] : record.places) {
    std::vector<std::size_t> all(static_cast<std::size_t>(body.coils));
    std::iota(all.begin(), all.end(), std::size_t{0});
    const std::vector<double> reference = magnitudes(compute, body, all, {});
    Part& part = parts_.emplace_back();
    part.box = {array.head, array.fov_mm, array.n};
    part.field =
        numerics::receive_ratio(compute.threads(), array.n, magnitudes(compute, array, coils, whitening), reference)
            .field;
    for (std::size_t v = 0; v < reference.size(); ++v) {
      const double weight = reference[v] * reference[v];
      signal += weight;
      sum += weight * part.field[v];
      squares += weight * part.field[v] * part.field[v];
    }
  }
  const double mean = sum / signal;
  if (!(mean > 0)) throw std::invalid_argument("the array's coils see nothing");
  spread_ = std::sqrt(std::max(0.0, squares / signal - mean * mean)) / mean;
  for (Part& part : parts_)
    for (double& v : part.field) v /= mean;
}

bool ReceiveField::at(numerics::ThreadPool& threads, const PatientBox& image, numerics::HostView<float> field,
                      std::string& why_not) const {
  const Part* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  why_not = "does not hold this slice";
  for (const Part& part : parts_) {
    if (!(distance(table_position(image.head), table_position(part.box.head)) <= kSamePlace_mm)) {
      why_not = "was made at another position of the table";
      continue;
    }
    const double off = BoxMapping(image, part.box).outside();
    if (!(off <= 1) || off >= least) continue;  // a voxel: half of it, and the gap between slices
    nearest = &part;
    least = off;
  }
  if (nearest == nullptr) return false;
  const BoxMapping map(image, nearest->box);
  const std::int64_t rows = image.n[0] * image.n[1], nx = image.n[2];
  threads.parallel_for(rows, 1 + 4096 / nx, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t x = 0; x < nx; ++x)
        field[row * nx + x] = static_cast<float>(interpolated(
            nearest->field, nearest->box.n,
            map(static_cast<double>(row / image.n[1]), static_cast<double>(row % image.n[1]), static_cast<double>(x))));
  });
  return true;
}

}  // namespace echotrain
