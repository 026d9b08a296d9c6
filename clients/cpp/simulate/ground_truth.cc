#include "clients/cpp/simulate/ground_truth.h"

#include <fftw3.h>

#include <memory>
#include <new>

#include "clients/cpp/base/parallel.h"

namespace echotrain::client {
namespace {

struct FftwFree {
  void operator()(void* memory) const { fftw_free(memory); }
};

// Signed index of element i in FFT order.
int signed_index(int i, int n) { return i < (n + 1) / 2 ? i : i - n; }

// The voxel floor(n/2) + r of an image lies at element r of a transform of length m, r taken modulo m.
int wrapped(int voxel, int image, int m) { return ((voxel - image / 2) % m + m) % m; }

}  // namespace

GroundTruth::GroundTruth(const Phantom& phantom, const CoilSet& coils, const ScanPath& scan) : coils_(coils) {
  const int n = scan.matrix();
  const bool solid = scan.dims() == 3;
  const int mx = scan.cartesian() ? n * scan.oversampling() : 2 * n;
  const int my = scan.cartesian() ? n : 2 * n;
  const int nz = scan.depth();
  const int mz = solid && !scan.stack() && !scan.cartesian() ? 2 * nz : nz;
  shape_.assign(solid ? 3 : 2, static_cast<std::size_t>(n));
  if (solid) shape_[0] = static_cast<std::size_t>(nz);

  const std::size_t cells = static_cast<std::size_t>(mx) * my * mz;
  const std::unique_ptr<fftw_complex, FftwFree> grid(
      static_cast<fftw_complex*>(fftw_malloc(cells * sizeof(fftw_complex))));
  if (!grid) throw std::bad_alloc();
  const fftw_plan plan = solid ? fftw_plan_dft_3d(mz, my, mx, grid.get(), grid.get(), FFTW_BACKWARD, FFTW_ESTIMATE)
                               : fftw_plan_dft_2d(my, mx, grid.get(), grid.get(), FFTW_BACKWARD, FFTW_ESTIMATE);
  const std::unique_ptr<fftw_plan_s, decltype(&fftw_destroy_plan)> owner(plan, &fftw_destroy_plan);
  auto* const values = reinterpret_cast<cdouble*>(grid.get());

  for (const Vec3& q : coils.frequencies()) {
    parallel_for(static_cast<std::size_t>(my) * mz, [&](std::size_t row) {
      const double ky = static_cast<double>(signed_index(static_cast<int>(row % my), my)) / my;
      const double kz = static_cast<double>(signed_index(static_cast<int>(row / my), mz)) / mz;
      for (int x = 0; x < mx; ++x) {
        const Vec3 k = {static_cast<double>(signed_index(x, mx)) / mx, ky, kz};
        const double share = scan.coverage(k, 1.0 / mx);
        values[row * mx + x] = share == 0 ? 0.0 : share * phantom.kspace({k[0] - q[0], k[1] - q[1], k[2] - q[2]});
      }
    });
    fftw_execute(plan);
    std::vector<cdouble> image;
    image.reserve(static_cast<std::size_t>(n) * n * nz);
    for (int z = 0; z < nz; ++z) {
      for (int y = 0; y < n; ++y) {
        for (int x = 0; x < n; ++x) {
          const std::size_t row = static_cast<std::size_t>(wrapped(z, nz, mz)) * my + wrapped(y, n, my);
          image.push_back(values[row * mx + wrapped(x, n, mx)] / static_cast<double>(cells));
        }
      }
    }
    components_.push_back(std::move(image));
  }
}

cdouble GroundTruth::value(int coil, std::size_t voxel) const {
  cdouble sum = 0;
  for (std::size_t j = 0; j < components_.size(); ++j) sum += coils_.weight(coil, j) * components_[j][voxel];
  return sum;
}

std::vector<std::complex<float>> GroundTruth::coil_image(int coil) const {
  std::vector<std::complex<float>> image(components_[0].size());
  for (std::size_t v = 0; v < image.size(); ++v) image[v] = std::complex<float>(value(coil, v));
  return image;
}

std::vector<float> GroundTruth::root_sum_of_squares() const {
  std::vector<float> image(components_[0].size());
  for (std::size_t v = 0; v < image.size(); ++v) {
    double power = 0;
    for (int c = 0; c < coils_.coils(); ++c) power += std::norm(value(c, v));
    image[v] = static_cast<float>(std::sqrt(power));
  }
  return image;
}

}  // namespace echotrain::client
