#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/mri/parallel/line_unmixing_ops.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"
#include "gadgets/numerics/transforms/fft/fft_lines_cpu.h"
#include "gadgets/numerics/transforms/fft/fftw_plans_cpu.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kLanes = kHybridLanes;
constexpr std::size_t kMostPairs = 40;  // more pairs take longer than another transform

template <int kVectorBytes>
using Vector [[gnu::vector_size(kVectorBytes), gnu::may_alias]] = float;

/// A vector at any float's address. (Clang keeps the alignment of a class's name for a type, not of an alias template.)
template <int kVectorBytes>
struct Anywhere {
  using Vector [[gnu::vector_size(kVectorBytes), gnu::may_alias, gnu::aligned(4)]] = float;
  static_assert(sizeof(Vector) == kVectorBytes);
};

/// Complex numbers of kLanes columns.
struct ComplexLanes {
  float re[kLanes], im[kLanes];
};

struct UnmixingScratch;

/// The real parts of w's complex numbers in both places of each, likewise the imaginary parts, and v's with their parts
/// swapped, the first of them negative.
template <class V>
ECHOTRAIN_INLINE void complex_factors(const V& w, const V& v, V& re, V& im, V& turned) {
  if constexpr (sizeof(V) == 16) {
    re = __builtin_shufflevector(w, w, 0, 0, 2, 2);
    im = __builtin_shufflevector(w, w, 1, 1, 3, 3);
    turned = __builtin_shufflevector(v, v, 1, 0, 3, 2) * V{-1, 1, -1, 1};
  } else if constexpr (sizeof(V) == 32) {
    re = __builtin_shufflevector(w, w, 0, 0, 2, 2, 4, 4, 6, 6);
    im = __builtin_shufflevector(w, w, 1, 1, 3, 3, 5, 5, 7, 7);
    turned = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6) * V{-1, 1, -1, 1, -1, 1, -1, 1};
  } else {
    re = __builtin_shufflevector(w, w, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14);
    im = __builtin_shufflevector(w, w, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);
    turned = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14) *
             V{-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
  }
}

/// sum += weights * values, complex numbers.
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_products_by(const float* weights, const float* values, std::int64_t count, float* sum) {
  using V = Vector<kVectorBytes>;
  using InMemory = typename Anywhere<kVectorBytes>::Vector;
  constexpr std::int64_t kAtOnce = kVectorBytes / sizeof(float);
  const std::int64_t whole = 2 * count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kAtOnce) {
    const V w = *reinterpret_cast<const InMemory*>(weights + i), v = *reinterpret_cast<const InMemory*>(values + i);
    V re, im, turned;
    complex_factors(w, v, re, im, turned);
    *reinterpret_cast<InMemory*>(sum + i) += re * v + im * turned;
  }
  for (std::int64_t i = whole; i < 2 * count; i += 2) {
    sum[i] += weights[i] * values[i] - weights[i + 1] * values[i + 1];
    sum[i + 1] += weights[i] * values[i + 1] + weights[i + 1] * values[i];
  }
}

ECHOTRAIN_VECTOR_CLONES(void add_products(const float* weights, const float* values, std::int64_t count, float* sum),
                        add_products_by<kVectorBytes>(weights, values, count, sum))

/// The corrected rows of one coil at a distance from the middle line, on both sides of it.
struct CorrectedLines {
  const ComplexLanes* sums;  // [pair, sum and difference of partners]
  std::int64_t pairs, distances;
  const float* turns;        // [distance, pair, cos and sin]
  const ComplexLanes* maps;  // [distance, + and -]
  ComplexLanes* to;          // [distance, + and -]
};

