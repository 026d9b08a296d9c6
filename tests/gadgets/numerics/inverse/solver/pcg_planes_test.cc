// The solver where its steps are done in the passes of the operator, against float64 sums.
#include <algorithm>
#include <cmath>

#include "gadgets/numerics/inverse/solver/pcg.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/solver_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_sampling;
using testing::Random;
using testing::Sampling;
using testing::with_batch;

template <class B>
class PcgPlanesTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(PcgPlanesTest, Backends, testing::BackendNames);

// Volumes whose planes CUDA holds in shared memory: steps are then done in the passes of the operator, at once for
// several items of a batch. The residual is worked out from its definition in float64.
TYPED_TEST(PcgPlanesTest, VolumesInPlanesAreSolved) {
  const Shape image{17, 50, 51};
  const auto n = static_cast<std::size_t>(image.size());
  const Sampling s = make_sampling(3, 25, 51);
  const auto matrix = testing::make_toeplitz(this->context(), s, image);
  const auto two_maps = Random(52).normals(2 * image.size());
  const std::shared_ptr<const LinearOperator> operators[] = {
      std::make_shared<PlainNormal>(matrix),
      std::make_shared<SenseNormal>(this->context(), matrix, this->upload(two_maps, with_batch(2, image)))};
  const auto prior = tikhonov(image);
  const auto slopes = smoothness(image);
  /// b - A x - regular for one item; A with the maps of two coils, where there are some.
  const auto left_by = [&](const cfloat* x, const cfloat* regular, const cfloat* b, const std::vector<cfloat>* maps) {
    const std::size_t coils = maps != nullptr ? 2 : 1;
    std::vector<cfloat> weighed;
    for (std::size_t i = 0; i < coils * n; ++i) weighed.push_back(maps != nullptr ? (*maps)[i] * x[i % n] : x[i]);
    const auto count = static_cast<std::int64_t>(coils);
    const auto samples = testing::direct_forward(s.k, weighed, count, image);
    const auto back = testing::direct_adjoint(s.k, {samples.begin(), samples.end()}, s.w, count, image);
    Eigen::VectorXcd left(image.size());
    for (std::size_t i = 0; i < n; ++i) {
      cdouble sum = cdouble(b[i]) - cdouble(regular[i]);
      for (std::size_t c = 0; c < coils; ++c)
        sum -= maps != nullptr ? std::conj(cdouble((*maps)[c * n + i])) * back[c * n + i] : back[i];
      left[static_cast<Eigen::Index>(i)] = sum;
    }
    return left;
  };
  for (const bool sense : {false, true}) {
    const LinearOperator& a = *operators[sense ? 1 : 0];
    const std::int64_t batch = sense ? 2 : 3;
    auto b = Random(53).normals(batch * image.size());
    if (!sense)
      std::fill(b.begin() + static_cast<std::ptrdiff_t>(n), b.begin() + static_cast<std::ptrdiff_t>(2 * n), 0);
    const auto right = this->upload(b, with_batch(batch, image));
    for (const Regularizer* regularizer : {prior.get(), slopes.get()})
      for (const Preconditioner preconditioner :
           {Preconditioner::none, Preconditioner::jacobi, Preconditioner::circulant}) {
        if ((sense || regularizer == slopes.get()) && preconditioner != Preconditioner::jacobi) continue;
        PcgOptions options{.iterations = 5, .tolerance = 0, .preconditioner = preconditioner, .lambda = 0.01};
        options.largest_eigenvalue = matrix->largest();
        const auto start = Random(54).normals(batch * image.size());
        auto x = this->upload(start, with_batch(batch, image));
        const auto result = pcg(this->context(), a, regularizer, right.cview(), x.view(), options);
        const auto got = this->download(x);
        // b - A x - lambda R x, the last by the library.
        auto rest = this->context().template zeros<cfloat>(with_batch(batch, image));
        regularizer->add(this->context(), static_cast<float>(result.lambda), x.cview(), rest.view());
        const auto regular = this->download(rest);
        for (std::size_t item = 0; item < static_cast<std::size_t>(batch); ++item) {
          const auto& found = result.items[item];
          if (!sense && item == 1) {
            EXPECT_EQ(found.status, PcgStatus::converged);
            EXPECT_EQ(std::count(got.begin() + static_cast<std::ptrdiff_t>(n),
                                 got.begin() + static_cast<std::ptrdiff_t>(2 * n), cfloat()),
                      static_cast<std::ptrdiff_t>(n));
            continue;
          }
          const auto left = left_by(&got[item * n], &regular[item * n], &b[item * n], sense ? &two_maps : nullptr);
          double power = 0;
          for (std::size_t i = 0; i < n; ++i) power += std::norm(cdouble(b[item * n + i]));
          ASSERT_EQ(found.residuals.size(), 6u);
          EXPECT_LT(found.residuals.back(), 0.1 * found.residuals.front());
          // What the recursion carries is off by some roundings of |A| |x| / |b|, which the start gives.
          EXPECT_NEAR(found.residuals.back(), left.norm() / std::sqrt(power), 1e-6 * found.residuals.front())
              << "sense " << sense << " preconditioner " << static_cast<int>(preconditioner) << " item " << item;
          // Residuals are orthogonal, by M^-1, which is a multiple of 1 here: the directions are what they must be.
          if (sense || regularizer != prior.get() || preconditioner == Preconditioner::circulant) continue;
          std::vector<cfloat> shrunk;
          for (std::size_t i = 0; i < n; ++i) shrunk.push_back(static_cast<float>(result.lambda) * start[item * n + i]);
          const auto first = left_by(&start[item * n], shrunk.data(), &b[item * n], nullptr);
          EXPECT_LT(std::abs(first.dot(left)), 1e-3 * first.norm() * left.norm()) << left.norm() / first.norm();
        }
        auto again = this->upload(start, with_batch(batch, image));
        pcg(this->context(), a, regularizer, right.cview(), again.view(), options);
        EXPECT_EQ(this->download(again), got);
      }
  }
}

}  // namespace
}  // namespace echotrain::numerics
