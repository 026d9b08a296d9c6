// Values and working space that each thread keeps.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "gadgets/numerics/core/heap_account.h"

namespace echotrain::numerics {

/// This thread's T for `User`, made at first use and destroyed when the thread ends. Throws std::bad_alloc when there
/// is no memory for it. A `thread_local` T with a destructor would end the process then: glibc aborts where it cannot
/// register the destructor (__cxa_thread_atexit_impl, stdlib/cxa_thread_atexit_impl.c).
template <class User, class T>
T& thread_value() {
  thread_local T* value = nullptr;
  struct Key {
    pthread_key_t key;
    Key() {
      const auto destroy = [](void* made) {
        value = nullptr;
        delete static_cast<T*>(made);
      };
      if (pthread_key_create(&key, destroy) != 0) throw std::bad_alloc();
    }
  };
  static const Key key;
  if (value == nullptr) {
    auto made = std::make_unique<T>();
    if (pthread_setspecific(key.key, made.get()) != 0) throw std::bad_alloc();
    value = made.release();
  }
  return *value;
}

/// This thread's working space for `User`: at least `floats` floats, aligned to 64 bytes, zero at first, later as
/// `User` left them. It grows and is kept until the thread ends; no session pays for it. Throws std::bad_alloc when
/// there is no memory.
template <class User>
float* thread_scratch(std::size_t floats) {
  struct alignas(64) Line {
    float values[16];
  };
  constexpr std::size_t kPerLine = sizeof(Line) / sizeof(float);
  std::vector<Line>& memory = thread_value<User, std::vector<Line>>();
  const std::size_t needed = (floats + kPerLine - 1) / kPerLine;
  if (memory.size() < needed) {
    const HeapScope uncharged(nullptr);
    memory = {};  // frees the old block before the new one is made
    memory.resize(needed);
  }
  return memory.data()->values;
}

}  // namespace echotrain::numerics
