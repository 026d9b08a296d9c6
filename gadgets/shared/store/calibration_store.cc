#include "gadgets/shared/store/calibration_store.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "gadgets/shared/store/coil_labels.h"
#include "gadgets/shared/store/record_text.h"

namespace echotrain {
namespace {

constexpr ScanStore::Kind kCalibration{"calibration", {'E', 'C', 'H', 'O', 'C', 'A', 'L', '1'}, true};
constexpr std::int64_t kMostExtent = 65535;
constexpr std::int32_t kMostBlocks = 1 << 20;
constexpr std::size_t kMostChannelText = 1024;

/// Elements of a coil of the block; 0 where it has none, or does not lie within its matrix.
std::int64_t elements(const StoredBlock& block) {
  std::int64_t product = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t first = block.first[a], extent = block.extent[a], matrix = block.matrix[a];
    if (matrix > kMostExtent || extent < 1 || first < 0 || first > matrix - extent) return 0;
    product *= extent;
  }
  return product;
}

bool is_sound(const CalibrationRecord& record) {
  const auto whole = [&](const StoredBlock& block) {
    const std::int64_t of_coil = elements(block);
    return of_coil > 0 && static_cast<std::int64_t>(block.data.size()) / record.coils == of_coil &&
           static_cast<std::int64_t>(block.data.size()) % record.coils == 0;
  };
  return record.coils >= 1 && record.coils <= kMostStoredCoils && !record.blocks.empty() &&
         record.channels.size() <= kMostChannelText &&
         (record.labels.empty() || record.labels.size() == static_cast<std::size_t>(record.coils)) &&
         std::all_of(record.blocks.begin(), record.blocks.end(), whole);
}

std::string packed(const CalibrationRecord& record) {
  std::string out;
  out.reserve(record.bytes());
  put(out, static_cast<std::int32_t>(record.coils));
  put(out, record.made_unix_s);
  put_labels(out, record.labels);
  put(out, static_cast<std::uint32_t>(record.channels.size()));
  out += record.channels;
  put(out, static_cast<std::int32_t>(record.blocks.size()));
  for (const StoredBlock& block : record.blocks) {
    const FrameKey& key = block.key;
    for (const std::uint16_t counter : {key.encoding, key.slice, key.contrast, key.set}) put(out, counter);
    put(out, block.first);
    put(out, block.matrix);
    put(out, block.fov_mm);
    put(out, block.extent);
    out.append(reinterpret_cast<const char*>(block.data.data()), block.data.size() * sizeof(cfloat));
  }
  return out;
}

StoredBlock take_block(Taker& from, int coils) {
  StoredBlock block;
  for (std::uint16_t* counter : {&block.key.encoding, &block.key.slice, &block.key.contrast, &block.key.set})
    *counter = from.take<std::uint16_t>();
  block.first = from.take<std::array<std::int64_t, 3>>();
  block.matrix = from.take<std::array<std::int64_t, 3>>();
  block.fov_mm = from.take<std::array<double, 3>>();
  block.extent = from.take<std::array<std::int64_t, 3>>();
  const auto count = static_cast<std::uint64_t>(elements(block)) * static_cast<std::uint64_t>(coils);
  if (from.left.size() / sizeof(cfloat) < count) {
    from.good = false;
    return block;
  }
  block.data.resize(count);
  from.bytes(block.data.data(), count * sizeof(cfloat));
  return block;
}

bool same_letters(const std::string& a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char left, unsigned char right) { return std::tolower(left) == std::tolower(right); });
}

}  // namespace

std::uint64_t CalibrationRecord::bytes() const {
  std::uint64_t sum =
      sizeof(CalibrationRecord) + channels.size() + labels.size() * (sizeof(std::string) + kMostLabelBytes);
  for (const StoredBlock& block : blocks) sum += sizeof(StoredBlock) + block.data.size() * sizeof(cfloat);
  return sum;
}

