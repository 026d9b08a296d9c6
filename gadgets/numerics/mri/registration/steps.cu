#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/registration/bilinear.h"
#include "gadgets/numerics/mri/registration/steps.h"

namespace echotrain::numerics {

constexpr float kStepDamping = 0.05f;
constexpr double kLeastCurvature = 1e-6;  // of a rigid step, as a part of the largest one

struct StepGradient {
  float x, y;
};
/// Half the difference of neighbours; borders repeat.
ECHOTRAIN_EACH StepGradient step_gradient(const float* plane, std::int32_t ny, std::int32_t nx, std::int32_t y,
                                          std::int32_t x) {
  const float* line = plane + y * nx;
  const float right = line[x + 1 < nx ? x + 1 : x], left = line[x > 0 ? x - 1 : x];
  const float down = plane[(y + 1 < ny ? y + 1 : y) * nx + x], up = plane[(y > 0 ? y - 1 : y) * nx + x];
  return {0.5f * (right - left), 0.5f * (down - up)};
}

/// Where a batch's images, fields and references are.
struct StepPlaces {
  const float *references, *images, *fields;
  std::int64_t reference_stride;
  std::int32_t ny, nx;
  ECHOTRAIN_EACH std::int64_t size() const { return std::int64_t{ny} * nx; }
  ECHOTRAIN_EACH const float* reference(std::int64_t b) const { return references + b * reference_stride; }
  ECHOTRAIN_EACH float x_of(std::int64_t b, std::int64_t y, std::int64_t x) const {
    return static_cast<float>(x) + fields[2 * b * size() + y * nx + x];
  }
  ECHOTRAIN_EACH float y_of(std::int64_t b, std::int64_t y, std::int64_t x) const {
    return static_cast<float>(y) + fields[(2 * b + 1) * size() + y * nx + x];
  }
  ECHOTRAIN_EACH bool inside(float y, float x) const {
    return y >= 0 && x >= 0 && y <= static_cast<float>(ny - 1) && x <= static_cast<float>(nx - 1);
  }
};

struct StepGradientProducts {
  StepPlaces at;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y, std::int64_t x) const {
    const StepGradient g =
        step_gradient(at.reference(b), at.ny, at.nx, static_cast<std::int32_t>(y), static_cast<std::int32_t>(x));
    float* out = to + 3 * b * at.size() + y * at.nx + x;
    out[0] = g.x * g.x;
    out[at.size()] = g.y * g.y;
    out[2 * at.size()] = g.x * g.y;
  }
};
ECHOTRAIN_MAP(StepGradientProducts, 3)

struct StepDifferenceForces {
  StepPlaces at;
  const float* floors;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y, std::int64_t x) const {
    const float from_y = at.y_of(b, y, x), from_x = at.x_of(b, y, x);
    const Bilinear from(at.ny, at.nx, from_y, from_x);
    const StepGradient g =
        step_gradient(at.reference(b), at.ny, at.nx, static_cast<std::int32_t>(y), static_cast<std::int32_t>(x));
    float r = at.reference(b)[y * at.nx + x] - from.of(at.images + b * at.size(), at.nx);
    if (!at.inside(from_y, from_x) || !(floors[b] > 0)) r = 0;
    float* out = to + 2 * b * at.size() + y * at.nx + x;
    out[0] = g.x * r;
    out[at.size()] = g.y * r;
  }
};
ECHOTRAIN_MAP(StepDifferenceForces, 3)

struct StepMoved {
  StepPlaces at;
  float *moved, *products;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y, std::int64_t x) const {
    const std::int64_t here = y * at.nx + x;
    const float w = Bilinear(at.ny, at.nx, at.y_of(b, y, x), at.x_of(b, y, x)).of(at.images + b * at.size(), at.nx);
    moved[b * at.size() + here] = w;
    products[2 * b * at.size() + here] = w * w;
    products[(2 * b + 1) * at.size() + here] = w * at.reference(b)[here];
  }
};
ECHOTRAIN_MAP(StepMoved, 3)

