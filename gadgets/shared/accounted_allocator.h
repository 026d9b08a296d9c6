// AccountedAllocator makes the memory of gadgets' containers count towards their scan's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain {

/// The allocator of a standard container that pays for what it takes, nodes of maps among it. Throws
/// numerics::OverBudget where that does not fit. Containers that are swapped or moved take their account along.
template <class T>
class AccountedAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  /// `account` may be null: nobody counts.
  explicit AccountedAllocator(std::shared_ptr<numerics::MemoryAccount> account = nullptr)
      : account_(std::move(account)) {}
  // Containers convert the allocator to that of their nodes. NOLINTBEGIN(google-explicit-constructor)
  template <class U>
  AccountedAllocator(const AccountedAllocator<U>& other) : account_(other.account()) {}
  // NOLINTEND(google-explicit-constructor)

  T* allocate(std::size_t count) {
    if (account_) account_->take(bytes_of(count));
    try {
      return std::allocator<T>().allocate(count);
    } catch (...) {
      if (account_) account_->give(bytes_of(count));
      throw;
    }
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    std::allocator<T>().deallocate(memory, count);
    if (account_) account_->give(bytes_of(count));
  }

  const std::shared_ptr<numerics::MemoryAccount>& account() const { return account_; }
  template <class U>
  bool operator==(const AccountedAllocator<U>& other) const {
    return account_ == other.account();
  }

 private:
  static std::uint64_t bytes_of(std::size_t count) {
    constexpr std::uint64_t kOfAllocator = 16;  // it adds a word and rounds up
    return count * sizeof(T) + kOfAllocator;
  }

  std::shared_ptr<numerics::MemoryAccount> account_;
};

template <class T>
using AccountedVector = std::vector<T, AccountedAllocator<T>>;
template <class T>
using AccountedSet = std::set<T, std::less<T>, AccountedAllocator<T>>;
template <class Key, class T>
using AccountedMap = std::map<Key, T, std::less<Key>, AccountedAllocator<std::pair<const Key, T>>>;

}  // namespace echotrain