/// to += maps * (C +- D)
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_corrected_by(const CorrectedLines& w) {
  using V = Vector<kVectorBytes>;
  using InMemory = typename Anywhere<kVectorBytes>::Vector;
  constexpr std::int64_t kAtOnce = kVectorBytes / sizeof(float);
  for (std::int64_t q = 0; q < w.distances; ++q)
    for (std::int64_t first = 0; first < kLanes; first += kAtOnce) {
      const auto at = [first](const float* lanes) ECHOTRAIN_INLINE_LAMBDA -> const InMemory& {
        return *reinterpret_cast<const InMemory*>(lanes + first);
      };
      const auto add = [first](float* lanes, const InMemory& value)
                           ECHOTRAIN_INLINE_LAMBDA { *reinterpret_cast<InMemory*>(lanes + first) += value; };
      V even_re = {}, even_im = {}, odd_re = {}, odd_im = {};
      const float* turn = w.turns + q * 2 * w.pairs;
      for (std::int64_t p = 0; p < w.pairs; ++p, turn += 2) {
        even_re += turn[0] * at(w.sums[2 * p].re);
        even_im += turn[0] * at(w.sums[2 * p].im);
        odd_re += turn[1] * at(w.sums[2 * p + 1].re);
        odd_im += turn[1] * at(w.sums[2 * p + 1].im);
      }
      const ComplexLanes* map = w.maps + 2 * q;
      ComplexLanes* to = w.to + 2 * q;
      const V re = even_re + odd_re, im = even_im + odd_im;
      add(to[0].re, at(map[0].re) * re - at(map[0].im) * im);
      add(to[0].im, at(map[0].re) * im + at(map[0].im) * re);
      const V other_re = even_re - odd_re, other_im = even_im - odd_im;
      add(to[1].re, at(map[1].re) * other_re - at(map[1].im) * other_im);
      add(to[1].im, at(map[1].re) * other_im + at(map[1].im) * other_re);
    }
}

ECHOTRAIN_VECTOR_CLONES(void add_corrected(const CorrectedLines& w), add_corrected_by<kVectorBytes>(w))

/// Computes (e+ + e-) and i (e+ - e-) for kLanes columns.
ECHOTRAIN_CLONES void add_partners(const ComplexLanes& plus, const ComplexLanes* minus, ComplexLanes* to) {
  const ComplexLanes none = {};
  const ComplexLanes& other = minus != nullptr ? *minus : none;
  for (std::int64_t i = 0; i < kLanes; ++i) {
    to[0].re[i] = plus.re[i] + other.re[i];
    to[0].im[i] = plus.im[i] + other.im[i];
    to[1].re[i] = other.im[i] - plus.im[i];
    to[1].im[i] = plus.re[i] - other.re[i];
  }
}

/// One block of columns, in this thread's working space.
class ColumnBlock {
 public:
  ColumnBlock(const LineUnmixingWork& work, std::int64_t block)
      : work_(work),
        plan_(work.plan),
        coils_(work.plan.coils),
        width_(work.plan.geometry.image[2]),
        rows_(work.plan.geometry.encoded[1]),
        block_(block),
        first_(block * kLanes),
        columns_(std::min(kLanes, width_ - first_)),
        values_(plan_.folds * plan_.points) {
    float* next = thread_scratch<UnmixingScratch>(floats(plan_));
    const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
    lines_ = reinterpret_cast<cfloat*>(take(2 * kLanes * distance(plan_)));
    transformed_ = reinterpret_cast<cfloat*>(take(2 * kLanes * distance(plan_)));
    sums_ = take(2 * kLanes * values_);
    if (plan_.pairs.empty()) return;
    sources_ = take(count(plan_.sources) * coils_ * 2 * kLanes);
    corrected_ = take(count(plan_.own) * coils_ * 2 * kLanes);
    partners_ = reinterpret_cast<ComplexLanes*>(take(count(plan_.pairs) * 4 * kLanes));
    added_ = reinterpret_cast<ComplexLanes*>(take(distances(plan_) * 4 * kLanes));
  }

