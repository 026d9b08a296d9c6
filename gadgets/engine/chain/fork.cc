#include "gadgets/engine/chain/fork.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "gadgets/engine/chain/item_copy.h"
#include "gadgets/engine/chain/spaces.h"

namespace echotrain {
namespace {

/// True if all readouts of an encoding space go into this branch and nowhere else.
bool keeps_space(const Branch& branch, std::uint16_t space) {
  return !branch.plan().spec.pass_on && !branch.plan().takes_messages && branch.condition().asks_space_only() &&
         branch.condition().admits_space(space);
}

/// True for noise, reference lines and the like, which serve everything made from the frames.
bool serves_all(const Item& item, const Branch& branch) {
  const Readouts* readouts = std::get_if<Readouts>(&item);
  if (readouts == nullptr) readouts = std::get_if<PlaneReadouts>(&item);
  return readouts != nullptr && readouts->kind != protocol::ReadoutKind::imaging &&
         branch.plan().spec.when.kinds.empty();
}

}  // namespace

Fork::Fork(std::vector<std::unique_ptr<Branch>> branches, ItemType type, bool ends)
    : branches_(std::move(branches)), type_(type), ends_(ends) {
  takers_.reserve(branches_.size());
}

void Fork::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  std::vector<const Branch*> before;
  for (const auto& branch : branches_) {
    const auto comes = [&](std::uint16_t space) {
      return std::none_of(before.begin(), before.end(), [&](const Branch* b) { return keeps_space(*b, space); });
    };
    branch->start(header_for_spaces(header, comes), scan);
    before.push_back(branch.get());
  }
}

protocol::Header Fork::left_of(const protocol::Header& header) const {
  return header_for_spaces(header, [this](std::uint16_t space) {
    return std::none_of(branches_.begin(), branches_.end(), [&](const auto& b) { return keeps_space(*b, space); });
  });
}

void Fork::push(Item&& item, const EmitItem& next) {
  if (std::holds_alternative<Waveform>(item)) {
    for (const auto& branch : branches_) branch->chain().push(Item(item));
    return next(std::move(item));
  }
  if (static_cast<ItemType>(item.index()) != type_) return next(std::move(item));
  bool goes_on = true;
  takers_.clear();
  for (const auto& branch : branches_) {
    if (branch->plan().takes_messages || !branch->condition().holds(item)) continue;
    takers_.push_back(branch.get());
    goes_on = branch->plan().spec.pass_on || serves_all(item, *branch);
    if (!goes_on) break;
  }
  if (goes_on && ends_) {
    if (takers_.empty()) return tell_left_out(item);
    goes_on = false;
  }
  for (std::size_t i = 0; i < takers_.size(); ++i) {
    const bool last = !goes_on && i + 1 == takers_.size();
    takers_[i]->chain().push(last ? std::move(item) : copy_of(item, scan_->compute));
  }
  if (goes_on) next(std::move(item));
}

void Fork::tell_left_out(const Item& item) {
  if (std::exchange(left_out_, true)) return;
  scan_->warn(fmt::format("no branch of the pipeline takes some of the scan's {}; they are left out",
                          to_string(static_cast<ItemType>(item.index()))));
}

void Fork::pause(const EmitItem& /*next*/) {
  for (const auto& branch : branches_) branch->chain().pause();
}

void Fork::end(End how, const EmitItem& /*next*/) {
  for (const auto& branch : branches_) branch->chain().end(how);
}

OfferResult Fork::offer(const protocol::Image& message) {
  OfferResult offered;
  for (const auto& branch : branches_) {
    if (!branch->plan().takes_messages || !branch->condition().holds(message)) continue;
    offered.taken = true;
    branch->take(message);
    if (!branch->plan().spec.pass_on) {
      offered.goes_on = false;
      break;
    }
  }
  return offered;
}

bool Fork::tap(const std::string& name, const Chain::Tap& on_item) {
  return std::any_of(branches_.begin(), branches_.end(),
                     [&](const auto& branch) { return branch->chain().tap(name, on_item); });
}

std::uint64_t Fork::frames() const {
  std::uint64_t frames = 0;
  for (const auto& branch : branches_) frames += branch->frames();
  return frames;
}

}  // namespace echotrain
