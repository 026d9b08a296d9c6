// The rule by which owners of something bounded give way to each other: nobody loses what is within an equal part.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <utility>
#include <vector>

namespace echotrain {

/// Gives up, until all amounts together are at most `most`, each time the last item of the owner that has most; an
/// owner that has no more than an equal part of `most` gives up nothing. `give_up` returns whether the item is gone.
template <class Owner, class Item, class Amount, class GiveUp>
void keep_equal_parts(std::map<Owner, std::vector<Item>>& owned, std::uint64_t most, const Amount& amount,
                      const GiveUp& give_up) {
  std::uint64_t sum = 0;
  std::priority_queue<std::pair<std::uint64_t, std::vector<Item>*>> owners;
  for (auto& [owner, items] : owned) {
    std::uint64_t part = 0;
    for (const Item& item : items) part += amount(item);
    sum += part;
    owners.emplace(part, &items);
  }
  const std::uint64_t equal = owned.empty() ? 0 : most / owned.size();
  while (sum > most && !owners.empty() && owners.top().first > equal) {
    auto [part, items] = owners.top();
    owners.pop();
    if (items->empty()) continue;  // all that can go has gone
    const Item item = items->back();
    items->pop_back();
    const std::uint64_t bytes = amount(item);
    if (give_up(item)) part -= bytes, sum -= bytes;
    owners.emplace(part, items);
  }
}

}  // namespace echotrain
