#include "gadgets/shared/store/noise_store.h"

#include <utility>

#include "gadgets/shared/store/record_codec.h"

namespace echotrain {
namespace {

constexpr ScanStore::Kind kNoise{"noise", {'E', 'C', 'H', 'O', 'N', 'O', 'I', '2'}};

bool is_matrix(const NoiseRecord& record) {
  return record.coils >= 1 && record.coils <= kMostStoredCoils &&
         record.covariance.size() == static_cast<std::size_t>(record.coils) * static_cast<std::size_t>(record.coils) &&
         (record.labels.empty() || record.labels.size() == static_cast<std::size_t>(record.coils));
}

std::string packed(const NoiseRecord& record) {
  std::string out;
  put(out, static_cast<std::int32_t>(record.coils));
  put(out, record.dwell_us);
  put(out, record.samples);
  put(out, record.made_unix_s);
  for (const numerics::cdouble& value : record.covariance) put(out, value);
  put_labels(out, record.labels);
  return out;
}

}  // namespace

std::uint64_t NoiseRecord::bytes() const {
  return sizeof(NoiseRecord) + covariance.size() * sizeof(numerics::cdouble) +
         labels.size() * (sizeof(std::string) + kMostLabelBytes);
}

NoiseStore::NoiseStore(const numerics::Resources& resources) : ScanStore(resources, kNoise) {}

ScanStore::Kept NoiseStore::kept(std::shared_ptr<const NoiseRecord> record) {
  const std::uint64_t bytes = record->bytes();
  const std::int64_t made = record->made_unix_s;
  return {std::move(record), bytes, made};
}

std::shared_ptr<const NoiseRecord> NoiseStore::find(const RecordKey& key) {
  return std::static_pointer_cast<const NoiseRecord>(ScanStore::find(key).record);
}

std::shared_ptr<const NoiseRecord> NoiseStore::find_of_any_device(const std::string& owner,
                                                                  const std::string& measurement_id) {
  return std::static_pointer_cast<const NoiseRecord>(ScanStore::find_of_any_device(owner, measurement_id).record);
}

ScanStore::Added NoiseStore::add(const RecordKey& key, const NoiseRecord& record) {
  if (!is_matrix(record)) return Added::no;
  return ScanStore::add(key, kept(std::make_shared<NoiseRecord>(record)), packed(record));
}

std::vector<NoiseStore::Listed> NoiseStore::list() {
  std::vector<Listed> out;
  for (const auto& [digest, one] : all())
    out.push_back({digest, std::static_pointer_cast<const NoiseRecord>(one.record)});
  return out;
}

ScanStore::Kept NoiseStore::unpacked(std::string_view payload) const {
  RecordReader from{payload};
  auto record = std::make_shared<NoiseRecord>();
  record->coils = from.take<std::int32_t>();
  if (record->coils < 1 || record->coils > kMostStoredCoils) return {};
  record->dwell_us = from.take<double>();
  record->samples = from.take<std::int64_t>();
  record->made_unix_s = from.take<std::int64_t>();
  const auto values = static_cast<std::size_t>(record->coils) * static_cast<std::size_t>(record->coils);
  if (from.left.size() < values * sizeof(numerics::cdouble)) return {};
  record->covariance.resize(values);
  from.bytes(record->covariance.data(), values * sizeof(numerics::cdouble));
  record->labels = take_labels(from);
  if (!from.good || !from.left.empty() || !is_matrix(*record)) return {};
  return kept(std::move(record));
}

}  // namespace echotrain
