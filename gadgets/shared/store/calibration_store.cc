#include "gadgets/shared/store/calibration_store.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "gadgets/shared/store/record_codec.h"

namespace echotrain {
namespace {

constexpr ScanStore::Kind kCalibration{"calibration", {'E', 'C', 'H', 'O', 'C', 'A', 'L', '1'}, /*files=*/false};

bool is_sound(const CalibrationRecord& record) {
  const auto whole = [&](const StoredLines& lines) {
    if (lines.heads.empty()) return false;
    const auto samples = static_cast<std::size_t>(lines.heads.front().number_of_samples);
    const auto fits = [&](const protocol::AcquisitionHeader& head) {
      return head.number_of_samples == samples && head.encoding_space_ref < record.spaces.size();
    };
    return lines.data.size() == lines.heads.size() * static_cast<std::size_t>(record.coils) * samples &&
           std::all_of(lines.heads.begin(), lines.heads.end(), fits);
  };
  return record.coils >= 1 && record.coils <= kMostStoredCoils && !record.lines.empty() &&
         (record.labels.empty() || record.labels.size() == static_cast<std::size_t>(record.coils)) &&
         std::all_of(record.lines.begin(), record.lines.end(), whole);
}

bool same_letters(const std::string& a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char left, unsigned char right) { return std::tolower(left) == std::tolower(right); });
}

}  // namespace

std::int64_t CalibrationRecord::count() const {
  std::int64_t sum = 0;
  for (const StoredLines& each : lines) sum += static_cast<std::int64_t>(each.heads.size());
  return sum;
}

std::uint64_t CalibrationRecord::bytes() const {
  std::uint64_t sum = sizeof(CalibrationRecord) + labels.size() * (sizeof(std::string) + kMostLabelBytes) +
                      spaces.size() * sizeof(StoredSpace);
  for (const StoredLines& each : lines)
    sum += sizeof(StoredLines) + each.heads.size() * sizeof(protocol::AcquisitionHeader) +
           each.data.size() * sizeof(numerics::cfloat);
  return sum;
}

CalibrationStore::CalibrationStore(const numerics::Resources& resources) : ScanStore(resources, kCalibration) {}

std::shared_ptr<const CalibrationRecord> CalibrationStore::find(const RecordKey& key) {
  return std::static_pointer_cast<const CalibrationRecord>(ScanStore::find(key).record);
}

std::shared_ptr<const CalibrationRecord> CalibrationStore::find_of_any_device(const std::string& owner,
                                                                              const std::string& measurement_id) {
  return std::static_pointer_cast<const CalibrationRecord>(ScanStore::find_of_any_device(owner, measurement_id).record);
}

ScanStore::Added CalibrationStore::add(const RecordKey& key, CalibrationRecord record) {
  const std::uint64_t bytes = record.bytes();
  if (!is_sound(record) || bytes > most_bytes()) return Added::no;
  const std::int64_t made = record.made_unix_s;
  return ScanStore::add(key, {std::make_shared<const CalibrationRecord>(std::move(record)), bytes, made}, "");
}

std::vector<CalibrationStore::Listed> CalibrationStore::list() {
  std::vector<Listed> out;
  for (const auto& [digest, one] : all())
    out.push_back({digest, std::static_pointer_cast<const CalibrationRecord>(one.record)});
  return out;
}

std::vector<std::string> calibration_dependencies(const protocol::Header& header) {
  std::vector<std::string> out;
  for (auto each = header.dependencies.rbegin(); each != header.dependencies.rend(); ++each)
    if (!each->type.empty() && !same_letters(each->type, "noise") && !each->measurement_id.empty())
      out.push_back(each->measurement_id);
  return out;
}

}  // namespace echotrain
