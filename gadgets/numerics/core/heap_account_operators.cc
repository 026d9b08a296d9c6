// The program's operators new and delete, which charge a thread's HeapAccount. They are linked into each program that
// has none of its own; with a sanitizer, into none: its own find more.
#ifndef ECHOTRAIN_SANITIZED

#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "gadgets/numerics/core/heap_account.h"

namespace {

using echotrain::numerics::HeapAccount;

void* plain(std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return ::memalign(alignment, bytes);
}

/// As the standard has it: asks the new handler until there is memory or none is set. An account that is refused ends
/// at once: what the handler sets free is not for it.
void* allocate(std::size_t bytes, std::size_t alignment, bool& refused) {
  for (;;) {
    HeapAccount* const account = HeapAccount::of_thread();
    void* const block = account != nullptr ? account->allocate(bytes, alignment, refused) : plain(bytes, alignment);
    if (block != nullptr) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr || refused) throw std::bad_alloc();
    handler();
  }
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  bool refused = false;
  try {
    return allocate(bytes, alignment, refused);
  } catch (const std::bad_alloc&) {
    if (refused) HeapAccount::of_thread()->set_refused();
    throw;
  }
}

void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  bool refused = false;
  try {
    return allocate(bytes, alignment, refused);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, kUsual); }
void* operator new[](std::size_t bytes) { return allocate(bytes, kUsual); }
void* operator new(std::size_t bytes, std::align_val_t to) { return allocate(bytes, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t bytes, std::align_val_t to) { return allocate(bytes, static_cast<std::size_t>(to)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes, kUsual); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes, kUsual); }
void* operator new(std::size_t bytes, std::align_val_t to, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t bytes, std::align_val_t to, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, static_cast<std::size_t>(to));
}

void operator delete(void* block) noexcept { HeapAccount::release(block); }
void operator delete[](void* block) noexcept { HeapAccount::release(block); }
void operator delete(void* block, std::size_t) noexcept { HeapAccount::release(block); }
void operator delete[](void* block, std::size_t) noexcept { HeapAccount::release(block); }
void operator delete(void* block, std::align_val_t) noexcept { HeapAccount::release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { HeapAccount::release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { HeapAccount::release(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { HeapAccount::release(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { HeapAccount::release(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { HeapAccount::release(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { HeapAccount::release(block); }
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { HeapAccount::release(block); }

#endif
