// The memory of NumPy's arrays in a step's process: those from 4 KiB on lie in the memory of results while it has room,
// so that whatever a function gives is there already. The build puts this library into our programs;
// clients/python/echotrain/steps/area.py loads it, and gives NumPy the handler (NumPy's reference, "Memory management").
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kAligned = 64, kSmallest = 4096, kMostBlocks = 4096 };

/// NumPy's PyDataMem_Handler, version 1.
struct Handler {
  char name[127];
  uint8_t version;
  void* context;
  void* (*take)(void* context, size_t bytes);
  void* (*take_zeros)(void* context, size_t count, size_t bytes);
  void* (*change)(void* context, void* memory, size_t bytes);
  void (*give_back)(void* context, void* memory, size_t bytes);
};

/// The blocks in use, in the order of their places.
struct Block {
  size_t place, bytes;
};
static struct Block blocks[kMostBlocks];
static size_t used = 0, area_bytes = 0;
static char *area = NULL, *copy = NULL;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int in_area(const void* memory) {
  const uintptr_t at = (uintptr_t)memory, begin = (uintptr_t)area;
  return area != NULL && at >= begin && at < begin + area_bytes;
}

/// The first gap that is large enough, or null.
static void* take_area(size_t bytes) {
  if (bytes < kSmallest || bytes > area_bytes) return NULL;
  bytes = (bytes + kAligned - 1) / kAligned * kAligned;
  void* found = NULL;
  pthread_mutex_lock(&lock);
  size_t place = 0, i = 0;
  while (i < used && blocks[i].place - place < bytes) {
    place = blocks[i].place + blocks[i].bytes;
    ++i;
  }
  if (used < kMostBlocks && place <= area_bytes && area_bytes - place >= bytes) {
    memmove(blocks + i + 1, blocks + i, (used - i) * sizeof *blocks);
    blocks[i] = (struct Block){place, bytes};
    ++used;
    found = area + place;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/// The block that begins there, or a null block.
static struct Block block_of(const void* memory, int remove) {
  const size_t place = (size_t)((const char*)memory - area);
  struct Block found = {0, 0};
  pthread_mutex_lock(&lock);
  size_t low = 0, high = used;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (blocks[middle].place < place)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < used && blocks[low].place == place) {
    found = blocks[low];
    if (remove) {
      --used;
      memmove(blocks + low, blocks + low + 1, (used - low) * sizeof *blocks);
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static void* take(void* context, size_t bytes) {
  (void)context;
  void* const memory = take_area(bytes);
  return memory != NULL ? memory : malloc(bytes);
}

static void* take_zeros(void* context, size_t count, size_t bytes) {
  (void)context;
  size_t all = 0;
  void* const memory = __builtin_mul_overflow(count, bytes, &all) ? NULL : take_area(all);
  return memory != NULL ? memset(memory, 0, all) : calloc(count, bytes);
}

static void give_back(void* context, void* memory, size_t bytes) {
  (void)context;
  (void)bytes;
  if (in_area(memory))
    block_of(memory, 1);
  else
    free(memory);
}

static void* change(void* context, void* memory, size_t bytes) {
  if (memory == NULL) return take(context, bytes);
  if (!in_area(memory)) return realloc(memory, bytes);
  const size_t before = block_of(memory, 0).bytes;
  if (bytes <= before) return memory;
  void* const larger = take(context, bytes);
  if (larger == NULL) return NULL;
  memcpy(larger, memory, before);
  give_back(context, memory, before);
  return larger;
}

// A process that is forked would share the area with this one, and nothing else: it gets a copy, as of all other memory.

static void before_fork(void) {
  pthread_mutex_lock(&lock);
  copy = mmap(NULL, area_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (size_t i = 0; copy != MAP_FAILED && i < used; ++i)
    memcpy(copy + blocks[i].place, area + blocks[i].place, blocks[i].bytes);
}

static void in_parent(void) {
  if (copy != MAP_FAILED) munmap(copy, area_bytes);
  pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  static const char kText[] = "no memory is left for a copy of this process's arrays in one that it starts\n";
  if (copy == MAP_FAILED || mremap(copy, area_bytes, area_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, area) == MAP_FAILED)
    _Exit(write(2, kText, sizeof kText - 1) < 0 ? 2 : 1);
  pthread_mutex_unlock(&lock);
}

static struct Handler handler = {"echotrain_step", 1, NULL, take, take_zeros, change, give_back};

/// Returns the handler, which takes memory of `memory` from now on. Called once.
__attribute__((visibility("default"))) struct Handler* echotrain_numpy_memory(char* memory, size_t bytes) {
  area = memory;
  area_bytes = bytes;
  return pthread_atfork(before_fork, in_parent, in_child) == 0 ? &handler : NULL;
}
