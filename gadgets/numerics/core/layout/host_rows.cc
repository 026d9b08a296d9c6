#include "gadgets/numerics/core/layout/host_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/layout/host_rows_ops.h"

namespace echotrain::numerics {

Array<cfloat> collect_rows(Context& context, std::span<const HostRow> rows, const Shape& shape) {
  if (shape.rank() == 0 || shape[0] != static_cast<std::int64_t>(rows.size()))
    throw std::invalid_argument(fmt::format("collect_rows: {} rows do not make {}", rows.size(), shape.text()));
  for (const HostRow& row : rows)
    if (row.bytes.size() * rows.size() != static_cast<std::size_t>(shape.size()) * sizeof(cfloat))
      throw std::invalid_argument(
          fmt::format("collect_rows: a row of {} bytes is not one of {}", row.bytes.size(), shape.text()));
  if (shape.size() == 0) return context.allocate<cfloat>(shape);
  return ECHOTRAIN_DISPATCH(context, collect_rows(context, rows, shape));
}

Array<cfloat> copy_rows(Context& context, std::span<const HostRow> rows, const Shape& shape) {
  HostArray<cfloat> data = context.allocate_host<cfloat>(shape);
  const auto count = static_cast<std::int64_t>(rows.size()), row = shape.size() / count;
  const std::int64_t bytes = row * static_cast<std::int64_t>(sizeof(cfloat));
  context.threads().parallel_for(count, rows_at_once(count, bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(data.data() + i * row, rows[static_cast<std::size_t>(i)].bytes.data(),
                  static_cast<std::size_t>(bytes));
  });
  return context.place(data);
}

// One core moves some GB/s; waking others takes tens of microseconds.
std::int64_t rows_at_once(std::int64_t rows, std::int64_t row_bytes) {
  constexpr std::int64_t kWorthSharing = 1 << 20, kShare = 256 << 10;
  if (row_bytes <= 0 || rows < kWorthSharing / row_bytes) return std::max<std::int64_t>(rows, 1);
  return std::max<std::int64_t>(kShare / row_bytes, 1);
}

std::vector<RowRun> row_runs(std::span<const HostRow> rows, std::int64_t row_bytes, std::size_t most) {
  std::vector<RowRun> runs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!runs.empty()) {
      RowRun& run = runs.back();
      const std::int64_t stride = rows[i].bytes.data() - rows[i - 1].bytes.data();
      if (run.count == 1 ? stride >= row_bytes && stride <= 2 * row_bytes : stride == run.stride) {
        run.stride = stride;
        ++run.count;
        continue;
      }
    }
    if (runs.size() == most) return {};
    runs.push_back({static_cast<std::int64_t>(i), 1, 0});
  }
  return runs;
}

}  // namespace echotrain::numerics
