#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/intensity/field_division.h"

namespace echotrain::numerics {

struct DividedByField {
  static constexpr int kLanes[] = {0, 256};
  static constexpr bool kClones = true;
  const cfloat* from;
  const float* field;
  float least;
  std::int64_t voxels;
  cfloat* to;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t coil, Lanes<kMost> v) const {
    const float* const f = field + v.first;
    const cfloat* const in = from + coil * voxels + v.first;
    cfloat* const out = to + coil * voxels + v.first;
    for (int l = 0; l < v.count; ++l) {
      const float divisor = f[l] > least ? f[l] : least;  // also where it is NaN
      const Complex value = load(in + l);
      store({value.re / divisor, value.im / divisor}, out + l);
    }
  }
};
ECHOTRAIN_MAP(DividedByField, 2)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void divide_by_field(Context& context, DeviceView<const cfloat> from, DeviceView<const float> field, float least,
                     DeviceView<cfloat> to) {
  const Shape &n = from.shape(), &f = field.shape();
  const bool fits = n.rank() == 4 && n == to.shape() && f.rank() == 3 && n[1] == f[0] && n[2] == f[1] && n[3] == f[2];
  if (!fits || !(least > 0))
    throw std::invalid_argument(fmt::format("divide_by_field: {} is no image of {} to become {}, or {} is not above 0",
                                            n.text(), f.text(), to.shape().text(), least));
  map(context, {n[0], f.size()}, DividedByField{from.data(), field.data(), least, f.size(), to.data()});
}

}  // namespace echotrain::numerics
#endif