  static std::int64_t distance(const LineUnmixing& plan) { return (plan.points + 7) / 8 * 8 + 8; }
  static std::int64_t distances(const LineUnmixing& plan) { return plan.geometry.image[1] / 2 + 1; }
  static std::size_t floats(const LineUnmixing& plan) {
    const std::int64_t rows = count(plan.sources) + count(plan.own);
    return static_cast<std::size_t>(2 * kLanes * (2 * distance(plan) + plan.folds * plan.points + rows * plan.coils) +
                                    4 * kLanes * (count(plan.pairs) + distances(plan)));
  }

  cfloat* lines() const { return lines_; }
  cfloat* transformed() const { return transformed_; }

  void run(FftwPlans::Plan fft) {
    unmix(fft);
    if (!plan_.pairs.empty()) correct();
    store();
  }

 private:
  template <class T>
  static std::int64_t count(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size());
  }
  const cfloat* row(std::int64_t coil, std::int64_t y) const {
    return work_.half.data() + (coil * rows_ + y) * width_ + first_;
  }

  void unmix(FftwPlans::Plan fft) {
    const std::int64_t apart = distance(plan_);
    std::fill_n(lines_, kLanes * apart, cfloat{});
    std::fill_n(sums_, 2 * kLanes * values_, 0.0f);
    for (std::int64_t coil = 0; coil < coils_; ++coil) {
      columns_to_lines(row(coil, plan_.first), plan_.step * width_, plan_.count, columns_, lines_, apart);
      FftwPlans::execute(fft, lines_, transformed_);
      const auto* weights =
          reinterpret_cast<const float*>(plan_.weights.data() + (block_ * coils_ + coil) * kLanes * values_);
      for (std::int64_t c = 0; c < columns_; ++c)
        for (std::int64_t f = 0; f < plan_.folds; ++f) {
          const std::int64_t at = 2 * (c * values_ + f * plan_.points);
          add_products(weights + at, reinterpret_cast<const float*>(transformed_ + c * apart), plan_.points,
                       sums_ + at);
        }
    }
  }

  /// Rows of corrections, [row, coil, re and im, kLanes].
  void make_rows() {
    const std::int64_t per_row = coils_ * 2 * kLanes;
    for (std::int64_t i = 0; i < count(plan_.sources); ++i)
      for (std::int64_t coil = 0; coil < coils_; ++coil) {
        const cfloat* from = row(coil, plan_.sources[static_cast<std::size_t>(i)]);
        float* to = sources_ + i * per_row + coil * 2 * kLanes;
        std::fill_n(to, 2 * kLanes, 0.0f);
        for (std::int64_t x = 0; x < columns_; ++x) {
          to[x] = from[x].real();
          to[kLanes + x] = from[x].imag();
        }
      }
    const std::int64_t per_kernel = coils_ * coils_ * 2 * kLanes;
    const float* kernels = work_.hybrid.values.data() + block_ * work_.hybrid.sources() * per_kernel;
    for (std::int64_t i = 0; i < count(plan_.own); ++i) {
      float* to = corrected_ + i * per_row;
      if (const std::int32_t own = plan_.own[static_cast<std::size_t>(i)]; own >= 0)
        std::copy_n(sources_ + own * per_row, per_row, to);
      else
        std::fill_n(to, per_row, 0.0f);
      const std::int32_t* first = work_.corrections.first.data() + i;
      for (std::int32_t t = first[0]; t < first[1]; ++t) {
        const LineCorrections::Term& term = work_.corrections.terms.data()[t];
        add_correction(kernels + term.source * per_kernel,
                       sources_ + plan_.terms[static_cast<std::size_t>(t)] * per_row, term.sign, coils_, to);
      }
    }
  }

  void correct() {
    make_rows();
    const std::int64_t distances_here = distances(plan_);
    std::fill_n(added_, 2 * distances_here, ComplexLanes{});
    const auto* maps = reinterpret_cast<const ComplexLanes*>(plan_.maps.data());
    const auto* corrected = reinterpret_cast<const ComplexLanes*>(corrected_);
    for (std::int64_t coil = 0; coil < coils_; ++coil) {
      for (std::size_t p = 0; p < plan_.pairs.size(); ++p) {
        const LineUnmixing::Pair& pair = plan_.pairs[p];
        add_partners(corrected[pair.plus * coils_ + coil],
                     pair.minus < 0 ? nullptr : corrected + pair.minus * coils_ + coil, partners_ + 2 * p);
      }
      add_corrected({.sums = partners_,
                     .pairs = count(plan_.pairs),
                     .distances = distances_here,
                     .turns = plan_.turns.data(),
                     .maps = maps + (block_ * coils_ + coil) * 2 * distances_here,
                     .to = added_});
    }
  }

  void store() const {
    const std::int64_t lines = plan_.geometry.image[1];
    const auto* sums = reinterpret_cast<const cfloat*>(sums_);
    for (std::int64_t i = 0; i < lines; ++i) {
      cfloat* to = work_.image + i * width_ + first_;
      const cfloat* from = sums + plan_.place[static_cast<std::size_t>(i)];
      for (std::int64_t c = 0; c < columns_; ++c) to[c] = from[c * values_];
      if (plan_.pairs.empty()) continue;
      const std::int64_t r = i - lines / 2;
      const auto* added = reinterpret_cast<const float*>(added_ + 2 * std::abs(r) + (r < 0 ? 1 : 0));
      for (std::int64_t c = 0; c < columns_; ++c) to[c] += cfloat(added[c], added[kLanes + c]);
    }
  }

  const LineUnmixingWork& work_;
  const LineUnmixing& plan_;
  std::int64_t coils_, width_, rows_, block_, first_, columns_, values_;
  cfloat *lines_ = nullptr, *transformed_ = nullptr;     // [kLanes, distance]
  float* sums_ = nullptr;                                // [kLanes, fold, point] complex
  float *sources_ = nullptr, *corrected_ = nullptr;      // [row, coil, re and im, kLanes]
  ComplexLanes *partners_ = nullptr, *added_ = nullptr;  // [pair, 2], [distance, 2]
};

