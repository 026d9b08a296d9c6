#include "gadgets/numerics/layout/host_rows.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/layout/host_rows_ops.h"

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
  const auto row = static_cast<std::size_t>(shape.size()) / rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(data.data() + i * row, rows[i].bytes.data(), row * sizeof(cfloat));
  return context.place(data);
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
