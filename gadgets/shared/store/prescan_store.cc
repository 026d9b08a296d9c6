#include "gadgets/shared/store/prescan_store.h"

#include <utility>

#include "gadgets/shared/store/record_codec.h"

namespace echotrain {

std::uint64_t PrescanRecord::bytes() const {
  std::uint64_t sum = sizeof(PrescanRecord) + labels.size() * (sizeof(std::string) + kMostLabelBytes);
  for (const Place& place : places)
    sum += sizeof(Place) + (place.array.kspace.size() + place.body.kspace.size()) * sizeof(numerics::cfloat);
  return sum;
}

PrescanStore::PrescanStore(const numerics::Resources& resources)
    : ScanStore(resources, {"prescan", {'E', 'C', 'H', 'O', 'P', 'R', 'E', '1'}, /*files=*/false}) {}

std::shared_ptr<const PrescanRecord> PrescanStore::find(const RecordKey& key) {
  return std::static_pointer_cast<const PrescanRecord>(ScanStore::find(key).record);
}

ScanStore::Added PrescanStore::add(const RecordKey& key, std::shared_ptr<const PrescanRecord> record) {
  const std::uint64_t bytes = record->bytes();
  if (record->places.empty() || bytes > most_bytes()) return Added::no;
  const std::int64_t made = record->made_unix_s;
  return ScanStore::add(key, {std::move(record), bytes, made}, "");
}

}  // namespace echotrain
