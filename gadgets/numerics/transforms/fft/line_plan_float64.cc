#include "gadgets/numerics/transforms/fft/line_plan_float64.h"

#include <fftw3.h>

#include <mutex>
#include <string>
#include <vector>

namespace echotrain::numerics {
namespace {

std::mutex& float64_planner_mutex() {
  static std::mutex mutex;  // FFTW's planner is not thread-safe; its execution is
  return mutex;
}

fftw_complex* as_fftw_complex(double* values) { return reinterpret_cast<fftw_complex*>(values); }

}  // namespace

LinePlanFloat64::LinePlanFloat64(std::int64_t n) {
  std::vector<double> line(static_cast<std::size_t>(2 * n));
  const std::lock_guard lock(float64_planner_mutex());
  // Lines lie anywhere: those of different threads are not aligned alike.
  plan_ = fftw_plan_dft_1d(static_cast<int>(n), as_fftw_complex(line.data()), as_fftw_complex(line.data()),
                           FFTW_FORWARD, FFTW_ESTIMATE | FFTW_UNALIGNED);
  if (plan_ == nullptr) throw ResourceError("FFTW cannot plan a transform of " + std::to_string(n) + " points");
}

LinePlanFloat64::~LinePlanFloat64() {
  const std::lock_guard lock(float64_planner_mutex());
  fftw_destroy_plan(plan_);
}

void LinePlanFloat64::execute(double* line) const {
  fftw_execute_dft(plan_, as_fftw_complex(line), as_fftw_complex(line));
}

}  // namespace echotrain::numerics
