/*
** alloc_test.c - tests the allocator: sizes, alignment, counters, limits, failing allocations and
** threads. Builds with sanitizers run this test too, although their allocator caches nothing.
*/
#include "core/memory/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/error.h"
#include "test.h"

static bool caching(void) {
  void *p = tli_alloc(1 << 20);
  tli_free(p, 1 << 20);
  return tl_memory_cached() > 0;
}

static bool aligned(const void *p, size_t bytes) {
  return (uintptr_t)p % (bytes < TLI_ALIGN ? 16 : TLI_ALIGN) == 0;
}

TEST(every_size) {
  int64_t before = tl_memory_used();
  for (size_t bytes = 0; bytes < 20000; bytes += bytes < 5000 ? 1 : 37) {
    char *p = tli_alloc(bytes);
    CHECK_AT(bytes, p != NULL && aligned(p, bytes));
    CHECK_AT(bytes, tl_memory_used() - before >= (int64_t)bytes);
    memset(p, 0xa5, bytes);
    tli_free(p, bytes);
  }
  for (int log2 = 14; log2 < 28; log2++)
    for (int delta = -1; delta <= 1; delta++) {
      size_t bytes = ((size_t)1 << log2) + (size_t)delta;
      char *p = tli_alloc(bytes);
      CHECK_AT(bytes, p != NULL && aligned(p, bytes));
      if (p) p[0] = p[bytes - 1] = 1;
      tli_free(p, bytes);
    }
  CHECK(tl_memory_used() == before);
  tli_free(NULL, 100);
}

/* Tests how much memory rounding wastes: at most a quarter of the size, or one alignment unit. */
TEST(rounding_is_small) {
  int64_t before = tl_memory_used();
  for (size_t bytes = 1; bytes < 3000000; bytes += bytes / 7 + 1) {
    void *p = tli_alloc(bytes);
    CHECK_AT(bytes, tl_memory_used() - before <= (int64_t)(bytes + bytes / 4 + 63));
    tli_free(p, bytes);
  }
}

TEST(blocks_do_not_overlap) {
  enum { N = 5000 };
  static unsigned char *block[N];
  static size_t size[N];
  for (int round = 0; round < 60000; round++) {
    int i = (int)test_random(N);
    if (block[i]) {
      for (size_t k = 0; k < size[i]; k++)
        CHECK_AT(size[i], block[i][k] == (unsigned char)(i * 31 + 7));
      tli_free(block[i], size[i]);
      block[i] = NULL;
    } else {
      size[i] = (size_t)test_random(test_random(50) ? 600 : 20000);
      block[i] = tli_alloc(size[i]);
      memset(block[i], i * 31 + 7, size[i]);
    }
  }
  for (int i = 0; i < N; i++)
    if (block[i]) tli_free(block[i], size[i]);
}

TEST(blocks_are_reused) {
  if (!caching()) return;
  void *p = tli_alloc(3 << 20);
  tli_free(p, 3 << 20);
  void *q = tli_alloc((3 << 20) - 100);
  CHECK(p == q);
  tli_free(q, (3 << 20) - 100);
}

/* Allocates n blocks, without writing to them, and frees them. */
static void use(int n, size_t bytes) {
  void *block[64];
  for (int i = 0; i < n; i++) block[i] = tli_alloc(bytes);
  for (int i = 0; i < n; i++) tli_free(block[i], bytes);
}

/* Tests that the cache keeps the memory that was in use recently, up to a bound, and for how long
** it does. */
TEST(cache_is_bounded) {
  if (!caching()) return;
  const int64_t mb = 1 << 20;
  tl_memory_trim();
  use(50, 4 << 20);
  CHECK(tl_memory_cached() >= 200 * mb);
  void *p = tli_alloc(5 << 20);
  tli_free(p, 5 << 20);
  void *q = tli_alloc(5 << 20);
  CHECK(p == q);
  tli_free(q, 5 << 20);

  /* Blocks of another size replace the cached ones, and do not come on top of them. */
  use(40, 6 << 20);
  CHECK(tl_memory_cached() >= 240 * mb && tl_memory_cached() <= (240 + 140) * mb);

  use(20, 64 << 20);
  CHECK(tl_memory_cached() > 900 * mb && tl_memory_cached() <= 1040 * mb);

  /* Allocations that need less memory end the time in which the cache may be large. */
  for (int i = 0; i < 40000; i++) use(1, 8 << 10);
  use(2, 4 << 20);
  CHECK(tl_memory_cached() > 60 * mb && tl_memory_cached() <= 140 * mb);
}

TEST(trim_gives_back) {
  enum { N = 100000 };
  void **block = malloc(N * sizeof *block);
  tl_memory_trim();
  int64_t before = tl_memory_cached();
  for (int i = 0; i < N; i++) block[i] = tli_alloc(200);
  void *middle = block[N / 2];
  for (int i = 0; i < N; i++)
    if (block[i] != middle) tli_free(block[i], 200);
  if (caching()) CHECK(tl_memory_cached() > 10 << 20);
  tl_memory_trim();
  /* `middle` is still allocated, so the slab of 128 KB that contains it cannot be freed */
  CHECK(tl_memory_cached() <= before + (128 << 10));
  memset(middle, 1, 200);
  for (int i = 0; i < 1000; i++) block[i] = tli_alloc(200);
  for (int i = 0; i < 1000; i++) CHECK_AT(i, block[i] != middle);
  for (int i = 0; i < 1000; i++) tli_free(block[i], 200);
  tli_free(middle, 200);
  free(block);
}