std::int64_t blocks_of(const LineUnmixing& plan) { return (plan.geometry.image[2] + kLanes - 1) / kLanes; }

cfloat turn_by(double turns) { return cfloat(std::polar(1.0, 2 * std::numbers::pi * turns)); }

/// Prefetches kLanes complex numbers: the factors of weights come from rows far apart, which no cache expects.
void ask_for(const cfloat* values) {
  for (std::int64_t i = 0; i <= kLanes; i += 8) __builtin_prefetch(values + std::min(i, kLanes - 1));
}
constexpr std::int64_t kAhead = 12;  // rows

void keep_unmixing(Context& context, const Array<cfloat>& factors, float scale, LineUnmixing& plan) {
  const std::int64_t lines = plan.geometry.image[1], width = plan.geometry.image[2], blocks = blocks_of(plan);
  const std::int64_t values = plan.folds * plan.points, origin = plan.first - plan.geometry.encoded[1] / 2;
  plan.weights = context.allocate<cfloat>({blocks, plan.coils, kLanes, plan.folds, plan.points});
  std::vector<cfloat> phases;
  for (std::int64_t i = 0; i < lines; ++i)
    phases.push_back(
        scale * turn_by(static_cast<double>(origin * (i - lines / 2)) / static_cast<double>(plan.geometry.padded[1])));
  context.threads().parallel_for(blocks * plan.coils, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b / plan.coils * kLanes, coil = b % plan.coils;
      const cfloat* from = factors.data() + coil * lines * width + first;
      cfloat* to = plan.weights.data() + b * kLanes * values;
      std::fill_n(to, kLanes * values, cfloat{});
      for (std::int64_t i = 0; i < lines; ++i) {
        ask_for(from + std::min(i + kAhead, lines - 1) * width);
        for (std::int64_t c = 0; c < std::min(kLanes, width - first); ++c)
          to[c * values + plan.place[static_cast<std::size_t>(i)]] =
              std::conj(from[i * width + c]) * phases[static_cast<std::size_t>(i)];
      }
    }
  });
}

