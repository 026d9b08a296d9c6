#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/inverse/nlinv/nlinv_ops.h"

namespace echotrain::numerics::cpu {
namespace {

struct NlinvScratch;  // intermediate image and coefficients of a coil: some hundred kilobytes

constexpr std::int64_t kVector = 8192;  // elements of a part of a sum; fixed, so that sums do not depend on the threads
constexpr std::int64_t kLanes = 16;     // rows have whole multiples of so many floats

const float* floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* floats(cfloat* values) { return reinterpret_cast<float*>(values); }

/// Floats of a row of n complex numbers, filled up to whole lanes.
std::int64_t row_floats(std::int64_t n) { return (2 * n + kLanes - 1) / kLanes * kLanes; }

/// The rows of one side of a transform: 2 half + 1 of them, or one less, about row `half`.
struct Side {
  std::int64_t rows, half;
};
Side points_of(const NlinvAxis& axis) { return {axis.points, axis.half()}; }
Side waves_of(const NlinvAxis& axis) { return {axis.waves(), axis.most}; }

/// to[s] = sum_r exp(sign i angle(r, s)) from[r] for rows of `width` floats, complex numbers. cosine, sine: [s >= 0, r
/// >= 0], `stride` a row. Rows r and -r share their cosine, and their sine apart from its sign. fold: working space of
/// twice (from.half + 1) rows.
template <int kVectorBytes>
ECHOTRAIN_INLINE void transform_rows_by(Side in, Side out, std::int64_t width, float sign, const float* cosine,
                                        const float* sine, std::int64_t stride, const float* from, float* to,
                                        float* fold) {
  using Vector [[gnu::vector_size(kVectorBytes), gnu::may_alias, gnu::aligned(4)]] = float;
  constexpr std::int64_t kAtOnce = kVectorBytes / sizeof(float);
  static_assert(kLanes % kAtOnce == 0);
  float* const odd = fold + (in.half + 1) * width;
  for (std::int64_t r = 0; r <= in.half; ++r) {
    const float *up = from + (in.half + r) * width, *down = from + (in.half - r) * width;
    float *e = fold + r * width, *o = odd + r * width;
    const float above = in.half + r < in.rows ? 1.0f : 0.0f, below = r > 0 ? 1.0f : 0.0f;
    if (above == 0) up = down;
    for (std::int64_t i = 0; i < width; i += 2) {
      e[i] = above * up[i] + below * down[i];
      e[i + 1] = above * up[i + 1] + below * down[i + 1];
      // This multiplies by sign i.
      o[i] = -sign * (above * up[i + 1] - below * down[i + 1]);
      o[i + 1] = sign * (above * up[i] - below * down[i]);
    }
  }
  for (std::int64_t s = 0; s <= out.half; s += 2) {
    const std::int64_t second = std::min(s + 1, out.half);
    const float *cos0 = cosine + s * stride, *cos1 = cosine + second * stride, *sin0 = sine + s * stride,
                *sin1 = sine + second * stride;
    for (std::int64_t i = 0; i < width; i += kAtOnce) {
      Vector even0{}, even1{}, odd0{}, odd1{};
      for (std::int64_t r = 0; r <= in.half; ++r) {
        const Vector e = *reinterpret_cast<const Vector*>(fold + r * width + i);
        const Vector o = *reinterpret_cast<const Vector*>(odd + r * width + i);
        even0 += cos0[r] * e;
        even1 += cos1[r] * e;
        odd0 += sin0[r] * o;
        odd1 += sin1[r] * o;
      }
      const auto put = [&](std::int64_t row, const Vector& even, const Vector& odd_part) ECHOTRAIN_INLINE_LAMBDA {
        if (out.half + row < out.rows) *reinterpret_cast<Vector*>(to + (out.half + row) * width + i) = even + odd_part;
        if (row > 0) *reinterpret_cast<Vector*>(to + (out.half - row) * width + i) = even - odd_part;
      };
      put(s, even0, odd0);
      if (second > s) put(second, even1, odd1);
    }
  }
}

ECHOTRAIN_VECTOR_CLONES(void transform_rows(Side in, Side out, std::int64_t width, float sign, const float* cosine,
                                            const float* sine, std::int64_t stride, const float* from, float* to,
                                            float* fold),
                        transform_rows_by<kVectorBytes>(in, out, width, sign, cosine, sine, stride, from, to, fold))

/// to = `from` transposed: rows of n and m complex numbers, with rows of those floats.
void turn(const float* from, std::int64_t m, std::int64_t n, std::int64_t from_width, std::int64_t to_width,
          float* to) {
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      to[j * to_width + 2 * i] = from[i * from_width + 2 * j];
      to[j * to_width + 2 * i + 1] = from[i * from_width + 2 * j + 1];
    }
    std::fill(to + j * to_width + 2 * m, to + (j + 1) * to_width, 0.0f);
  }
}

