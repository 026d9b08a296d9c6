#include "gadgets/cartesian/acs_reinsertion.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace echotrain {
namespace {

/// Cuts out readouts [begin, end) of a batch, which share its memory.
Readouts part_of(const Readouts& batch, std::size_t begin, std::size_t end) {
  const auto& shape = batch.data.shape();  // [readout, coil, sample]
  Readouts out;
  out.kind = batch.kind;
  out.heads.assign(batch.heads.begin() + static_cast<std::ptrdiff_t>(begin),
                   batch.heads.begin() + static_cast<std::ptrdiff_t>(end));
  cfloat* first = const_cast<cfloat*>(batch.data.data()) + static_cast<std::int64_t>(begin) * shape[1] * shape[2];
  out.data = Array<cfloat>(std::shared_ptr<void>(batch.data.memory(), first),
                           {static_cast<std::int64_t>(end - begin), shape[1], shape[2]});
  return out;
}

/// The number of repetitions from `a` to `b`; the counter may wrap.
int repetitions_between(const FrameKey& a, const FrameKey& b) {
  return static_cast<std::int16_t>(b.repetition - a.repetition);
}

bool same_but_repetition(FrameKey a, const FrameKey& b) {
  a.repetition = b.repetition;
  return a == b;
}

/// Calls run(begin, end, rows, placement) for each stretch of readouts that have all samples of the range: rows that
/// imaging readouts have `brought` are -1, and placements refer to the range alone.
template <class Run>
void for_free_rows(const Readouts& readouts, const CartesianSpace& space, const std::array<std::int64_t, 2>& range,
                   const std::vector<std::uint8_t>& brought, const Run& run) {
  const auto [first, last] = range;
  for_placements(
      readouts, space,
      [&, first = first, last = last](std::int64_t begin, std::int64_t end, numerics::LinePlacement placement) {
        if (placement.first_x > first || placement.first_x + placement.last_sample - placement.first_sample < last)
          return;
        placement.first_sample += first - placement.first_x;
        placement.last_sample = placement.first_sample + last - first;
        placement.first_x = first;
        std::vector<std::int32_t> rows;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int32_t row = row_of(readouts.heads[static_cast<std::size_t>(i)], space);
          rows.push_back(row >= 0 && brought[static_cast<std::size_t>(row)] != 0 ? -1 : row);
        }
        run(begin, end, rows, placement);
      });
}

std::vector<std::uint8_t> rows_with(const std::vector<std::int32_t>& hits) {
  std::vector<std::uint8_t> brought(hits.size());
  std::transform(hits.begin(), hits.end(), brought.begin(), [](std::int32_t n) { return n > 0 ? 1 : 0; });
  return brought;
}

}  // namespace

void AcsReinsertion::start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces,
                           const ReferenceOptions& options, Scan& scan) {
  using From = ReferenceOptions::From;
  scan_ = &scan;
  spaces_ = spaces;
  for (std::size_t e = 0; e < spaces.size(); ++e) {
    const bool embedded = options.calibration == From::embedded ||
                          (options.calibration != From::separate && header.encodings[e].calibration_mode == "embedded");
    wanted_.push_back(options.put_back && embedded && spaces[e].accelerated());
  }
}

void AcsReinsertion::keep(const Readouts& readouts) {
  if (readouts.kind != protocol::ReadoutKind::calibration || readouts.heads.empty()) return;
  const std::uint16_t encoding = readouts.heads[0].encoding_space_ref;
  if (!wanted(encoding) || !placements_fit(readouts, spaces_.at(encoding), *scan_)) return;
  for (std::size_t begin = 0, end = 0; begin < readouts.heads.size(); begin = end) {
    const FrameKey key = frame_of(readouts.heads[begin]);
    for (end = begin + 1; end < readouts.heads.size() && frame_of(readouts.heads[end]) == key;) ++end;
    auto at = kept_.find(key);
    if (at == kept_.end()) {
      for (auto old = kept_.begin(); old != kept_.end();) {
        const auto next = std::next(old);
        if (old->first.encoding == encoding && repetitions_between(old->first, key) > 1) kept_.erase(old);
        old = next;
      }
      at = kept_.try_emplace(key).first;
    }
    at->second.readouts.push_back(part_of(readouts, begin, end));
  }
}

std::int64_t AcsReinsertion::give(const Frame& frame, const CartesianSpace& space, std::int64_t coils,
                                  const SampleRange& samples, std::vector<std::int32_t>& hits, const Add& add) {
  const FrameKey key = frame_of(frame.reference);
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto next = std::next(at);
    if (same_but_repetition(at->first, key) && repetitions_between(at->first, key) > 0) kept_.erase(at);
    at = next;
  }
  const auto at = kept_.find(key);
  if (at == kept_.end()) return 0;
  const std::vector<Readouts> mine = std::move(at->second.readouts);
  kept_.erase(at);
  const auto range = samples.range();
  if (range[0] == range[1]) return 0;
  const std::vector<std::uint8_t> brought = rows_with(hits);
  std::int64_t filled = 0;
  for (const Readouts& readouts : mine) {
    const auto& shape = readouts.data.shape();  // [readout, coil, sample]
    if (shape[1] != coils)
      throw ClientError(fmt::format(
          "the images' readouts of slice {} come with {} coils, the calibration readouts with {}; both must "
          "come with the same coils, or choose `calibration: none` and `put_back: false`",
          key.slice, coils, shape[1]));
    for_free_rows(readouts, space, range, brought,
                  [&](std::int64_t begin, std::int64_t end, const auto& rows, const auto& placement) {
                    for (const std::int32_t row : rows)
                      if (row >= 0 && ++hits[static_cast<std::size_t>(row)] == 1) ++filled;
                    add(readouts.data.view().part(begin * shape[1] * shape[2], {end - begin, shape[1], shape[2]}), rows,
                        placement);
                  });
  }
  return filled;
}

void AcsReinsertion::count(const Frame& frame, const CartesianSpace& space, const SampleRange& samples,
                           std::vector<std::int32_t>& hits) const {
  const auto at = kept_.find(frame_of(frame.reference));
  const auto range = samples.range();
  if (at == kept_.end() || range[0] == range[1]) return;
  const std::vector<std::uint8_t> brought = rows_with(hits);
  for (const Readouts& readouts : at->second.readouts)
    for_free_rows(readouts, space, range, brought, [&](std::int64_t, std::int64_t, const auto& rows, const auto&) {
      for (const std::int32_t row : rows)
        if (row >= 0) ++hits[static_cast<std::size_t>(row)];
    });
}

}  // namespace echotrain
