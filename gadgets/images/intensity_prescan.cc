#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/images/intensity.h"
#include "gadgets/numerics/core/team/team.h"
#include "gadgets/shared/store/coil_labels.h"

namespace echotrain {

void Intensity::finish(End how, const Emit<CoilImages>& /*emit*/) {
  if (how != End::complete || !lines_ || lines_->empty() || measurement_.measurement_id.empty() ||
      (scan_->team != nullptr && !scan_->team->in_one_process()))
    return;
  std::string why_not;
  const auto record = lines_->record(labels_, why_not);
  if (!record) return scan_->info("the prescan " + why_not + " and is not kept for later scans");
  PrescanStore& store = scan_->compute.resources().get<PrescanStore>();
  if (store.hours() == 0) return;
  const auto added = store.add(measurement_, record);
  if (added == ScanStore::Added::no)
    return scan_->info("the prescan is not kept for later scans: scan_store_mib has no room for it");
  scan_->info(fmt::format("the prescan of {} coils is kept for scans that name measurement {}{}",
                          record->places.front().array.coils, end_of_id(measurement_.measurement_id),
                          added == ScanStore::Added::replaced ? ", in place of what an earlier scan left" : ""));
}

/// Makes the field of this scan's prescan, or of that of the scan that its header names.
void Intensity::find_prescan() {
  const bool needed = options_.method == "prescan";
  std::string why_not;
  if (!lines_->empty()) {
    prescan_from_ = "prescan";
    const auto record = lines_->record(labels_, why_not);
    why_not = "the prescan " + (record ? use(*record, true) : why_not);
  } else if (const auto record = prescan_of_others()) {
    prescan_from_ = "prescan of another scan";
    why_not = "the prescan " + use(*record, false);
  } else {
    if (needed)
      scan_->info(
          "intensity: the scan has no prescan (readouts of flag 29), and its header names none that is known here: "
          "images are not corrected");
    return;
  }
  if (!prescan_)
    scan_->warn(fmt::format("intensity: {}: images are {}", why_not, needed ? "not corrected" : "corrected by N4"));
}

std::shared_ptr<const PrescanRecord> Intensity::prescan_of_others() {
  if (scan_->team != nullptr && !scan_->team->in_one_process()) return nullptr;
  for (const std::string& id : dependencies_)
    if (auto record =
            scan_->compute.resources().get<PrescanStore>().find({measurement_.owner, measurement_.device, id})) {
      scan_->info(fmt::format("the receive field is that of another scan, {} ({} s old)", end_of_id(id),
                              std::max<std::int64_t>(0, unix_seconds() - record->made_unix_s)));
      return record;
    }
  return nullptr;
}

/// Makes the field of a prescan. Returns why it cannot, in words that complete "the prescan ...".
std::string Intensity::use(const PrescanRecord& record, bool own) {
  const ReceivePrescan& port = ReceivePrescan::of(*scan_);
  const int theirs = record.places.front().array.coils;
  int ours = port.coils;
  if (ours == 0 && !own) ours = static_cast<int>(labels_.empty() ? channels_.value_or(0) : labels_.size());
  if (ours == 0) ours = theirs;
  const std::vector<std::string> no_labels;
  const bool same = own && ours == theirs;  // labels may name the body coil, too
  std::string why_not;
  const auto coils =
      matching_coils({ours, same ? no_labels : labels_}, {theirs, same ? no_labels : record.labels}, why_not);
  if (!coils) return why_not;
  try {
    prescan_.emplace(scan_->compute, record, *coils, port.whitening);
  } catch (const std::invalid_argument& error) {
    return fmt::format("cannot be used ({})", error.what());
  }
  return "";
}

}  // namespace echotrain
