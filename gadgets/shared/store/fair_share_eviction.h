// Fair share: the rule by which owners of something bounded make room for each other. No owner loses items within its
// equal part.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <queue>
#include <utility>
#include <vector>

namespace echotrain {

/// Items unused for so long are in no owner's part any more, and go first.
inline constexpr std::chrono::hours kShareLapses{7 * 24};

/// The bytes that a keeper of `all` bytes frees where `wanted` are asked for: more, if these are few, because whoever
/// asks for little asks again, and each time the keeper may walk through thousands of small things.
inline std::uint64_t worth_a_walk(std::uint64_t wanted, std::uint64_t all) {
  return std::max(wanted, std::min<std::uint64_t>(all / 64, 1 << 20));
}

/// For each thing that is kept, the time when it was last used, and its bytes.
using UsesAndBytes = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
/// Returns up to which time of their last use things have to go, to free `wanted` bytes; the longest unused go first.
inline std::uint64_t last_to_go(UsesAndBytes parts, std::uint64_t wanted) {
  std::sort(parts.begin(), parts.end());
  std::uint64_t last = 0;
  for (const auto& [used, bytes] : parts) {
    if (wanted == 0) break;
    wanted -= std::min(wanted, bytes);
    last = used;
  }
  return last;
}

struct NeverLapsed {
  template <class Item>
  bool operator()(const Item& /*item*/) const {
    return false;
  }
};

/// Gives up items until all amounts together are at most `most`: first, of each owner, the last items that have
/// `lapsed`; then, again and again, the last item of the owner that has most, unless that is no more than an equal part
/// of `most`. `give_up` returns true if the item is gone.
template <class Owner, class Item, class Amount, class GiveUp, class Lapsed = NeverLapsed>
void evict_to_fair_share(std::map<Owner, std::vector<Item>>& owned, std::uint64_t most, const Amount& amount,
                         const GiveUp& give_up, const Lapsed& lapsed = {}) {
  std::uint64_t sum = 0, with_part = 0;
  for (const auto& [owner, items] : owned)
    for (const Item& item : items) sum += amount(item);
  std::priority_queue<std::pair<std::uint64_t, std::vector<Item>*>> owners;
  for (auto& [owner, items] : owned) {
    std::uint64_t stays = 0;  // lapsed, but cannot go
    while (sum > most && !items.empty() && lapsed(items.back())) {
      const Item item = items.back();
      items.pop_back();
      const std::uint64_t bytes = amount(item);
      if (give_up(item))
        sum -= bytes;
      else
        stays += bytes;
    }
    std::uint64_t part = stays;
    for (const Item& item : items) part += amount(item);
    with_part += items.empty() ? 0 : 1;
    owners.emplace(part, &items);
  }
  const std::uint64_t equal = with_part == 0 ? 0 : most / with_part;
  while (sum > most && !owners.empty() && owners.top().first > equal) {
    auto [part, items] = owners.top();
    owners.pop();
    if (items->empty()) continue;  // all items that can go have gone
    const Item item = items->back();
    items->pop_back();
    const std::uint64_t bytes = amount(item);
    if (give_up(item)) part -= bytes, sum -= bytes;
    owners.emplace(part, items);
  }
}

}  // namespace echotrain