/// to = a b, or conj(a) b.
ECHOTRAIN_CLONES void multiply(const float* a, const float* b, float* to, std::int64_t n, bool conjugate) {
  const float sign = conjugate ? -1.0f : 1.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    const float are = a[2 * i], aim = sign * a[2 * i + 1], bre = b[2 * i], bim = b[2 * i + 1];
    to[2 * i] = are * bre - aim * bim;
    to[2 * i + 1] = are * bim + aim * bre;
  }
}
ECHOTRAIN_CLONES void add_product(const float* a, const float* b, float* to, std::int64_t n, bool conjugate) {
  const float sign = conjugate ? -1.0f : 1.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    const float are = a[2 * i], aim = sign * a[2 * i + 1], bre = b[2 * i], bim = b[2 * i + 1];
    to[2 * i] += are * bre - aim * bim;
    to[2 * i + 1] += are * bim + aim * bre;
  }
}

/// to = scale from + alpha p, and <p, to>.
ECHOTRAIN_CLONES double add_prior(float scale, const float* from, float alpha, const float* p, float* to,
                                  std::int64_t n) {
  constexpr std::int64_t kSums = 8;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::int64_t l = 0; l < kSums; ++l) {
      to[i + l] = scale * from[i + l] + alpha * p[i + l];
      sums[l] += static_cast<double>(p[i + l]) * static_cast<double>(to[i + l]);
    }
  for (; i < n; ++i) {
    to[i] = scale * from[i] + alpha * p[i];
    sums[0] += static_cast<double>(p[i]) * static_cast<double>(to[i]);
  }
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

ECHOTRAIN_CLONES double squares(const float* v, std::int64_t n) {
  constexpr std::int64_t kSums = 8;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::int64_t l = 0; l < kSums; ++l) sums[l] += static_cast<double>(v[i + l]) * static_cast<double>(v[i + l]);
  for (; i < n; ++i) sums[0] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

ECHOTRAIN_CLONES void combined(float a, const float* u, float b, const float* v, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = a * u[i] + b * v[i];
}

double total(const double* sums, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += sums[i];
  return sum;
}

std::int64_t parts_of(std::int64_t n) { return (n + kVector - 1) / kVector; }

/// Calls work(part, begin, end) for parts of [0, n).
template <class Work>
void for_parts(Context& context, std::int64_t n, const Work& work) {
  context.threads().parallel_for(parts_of(n), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) work(part, part * kVector, std::min(n, (part + 1) * kVector));
  });
}

/// The working space of a coil: its image, two intermediate stages, folded rows.
struct Space {
  std::int64_t wide_x, wide_y;  // floats of a row of x points, and of ky waves
  float *image, *stage, *turned, *coefficients, *fold;

  explicit Space(const NlinvProblem& p) : wide_x(row_floats(p.x.points)), wide_y(row_floats(p.y.waves())) {
    const std::int64_t images = p.y.points * wide_x, stages = std::max(p.y.waves() * wide_x, p.x.points * wide_y),
                       waves = p.x.waves() * wide_y,
                       folds = 2 * std::max((std::max(p.y.half(), p.y.most) + 1) * wide_x,
                                            (std::max(p.x.half(), p.x.most) + 1) * wide_y);
    image = thread_scratch<NlinvScratch>(static_cast<std::size_t>(images + 2 * stages + waves + folds));
    stage = image + images;
    turned = stage + stages;
    coefficients = turned + stages;
    fold = coefficients + waves;
  }
};

}  // namespace

