// Differences of neighbours against loops in float64.
#include "gadgets/numerics/inverse/sparse/differences.h"

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::relative_error;

constexpr double kDifferenceError = 1e-6;

/// d[a, r] = x(r + e_a) - x(r), space periodic, time not.
std::vector<cdouble> plain_differences(const std::vector<cfloat>& x, const Shape& n,
                                       const std::vector<std::size_t>& axes) {
  std::vector<cdouble> d;
  for (const std::size_t a : axes)
    for (std::int64_t i = 0; i < n.size(); ++i) {
      std::int64_t at[4], rest = i;
      for (int k = 3; k >= 0; --k) {
        at[k] = rest % n[static_cast<std::size_t>(k)];
        rest /= n[static_cast<std::size_t>(k)];
      }
      if (a == 0 && at[0] + 1 == n[0]) {
        d.emplace_back(0);
        continue;
      }
      at[a] = (at[a] + 1) % n[a];
      const std::int64_t next = ((at[0] * n[1] + at[1]) * n[2] + at[2]) * n[3] + at[3];
      d.push_back(cdouble(x[static_cast<std::size_t>(next)]) - cdouble(x[static_cast<std::size_t>(i)]));
    }
  return d;
}

template <class B>
class DifferencesTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(DifferencesTest, Backends, testing::BackendNames);

TYPED_TEST(DifferencesTest, AreTheirDefinitionAndItsAdjoint) {
  const DifferenceAxes all{{true, true, true, true}};
  for (const auto& [n, which, axes] : std::vector<std::tuple<Shape, DifferenceAxes, std::vector<std::size_t>>>{
           {{1, 1, 9, 7}, DifferenceAxes::space(), {2, 3}},
           {{3, 6, 5, 1}, DifferenceAxes::space(), {1, 2}},
           {{2, 4, 3, 5}, DifferenceAxes::space(), {1, 2, 3}},
           {{5, 1, 4, 33}, DifferenceAxes::time(), {0}},
           {{2, 1, 2, 2}, all, {0, 2, 3}}}) {
    ASSERT_EQ(count(which, n), static_cast<std::int64_t>(axes.size()));
    const Shape many{count(which, n), n[0], n[1], n[2], n[3]};
    const auto x = Random(1).normals(n.size()), y = Random(2).normals(many.size());
    auto from = this->upload(x, n), back = this->context().template zeros<cfloat>(n);
    auto to = this->context().template zeros<cfloat>(many), other = this->upload(y, many);
    differences(this->context(), which, from.cview(), to.view());
    const auto truth = plain_differences(x, n, axes);
    EXPECT_LT(relative_error(this->download(to), truth, truth.size()), kDifferenceError) << n.text();
    // <G x, y> = <x, G^H y>
    differences_adjoint(this->context(), which, other.cview(), back.view());
    cdouble left = 0, right = 0;
    double size = 0;
    const auto adjoint = this->download(back);
    for (std::size_t i = 0; i < truth.size(); ++i) left += std::conj(truth[i]) * cdouble(y[i]);
    for (std::size_t i = 0; i < x.size(); ++i) {
      right += std::conj(cdouble(x[i])) * cdouble(adjoint[i]);
      size += std::abs(x[i]) * std::abs(adjoint[i]);
    }
    EXPECT_LT(std::abs(left - right), kDifferenceError * size) << n.text();
  }
}

TYPED_TEST(DifferencesTest, RefuseWhatDoesNotFit) {
  auto x = this->context().template zeros<cfloat>({1, 1, 8, 8}),
       d = this->context().template zeros<cfloat>({1, 1, 1, 8, 8});
  EXPECT_EQ(count(DifferenceAxes::time(), x.shape()), 0);
  EXPECT_THROW(differences(this->context(), DifferenceAxes::space(), x.cview(), d.view()), std::invalid_argument);
  EXPECT_THROW(differences_adjoint(this->context(), DifferenceAxes::space(), d.cview(), x.view()),
               std::invalid_argument);
  EXPECT_THROW(count(DifferenceAxes::space(), {8, 8}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
