#include <fftw3.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "gadgets/numerics/fft_ops.h"

namespace echotrain::numerics::cpu {
namespace {

/// Columns copied together into a contiguous block before they are transformed: two cache lines of each row.
constexpr std::int64_t kColumns = 16;
/// Items transformed together: their passes over the axes then find the data in the cache.
constexpr std::int64_t kCachedElements = 256 * 1024;
constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece

std::mutex& planner_mutex() {
  static std::mutex mutex;  // FFTW's planner is not thread-safe; its execution is
  return mutex;
}

struct PlanKey {
  int n;
  std::int64_t howmany, stride, distance;
  int sign, misalignment;
  auto operator<=>(const PlanKey&) const = default;
};

/// One-dimensional FFTW plans of a context. Planned by estimate, so that every run has the same bits.
class Plans {
 public:
  Plans() = default;
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  ~Plans() { clear(); }

  /// Forgets all plans when there are many. To be called while none is in use.
  void trim() {
    if (plans_.size() > kMostPlans) clear();
  }

  fftwf_plan get(std::int64_t n, std::int64_t howmany, std::int64_t stride, std::int64_t distance, Direction direction,
                 cfloat* data) {
    auto* fftw_data = reinterpret_cast<fftwf_complex*>(data);
    const PlanKey key{static_cast<int>(n),
                      howmany,
                      stride,
                      distance,
                      direction == Direction::forward ? FFTW_FORWARD : FFTW_BACKWARD,
                      fftwf_alignment_of(reinterpret_cast<float*>(data))};
    auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    std::lock_guard lock(planner_mutex());
    const fftwf_iodim64 axis{n, stride, stride}, batch{howmany, distance, distance};
    fftwf_plan plan = fftwf_plan_guru64_dft(1, &axis, 1, &batch, fftw_data, fftw_data, key.sign, FFTW_ESTIMATE);
    if (plan == nullptr) throw ResourceError("FFTW cannot plan a transform of " + std::to_string(n) + " points");
    plans_.emplace(key, plan);
    return plan;
  }

 private:
  static constexpr std::size_t kMostPlans = 64;

  void clear() {
    std::lock_guard lock(planner_mutex());
    for (auto& [key, plan] : plans_) fftwf_destroy_plan(plan);
    plans_.clear();
  }

