#include "protocol/twix/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "protocol/data/acquisition_check.h"
#include "protocol/data/limits.h"
#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::twix {
namespace {

void note_counters(const ScanHead& head, Survey& to) {
  const auto raise = [](std::uint16_t& highest, std::uint16_t value) { highest = std::max(highest, value); };
  raise(to.highest.line, head.line);
  raise(to.highest.partition, head.partition);
  raise(to.highest.average, head.average);
  raise(to.highest.slice, head.slice);
  raise(to.highest.echo, head.echo);
  raise(to.highest.phase, head.phase);
  raise(to.highest.repetition, head.repetition);
  raise(to.highest.set, head.set);
  raise(to.highest.segment, head.segment);
  if (head.center_sample >= head.samples) return;
  raise(to.most_before, head.center_sample);
  raise(to.most_after, static_cast<std::uint16_t>(head.samples - head.center_sample));
}

void note(const ScanHead& head, Survey& to) {
  if (head.samples == 0 || head.channels == 0) {
    ++to.empty;
    return;
  }
  ++to.readouts;
  to.most_channels = std::max(to.most_channels, head.channels);
  const ReadoutKind kind = readout_kind(acquisition_header(head), Trajectory::epi);
  const bool image = kind == ReadoutKind::imaging;
  if (kind == ReadoutKind::noise) ++to.noise;
  if (head.has(kNormalise)) ++to.prescan;
  if (kind == ReadoutKind::phase_correction && to.lines == 0) {
    to.navigators = head.slice == to.navigated_slice ? to.navigators + 1 : 1;
    to.navigated_slice = head.slice;
  }
  if (kind == ReadoutKind::calibration) {
    ++to.references;
    if (to.lines == 0) to.navigators = 0;  // they were those of reference lines
  }
  if (image && to.lines++ == 0) to.first = head;
  if (image && head.has(kReflect)) to.reversed = true;
  if (image || kind == ReadoutKind::calibration) note_counters(head, to);
  if (!to.first) to.first = head;
}

void check_size(const RaidFile& file, const ScanHead& head, std::uint64_t position) {
  const Limits limits;
  const std::uint64_t bytes = std::uint64_t{8} * head.samples * head.channels;
  if (head.channels > limits.channels || bytes > limits.acquisition_bytes)
    throw DatasetError(fmt::format(
        "{}: the readout at byte {} has {} channels of {} samples; at most {} channels and {} bytes are read",
        file.name(), position, head.channels, head.samples, limits.channels, limits.acquisition_bytes));
}

}  // namespace

bool is_preparation(const ScanHead& head) { return head.has(kNoise) || head.has(kNormalise); }

Survey survey(const RaidFile& file, const RaidEntry& entry, std::uint64_t begin) {
  Survey out;
  out.begin = begin;
  out.end = begin;
  std::array<std::byte, kScanHeadBytes> bytes{};
  while (out.end + kScanHeadBytes <= entry.end && file.read(out.end, bytes) == bytes.size()) {
    const ScanHead head = read_scan_head(bytes);
    if (head.has(kEndOfAcquisition)) {
      out.complete = true;
      break;
    }
    const std::uint64_t length = head.length();
    if (length == 0)
      throw DatasetError(fmt::format("{}: the data at byte {} announce less than their own head; the file is damaged",
                                     file.name(), out.end));
    if (!head.is_other()) check_size(file, head, out.end);
    if (length > entry.end - out.end) break;
    if (head.is_other()) {
      ++out.sync_blocks;
      out.sync_bytes += length;
    } else {
      note(head, out);
    }
    out.end += length;
  }
  return out;
}

}  // namespace echotrain::protocol::twix
