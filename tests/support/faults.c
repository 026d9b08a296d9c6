// Makes calls of a program fail on purpose; for LD_PRELOAD. Which ones is told through the file that the environment
// variable ECHOTRAIN_FAULTS names: one struct fault per kind, which a test maps and changes while the program runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
  _Atomic int64_t error;  // errno of the failure, for writes and accepts
  _Atomic int64_t fired;  // calls that failed
};

enum { ALLOCATION, SENDING, ACCEPTING, KINDS };

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
static int gives_up(const void* caller) {
  Dl_info place;
  if (dladdr(caller, &place) == 0 || place.dli_fname == NULL) return 0;
  const char* const libraries[] = {"libfftw3", "libc.so", "ld-linux"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; ++i)
    if (strstr(place.dli_fname, libraries[i]) != NULL) return 1;
  return 0;
}

static int no_memory(size_t size, const void* caller) {
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
static void* aligned(size_t alignment, size_t size, const void* caller) {
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

// Only sockets and files: a program wakes its own threads by writing to an eventfd or a pipe.
static int counts(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && (S_ISSOCK(status.st_mode) || S_ISREG(status.st_mode));
}

static int unwritable(int descriptor, size_t size) {
  if (size == 0 || !counts(descriptor) || !fails(SENDING, size)) return 0;
  errno = (int)atomic_load(&faults[SENDING].error);
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
