// Changes of profiles of EPI's lines, against direct sums in float64.
#include "gadgets/numerics/mri/epi/profile_changes.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::kLineStays;
using numerics::LineChange;
using numerics::Shape;

template <class B>
using ProfileChangesTest = OnBackend<B>;
TYPED_TEST_SUITE(ProfileChangesTest, Backends, BackendNames);

/// exp(2 pi i sign k x / n) summed over k, both counted from floor(n/2).
std::vector<cdouble> direct(const std::vector<cdouble>& from, double sign) {
  const auto n = static_cast<std::int64_t>(from.size());
  std::vector<cdouble> out(from.size());
  for (std::int64_t x = 0; x < n; ++x)
    for (std::int64_t k = 0; k < n; ++k)
      out[static_cast<std::size_t>(x)] +=
          from[static_cast<std::size_t>(k)] *
          std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>((k - n / 2) * (x - n / 2) % n) /
                              static_cast<double>(n));
  return out;
}

/// A line's samples after its profile was changed: p'(x) = factor phases(x) p(x), or p(-x) of a turned line.
std::vector<cdouble> changed_line(const cfloat* line, std::int64_t n, const LineChange& change, const cfloat* phases) {
  const std::vector<cdouble> profile = direct({line, line + n}, 1);
  std::vector<cdouble> out;
  for (std::int64_t x = 0; x < n; ++x) {
    const std::int64_t at = change.turned != 0 ? ((2 * (n / 2) - x) % n + n) % n : x;
    out.push_back(cdouble(change.factor) * cdouble(phases[x]) * profile[static_cast<std::size_t>(at)] /
                  static_cast<double>(n));
  }
  return direct(out, -1);
}

const std::vector<LineChange> kChanges = {
    {0, 0, {1, 0}}, {1, 1, {1, 0}}, {kLineStays, 0, {1, 0}}, {0, 1, {0.5f, -2}}, {1, 0, {0, 1}}};

TYPED_TEST(ProfileChangesTest, PhasesFactorsAndTurns) {
  Random random(7);
  const std::int64_t lines = 5;
  // Coils that fill no group, one group and more than one; samples that fill no block of threads, and more than one.
  for (const auto& [coils, n] : {std::pair<std::int64_t, std::int64_t>{3, 34}, {1, 35}, {20, 33}, {32, 64}, {9, 270}})
    for (const std::int64_t each : {std::int64_t{1}, coils}) {
      const Shape shape{lines, coils, n};
      const auto values = random.normals(shape.size()), phases = random.normals(2 * each * n);
      const auto from = this->upload(values, shape);
      auto to = this->context().template allocate<cfloat>(shape);
      const auto made = numerics::profile_phases(this->context(), {phases.data(), {2, each, n}});
      numerics::change_profiles(this->context(), {kChanges.data(), {lines}}, made, from.cview(), to.view());
      const auto got = this->download(to);
      double error = 0, size = 0;
      for (std::int64_t i = 0; i < lines; ++i)
        for (std::int64_t c = 0; c < coils; ++c) {
          const LineChange& change = kChanges[static_cast<std::size_t>(i)];
          const std::int64_t at = (i * coils + c) * n;
          if (change.set == kLineStays) {
            for (std::int64_t k = at; k < at + n; ++k)
              ASSERT_EQ(got[static_cast<std::size_t>(k)], values[static_cast<std::size_t>(k)]);
            continue;
          }
          const std::int64_t row = change.set * each + (each == 1 ? 0 : c);
          const auto truth = changed_line(values.data() + at, n, change, phases.data() + row * n);
          for (std::int64_t k = 0; k < n; ++k) {
            error += std::norm(cdouble(got[static_cast<std::size_t>(at + k)]) - truth[static_cast<std::size_t>(k)]);
            size += std::norm(truth[static_cast<std::size_t>(k)]);
          }
        }
      // Sums of 270 products at most, rounded to 6e-8 each at random: 16 times that.
      EXPECT_LT(std::sqrt(error / size), 1e-6) << coils << " coils, " << n << " points, phases of " << each;
    }
}

TYPED_TEST(ProfileChangesTest, BitsDoNotDependOnBatches) {
  Random random(8);
  const std::int64_t lines = 5, coils = 18, n = 48;
  const auto values = random.normals(lines * coils * n), phases = random.normals(2 * n);
  const auto from = this->upload(values, {lines, coils, n});
  const auto made = numerics::profile_phases(this->context(), {phases.data(), {2, 1, n}});
  auto whole = this->context().template allocate<cfloat>({lines, coils, n});
  auto single = this->context().template allocate<cfloat>({lines, coils, n});
  numerics::change_profiles(this->context(), {kChanges.data(), {lines}}, made, from.cview(), whole.view());
  for (std::int64_t i = 0; i < lines; ++i)
    numerics::change_profiles(this->context(), {kChanges.data() + i, {1}}, made,
                              from.cview().part(i * coils * n, {1, coils, n}),
                              single.view().part(i * coils * n, {1, coils, n}));
  EXPECT_EQ(this->download(whole), this->download(single));
}

TYPED_TEST(ProfileChangesTest, ShapesThatDoNotFitAreRefused) {
  auto& context = this->context();
  const auto lines = context.template zeros<cfloat>({2, 3, 8});
  auto to = context.template zeros<cfloat>({2, 3, 8}), fewer = context.template zeros<cfloat>({2, 3, 6});
  const std::vector<cfloat> ones(32, cfloat{1});
  const auto phases = numerics::profile_phases(context, {ones.data(), {2, 1, 8}});
  const auto two_coils = numerics::profile_phases(context, {ones.data(), {2, 2, 8}});
  const std::vector<LineChange> fine(2), far = {{0, 0, {1, 0}}, {2, 0, {1, 0}}}, before = {{-2, 0, {1, 0}}, {}};
  const auto refused = [&](const std::vector<LineChange>& changes, std::int64_t count, const auto& with, auto& into) {
    EXPECT_THROW(numerics::change_profiles(context, {changes.data(), {count}}, with, lines.cview(), into.view()),
                 std::invalid_argument);
  };
  refused(fine, 1, phases, to);
  refused(fine, 2, two_coils, to);
  refused(fine, 2, phases, fewer);
  refused(far, 2, phases, to);
  refused(before, 2, phases, to);
  EXPECT_THROW(numerics::profile_phases(context, {ones.data(), {4, 8}}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
