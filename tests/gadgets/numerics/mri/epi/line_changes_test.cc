// Changes of EPI's lines, and sums of their samples, against float64 loops.
#include "gadgets/numerics/mri/epi/line_changes.h"

#include <cmath>
#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::LineChange;
using numerics::Shape;

template <class B>
using LineChangesTest = OnBackend<B>;
TYPED_TEST_SUITE(LineChangesTest, Backends, BackendNames);

double relative_error(const std::vector<cfloat>& values, const std::vector<cdouble>& truth) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    error += std::norm(cdouble(values[i]) - truth[i]);
    size += std::norm(truth[i]);
  }
  return std::sqrt(error / size);
}

TYPED_TEST(LineChangesTest, PhasesFactorsAndTurns) {
  Random random(5);
  for (const std::int64_t n : {34, 35})
    for (const std::int64_t each : {1, 3}) {
      const Shape shape{5, 3, n};
      const auto values = random.normals(shape.size()), phases = random.normals(2 * each * n);
      const std::vector<LineChange> changes = {
          {0, 0, {1, 0}}, {1, 1, {1, 0}}, {0, 1, {0.5f, -2}}, {1, 0, {0, 1}}, {1, 1, {-1, 3}}};
      std::vector<cdouble> truth;
      for (std::int64_t i = 0; i < 5; ++i)
        for (std::int64_t c = 0; c < 3; ++c)
          for (std::int64_t x = 0; x < n; ++x) {
            const LineChange& change = changes[static_cast<std::size_t>(i)];
            const std::int64_t from = change.turned != 0 ? (2 * (n / 2) - x + n) % n : x;
            const std::int64_t row = change.set * each + (each == 1 ? 0 : c);
            truth.push_back(cdouble(change.factor) * cdouble(phases[static_cast<std::size_t>(row * n + x)]) *
                            cdouble(values[static_cast<std::size_t>((i * 3 + c) * n + from)]));
          }
      auto to = this->context().template allocate<cfloat>(shape);
      numerics::change_lines(this->context(), {changes.data(), {5}}, this->upload(phases, {2, each, n}).cview(),
                             this->upload(values, shape).cview(), to.view());
      EXPECT_LT(relative_error(this->download(to), truth), 1e-6) << n << " points, phases of " << each;
    }
}

TYPED_TEST(LineChangesTest, SumsOfSamples) {
  Random random(6);
  for (const std::int64_t n : {70, 64, 7}) {
    const std::int64_t lines = 4, coils = 3, samples = 53, sets = 2;
    const auto values = random.normals(lines * coils * samples);
    std::vector<float> weights;
    for (std::int64_t i = 0; i < sets * samples * n; ++i) weights.push_back(random.normal().real());
    const std::vector<std::int32_t> of_line = {1, 0, 0, 1};
    std::vector<cdouble> truth;
    for (std::int64_t row = 0; row < lines * coils; ++row)
      for (std::int64_t x = 0; x < n; ++x) {
        cdouble sum = 0;
        for (std::int64_t s = 0; s < samples; ++s)
          sum += cdouble(values[static_cast<std::size_t>(row * samples + s)]) *
                 double{weights[static_cast<std::size_t>(
                     (of_line[static_cast<std::size_t>(row / coils)] * samples + s) * n + x)]};
        truth.push_back(sum);
      }
    auto to = this->context().template allocate<cfloat>({lines, coils, n});
    numerics::combine_samples(this->context(), {of_line.data(), {lines}},
                              this->upload(weights, {sets, samples, n}).cview(),
                              this->upload(values, {lines, coils, samples}).cview(), to.view());
    EXPECT_LT(relative_error(this->download(to), truth), 1e-6) << n;
  }
}

TYPED_TEST(LineChangesTest, ShapesThatDoNotFitAreRefused) {
  auto& context = this->context();
  const auto lines = context.template zeros<cfloat>({2, 3, 8});
  const auto phases = context.template zeros<cfloat>({2, 1, 8}), two_coils = context.template zeros<cfloat>({2, 2, 8});
  const auto weights = context.template zeros<float>({1, 8, 6});
  auto to = context.template zeros<cfloat>({2, 3, 8}), fewer = context.template zeros<cfloat>({2, 3, 6});
  const std::vector<LineChange> fine(2), far = {{0, 0, {1, 0}}, {2, 0, {1, 0}}};
  const std::vector<std::int32_t> sets = {0, 0}, beyond = {0, 1};
  EXPECT_THROW(numerics::change_lines(context, {fine.data(), {1}}, phases.cview(), lines.cview(), to.view()),
               std::invalid_argument);
  EXPECT_THROW(numerics::change_lines(context, {fine.data(), {2}}, two_coils.cview(), lines.cview(), to.view()),
               std::invalid_argument);
  EXPECT_THROW(numerics::change_lines(context, {far.data(), {2}}, phases.cview(), lines.cview(), to.view()),
               std::invalid_argument);
  EXPECT_THROW(numerics::combine_samples(context, {sets.data(), {2}}, weights.cview(), lines.cview(), to.view()),
               std::invalid_argument);
  EXPECT_THROW(numerics::combine_samples(context, {beyond.data(), {2}}, weights.cview(), lines.cview(), fewer.view()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
