#include "gadgets/numerics/transforms/fft/fftw_plans_cpu.h"

#include <fftw3.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

namespace echotrain::numerics::cpu {
namespace {

static_assert(std::is_same_v<FftwPlans::Plan, fftwf_plan>);

constexpr std::size_t kMostPlans = 64;
// Plans after which FFTW forgets how it made them: 110 bytes for each that differs.
constexpr std::uint64_t kMostWisdom = 4096;
// Bytes that a plan keeps for each point: 25.6 of a prime near 65,536, whose plan has tables of convolutions.
constexpr std::size_t kBytesPerPoint = 26;

std::mutex& planner_mutex() {
  static std::mutex mutex;  // FFTW's planner is not thread-safe; its execution is
  return mutex;
}

fftwf_complex* as_fftw(cfloat* values) { return reinterpret_cast<fftwf_complex*>(values); }

int misalignment(const cfloat* line) {
  return fftwf_alignment_of(const_cast<float*>(reinterpret_cast<const float*>(line)));
}

// FFTW ends the process when its planner finds no memory, so it is called only where there is some. It needs tables of
// about n entries, and little more.
void require_memory_to_plan(std::int64_t n) {
  void* volatile there = std::malloc((std::size_t{1} << 20) + 64 * sizeof(cfloat) * static_cast<std::size_t>(n));
  if (there == nullptr) throw ResourceError("out of memory for the plan of a Fourier transform");
  std::free(there);
}

}  // namespace

void FftwPlans::trim() {
  if (plans_.size() > kMostPlans) clear();
}

FftwPlans::Plan FftwPlans::get(std::int64_t n, std::int64_t lines, std::int64_t distance, Direction direction,
                               cfloat* from, cfloat* to) {
  const Key key{static_cast<int>(n),
                static_cast<int>(lines),
                distance,
                from == to,
                direction == Direction::forward ? FFTW_FORWARD : FFTW_BACKWARD,
                misalignment(from)};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second.plan;
  auto charge = std::make_unique<HeapCharge>(kBytesPerPoint * static_cast<std::size_t>(n));
  require_memory_to_plan(n);
  const std::lock_guard lock(planner_mutex());
  const fftwf_iodim64 axis{n, 1, 1}, batch{lines, distance, distance};
  const Plan plan = fftwf_plan_guru64_dft(1, &axis, 1, &batch, as_fftw(from), as_fftw(to), key.sign, FFTW_ESTIMATE);
  if (plan == nullptr) throw ResourceError("FFTW cannot plan a transform of " + std::to_string(n) + " points");
  static std::uint64_t planned = 0;  // guarded by the planner's mutex
  if (++planned % kMostWisdom == 0) fftwf_forget_wisdom();
  plans_.emplace(key, Entry{plan, std::move(charge)});
  return plan;
}

void FftwPlans::execute(Plan plan, cfloat* from, cfloat* to) { fftwf_execute_dft(plan, as_fftw(from), as_fftw(to)); }

bool FftwPlans::aligned(const cfloat* line) { return misalignment(line) == 0; }

void FftwPlans::clear() {
  const std::lock_guard lock(planner_mutex());
  for (auto& [key, entry] : plans_) fftwf_destroy_plan(entry.plan);
  plans_.clear();
}

}  // namespace echotrain::numerics::cpu