struct StepSquares {
  const float* from;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const { to[i] = from[i] * from[i]; }
};
ECHOTRAIN_MAP(StepSquares, 1)

struct StepCorrelation {
  StepPlaces at;  // its images are moved
  const float *squares, *products;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y, std::int64_t x) const {
    const std::int64_t here = y * at.nx + x, size = at.size();
    const float *f = at.reference(b), *w = at.images + b * size;
    const auto row = static_cast<std::int32_t>(y), column = static_cast<std::int32_t>(x);
    const float square = products[2 * b * size + here] * squares[b * at.reference_stride + here];
    const float weight = at.inside(at.y_of(b, y, x), at.x_of(b, y, x)) ? 1 / sqrtf(square + 0.0025f) : 0.0f;
    const float n = weight * sqrtf(square), p = weight * products[(2 * b + 1) * size + here];
    const StepGradient of_f = step_gradient(f, at.ny, at.nx, row, column),
                       of_w = step_gradient(w, at.ny, at.nx, row, column);
    const float r = n * f[here] - p * w[here];
    const float jx = 0.5f * (p * of_w.x + n * of_f.x), jy = 0.5f * (p * of_w.y + n * of_f.y);
    float* out = to + 5 * b * size + here;
    out[0] = jx * jx;
    out[size] = jy * jy;
    out[2 * size] = jx * jy;
    out[3 * size] = jx * r;
    out[4 * size] = jy * r;
  }
};
ECHOTRAIN_MAP(StepCorrelation, 3)

struct StepTaken {
  registration::SmoothedSystems systems;
  const float* fields;
  std::int32_t ny, nx;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y, std::int64_t x) const {
    const std::int64_t size = std::int64_t{ny} * nx, here = y * nx + x;
    const float* a = systems.products + b * systems.products_stride + here;
    const float* f = systems.forces + b * systems.forces_stride + here;
    const float xx = a[0] + kStepDamping, yy = a[size] + kStepDamping, xy = a[2 * size];
    const float by = 1 / (xx * yy - xy * xy);  // at least the damping squared
    float vx = by * (yy * f[0] - xy * f[size]), vy = by * (xx * f[size] - xy * f[0]);
    const float square = vx * vx + vy * vy;
    if (square > 1) {
      const float shorter = 1 / sqrtf(square);
      vx *= shorter;
      vy *= shorter;
    }
    const Bilinear there(ny, nx, static_cast<float>(y) + vy, static_cast<float>(x) + vx);
    const float* u = fields + 2 * b * size;
    float* out = to + 2 * b * size + here;
    out[0] = vx + there.of(u, nx);
    out[size] = vy + there.of(u + size, nx);
  }
};
ECHOTRAIN_MAP(StepTaken, 3)

/// The nine sums of a row: the upper half of A for (rotation, x, y), then f.
struct RigidRowSums {
  const float* systems;
  std::int64_t ny, nx;
  double* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y) const {
    const std::int64_t size = ny * nx;
    const float* a = systems + 5 * b * size + y * nx;
    const float dy = static_cast<float>(y) - 0.5f * static_cast<float>(ny - 1);
    float sums[9] = {};
    for (std::int64_t x = 0; x < nx; ++x) {
      const float dx = static_cast<float>(x) - 0.5f * static_cast<float>(nx - 1);
      const float xx = a[x], yy = a[size + x], xy = a[2 * size + x], fx = a[3 * size + x], fy = a[4 * size + x];
      sums[0] += dx * dx * yy - 2 * dx * dy * xy + dy * dy * xx;
      sums[1] += dx * xy - dy * xx;
      sums[2] += dx * yy - dy * xy;
      sums[3] += xx;
      sums[4] += xy;
      sums[5] += yy;
      sums[6] += dx * fy - dy * fx;
      sums[7] += fx;
      sums[8] += fy;
    }
    for (int i = 0; i < 9; ++i) to[(b * ny + y) * 9 + i] = static_cast<double>(sums[i]);
  }
};
ECHOTRAIN_MAP(RigidRowSums, 2)