std::int64_t nlinv_back_sums(const NlinvProblem& problem) { return parts_of(problem.voxels()) + problem.coils; }
std::int64_t nlinv_vector_sums(std::int64_t n) { return parts_of(n); }

void nlinv_product(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, const cfloat* p,
                   cfloat* z) {
  const std::int64_t voxels = problem.voxels(), waves = problem.waves(), nx = problem.x.points, ky = problem.y.waves();
  context.threads().parallel_for(problem.coils, 1, [&](std::int64_t begin, std::int64_t end) {
    const Space space(problem);
    const float* weights = problem.weights.data();
    for (std::int64_t coil = begin; coil < end; ++coil) {
      const cfloat* h = p + voxels + coil * waves;
      for (std::int64_t i = 0; i < problem.x.waves(); ++i) {
        float* row = space.coefficients + i * space.wide_y;
        for (std::int64_t j = 0; j < ky; ++j) {
          row[2 * j] = weights[i * ky + j] * h[i * ky + j].real();
          row[2 * j + 1] = weights[i * ky + j] * h[i * ky + j].imag();
        }
        std::fill(row + 2 * ky, row + space.wide_y, 0.0f);
      }
      transform_rows(waves_of(problem.x), points_of(problem.x), space.wide_y, 1, problem.x.cosine_of_points.data(),
                     problem.x.sine_of_points.data(), problem.x.wave_rows(), space.coefficients, space.stage,
                     space.fold);
      turn(space.stage, nx, ky, space.wide_y, space.wide_x, space.turned);
      transform_rows(waves_of(problem.y), points_of(problem.y), space.wide_x, 1, problem.y.cosine_of_points.data(),
                     problem.y.sine_of_points.data(), problem.y.wave_rows(), space.turned, space.image, space.fold);
      for (std::int64_t y = 0; y < problem.y.points; ++y) {
        const float* row = space.image + y * space.wide_x;
        float* to = floats(z + coil * voxels + y * nx);
        if (m == nullptr) {
          std::copy_n(row, 2 * nx, to);
        } else {
          multiply(floats(m + y * nx), row, to, nx, false);
          add_product(floats(p + y * nx), floats(c + coil * voxels + y * nx), to, nx, false);
        }
      }
    }
  });
}

void nlinv_multiply(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, cfloat* z) {
  for_parts(context, problem.voxels(), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t coil = 0; coil < problem.coils; ++coil) {
      const std::int64_t at = coil * problem.voxels() + begin;
      multiply(floats(m + begin), floats(c + at), floats(z + at), end - begin, false);
    }
  });
}

