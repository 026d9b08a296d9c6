// Writes down which kernels a program launches, each once, by their mangled names, and at its end how many launches there
// were: CUDA_INJECTION64_PATH=THIS_LIBRARY ECHOTRAIN_LAUNCHES=FILE PROGRAM. By CUPTI's callbacks, of any version that is found when the program starts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The beginnings of what cupti_callbacks.h declares.
struct launch {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* kernel;
};
enum { RUNTIME_CALLS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE* file;
static char** seen;
static size_t count;
static unsigned long launches;

__attribute__((destructor)) static void note_launches(void) {
  if (file != NULL) fprintf(file, "launches: %lu\n", launches), fflush(file);
}

static void note(const char* kernel) {
  ++launches;
  for (size_t i = 0; i < count; ++i)
    if (strcmp(seen[i], kernel) == 0) return;
  char** more = realloc(seen, (count + 1) * sizeof *seen);
  if (more == NULL) return;
  seen = more;
  seen[count++] = strdup(kernel);
  fprintf(file, "%s\n", kernel);
  fflush(file);
}

static void called(void* data, int domain, uint32_t id, const void* about) {
  (void)data, (void)id;
  const struct launch* launch = about;
  if (domain != RUNTIME_CALLS || launch->site != 0 || strstr(launch->function, "aunchKernel") == NULL) return;
  if (launch->kernel == NULL) return;
  pthread_mutex_lock(&lock);
  note(launch->kernel);
  pthread_mutex_unlock(&lock);
}

// The driver calls this when a program first uses CUDA.
int InitializeInjection(void) {
  const char *path = getenv("ECHOTRAIN_LAUNCHES"), *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  void *cupti = NULL, *subscriber = NULL;
  for (size_t i = 0; cupti == NULL && i < sizeof names / sizeof *names; ++i) cupti = dlopen(names[i], RTLD_NOW);
  if (path == NULL || cupti == NULL || (file = fopen(path, "a")) == NULL) {
    fprintf(stderr, "launches: no libcupti, or ECHOTRAIN_LAUNCHES is no file\n");
    return 1;
  }
  int (*subscribe)(void**, void (*)(void*, int, uint32_t, const void*), void*) = NULL;
  int (*enable)(uint32_t, void*, int) = NULL;
  *(void**)&subscribe = dlsym(cupti, "cuptiSubscribe");
  *(void**)&enable = dlsym(cupti, "cuptiEnableDomain");
  if (subscribe == NULL || enable == NULL || subscribe(&subscriber, called, NULL) != 0 ||
      enable(1, subscriber, RUNTIME_CALLS) != 0)
    fprintf(stderr, "launches: CUPTI gives no callbacks\n");
  return 1;
}