const StoredBlock* CalibrationRecord::find(const FrameKey& key) const {
  const StoredBlock* found = nullptr;
  const auto rank = [&](const StoredBlock& block) {  // the lower, the better
    const bool own = block.key.contrast == key.contrast && block.key.set == key.set;
    return std::tuple(!own, block.key.contrast, block.key.set);
  };
  for (const StoredBlock& block : blocks)
    if (block.key.encoding == key.encoding && block.key.slice == key.slice &&
        (found == nullptr || rank(block) < rank(*found)))
      found = &block;
  return found;
}

CalibrationStore::CalibrationStore(const numerics::Resources& resources) : ScanStore(resources, kCalibration) {}

ScanStore::Kept CalibrationStore::kept(std::shared_ptr<const CalibrationRecord> record) {
  const std::uint64_t bytes = record->bytes();
  const std::int64_t made = record->made_unix_s;
  return {std::move(record), bytes, made};
}

std::shared_ptr<const CalibrationRecord> CalibrationStore::find(const std::string& measurement_id) {
  return std::static_pointer_cast<const CalibrationRecord>(ScanStore::find(measurement_id).record);
}

bool CalibrationStore::add(const std::string& measurement_id, CalibrationRecord record) {
  if (!is_sound(record)) return false;
  const std::string payload = packed(record);
  ScanStore::add(measurement_id, kept(std::make_shared<CalibrationRecord>(std::move(record))), payload);
  return true;
}

ScanStore::Kept CalibrationStore::unpacked(std::string_view payload) const {
  Taker from{payload};
  auto record = std::make_shared<CalibrationRecord>();
  record->coils = from.take<std::int32_t>();
  if (record->coils < 1 || record->coils > kMostStoredCoils) return {};
  record->made_unix_s = from.take<std::int64_t>();
  record->labels = take_labels(from);
  const auto words = from.take<std::uint32_t>();
  if (!from.good || words > kMostChannelText) return {};
  record->channels.resize(words);
  from.bytes(record->channels.data(), words);
  const auto blocks = from.take<std::int32_t>();
  for (std::int32_t i = 0; i < std::min(blocks, kMostBlocks) && from.good; ++i)
    record->blocks.push_back(take_block(from, record->coils));
  if (!from.good || !from.left.empty() || !is_sound(*record)) return {};
  return kept(std::move(record));
}

std::vector<std::string> calibration_dependencies(const protocol::Header& header) {
  std::vector<std::string> out;
  for (auto each = header.dependencies.rbegin(); each != header.dependencies.rend(); ++each)
    if (!each->type.empty() && !same_letters(each->type, "noise") && !each->measurement_id.empty())
      out.push_back(each->measurement_id);
  return out;
}

std::shared_ptr<const CalibrationRecord> for_coils(const std::shared_ptr<const CalibrationRecord>& record, int coils,
                                                   const std::vector<std::string>& labels, const std::string& channels,
                                                   std::string& why_not) {
  if (record->channels != channels) {
    why_not = "was whitened or compressed in another way than this scan";
    return nullptr;
  }
  if (!channels.empty()) {  // a channel is no coil, but what has become of all of them
    if (record->coils == coils && record->labels == labels) return record;
    why_not = "has other coils than this scan, or the same in another order, after whitening or compression";
    return nullptr;
  }
  const auto theirs = matching_coils({coils, labels}, {record->coils, record->labels}, why_not);
  if (!theirs) return nullptr;
  auto out = std::make_shared<CalibrationRecord>();
  out->coils = coils;
  out->labels = labels;
  out->made_unix_s = record->made_unix_s;
  for (const StoredBlock& block : record->blocks) {
    StoredBlock& to = out->blocks.emplace_back(block);
    to.data.clear();
    const std::int64_t of_coil = elements(block);
    for (const std::size_t coil : *theirs) {
      const auto begin = block.data.begin() + static_cast<std::int64_t>(coil) * of_coil;
      to.data.insert(to.data.end(), begin, begin + of_coil);
    }
  }
  return out;
}

}  // namespace echotrain