struct RigidSums {
  const double* rows;
  std::int64_t ny;
  double* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t i) const {
    double sum = 0;
    for (std::int64_t y = 0; y < ny; ++y) sum += rows[(b * ny + y) * 9 + i];
    to[b * 9 + i] = sum;
  }
};
ECHOTRAIN_MAP(RigidSums, 2)

struct RigidStep {
  const double* sums;
  std::int64_t ny, nx;
  float* motions;
  ECHOTRAIN_EACH void operator()(std::int64_t b) const {
    // With rotations in units of a shift at the border, all curvatures are of one size.
    const double* s = sums + 9 * b;
    const double arm = 0.5 * static_cast<double>(ny < nx ? nx : ny);
    double rr = s[0] / (arm * arm), xx = s[3], yy = s[5];
    const double rx = s[1] / arm, ry = s[2] / arm, xy = s[4], fr = s[6] / arm, fx = s[7], fy = s[8];
    const double largest = rr > xx ? (rr > yy ? rr : yy) : (xx > yy ? xx : yy);
    if (!(largest > 0)) return;
    rr += kLeastCurvature * largest;
    xx += kLeastCurvature * largest;
    yy += kLeastCurvature * largest;
    const double c0 = xx * yy - xy * xy, c1 = ry * xy - rx * yy, c2 = rx * xy - ry * xx;
    const double by = 1 / (rr * c0 + rx * c1 + ry * c2);
    double r = by * (c0 * fr + c1 * fx + c2 * fy);
    double x = by * (c1 * fr + (rr * yy - ry * ry) * fx + (rx * ry - rr * xy) * fy);
    double y = by * (c2 * fr + (rx * ry - rr * xy) * fx + (rr * xx - rx * rx) * fy);
    const double length = sqrt(r * r + x * x + y * y);
    if (length > 2) {  // voxels at the border
      r *= 2 / length;
      x *= 2 / length;
      y *= 2 / length;
    }
    float* m = motions + 3 * b;
    const double angle = static_cast<double>(m[0]), cosine = cos(angle), sine = sin(angle);
    m[0] = static_cast<float>(angle + r / arm);
    m[1] += static_cast<float>(cosine * x - sine * y);
    m[2] += static_cast<float>(sine * x + cosine * y);
  }
};
ECHOTRAIN_MAP(RigidStep, 1)

struct RigidField {
  const float* motions;
  std::int64_t ny, nx;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t b, std::int64_t y, std::int64_t x) const {
    const float* m = motions + 3 * b;
    const float dx = static_cast<float>(x) - 0.5f * static_cast<float>(nx - 1);
    const float dy = static_cast<float>(y) - 0.5f * static_cast<float>(ny - 1);
    const float half = sinf(0.5f * m[0]), less = -2 * half * half, sine = sinf(m[0]);  // cos - 1, without cancellation
    float* out = to + (2 * b * ny + y) * nx + x;
    out[0] = less * dx - sine * dy + m[1];
    out[ny * nx] = sine * dx + less * dy + m[2];
  }
};
ECHOTRAIN_MAP(RigidField, 3)

struct RefinedMotion {
  float* motions;
  ECHOTRAIN_EACH void operator()(std::int64_t b) const {
    motions[3 * b + 1] *= 2;
    motions[3 * b + 2] *= 2;
  }
};
ECHOTRAIN_MAP(RefinedMotion, 1)

