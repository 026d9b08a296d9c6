// Images divided by a field, against the definition.
#include "gadgets/numerics/mri/intensity/field_division.h"

#include <limits>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class FieldDivisionTest : public OnBackend<B> {};
TYPED_TEST_SUITE(FieldDivisionTest, Backends, BackendNames);

TYPED_TEST(FieldDivisionTest, EachVoxelIsDivided) {
  const Shape n{3, 5, 17, 33};
  const std::vector<cfloat> values = Random(1).normals(n.size());
  const auto voxels = static_cast<std::size_t>(n.size() / n[0]);
  std::vector<float> field(voxels);
  Random random(2);
  for (float& f : field) f = static_cast<float>(random.uniform(-0.1, 3));
  field[7] = std::numeric_limits<float>::quiet_NaN();
  const float least = 0.25f;
  const auto from = this->upload(values, n);
  const auto divisor = this->upload(field, {n[1], n[2], n[3]});
  auto to = this->context().template allocate<cfloat>(n);
  divide_by_field(this->context(), from.cview(), divisor.cview(), least, to.view());
  const std::vector<cfloat> got = this->download(to);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float f = field[i % voxels];
    const cdouble truth = cdouble(values[i]) / static_cast<double>(f > least ? f : least);
    ASSERT_LE(std::abs(cdouble(got[i]) - truth), 2e-7 * std::abs(truth)) << i;  // one rounding of each part, 6e-8
  }
  auto same = this->upload(values, n);
  divide_by_field(this->context(), same.cview(), divisor.cview(), least, same.view());
  EXPECT_EQ(this->download(same), got);
}

TYPED_TEST(FieldDivisionTest, RefusesWhatDoesNotFit) {
  auto& context = this->context();
  const auto image = context.template zeros<cfloat>({1, 2, 3, 4});
  auto to = context.template zeros<cfloat>({1, 2, 3, 4});
  const auto field = context.template zeros<float>({2, 3, 4}), other = context.template zeros<float>({2, 4, 3});
  EXPECT_THROW(divide_by_field(context, image.cview(), other.cview(), 1, to.view()), std::invalid_argument);
  EXPECT_THROW(divide_by_field(context, image.cview(), field.cview(), 0, to.view()), std::invalid_argument);
  EXPECT_THROW(divide_by_field(context, image.cview(), field.cview(), 1, to.view().reshaped({2, 1, 3, 4})),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
