// Makes calls of a program fail on purpose; for LD_PRELOAD. Which ones is told through the file that the environment
// variable ECHOTRAIN_FAULTS names: one struct fault per kind, which a test maps and changes while the program runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// glibc's own allocator under the names that nothing replaces.
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

struct fault {
  _Atomic int64_t seen;   // calls so far that were large enough; a test sets it back to 0
  _Atomic int64_t first;  // the number of the first call that fails; calls count from 1
  _Atomic int64_t last;   // and of the last one; 0: none fails
  _Atomic int64_t size;   // smaller calls are not counted [bytes]
  _Atomic int64_t error;  // errno of the failure, for writes, accepts and synchronisations; CUDA's for a GPU's memory
  _Atomic int64_t fired;  // calls that failed
};

enum { ALLOCATION, SENDING, ACCEPTING, DEVICE_ALLOCATION, PINNED_ALLOCATION, STORING, SYNCING, KINDS };

static struct fault idle[KINDS];
static struct fault* faults = idle;

__attribute__((constructor)) static void map_control_file(void) {
  const char* path = getenv("ECHOTRAIN_FAULTS");
  if (path == NULL) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, sizeof idle, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) faults = mapped;
}

static int fails(int kind, size_t size) {
  struct fault* fault = &faults[kind];
  if (size < (size_t)atomic_load(&fault->size)) return 0;
  const int64_t number = atomic_fetch_add(&fault->seen, 1) + 1;
  if (number < atomic_load(&fault->first) || number > atomic_load(&fault->last)) return 0;
  atomic_fetch_add(&fault->fired, 1);
  return 1;
}

// FFTW's planner and glibc (for a thread's variables, say) end the process themselves when they find no memory. Nothing
// that calls them can change that, so theirs do not fail.
static int gives_up(void* caller) {
  struct dl_find_object place;  // dladdr() would search all symbols that the server exports, at each allocation
  if (_dl_find_object(caller, &place) != 0) return 0;
  const char* const libraries[] = {"libfftw3", "libc.so", "ld-linux"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; ++i)
    if (strstr(place.dlfo_link_map->l_name, libraries[i]) != NULL) return 1;
  return 0;
}

static int no_memory(size_t size, void* caller) {
  if (faults == idle || size < (size_t)atomic_load(&faults[ALLOCATION].size) || gives_up(caller)) return 0;
  if (!fails(ALLOCATION, size)) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return no_memory(size, __builtin_return_address(0)) ? NULL : __libc_malloc(size); }