struct RefinedField {
  const float* from;
  std::int32_t half_y, half_x;
  std::int64_t ny, nx;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t plane, std::int64_t y, std::int64_t x) const {
    const Bilinear there(half_y, half_x, 0.5f * (static_cast<float>(y) - 0.5f), 0.5f * (static_cast<float>(x) - 0.5f));
    to[(plane * ny + y) * nx + x] = 2 * there.of(from + plane * half_y * half_x, half_x);
  }
};
ECHOTRAIN_MAP(RefinedField, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
namespace echotrain::numerics::registration {
namespace {

constexpr std::int64_t kStepGrain = 2048;

StepPlaces places(DeviceView<const float> reference, DeviceView<const float> images, DeviceView<const float> fields) {
  const Shape& n = reference.shape();
  return {.references = reference.data(),
          .images = images.data(),
          .fields = fields.data(),
          .reference_stride = n[0] == 1 ? 0 : n[1] * n[2],
          .ny = static_cast<std::int32_t>(n[1]),
          .nx = static_cast<std::int32_t>(n[2])};
}

}  // namespace

void gradient_products(Context& context, DeviceView<const float> reference, DeviceView<float> to) {
  const Shape& n = reference.shape();
  map(context, {n[0], n[1], n[2]}, StepGradientProducts{places(reference, {}, {}), to.data()}, kStepGrain);
}

void difference_forces(Context& context, DeviceView<const float> reference, DeviceView<const float> images,
                       DeviceView<const float> floors, DeviceView<const float> fields, DeviceView<float> to) {
  const Shape& n = images.shape();
  map(context, {n[0], n[1], n[2]}, StepDifferenceForces{places(reference, images, fields), floors.data(), to.data()},
      kStepGrain);
}

void move_images(Context& context, DeviceView<const float> reference, DeviceView<const float> images,
                 DeviceView<const float> fields, DeviceView<float> moved, DeviceView<float> products) {
  const Shape& n = images.shape();
  map(context, {n[0], n[1], n[2]}, StepMoved{places(reference, images, fields), moved.data(), products.data()},
      kStepGrain);
}

void squares(Context& context, DeviceView<const float> reference, DeviceView<float> to) {
  map(context, {reference.size()}, StepSquares{reference.data(), to.data()});
}

void correlation_systems(Context& context, DeviceView<const float> reference, DeviceView<const float> squares,
                         DeviceView<const float> moved, DeviceView<const float> products,
                         DeviceView<const float> fields, DeviceView<float> to) {
  const Shape& n = moved.shape();
  map(context, {n[0], n[1], n[2]},
      StepCorrelation{places(reference, moved, fields), squares.data(), products.data(), to.data()}, kStepGrain);
}

void take_step(Context& context, const SmoothedSystems& systems, DeviceView<const float> fields, DeviceView<float> to) {
  const Shape& n = fields.shape();
  map(context, {n[0], n[2], n[3]},
      StepTaken{systems, fields.data(), static_cast<std::int32_t>(n[2]), static_cast<std::int32_t>(n[3]), to.data()},
      kStepGrain);
}

void take_rigid_step(Context& context, DeviceView<const float> systems, DeviceView<double> sums,
                     DeviceView<float> motions) {
  const Shape& n = systems.shape();
  double* const of_images = sums.data() + 9 * n[0] * n[2];
  map(context, {n[0], n[2]}, RigidRowSums{systems.data(), n[2], n[3], sums.data()}, 32);
  map(context, {n[0], 9}, RigidSums{sums.data(), n[2], of_images}, 64);
  map(context, {n[0]}, RigidStep{of_images, n[2], n[3], motions.data()});
}

void rigid_fields(Context& context, DeviceView<const float> motions, DeviceView<float> fields) {
  const Shape& n = fields.shape();
  map(context, {n[0], n[2], n[3]}, RigidField{motions.data(), n[2], n[3], fields.data()}, kStepGrain);
}

void refine_motions(Context& context, DeviceView<float> motions) {
  map(context, {motions.shape()[0]}, RefinedMotion{motions.data()});
}

void refine_fields(Context& context, DeviceView<const float> fields, DeviceView<float> to) {
  const Shape &h = fields.shape(), &n = to.shape();
  map(context, {2 * n[0], n[2], n[3]},
      RefinedField{fields.data(), static_cast<std::int32_t>(h[2]), static_cast<std::int32_t>(h[3]), n[2], n[3],
                   to.data()},
      kStepGrain);
}

}  // namespace echotrain::numerics::registration
#endif