void keep_maps(Context& context, const cfloat* maps, double middle, float scale, LineUnmixing& plan) {
  const std::int64_t lines = plan.geometry.image[1], width = plan.geometry.image[2], blocks = blocks_of(plan);
  const std::int64_t distances = ColumnBlock::distances(plan), pairs = static_cast<std::int64_t>(plan.pairs.size());
  const auto n = static_cast<double>(plan.geometry.padded[1]);
  plan.turns = context.allocate<float>({distances, pairs, 2});
  for (std::int64_t q = 0; q < distances; ++q)
    for (std::int64_t p = 0; p < pairs; ++p) {
      const cfloat turn = turn_by(plan.pairs[static_cast<std::size_t>(p)].distance * static_cast<double>(q) / n);
      plan.turns.data()[2 * (q * pairs + p)] = turn.real();
      plan.turns.data()[2 * (q * pairs + p) + 1] = turn.imag();
    }
  plan.maps = context.allocate<float>({blocks, plan.coils, distances, 4, kLanes});
  std::vector<cfloat> phases;
  for (std::int64_t i = 0; i < lines; ++i)
    phases.push_back(scale * turn_by(middle * static_cast<double>(i - lines / 2) / n));
  context.threads().parallel_for(blocks * plan.coils, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b / plan.coils * kLanes, coil = b % plan.coils;
      const cfloat* from = maps + coil * lines * width + first;
      float* all = plan.maps.data() + b * distances * 4 * kLanes;
      std::fill_n(all, distances * 4 * kLanes, 0.0f);
      for (std::int64_t i = 0; i < lines; ++i) {
        const std::int64_t r = i - lines / 2;
        float* to = all + (2 * std::abs(r) + (r < 0 ? 1 : 0)) * 2 * kLanes;
        ask_for(from + std::min(i + kAhead, lines - 1) * width);
        for (std::int64_t c = 0; c < std::min(kLanes, width - first); ++c) {
          const cfloat map = std::conj(from[i * width + c]) * phases[static_cast<std::size_t>(i)];
          to[c] = map.real();
          to[kLanes + c] = map.imag();
        }
      }
    }
  });
}

/// Keeps the acquired rows that make up the corrected ones, each once.
void keep_sources(const LineCorrections& corrections, LineUnmixing& plan) {
  std::map<std::int32_t, std::int32_t> numbers;
  const auto number_of = [&](std::int32_t row) {
    const auto [found, is_new] = numbers.try_emplace(row, static_cast<std::int32_t>(plan.sources.size()));
    if (is_new) plan.sources.push_back(row);
    return found->second;
  };
  for (std::int64_t i = 0; i < corrections.count(); ++i)
    plan.own.push_back(corrections.own.data()[i] >= 0 ? number_of(corrections.own.data()[i]) : -1);
  for (std::int64_t i = 0; i < corrections.terms.size(); ++i)
    plan.terms.push_back(number_of(corrections.terms.data()[i].row));
}

}  // namespace

bool unmixing_pays(const LineUnmixing& plan) { return plan.pairs.size() <= kMostPairs; }

void keep_weights(Context& context, const Array<cfloat>& factors, const LineCorrections& corrections, double middle,
                  float scale, LineUnmixing& plan) {
  keep_unmixing(context, factors, scale, plan);
  if (plan.pairs.empty()) return;
  keep_sources(corrections, plan);
  keep_maps(context, factors.data() + factors.size() / 2, middle, scale, plan);
}

void unmix_lines(Context& context, const LineUnmixingWork& work) {
  FftwPlans& plans = context.cache<FftwPlans>();
  plans.trim();
  const ColumnBlock any(work, 0);
  const FftwPlans::Plan fft = plans.get(work.plan.points, kLanes, ColumnBlock::distance(work.plan), Direction::inverse,
                                        any.lines(), any.transformed());
  context.threads().parallel_for(blocks_of(work.plan), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) ColumnBlock(work, block).run(fft);
  });
}

}  // namespace echotrain::numerics::cpu
