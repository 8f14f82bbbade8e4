/*
** cupti_test.c - tests how the CUDA plugin reads CUPTI's records. A replacement for CUPTI
** delivers made-up records, so no GPU is needed. Without CUPTI's headers, the tests are skipped
** with a message.
*/
#include "test.h"

#if defined(__has_include)
#if __has_include(<cupti.h>)
#define HAVE_HEADERS
#endif
#endif

#ifdef HAVE_HEADERS

#include <dlfcn.h>
#include <string.h>

static void *stand_in_open(const char *name, int flags);
static void *stand_in_symbol(void *library, const char *name);
#define dlopen stand_in_open
#define dlsym stand_in_symbol
#include "kernels/cuda/lib/cupti.c"
#undef dlopen
#undef dlsym

/* ---- the library ------------------------------------------------------------------------- */

static CUpti_BuffersCallbackRequestFunc wanted;
static CUpti_BuffersCallbackCompleteFunc filled;
/* `refuse` is the kind of record that cannot be enabled */
static int enabled, flushed, refuse = -1;
static uint8_t *buffer;
static size_t used, room;

static CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                      CUpti_BuffersCallbackCompleteFunc complete) {
  wanted = request;
  filled = complete;
  return CUPTI_SUCCESS;
}

static CUptiResult enable_kind(CUpti_ActivityKind kind) {
  if ((int)kind == refuse) return CUPTI_ERROR_NOT_INITIALIZED;
  enabled++;
  return CUPTI_SUCCESS;
}

static CUptiResult disable_kind(CUpti_ActivityKind kind) {
  (void)kind;
  enabled--;
  return CUPTI_SUCCESS;
}

static CUptiResult flush(uint32_t flag) {
  flushed += flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
  if (buffer) filled(NULL, 0, buffer, room, used);
  buffer = NULL;
  return CUPTI_SUCCESS;
}

/* A record of a kind that the plugin did not enable. */
typedef struct Other {
  CUpti_ActivityKind kind;
  uint32_t rest[15];
} Other;

static size_t size_of(const CUpti_Activity *record) {
  switch (record->kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(Kernel);
  case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(Copy);
  case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(Fill);
  default: return sizeof(Other);
  }
}

static CUptiResult next_record(uint8_t *data, size_t valid, CUpti_Activity **record) {
  uint8_t *next = *record ? (uint8_t *)*record + size_of(*record) : data;
  if (next >= data + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity *)(void *)next;
  return CUPTI_SUCCESS;
}

static CUptiResult timestamp(uint64_t *time) {
  *time = 1000;
  return CUPTI_SUCCESS;
}

static char *demangle(const char *name, char *out, size_t *size, int *status) {
  (void)out, (void)size;
  *status = strncmp(name, "_Z", 2) == 0 ? 0 : -2;
  return *status == 0 ? strdup("scale(float)") : NULL;
}

static bool missing;
static void *stand_in_open(const char *name, int flags) {
  (void)flags;
  return missing || strstr(name, "cupti") == NULL ? NULL : (void *)name;
}

static void *stand_in_symbol(void *library, const char *name) {
  static const struct {
    const char *name;
    void *address;
  } symbols[] = {{"cuptiActivityRegisterCallbacks", (void *)register_callbacks},
                 {"cuptiActivityEnable", (void *)enable_kind},
                 {"cuptiActivityDisable", (void *)disable_kind},
                 {"cuptiActivityFlushAll", (void *)flush},
                 {"cuptiActivityGetNextRecord", (void *)next_record},
                 {"cuptiGetTimestamp", (void *)timestamp},
                 {"__cxa_demangle", (void *)demangle}};
  (void)library;
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
    if (strcmp(symbols[i].name, name) == 0) return symbols[i].address;
  return NULL;
}

/* ---- records ------------------------------------------------------------------------------ */

static void put(const void *record, size_t size) {
  size_t most;
  if (buffer == NULL) wanted(&buffer, &room, &most), used = 0;
  memcpy(buffer + used, record, size);
  used += size;
}

static void put_kernel(const char *name, uint64_t start, uint64_t end) {
  Kernel k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
  k.name = name;
  k.start = start;
  k.end = end;
  k.deviceId = 1;
  k.streamId = 7;
  put(&k, sizeof k);
}

static int told_n;
static struct {
  char name[32];
  int64_t device, stream, begin, end;
} all[8];

static void note(const tl_Activity *a) {
  snprintf(all[told_n].name, sizeof all[told_n].name, "%s", a->name);
  all[told_n].device = a->device.type == TL_CUDA ? a->device.index : -1;
  all[told_n].stream = a->stream_id;
  all[told_n].begin = a->begin;
  all[told_n++].end = a->end;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void records_are_told_when_it_ends(void) {
  int64_t now = 0;
  CHECK(cuda_activities(note, &now));
  CHECK(now == 1000 && enabled == NKINDS);
  put_kernel("_Z5scalef", 2000, 2500);
  Copy c = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY};
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  c.start = 2600, c.end = 2700, c.deviceId = 0, c.streamId = 14;
  put(&c, sizeof c);
  Other other = {.kind = CUPTI_ACTIVITY_KIND_DEVICE};
  put(&other, sizeof other); /* adds a record that the plugin must ignore */
  Fill f = {.kind = CUPTI_ACTIVITY_KIND_MEMSET};
  f.start = 2800, f.end = 2900, f.deviceId = 0, f.streamId = 7;
  put(&f, sizeof f);
  put_kernel("plain", 0, 0); /* CUPTI could not measure the times of this kernel */
  put_kernel("plain", 3000, 3001);
  CHECK(told_n == 0);
  CHECK(cuda_activities(NULL, &now));
  CHECK(told_n == 4 && enabled == 0 && flushed == 1);
  CHECK(strcmp(all[0].name, "scale(float)") == 0 && all[0].device == 1 && all[0].stream == 7);
  CHECK(all[0].begin == 2000 && all[0].end == 2500);
  CHECK(strcmp(all[1].name, "Memcpy HtoD") == 0 && all[1].stream == 14 && all[1].end == 2700);
  CHECK(strcmp(all[2].name, "Memset") == 0 && all[2].device == 0);
  CHECK(strcmp(all[3].name, "plain") == 0 && all[3].end == 3001);
}

static void nothing_is_told_after_the_end_or_where_it_is_refused(void) {
  int64_t now;
  told_n = 0;
  put_kernel("late", 4000, 4100);
  flush(0);
  CHECK(told_n == 0);
  /* the next call fails as if another profiler were attached */
  refuse = CUPTI_ACTIVITY_KIND_MEMSET;
  CHECK(!cuda_activities(note, &now));
  CHECK(enabled == 0);
  refuse = -1;
  CHECK(cuda_activities(note, &now) && cuda_activities(NULL, &now));
}

int main(void) {
  RUN(records_are_told_when_it_ends);
  RUN(nothing_is_told_after_the_end_or_where_it_is_refused);
  return test_end();
}

#else

int main(void) {
  printf("skipped: there are no headers of CUPTI\n");
  return test_end();
}

#endif