void nlinv_back(Context& context, const NlinvProblem& problem, float scale, float alpha, const cfloat* m,
                const cfloat* c, const cfloat* y, const cfloat* p, cfloat* h, double* sums) {
  const std::int64_t voxels = problem.voxels(), waves = problem.waves(), nx = problem.x.points, ky = problem.y.waves();
  for_parts(context, voxels, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    multiply(floats(c + begin), floats(y + begin), floats(h + begin), n, true);
    for (std::int64_t coil = 1; coil < problem.coils; ++coil)
      add_product(floats(c + coil * voxels + begin), floats(y + coil * voxels + begin), floats(h + begin), n, true);
    sums[part] = add_prior(scale, floats(h + begin), alpha, floats(p + begin), floats(h + begin), 2 * n);
  });
  const std::int64_t parts = parts_of(voxels);
  context.threads().parallel_for(problem.coils, 1, [&](std::int64_t begin, std::int64_t end) {
    const Space space(problem);
    const float* weights = problem.weights.data();
    for (std::int64_t coil = begin; coil < end; ++coil) {
      for (std::int64_t row = 0; row < problem.y.points; ++row) {
        float* to = space.image + row * space.wide_x;
        multiply(floats(m + row * nx), floats(y + coil * voxels + row * nx), to, nx, true);
        std::fill(to + 2 * nx, to + space.wide_x, 0.0f);
      }
      transform_rows(points_of(problem.y), waves_of(problem.y), space.wide_x, -1, problem.y.cosine.data(),
                     problem.y.sine.data(), problem.y.point_rows(), space.image, space.turned, space.fold);
      turn(space.turned, ky, nx, space.wide_x, space.wide_y, space.stage);
      transform_rows(points_of(problem.x), waves_of(problem.x), space.wide_y, -1, problem.x.cosine.data(),
                     problem.x.sine.data(), problem.x.point_rows(), space.stage, space.coefficients, space.fold);
      const std::int64_t first = voxels + coil * waves;
      double sum = 0;
      for (std::int64_t i = 0; i < problem.x.waves(); ++i) {
        float* row = space.coefficients + i * space.wide_y;
        for (std::int64_t j = 0; j < ky; ++j) {
          row[2 * j] *= weights[i * ky + j];
          row[2 * j + 1] *= weights[i * ky + j];
        }
        const std::int64_t at = first + i * ky;
        sum += add_prior(scale, row, alpha, floats(p + at), floats(h + at), 2 * ky);
      }
      sums[parts + coil] = sum;
    }
  });
}

void nlinv_combine(Context& context, std::int64_t n, float a, const cfloat* u, float b, const cfloat* v, cfloat* to) {
  for_parts(context, n, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    combined(a, floats(u + begin), b, floats(v + begin), floats(to + begin), 2 * (end - begin));
  });
}

void nlinv_begin(Context& context, std::int64_t n, const cfloat* h, cfloat* r, double* sums) {
  for_parts(context, n, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::copy(h + begin, h + end, r + begin);
    sums[part] = squares(floats(h + begin), 2 * (end - begin));
  });
}

void nlinv_step(Context& context, const NlinvStep& step) {
  const std::int64_t parts = parts_of(step.n);
  const NlinvLengths lengths = NlinvLengths::of(step.first, total(step.old, parts), total(step.now, parts),
                                                total(step.product, step.products), *step.length_before);
  *step.length = lengths.along;
  const auto a = static_cast<float>(lengths.along), b = static_cast<float>(lengths.before);
  for_parts(context, step.n, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = 2 * (end - begin);
    float *r = floats(step.r + begin), *p = floats(step.p + begin), *s = floats(step.s + begin),
          *d = floats(step.d + begin), *x = floats(step.x + begin);
    const float* q = floats(step.q + begin);
    if (step.first) {
      std::copy_n(r, count, p);
      std::copy_n(q, count, s);
      std::fill_n(d, count, 0.0f);
    } else {
      combined(1, r, b, p, p, count);
      combined(1, q, b, s, s, count);
    }
    combined(a, p, 1, d, d, count);
    combined(-a, s, 1, r, r, count);
    if (step.last) combined(1, x, 1, d, x, count);
    step.next[part] = squares(r, count);
  });
}

void nlinv_image(Context& context, const NlinvProblem& problem, float factor, const cfloat* m, const cfloat* c,
                 std::int64_t ny, std::int64_t nx, cfloat* to) {
  const std::int64_t first_y = problem.y.half() - ny / 2, first_x = problem.x.half() - nx / 2;
  constexpr std::int64_t kRows = 16;
  context.threads().parallel_for(ny, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y)
      for (std::int64_t x = 0; x < nx; ++x) {
        const std::int64_t at = (first_y + y) * problem.x.points + first_x + x;
        float power = 0;
        for (std::int64_t coil = 0; coil < problem.coils; ++coil) power += std::norm(c[coil * problem.voxels() + at]);
        to[y * nx + x] = factor * std::sqrt(power) * m[at];
      }
  });
}

void nlinv_run(Context& /*context*/, std::shared_ptr<void>& /*recorded*/, const std::function<void()>& work) { work(); }

}  // namespace echotrain::numerics::cpu