TEST(too_large) {
  CHECK(tli_alloc(SIZE_MAX) == NULL);
  CHECK_ERROR(TL_EMEM, "out of memory: asked for ");
  CHECK(tli_alloc(SIZE_MAX / 16) == NULL);
  CHECK_ERROR(TL_EMEM, " in use and ");
}

TEST(limit_holds) {
  int64_t used = tl_memory_used();
  tl_set_memory_limit(used + (10 << 20));
  void *p = tli_alloc(8 << 20);
  CHECK(p != NULL);
  CHECK(tli_alloc(8 << 20) == NULL);
  CHECK_ERROR(TL_EMEM, "asked for 8.0 MB");
  CHECK_ERROR(TL_EMEM, "under a limit of 1");
  tli_free(p, 8 << 20);
  CHECK(tl_memory_used() + tl_memory_cached() <= used + (11 << 20));
  p = tli_alloc(8 << 20);
  CHECK(p != NULL);
  tli_free(p, 8 << 20);

  /* allocating many small blocks must reach the limit too */
  enum { N = 200000 };
  void **block = calloc(N, sizeof *block);
  int n = 0;
  while (n < N && (block[n] = tli_alloc(256)) != NULL) n++;
  CHECK(n > 10000 && n < 41100);
  CHECK_ERROR(TL_EMEM, "limit");
  for (int i = 0; i < n; i++) tli_free(block[i], 256);
  free(block);
  tl_set_memory_limit(0);
  CHECK(tl_memory_used() == used);
}

TEST(faults_are_injected) {
  int64_t used = tl_memory_used(), calls = tli_alloc_count();
  tli_alloc_fail_at(2);
  void *p = tli_alloc(10);
  CHECK(p != NULL);
  CHECK(tli_alloc(5000) == NULL);
  CHECK_ERROR(TL_EMEM, "asked for 4.9 KB");
  void *q = tli_alloc(5000);
  CHECK(q != NULL);
  tli_alloc_fail_at(1);
  tli_alloc_fail_at(0);
  tli_free(q, 5000);
  q = tli_alloc(1);
  CHECK(q != NULL && tli_alloc_count() == calls + 4);
  tli_free(p, 10);
  tli_free(q, 1);
  CHECK(tl_memory_used() == used);
}

/* ---- threads ---- */

enum { THREADS = 4, SLOTS = 256, ROUNDS = 100000 };

typedef struct Parcel {
  size_t bytes;
  unsigned char fill;
} Parcel;

static _Atomic(Parcel *) slots[SLOTS];
static atomic_int damaged;

static void open_parcel(Parcel *p) {
  const unsigned char *data = (const unsigned char *)(p + 1);
  for (size_t k = 0; k < p->bytes; k++)
    if (data[k] != p->fill) atomic_store(&damaged, 1);
  tli_free(p, sizeof *p + p->bytes);
}

/* Exchanges blocks with other threads, so that one thread allocates a block and another thread
** frees it. */
static void *exchange(void *context) {
  unsigned state = (unsigned)(uintptr_t)context * 2654435761u + 1;
  for (int i = 0; i < ROUNDS; i++) {
    state = state * 1664525u + 1013904223u;
    size_t bytes = state >> 24 == 7 ? 30000 : (state >> 16) % 500;
    Parcel *p = tli_alloc(sizeof *p + bytes);
    if (p == NULL) {
      atomic_store(&damaged, 1);
      continue;
    }
    *p = (Parcel){bytes, (unsigned char)state};
    memset(p + 1, p->fill, bytes);
    p = atomic_exchange(&slots[(state >> 8) % SLOTS], p);
    if (p) open_parcel(p);
    if (i % 30000 == 29999) tl_memory_trim();
  }
  return NULL;
}

TEST(threads_exchange_blocks) {
  int64_t used = tl_memory_used();
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&thread[i], NULL, exchange, (void *)(uintptr_t)(i + 1)) == 0);
  for (int i = 0; i < 100; i++) CHECK(tl_memory_cached() >= 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < SLOTS; i++) {
    Parcel *p = atomic_load(&slots[i]);
    if (p) open_parcel(p);
  }
  CHECK(atomic_load(&damaged) == 0);
  CHECK(tl_memory_used() == used);
  tl_memory_trim();
  CHECK(tl_memory_cached() <= 1 << 20);
}

static void *take_and_leave(void *context) {
  (void)context;
  void *p[300];
  for (int i = 0; i < 300; i++) p[i] = tli_alloc(64);
  for (int i = 0; i < 300; i++) tli_free(p[i], 64);
  return NULL;
}

/* Tests that the memory of threads that have ended is reused: a thousand threads, one after
** another, need no more memory than one. */
TEST(ended_threads_leave_nothing) {
  tl_memory_trim();
  int64_t most = 0;
  for (int i = 0; i < 1000; i++) {
    pthread_t thread;
    CHECK_AT(i, pthread_create(&thread, NULL, take_and_leave, NULL) == 0);
    pthread_join(thread, NULL);
    if (i == 0) most = tl_memory_cached();
  }
  CHECK(tl_memory_cached() <= most);
}

int main(void) {
  int status = test_all();
  tl_memory_trim();
  return status;
}
