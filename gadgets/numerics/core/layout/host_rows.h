// Rows of numbers that lie anywhere in host memory, as in received messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// A row at any alignment, and the owner of its memory.
struct HostRow {
  std::span<const std::byte> bytes;
  const std::shared_ptr<const void>* owner = nullptr;
};

/// Copies the rows one after another to where the context computes; shape: [row, ...]. On a GPU, rows in ReceiveMemory
/// at even distances are copied in one piece, with the bytes between them, and their owners are kept until the next
/// such call after the copy, or the context's end; other rows are copied once on the host. Throws ResourceError when
/// memory is exhausted; std::invalid_argument when the rows are not as many or as long as the shape says.
Array<cfloat> collect_rows(Context& context, std::span<const HostRow> rows, const Shape& shape);

/// The number of rows that a thread copies at a time: all of them where several threads are not worth waking.
std::int64_t rows_at_once(std::int64_t rows, std::int64_t row_bytes);

/// Rows `first` to `first + count` of a list, of which each lies `stride` bytes behind the one before it.
struct RowRun {
  std::int64_t first = 0, count = 0, stride = 0;
  bool operator==(const RowRun&) const = default;
};
/// Describes rows of `row_bytes` each as runs whose gaps are no longer than a row. Returns none when there are more
/// than `most`.
std::vector<RowRun> row_runs(std::span<const HostRow> rows, std::int64_t row_bytes, std::size_t most);

}  // namespace echotrain::numerics
