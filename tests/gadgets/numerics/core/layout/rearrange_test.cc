// Crops, flips and exchanged axes against a plain loop.
#include "gadgets/numerics/core/layout/rearrange.h"

#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::Rearrangement;
using numerics::Shape;

template <class B>
using RearrangeTest = OnBackend<B>;
TYPED_TEST_SUITE(RearrangeTest, Backends, BackendNames);

std::vector<numerics::cfloat> expected(const std::vector<numerics::cfloat>& from, const Shape& f,
                                       const Rearrangement& how, const Shape& t) {
  std::vector<numerics::cfloat> out;
  for (std::int64_t c = 0; c < t[0]; ++c)
    for (std::int64_t i0 = 0; i0 < t[1]; ++i0)
      for (std::int64_t i1 = 0; i1 < t[2]; ++i1)
        for (std::int64_t i2 = 0; i2 < t[3]; ++i2) {
          std::array<std::int64_t, 3> j{}, i{i0, i1, i2};
          for (std::size_t a = 0; a < 3; ++a)
            j[static_cast<std::size_t>(how.axis[a])] = how.first[a] + how.step[a] * i[a];
          out.push_back(from[static_cast<std::size_t>(((c * f[1] + j[0]) * f[2] + j[1]) * f[3] + j[2])]);
        }
  return out;
}

TYPED_TEST(RearrangeTest, IsAPlainGather) {
  Random random(4);
  const Shape from{2, 3, 21, 34};
  const auto values = random.normals(from.size());
  const auto source = this->upload(values, from);
  struct Case {
    Rearrangement how;
    Shape to;
  };
  const std::vector<Case> cases = {
      {{}, from},
      {{{0, 1, 2}, {0, 4, 5}, {1, 1, 1}}, {2, 2, 13, 20}},     // a crop
      {{{0, 1, 2}, {2, 20, 33}, {-1, -1, -1}}, from},          // all flipped
      {{{0, 2, 1}, {0, 0, 0}, {1, 1, 1}}, {2, 3, 34, 21}},     // x and y exchanged
      {{{2, 0, 1}, {30, 2, 3}, {-1, -1, 1}}, {2, 31, 3, 18}},  // everything at once
  };
  for (const Case& c : cases) {
    auto to = this->context().template allocate<numerics::cfloat>(c.to);
    numerics::rearrange(this->context(), source.cview(), c.how, to.view());
    EXPECT_EQ(this->download(to), expected(values, from, c.how, c.to));
  }
}

TYPED_TEST(RearrangeTest, VoxelsFromOutsideAreRefused) {
  const auto source = this->upload(std::vector<numerics::cfloat>(24), {1, 2, 3, 4});
  const auto refused = [&](const Rearrangement& how, const Shape& to) {
    auto target = this->context().template allocate<numerics::cfloat>(to);
    EXPECT_THROW(numerics::rearrange(this->context(), source.cview(), how, target.view()), std::invalid_argument);
  };
  refused({}, {1, 2, 3, 5});
  refused({}, {2, 2, 3, 4});
  refused({{0, 1, 2}, {0, 0, -1}, {1, 1, 1}}, {1, 2, 3, 4});
  refused({{0, 1, 2}, {0, 0, 2}, {1, 1, -1}}, {1, 2, 3, 4});
  refused({{0, 1, 1}, {0, 0, 0}, {1, 1, 1}}, {1, 2, 3, 3});
  refused({{0, 1, 3}, {0, 0, 0}, {1, 1, 1}}, {1, 2, 3, 3});
  refused({{0, 1, 2}, {0, 0, 0}, {1, 1, 2}}, {1, 2, 3, 2});
}

}  // namespace
}  // namespace echotrain::testing
