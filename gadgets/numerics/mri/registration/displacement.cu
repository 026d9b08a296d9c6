#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/registration/bilinear.h"
#include "gadgets/numerics/mri/registration/displacement.h"

namespace echotrain::numerics {

struct ComposedFields {
  const float *first, *second;
  std::int64_t ny, nx;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t field, std::int64_t y, std::int64_t x) const {
    const std::int64_t size = ny * nx, at = 2 * field * size + y * nx + x;
    const float *a = first + at, *b = second + 2 * field * size;
    const float ux = a[0], uy = a[size];
    const Bilinear there(static_cast<std::int32_t>(ny), static_cast<std::int32_t>(nx), static_cast<float>(y) + uy,
                         static_cast<float>(x) + ux);
    to[at] = ux + there.of(b, static_cast<std::int32_t>(nx));
    to[at + size] = uy + there.of(b + size, static_cast<std::int32_t>(nx));
  }
};
ECHOTRAIN_MAP(ComposedFields, 3)

struct FieldJacobian {
  const float* fields;
  std::int64_t ny, nx;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t field, std::int64_t y, std::int64_t x) const {
    const std::int64_t size = ny * nx;
    const std::int64_t left = x > 0 ? x - 1 : 0, right = x + 1 < nx ? x + 1 : x;
    const std::int64_t up = y > 0 ? y - 1 : 0, down = y + 1 < ny ? y + 1 : y;
    const float *ux = fields + 2 * field * size, *uy = ux + size;
    const float by_x = 1 / static_cast<float>(right - left), by_y = 1 / static_cast<float>(down - up);
    const float xx = by_x * (ux[y * nx + right] - ux[y * nx + left]), xy = by_y * (ux[down * nx + x] - ux[up * nx + x]);
    const float yx = by_x * (uy[y * nx + right] - uy[y * nx + left]), yy = by_y * (uy[down * nx + x] - uy[up * nx + x]);
    to[field * size + y * nx + x] = (1 + xx) * (1 + yy) - xy * yx;
  }
};
ECHOTRAIN_MAP(FieldJacobian, 3)

struct MotionMap {
  const float *fields, *unwarp;  // unwarp: or null
  std::int64_t planes, ny, nx;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t plane, std::int64_t y, std::int64_t x) const {
    const std::int64_t size = ny * nx, at = y * nx + x;
    const float* field = fields + 2 * plane * size + at;
    const float ux = field[0], uy = field[size];
    float values[] = {ux, uy, 0, 1};
    if (unwarp != nullptr) {
      const Bilinear there(static_cast<std::int32_t>(ny), static_cast<std::int32_t>(nx), static_cast<float>(y) + uy,
                           static_cast<float>(x) + ux);
      for (std::int64_t part = 0; part < 4; ++part) {
        const float of = there.of(unwarp + (part * planes + plane) * size, static_cast<std::int32_t>(nx));
        values[part] = part == 3 ? of : values[part] + of;
      }
    }
    for (std::int64_t part = 0; part < 4; ++part) to[(part * planes + plane) * size + at] = values[part];
  }
};
ECHOTRAIN_MAP(MotionMap, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/mri/field/warp.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kFieldGrain = 4096;

/// Checks that `fields` is [field, 2, y, x].
void require_fields(bool good, const char* what, const Shape& fields, const Shape& other) {
  if (fields.rank() != 4 || fields[1] != 2 || fields[2] < 2 || fields[3] < 2 || !good)
    throw std::invalid_argument(
        fmt::format("{}: fields {} (expected [field, 2, y, x]) and {} do not fit", what, fields.text(), other.text()));
}

}  // namespace

void compose_fields(Context& context, DeviceView<const float> first, DeviceView<const float> second,
                    DeviceView<float> to) {
  const Shape& n = first.shape();
  require_fields(n == second.shape() && n == to.shape(), "compose_fields", n, second.shape());
  map(context, {n[0], n[2], n[3]}, ComposedFields{first.data(), second.data(), n[2], n[3], to.data()}, kFieldGrain);
}

void jacobian(Context& context, DeviceView<const float> fields, DeviceView<float> to) {
  const Shape& n = fields.shape();
  require_fields(n.rank() == 4 && to.shape() == Shape{n[0], n[2], n[3]}, "jacobian", n, to.shape());
  map(context, {n[0], n[2], n[3]}, FieldJacobian{fields.data(), n[2], n[3], to.data()}, kFieldGrain);
}

void motion_map(Context& context, DeviceView<const float> fields, DeviceView<const float> unwarp,
                DeviceView<float> map) {
  const Shape &n = fields.shape(), &m = map.shape();
  require_fields(n.rank() == 4 && m == Shape{4, n[0], n[2], n[3]} && (unwarp.size() == 0 || unwarp.shape() == m),
                 "motion_map", n, m);
  numerics::map(context, {n[0], n[2], n[3]}, MotionMap{fields.data(), unwarp.data(), n[0], n[2], n[3], map.data()},
                kFieldGrain);
}

void warp_by(Context& context, DeviceView<const cfloat> images, DeviceView<const float> fields,
             DeviceView<cfloat> warped) {
  const Shape &n = fields.shape(), &m = images.shape();
  require_fields(n.rank() == 4 && m == Shape{n[0], n[2], n[3]} && m == warped.shape(), "warp_by", n, m);
  Array<float> map = context.allocate<float>({4, 1, n[2], n[3]});
  const Shape one{1, 1, n[2], n[3]};
  for (std::int64_t b = 0; b < n[0]; ++b) {
    motion_map(context, fields.part(2 * b * n[2] * n[3], {1, 2, n[2], n[3]}), {}, map.view());
    warp(context, images.slice(b).reshaped(one), map.cview(), PlaneTaps::linear, warped.slice(b).reshaped(one));
  }
}

}  // namespace echotrain::numerics
#endif