void* calloc(size_t count, size_t size) {
  size_t bytes;
  const int overflow = __builtin_mul_overflow(count, size, &bytes);
  return !overflow && no_memory(bytes, __builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  return no_memory(size, __builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

// Small aligned objects are Asio's in some of its versions, and nothing of it can do without them.
static void* aligned(size_t alignment, size_t size, void* caller) {
  return size >= 4096 && no_memory(size, caller) ? NULL : __libc_memalign(alignment, size);
}

void* memalign(size_t alignment, size_t size) { return aligned(alignment, size, __builtin_return_address(0)); }

void* aligned_alloc(size_t alignment, size_t size) { return aligned(alignment, size, __builtin_return_address(0)); }

int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* made = aligned(alignment, size, __builtin_return_address(0));
  if (made == NULL) return ENOMEM;
  *memory = made;
  return 0;
}

// Only sockets and files: a program wakes its own threads by writing to an eventfd or a pipe. Files count by themselves
// too.
static int unwritable(int descriptor, size_t size) {
  struct stat status;
  if (size == 0 || fstat(descriptor, &status) != 0 || !(S_ISSOCK(status.st_mode) || S_ISREG(status.st_mode))) return 0;
  const int file = S_ISREG(status.st_mode) && fails(STORING, size);
  if (!fails(SENDING, size) && !file) return 0;
  errno = (int)atomic_load(&faults[file ? STORING : SENDING].error);
  return 1;
}

static size_t total(const struct iovec* parts, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

ssize_t write(int descriptor, const void* data, size_t size) {
  return unwritable(descriptor, size) ? -1 : syscall(SYS_write, descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  if (unwritable(descriptor, total(parts, (size_t)count))) return -1;
  return syscall(SYS_writev, descriptor, parts, count);
}

ssize_t send(int descriptor, const void* data, size_t size, int flags) {
  return unwritable(descriptor, size) ? -1 : syscall(SYS_sendto, descriptor, data, size, flags, NULL, 0);
}

ssize_t sendmsg(int descriptor, const struct msghdr* message, int flags) {
  if (unwritable(descriptor, total(message->msg_iov, message->msg_iovlen))) return -1;
  return syscall(SYS_sendmsg, descriptor, message, flags);
}

static int unsynced(void) {
  if (!fails(SYNCING, 0)) return 0;
  errno = (int)atomic_load(&faults[SYNCING].error);
  return 1;
}

int fsync(int descriptor) { return unsynced() ? -1 : (int)syscall(SYS_fsync, descriptor); }

int fdatasync(int descriptor) { return unsynced() ? -1 : (int)syscall(SYS_fdatasync, descriptor); }

// Only calls that find a connection count: an acceptor that does not block may ask more often than clients come. The
// connection stays in the queue, as it does when a process is out of descriptors, except for the error that says that
// it is gone.
static int refused(int descriptor) {
  struct pollfd ready = {descriptor, POLLIN, 0};
  if (poll(&ready, 1, 0) != 1 || !fails(ACCEPTING, 0)) return 0;
  const int error = (int)atomic_load(&faults[ACCEPTING].error);
  if (error == ECONNABORTED) close((int)syscall(SYS_accept4, descriptor, NULL, NULL, 0));
  errno = error;
  return 1;
}

int accept(int descriptor, struct sockaddr* restrict address, socklen_t* restrict size) {
  return refused(descriptor) ? -1 : (int)syscall(SYS_accept4, descriptor, address, size, 0);
}

int accept4(int descriptor, struct sockaddr* restrict address, socklen_t* restrict size, int flags) {
  return refused(descriptor) ? -1 : (int)syscall(SYS_accept4, descriptor, address, size, flags);
}

// Memory of a GPU, and host memory pinned for it. The CUDA runtime, and cuFFT's own copy of it, ask dlsym for
// cuGetProcAddress and that for the driver's functions (CUDA Driver API, "Driver Entry Point Access").
enum { OUT_OF_MEMORY = 2, PER_THREAD_STREAM = 2 };  // CUDA_ERROR_OUT_OF_MEMORY, CU_GET_PROC_ADDRESS_PER_THREAD_...

typedef int (*get_v1)(const char*, void**, int, uint64_t);
typedef int (*get_v2)(const char*, void**, int, uint64_t, int*);
typedef int (*alloc)(uint64_t*, size_t);
typedef int (*alloc_async)(uint64_t*, size_t, void*);
typedef int (*alloc_from_pool)(uint64_t*, size_t, void*, void*);
typedef int (*host_alloc)(void**, size_t, unsigned);
typedef int (*alloc_host)(void**, size_t);

enum { GET, GET_V2, ALLOC, ASYNC, ASYNC_PER_THREAD, POOL, POOL_PER_THREAD, HOST, HOST_V2, FUNCTIONS };
static void* real[FUNCTIONS];

// What the driver is to say of a GPU's memory: the control file's error, else that there is none.
static int device_error(void) {
  const int64_t error = atomic_load(&faults[DEVICE_ALLOCATION].error);
  return error != 0 ? (int)error : OUT_OF_MEMORY;
}

static int device_alloc(uint64_t* memory, size_t size) {
  return fails(DEVICE_ALLOCATION, size) ? device_error() : ((alloc)real[ALLOC])(memory, size);
}
static int device_async(uint64_t* memory, size_t size, void* stream) {
  return fails(DEVICE_ALLOCATION, size) ? device_error() : ((alloc_async)real[ASYNC])(memory, size, stream);
}
static int device_async_per_thread(uint64_t* memory, size_t size, void* stream) {
  return fails(DEVICE_ALLOCATION, size) ? device_error() : ((alloc_async)real[ASYNC_PER_THREAD])(memory, size, stream);
}
static int device_pool(uint64_t* memory, size_t size, void* pool, void* stream) {
  return fails(DEVICE_ALLOCATION, size) ? device_error() : ((alloc_from_pool)real[POOL])(memory, size, pool, stream);
}
static int device_pool_per_thread(uint64_t* memory, size_t size, void* pool, void* stream) {
  if (fails(DEVICE_ALLOCATION, size)) return device_error();
  return ((alloc_from_pool)real[POOL_PER_THREAD])(memory, size, pool, stream);
}
static int pinned_host(void** memory, size_t size, unsigned flags) {
  return fails(PINNED_ALLOCATION, size) ? OUT_OF_MEMORY : ((host_alloc)real[HOST])(memory, size, flags);
}
static int pinned_alloc_host(void** memory, size_t size) {
  return fails(PINNED_ALLOCATION, size) ? OUT_OF_MEMORY : ((alloc_host)real[HOST_V2])(memory, size);
}

// What stands for the driver's function `name`; `function` itself where that may not fail.
static void* in_place_of(const char* name, int per_thread, void* function) {
  static const struct {
    const char* name;
    int number, per_thread;
    void* hook;
  } hooks[] = {
      {"cuMemAlloc", ALLOC, -1, device_alloc},
      {"cuMemAllocAsync", ASYNC, 0, device_async},
      {"cuMemAllocAsync", ASYNC_PER_THREAD, 1, device_async_per_thread},
      {"cuMemAllocFromPoolAsync", POOL, 0, device_pool},
      {"cuMemAllocFromPoolAsync", POOL_PER_THREAD, 1, device_pool_per_thread},
      {"cuMemHostAlloc", HOST, -1, pinned_host},
      {"cuMemAllocHost", HOST_V2, -1, pinned_alloc_host},
  };
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; ++i) {
    if (strcmp(hooks[i].name, name) != 0 || hooks[i].per_thread == !per_thread) continue;
    real[hooks[i].number] = function;
    return hooks[i].hook;
  }
  return function;
}

static int found(int status, const char* name, void** function, uint64_t flags) {
  if (status == 0 && function != NULL && *function != NULL)
    *function = in_place_of(name, (flags & PER_THREAD_STREAM) != 0, *function);
  return status;
}
static void* in_place_of_getter(const char* name, void* function);
static int get(const char* name, void** function, int version, uint64_t flags) {
  const int status = ((get_v1)real[GET])(name, function, version, flags);
  return found(status, name, function, flags);
}
static int get_2(const char* name, void** function, int version, uint64_t flags, int* result) {
  const int status = ((get_v2)real[GET_V2])(name, function, version, flags, result);
  // Asked for itself it gives its second version to whoever has CUDA 12 and later.
  if (status == 0 && function != NULL && strcmp(name, "cuGetProcAddress") == 0)
    *function = in_place_of_getter(version >= 12000 ? "cuGetProcAddress_v2" : name, *function);
  return found(status, name, function, flags);
}
static void* in_place_of_getter(const char* name, void* function) {
  const int number = strcmp(name, "cuGetProcAddress") == 0      ? GET
                     : strcmp(name, "cuGetProcAddress_v2") == 0 ? GET_V2
                                                                : -1;
  if (number < 0 || function == NULL) return function;
  real[number] = function;
  return number == GET ? (void*)get : (void*)get_2;
}

void* dlsym(void* restrict library, const char* restrict name) {
  static void* (*next)(void*, const char*);
  const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};  // of x86-64's own and of 64-bit Arm's
  for (size_t i = 0; next == NULL && i < sizeof versions / sizeof *versions; ++i)
    *(void**)&next = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  void* function = next(library, name);
  return strncmp(name, "cuGetProcAddress", 16) == 0 ? in_place_of_getter(name, function) : function;
}
