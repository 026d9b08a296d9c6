// Sliding calibration (TGRAPPA): blocks from the newest lines of several frames.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "gadgets/cartesian/calibration_lines.h"

namespace echotrain {

/// True if readouts may still change this block.
bool CalibrationLines::needs_more(const FrameKey& key) const {
  const auto whole = whole_.find(key);
  const bool slides = rules_.at(key.encoding) == Rule::sliding;
  if (whole != whole_.end())
    return slides && options_.refresh > 0 && whole->second->source == Calibration::Source::sliding;
  return !(slides && sliding_.contains(key) && sliding_.at(key).since > 0);
}

bool CalibrationLines::holds(const FrameKey& key) const {
  const Rule rule = rules_.at(key.encoding);
  if (rule == Rule::average) return open_.contains(block_of(key));
  return rule == Rule::sliding && !whole_.contains(block_of(key)) && needs_more(block_of(key));
}

/// Called when a frame has ended. A frame rule may have mixed several frames, so its rows need not be all in one place.
void CalibrationLines::slide(const FrameKey& frame) {
  const FrameKey key = block_of(frame);
  Block block;
  for (auto at = open_.begin(); at != open_.end();) {
    const auto next = std::next(at);
    if (at->first == frame) block = std::move(at->second);
    const bool over = static_cast<std::int16_t>(frame.repetition - at->first.repetition) > 1;
    if (at->first == frame || (over && block_of(at->first) == key)) open_.erase(at);
    at = next;
  }
  if (!needs_more(key)) return;
  const bool may_be_embedded =
      block.flagged && options_.calibration == ReferenceOptions::From::automatic && !sliding_.contains(key);
  if (may_be_embedded && without_gap(block, bands_.at(key.encoding)))
    return give(key, block, Calibration::Source::embedded);
  Newest& newest = sliding_[key];
  if (newest.frames == 0 || newest.repetition != frame.repetition) ++newest.repetitions;
  newest.repetition = frame.repetition;
  ++newest.frames;
  if (block.rows) slide(newest, std::move(block), key.slice);
  if (newest.since > 0 && newest.since < options_.refresh) {
    ++newest.since;
    return;
  }
  const auto [ry, rz] = spaces_.at(key.encoding).acceleration;
  const std::int64_t steps = std::min<std::int64_t>(std::int64_t{ry} * rz, kMostHeld);
  if (newest.moved >= steps) {
    newest.since = 1;
    give(key, newest.block, Calibration::Source::sliding);
    if (options_.refresh == 0) newest.block = {};
  } else if (newest.frames >= kMostHeld ||
             (newest.repetitions >= 2 * steps && newest.frames >= 2 * steps * phases_.at(key.encoding))) {
    give_up(key, newest);
  }
}

/// Replaces older rows by a frame's rows.
void CalibrationLines::slide(Newest& newest, Block block, std::uint16_t slice) {
  const std::int64_t coils = block.rows.shape()[0], count = block.rows.shape()[1], nx = block.rows.shape()[2];
  std::vector<float> factors;
  for (const std::int32_t hits : block.hits) factors.push_back(1.0f / static_cast<float>(std::max(hits, 1)));
  if (std::any_of(factors.begin(), factors.end(), [](float f) { return f < 1; }))
    numerics::scale_lines(scan_->compute, {factors.data(), {count}}, block.rows.view());
  for (std::int32_t& hits : block.hits) hits = std::min(hits, 1);
  Block& all = newest.block;
  if (!all.rows) {
    all = std::move(block);
    all.flagged = false;
    newest.moved = 1;
    return;
  }
  if (all.rows.shape()[0] != coils)
    throw ClientError(
        fmt::format("readouts of slice {} come with {} coils and with {}; coils must not change within a scan", slice,
                    all.rows.shape()[0], coils));
  std::int64_t rows = 0, fresh = 0;
  for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {  // stretches of rows
    const bool came = block.hits[static_cast<std::size_t>(begin)] > 0;
    for (end = begin; end < count && (block.hits[static_cast<std::size_t>(end)] > 0) == came; ++end) {
      if (!came) continue;
      ++rows;
      if (std::exchange(all.hits[static_cast<std::size_t>(end)], 1) == 0) ++fresh;
    }
    if (!came) continue;
    for (std::int64_t coil = 0; coil < coils; ++coil)
      scan_->compute.copy<cfloat>(block.rows.cview().part((coil * count + begin) * nx, {(end - begin) * nx}),
                                  all.rows.view().part((coil * count + begin) * nx, {(end - begin) * nx}));
  }
  if (const auto [first, last] = block.samples.range(); rows > 0)
    all.samples.add({0, std::max<std::int64_t>(last - first, 0), first});
  if (2 * fresh > rows) ++newest.moved;
}

/// Makes a block from fewer frames than it needs.
void CalibrationLines::give_up(const FrameKey& key, Newest& newest) {
  const auto [ry, rz] = spaces_.at(key.encoding).acceleration;
  newest.since = 1;
  give(key, newest.block, Calibration::Source::sliding);
  if (options_.refresh == 0) newest.block = {};
  const auto made = whole_.find(key);
  const std::string rows =
      made == whole_.end()
          ? "there is none"
          : fmt::format("it has {} rows", made->second->data.shape()[1] * made->second->data.shape()[2]);
  if (std::exchange(warned_of_sliding_, true)) return;
  scan_->warn(fmt::format(
      "a sliding calibration of slice {} needs {} frames (R={}x{}) whose lines lie between one another, but "
      "{} of {} brought new lines: {}; choose `calibration: embedded`, `separate` or `center`",
      key.slice, int{ry} * rz, ry, rz, newest.moved, newest.frames, rows));
}

void CalibrationLines::scan_ends() {
  for (auto& [key, newest] : sliding_)
    if (newest.since == 0) give_up(key, newest);
  std::vector<FrameKey> means;
  for (const auto& [key, block] : open_)
    if (rules_.at(key.encoding) == Rule::average) means.push_back(key);
  for (const FrameKey& key : means) finish(key);
}

}  // namespace echotrain
