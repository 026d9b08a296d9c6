// The solver where its steps are done in the passes of the operator, against float64 sums.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>

#include "gadgets/numerics/solver/pcg.h"
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

// One small volume: CUDA takes eight steps in one kernel. The last residual is worked out from its definition in
// float64; the images and residuals are those of the same volume as one of two, which CUDA solves pass by pass.
TYPED_TEST(PcgPlanesTest, StepsTakenTogetherAreThoseOneByOne) {
  unsigned seed = 61;
  for (const Shape& image : {Shape{17, 50, 51}, Shape{40, 64, 64}, Shape{50, 63, 64}}) {
    const Sampling s = make_sampling(3, 25, seed);
    const auto matrix = testing::make_toeplitz(this->context(), s, image);
    const PlainNormal a(matrix);
    const auto prior = tikhonov(image);
    const auto b = Random(seed + 1).normals(2 * image.size()), start = Random(seed + 2).normals(2 * image.size());
    const auto n = static_cast<std::size_t>(image.size());
    const auto solve = [&](std::int64_t batch, const PcgOptions& options, std::vector<cfloat>& x) {
      const auto first = [&](const std::vector<cfloat>& of) {
        return std::vector<cfloat>(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(batch) * image.size());
      };
      const auto right = this->upload(first(b), with_batch(batch, image));
      auto there = this->upload(first(start), with_batch(batch, image));
      const auto result = pcg(this->context(), a, prior.get(), right.cview(), there.view(), options);
      x = this->download(there);
      return result;
    };
    PcgOptions options{.iterations = 19, .tolerance = 0, .preconditioner = Preconditioner::jacobi, .lambda = 0.1};
    options.largest_eigenvalue = matrix->largest();
    std::vector<cfloat> alone, again, both;
    const auto result = solve(1, options, alone);
    const auto repeated = solve(1, options, again);
    EXPECT_EQ(alone, again);
    EXPECT_EQ(result.items[0].residuals, repeated.items[0].residuals);
    const auto passes = solve(2, options, both);
    ASSERT_EQ(result.items[0].residuals.size(), 20u);
    ASSERT_EQ(passes.items[0].residuals.size(), 20u);
    // Both round differently in each step, by 6e-8 of vectors that the iteration does not amplify.
    EXPECT_LT(testing::relative_error(alone, both, alone.size()), 1e-5);
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_NEAR(result.items[0].residuals[i], passes.items[0].residuals[i], 1e-6 * result.items[0].residuals[0]);

    const auto samples = testing::direct_forward(s.k, alone, 1, image);
    const auto back = testing::direct_adjoint(s.k, {samples.begin(), samples.end()}, s.w, 1, image);
    double left = 0, power = 0;
    for (std::size_t i = 0; i < n; ++i) {
      left += std::norm(cdouble(b[i]) - back[i] - result.lambda * cdouble(alone[i]));
      power += std::norm(cdouble(b[i]));
    }
    EXPECT_NEAR(result.items[0].residuals.back(), std::sqrt(left / power), 1e-6 * result.items[0].residuals[0]);

    // An end amid the steps that one kernel takes.
    options.tolerance = result.items[0].residuals[3] * (1 + 1e-9);
    const auto ended = solve(1, options, again);
    const auto end = std::find_if(result.items[0].residuals.begin(), result.items[0].residuals.end(),
                                  [&](double r) { return r <= options.tolerance; });
    EXPECT_EQ(ended.items[0].status, PcgStatus::converged);
    EXPECT_EQ(ended.items[0].residuals, std::vector<double>(result.items[0].residuals.begin(), end + 1));
    seed += 10;
  }
}

// Where CUDA takes several steps in one kernel, its blocks wait for each other: all of them run at once, or none, also
// where those of several contexts do not fit on the device together (160 blocks of the 264 that an H200 has room for).
TYPED_TEST(PcgPlanesTest, SolversOfSeveralContextsWaitForEachOther) {
  const Shape image{17, 50, 51};
  constexpr std::size_t kSolvers = 3;
  const int times = TypeParam::kBackend == Backend::cpu ? 1 : 40;
  const Sampling s = make_sampling(3, 25, 91);
  const auto b = Random(92).normals(image.size());
  const auto resources = std::make_shared<Resources>(test_resource_options());
  std::vector<std::future<std::vector<std::vector<cfloat>>>> solvers;
  for (std::size_t i = 0; i < kSolvers; ++i)
    solvers.push_back(std::async(std::launch::async, [&] {
      Context own(TypeParam::kBackend, resources);
      const auto matrix = testing::make_toeplitz(own, s, image);
      const PlainNormal a(matrix);
      const auto prior = tikhonov(image);
      PcgOptions options{.iterations = 19, .tolerance = 0, .lambda = 0.1, .from_zero = true};
      options.largest_eigenvalue = matrix->largest();
      const auto right = own.upload<cfloat>({b.data(), with_batch(1, image)});
      auto x = own.allocate<cfloat>(with_batch(1, image));
      std::vector<std::vector<cfloat>> found;
      for (int k = 0; k < times; ++k) {
        pcg(own, a, prior.get(), right.cview(), x.view(), options);
        const HostArray<cfloat> host = own.download<cfloat>(x.cview());
        found.emplace_back(host.data(), host.data() + host.size());
      }
      return found;
    }));
  std::vector<cfloat> first;
  for (auto& solver : solvers) {
    if (solver.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
      std::fputs("solvers on one device do not end\n", stderr);
      std::abort();  // they cannot be waited for
    }
    for (const auto& found : solver.get()) {
      if (first.empty()) first = found;
      EXPECT_EQ(found, first);
    }
  }
}

}  // namespace
}  // namespace echotrain::numerics
