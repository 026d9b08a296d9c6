#include "gadgets/numerics/mri/field/unwarp_ops.h"

namespace echotrain::numerics::cpu {

void unwarp(Context& context, const UnwarpJob& job, const cfloat* distorted, const float* shift, cfloat* corrected) {
  const std::int64_t lines = job.planes * job.rows, plane = job.rows * job.columns;
  context.threads().parallel_for(lines, 1 + 4096 / (job.columns * job.batch),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t line = begin; line < end; ++line) {
                                     const std::int64_t z = line / job.rows, y = line % job.rows;
                                     for (std::int64_t x = 0; x < job.columns; ++x) {
                                       const UnwarpRow row = unwarp_row(job, shift + z * plane + x, job.columns, y);
                                       for (std::int64_t b = 0; b < job.batch; ++b) {
                                         const cfloat* from = distorted + (b * job.planes + z) * plane + x;
                                         float re = 0, im = 0;
                                         for (int i = 0; i < UnwarpJob::kTaps; ++i) {
                                           const std::int64_t at = row.first + i;
                                           if (at < 0 || at >= job.rows) continue;
                                           re += row.weights[i] * from[at * job.columns].real();
                                           im += row.weights[i] * from[at * job.columns].imag();
                                         }
                                         corrected[((b * job.planes + z) * job.rows + y) * job.columns + x] = {re, im};
                                       }
                                     }
                                   }
                                 });
}

}  // namespace echotrain::numerics::cpu