  std::map<PlanKey, fftwf_plan> plans_;
};

void execute(fftwf_plan plan, cfloat* data) {
  auto* fftw_data = reinterpret_cast<fftwf_complex*>(data);
  fftwf_execute_dft(plan, fftw_data, fftw_data);
}

/// The aligned and the misaligned variant of a contiguous transform: rows of odd length alternate between them.
struct PlanPair {
  fftwf_plan plans[2];
  int aligned;
  PlanPair(Plans& cache, std::int64_t n, Direction direction, cfloat* data)
      : plans{cache.get(n, 1, 1, n, direction, data), cache.get(n, 1, 1, n, direction, data + 1)},
        aligned(fftwf_alignment_of(reinterpret_cast<float*>(data))) {}
  void run(cfloat* data) const {
    execute(plans[fftwf_alignment_of(reinterpret_cast<float*>(data)) == aligned ? 0 : 1], data);
  }
};

/// This thread's working space for a few columns, aligned as FFTW likes it. Grows to the longest axis met, so a few
/// megabytes at most, and is not charged to any session.
cfloat* scratch(std::int64_t elements) {
  struct Free {
    void operator()(fftwf_complex* memory) const { fftwf_free(memory); }
  };
  thread_local std::unique_ptr<fftwf_complex, Free> memory;
  thread_local std::int64_t size = 0;
  if (size < elements) {
    memory.reset(fftwf_alloc_complex(static_cast<std::size_t>(elements)));
    size = memory ? elements : 0;
    if (!memory) throw ResourceError("out of memory for the working space of a Fourier transform");
  }
  return reinterpret_cast<cfloat*>(memory.get());
}

/// Transforms an axis of `n` elements that are `stride` apart, in `planes` planes of n * stride elements.
void transform_axis(Context& context, Plans& plans, cfloat* data, std::int64_t planes, std::int64_t n,
                    std::int64_t stride, Direction direction) {
  if (n == 1) return;
  if (stride == 1) {
    const PlanPair plan(plans, n, direction, data);
    context.threads().parallel_for(planes, std::max<std::int64_t>(1, kGrain / n),
                                   [&](std::int64_t begin, std::int64_t end) {
                                     for (std::int64_t i = begin; i < end; ++i) plan.run(data + i * n);
                                   });
    return;
  }
  // Elements far apart in memory share cache sets; a contiguous copy of a few neighbouring columns does not.
  const std::int64_t columns = std::min(kColumns, stride);
  const std::int64_t blocks_per_plane = (stride + columns - 1) / columns, blocks = planes * blocks_per_plane;
  const fftwf_plan plan = plans.get(n, columns, columns, 1, direction, scratch(n * kColumns));
  context.threads().parallel_for(
      blocks, std::max<std::int64_t>(1, kGrain / (n * columns)), [&](std::int64_t begin, std::int64_t end) {
        cfloat* block = scratch(n * kColumns);
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t first = b % blocks_per_plane * columns, width = std::min(columns, stride - first);
          cfloat* corner = data + b / blocks_per_plane * n * stride + first;
          for (std::int64_t i = 0; i < n; ++i) {
            std::copy_n(corner + i * stride, width, block + i * columns);
            std::fill_n(block + i * columns + width, columns - width, cfloat{});
          }
          execute(plan, block);
          for (std::int64_t i = 0; i < n; ++i) std::copy_n(block + i * columns, width, corner + i * stride);
        }
      });
}

/// Element of the transform that holds index i of a centred axis.
std::int64_t wrapped(std::int64_t i, std::int64_t n, std::int64_t padded) {
  const std::int64_t k = i - n / 2;
  return k < 0 ? k + padded : k;
}

/// Calls row(offset in the centred array, offset in the transform) for each row that fits; the rows' x differ by two
/// runs: [first, n/2) goes to the end of the transform's row, [n/2, last) to its start.
template <class Row>
void for_rows(Context& context, std::int64_t batch, const Centred& c, const Row& row) {
  const std::int64_t nz = c.last[0] - c.first[0], ny = c.last[1] - c.first[1];
  context.threads().parallel_for(
      batch * nz * ny, std::max<std::int64_t>(1, kGrain / c.padded[2]), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t item = i / (nz * ny), z = i / ny % nz + c.first[0], y = i % ny + c.first[1];
          row(((item * c.n[0] + z) * c.n[1] + y) * c.n[2],
              ((item * c.padded[0] + wrapped(z, c.n[0], c.padded[0])) * c.padded[1] + wrapped(y, c.n[1], c.padded[1])) *
                  c.padded[2]);
        }
      });
}

}  // namespace

void fft(Context& context, cfloat* data, std::int64_t batch, const Extents& extents, int dims, Direction direction) {
  Plans& plans = context.cache<Plans>();
  plans.trim();
  const std::int64_t item = volume(extents);
  const std::int64_t group = std::clamp<std::int64_t>(kCachedElements / item, 1, batch);
  for (std::int64_t b = 0; b < batch; b += group) {
    std::int64_t planes = std::min(group, batch - b) * item, stride = 1;
    for (int a = 2; a > 2 - dims; --a) {
      planes /= extents[a];
      transform_axis(context, plans, data + b * item, planes, extents[a], stride, direction);
      stride *= extents[a];
    }
  }
}

void place(Context& context, const cfloat* from, cfloat* padded, std::int64_t batch, const Centred& c) {
  if (c.n != c.padded) {
    const std::int64_t all = batch * volume(c.padded);
    context.threads().parallel_for(
        all, kGrain, [&](std::int64_t begin, std::int64_t end) { std::fill(padded + begin, padded + end, cfloat{}); });
  }
  const std::int64_t middle = c.n[2] / 2;
  for_rows(context, batch, c, [&](std::int64_t source, std::int64_t target) {
    std::copy(from + source + middle, from + source + c.last[2], padded + target);
    std::copy(from + source + c.first[2], from + source + middle,
              padded + target + c.padded[2] - (middle - c.first[2]));
  });
}

void crop(Context& context, const cfloat* padded, cfloat* to, std::int64_t batch, const Centred& c, float scale) {
  const std::int64_t middle = c.n[2] / 2;
  const auto scaled = [scale](cfloat v) { return v * scale; };
  for_rows(context, batch, c, [&](std::int64_t target, std::int64_t source) {
    const cfloat* row = padded + source;
    std::transform(row, row + c.n[2] - middle, to + target + middle, scaled);
    std::transform(row + c.padded[2] - middle, row + c.padded[2], to + target, scaled);
  });
}

}  // namespace echotrain::numerics::cpu
