#include "gadgets/engine/line_set.h"

#include <algorithm>
#include <span>
#include <utility>

namespace echotrain {
namespace {

/// The first size of a table: a scan may open thousands of frames of a line each, and pinned memory comes in blocks of
/// 4 KiB.
std::int64_t first_slots(numerics::Context& compute) { return compute.cuda() ? 512 : 32; }

numerics::HostArray<std::uint64_t> free_slots(numerics::Context& compute, std::int64_t count) {
  numerics::HostArray<std::uint64_t> slots = compute.allocate_host<std::uint64_t>({count});
  std::fill_n(slots.data(), count, 0);
  return slots;
}

/// Spreads counters, which differ in few bits, over the table (the finalizer of MurmurHash3).
std::uint64_t hash(std::uint64_t value) {
  value = (value ^ value >> 33) * 0xff51afd7ed558ccdull;
  value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53ull;
  return value ^ value >> 33;
}

}  // namespace

LineSet::LineSet(numerics::Context& compute) : compute_(&compute), slots_(free_slots(compute, first_slots(compute))) {}

bool LineSet::insert(std::uint64_t line) {
  if (contains(line)) return false;
  if (2 * (size_ + 1) > slots_.size()) grow();
  slots_.data()[slot(line) - slots_.data()] = line;
  ++size_;
  return true;
}

void LineSet::clear() {
  std::fill_n(slots_.data(), slots_.size(), 0);
  size_ = 0;
}

const std::uint64_t* LineSet::slot(std::uint64_t line) const {
  const std::uint64_t* slots = slots_.data();
  const auto mask = static_cast<std::uint64_t>(slots_.size()) - 1;
  std::uint64_t at = hash(line) & mask;
  while (slots[at] != 0 && slots[at] != line) at = (at + 1) & mask;
  return slots + at;
}

void LineSet::grow() {
  const auto old = std::exchange(slots_, free_slots(*compute_, 2 * slots_.size()));
  for (const std::uint64_t line : std::span(old.data(), static_cast<std::size_t>(old.size())))
    if (line != 0) slots_.data()[slot(line) - slots_.data()] = line;
}

}  // namespace echotrain
