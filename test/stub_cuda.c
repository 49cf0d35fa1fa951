/* A driver of CUDA without a GPU: memory is the process's own, and streams do nothing until they are waited for, so that a launcher which
   reads too early, or writes over what is not sent yet, gets wrong numbers. Kernels come from a function of the test. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <pthread.h>

typedef void (*kernel_of)(void **parameters, unsigned blocks, unsigned threads);
typedef kernel_of (*maker_of)(const char *ptx, int *sizes);

static struct { int devices, major, minor, processors, fail_at, fail_code; size_t limit; } set = {1, 9, 0, 2, 0, 0, (size_t)1 << 30};
static struct { int allocations, pinned, launches, links, calls, contexts, streams; size_t used; } count;
static size_t generation; /* memory of before the last stub_set counts no more */
static maker_of maker;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { COPY, LAUNCH };
struct work { int kind; void *to; const void *from; size_t size; kernel_of kernel; unsigned blocks, threads; char values[8192]; int *sizes; struct work *next; };
struct stream { struct work *first, *last; };
struct module { kernel_of kernel; int sizes[64]; /* of the parameters, then 0 */ };

void stub_set(int devices, int major, int minor, int processors, size_t limit, int fail_at, int fail_code) {
  set.devices = devices; set.major = major; set.minor = minor; set.processors = processors; set.limit = limit;
  set.fail_at = fail_at; set.fail_code = fail_code;
  memset(&count, 0, sizeof count);
  generation++;
}
void stub_maker(maker_of function) { maker = function; }
void stub_counts(int *out) { out[0] = count.launches; out[1] = count.links; out[2] = count.allocations; out[3] = count.pinned; out[4] = count.streams; out[5] = count.contexts; }

static int begin(void) {
  int code = 0;
  pthread_mutex_lock(&lock);
  if (set.fail_at && ++count.calls >= set.fail_at) code = set.fail_code;
  pthread_mutex_unlock(&lock);
  return code;
}

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuGetErrorString(int code, const char **text) {
  *text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : NULL;
  return *text ? 0 : 1;
}
int cuDeviceGetCount(int *n) { *n = set.devices; return 0; }
int cuDeviceGet(int *device, int n) { *device = n; return n < set.devices ? 0 : 101; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, (size_t)size, "Stub %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  *value = which == 16 ? set.processors : which == 75 ? set.major : which == 76 ? set.minor : -1;
  return *value < 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return 0; }
int cuCtxPushCurrent_v2(void *context) { (void)context; __sync_fetch_and_add(&count.contexts, 1); return 0; }
int cuCtxPopCurrent_v2(void **context) { *context = NULL; __sync_fetch_and_sub(&count.contexts, 1); return 0; }
int cuMemGetInfo_v2(size_t *free_, size_t *total) { *free_ = set.limit - count.used; *total = set.limit; return 0; }

int cuMemAlloc_v2(uint64_t *address, size_t size) {
  int code = begin();
  if (code) return code;
  if (count.used + size > set.limit) return 2;
  size_t *block = malloc(size + 64);
  block[0] = size;
  block[1] = generation;
  __sync_fetch_and_add(&count.used, size);
  __sync_fetch_and_add(&count.allocations, 1);
  memset(block + 8, 0xff, size); /* NaN: nothing is 0 by luck */
  *address = (uint64_t)(uintptr_t)(block + 8);
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  size_t *block = (size_t *)(uintptr_t)address - 8;
  if (block[1] == generation) {
    __sync_fetch_and_sub(&count.used, block[0]);
    __sync_fetch_and_sub(&count.allocations, 1);
  }
  free(block);
  return 0;
}
int cuMemAllocHost_v2(void **address, size_t size) {
  *address = malloc(size);
  memset(*address, 0xff, size);
  __sync_fetch_and_add(&count.pinned, 1);
  return 0;
}
int cuMemFreeHost(void *address) { free(address); __sync_fetch_and_sub(&count.pinned, 1); return 0; }

int cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = calloc(1, sizeof(struct stream)); __sync_fetch_and_add(&count.streams, 1); return 0; }
static void append(struct stream *stream, struct work work) {
  struct work *item = malloc(sizeof work);
  *item = work;
  item->next = NULL;
  if (stream->last) stream->last->next = item; else stream->first = item;
  stream->last = item;
}
int cuStreamSynchronize(void *handle) {
  struct stream *stream = handle;
  int code = begin();
  for (struct work *item = stream->first, *next; item; item = next) {
    next = item->next;
    if (!code && item->kind == COPY) memcpy(item->to, item->from, item->size);
    if (!code && item->kind == LAUNCH) {
      void *parameters[64];
      char *place = item->values;
      for (int i = 0; item->sizes[i]; place += item->sizes[i++]) parameters[i] = place;
      item->kernel(parameters, item->blocks, item->threads);
    }
    free(item);
  }
  stream->first = stream->last = NULL;
  return code;
}
int cuStreamDestroy_v2(void *handle) { cuStreamSynchronize(handle); free(handle); __sync_fetch_and_sub(&count.streams, 1); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
  append(stream, (struct work){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .size = size});
  return begin();
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
  append(stream, (struct work){.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .size = size});
  return begin();
}

struct link { char *cubin; size_t size; };
int cuLinkCreate_v2(unsigned n, void *options, void *values, void **state) { (void)n; (void)options; (void)values; *state = calloc(1, sizeof(struct link)); return 0; }
int cuLinkAddData_v2(void *state, int kind, const char *data, size_t size, const char *name, unsigned n, void *options, void *values) {
  struct link *link = state;
  (void)name; (void)n; (void)options; (void)values;
  if (kind != 1 || strlen(data) + 1 != size || !strstr(data, ".entry")) return 218;
  link->size = size + 6;
  link->cubin = malloc(link->size);
  memcpy(link->cubin, "CUBIN:", 6);
  memcpy(link->cubin + 6, data, size);
  __sync_fetch_and_add(&count.links, 1);
  return 0;
}
int cuLinkComplete(void *state, void **cubin, size_t *size) { *cubin = ((struct link *)state)->cubin; *size = ((struct link *)state)->size; return 0; }
int cuLinkDestroy(void *state) { free(((struct link *)state)->cubin); free(state); return 0; }
int cuModuleLoadData(void **module, const char *cubin) {
  struct module *made = calloc(1, sizeof *made);
  if (memcmp(cubin, "CUBIN:", 6)) return 200;
  made->kernel = maker(cubin + 6, made->sizes);
  *module = made;
  return made->kernel ? 0 : 218;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { (void)name; *function = module; return 0; }
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void *stream,
                   void **parameters, void **extra) {
  struct module *module = function;
  struct work work = {.kind = LAUNCH, .kernel = module->kernel, .blocks = x, .threads = tx, .sizes = module->sizes};
  char *place = work.values;
  if (y * z * ty * tz != 1 || shared || extra || tx > 1024 || !x) return 1;
  for (int i = 0; module->sizes[i]; place += module->sizes[i++]) { /* a driver copies arguments at once */
    if (place + module->sizes[i] > work.values + 4096) return 1;
    memcpy(place, parameters[i], (size_t)module->sizes[i]);
  }
  append(stream, work);
  __sync_fetch_and_add(&count.launches, 1);
  return begin();
}
