/*
** alloc.c - the caching allocator.
**
** Every request is rounded up to a size class; there are four classes for each doubling of the
** size. Blocks up to SMALL_MAX are cut from slabs and pass through per-thread magazines, so that
** the common pair of allocate and free takes no lock. Larger blocks are in one locked cache by
** class; when the cache exceeds the bound of cache_most, its oldest blocks are returned to the
** system. The bound follows the largest number of bytes that were in use recently, so that each step
** of a training gets the blocks of the step before, instead of new pages that the system must clear.
**
** Invariant: held = used + cached. `held` counts bytes from the system and changes under the lock.
** `used` is the sum of one counter for each thread. Only the thread itself writes its counter: if a
** thread frees a block that another thread has allocated, the freeing thread's counter decreases.
**
** Sanitizer and debug builds take every block directly from the system, so that they detect uses of
** a block after it is freed or past its end.
*/
#include "core/memory/alloc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/observe/live_storages.h"
#include "core/platform/platform.h"

#if defined(__SANITIZE_ADDRESS__) || defined(TLI_DEBUG)
#define CACHING 0
#else
#define CACHING 1
#endif

/* The largest request in bytes. No system has a larger address space today; the limit prevents
** arithmetic overflow. */
#define REQUEST_MAX ((size_t)1 << (sizeof(size_t) > 4 ? 46 : 31))

#define SMALL_MAX 4096
#define SMALL_CLASSES 23
#define CLASSES 159 /* number of size classes: class_of(REQUEST_MAX) + 1 */
#define SLAB_BYTES ((size_t)64 << 10)
#define SLAB_HEADER 64
/* The cache may hold CACHE_LEAST bytes, and as many more as were in use at some time in the last
** WINDOW to 2 * WINDOW allocations of larger blocks and are not in use now; together at most
** CACHE_MOST bytes. So used and cached bytes never exceed the peak of used bytes by more than
** CACHE_LEAST. */
#define CACHE_LEAST ((int64_t)128 << 20)
#define CACHE_MOST ((int64_t)1 << 30)
#define WINDOW 16384
/* Blocks of at least this many bytes have pages of their own. */
#define PAGES_MIN ((size_t)2 << 20)

/* A free small block. Free blocks are linked to chains, which are moved as a whole. The field
** `chain` is used only in the first block of a chain. */
typedef struct Block {
  struct Block *next;
  struct Block *chain; /* first block of the next chain in the pool */
} Block;

/* A thread's free blocks of one class, in two chains of at most `batch` blocks. Blocks are taken
** from `now` and returned to `now`. `spare` is either empty or full. It replaces `now` when `now`
** becomes empty; when `now` becomes full, it becomes the new spare chain, and the previous one goes
** to the pool. So a thread that alternates between allocating and freeing rarely visits the pool,
** which has a lock. */
typedef struct Magazine {
  Block *now;
  Block *spare;
  /* number of blocks in `now`. This is an upper bound, because a chain from the pool may have fewer
  ** than `batch` blocks */
  uint32_t count;
  uint32_t batch;
  int64_t size;
} Magazine;

typedef struct Thread {
  struct Thread *prev, *next; /* neighbours in the list pool.threads */
  /* number of bytes that this thread has allocated minus the number that it has freed; no other
  ** thread writes this field */
  _Atomic int64_t used;
  int64_t calls;
  /* fault injection: number of the first call of tli_alloc that fails; INT64_MAX means that none
  ** fails */
  int64_t fail_from;
  int64_t fail_to; /* fault injection: number of the last call of tli_alloc that fails */
  Magazine small[SMALL_CLASSES];
} Thread;

/* The header of a slab. A slab's alignment is its size, so that a block's address gives its
** slab. */
typedef struct Slab {
  struct Slab *next; /* the next slab of the same class */
  uint32_t total;    /* number of blocks that fit into the slab */
  uint32_t cut;      /* number of blocks that have been handed out at least once */
  uint32_t idle;     /* number of free blocks in this slab, as counted by small_trim */
} Slab;

/* The header of a larger block in the cache. */
typedef struct Cached {
  struct Cached *prev, *next;   /* neighbours in the list of this size class, newest first */
  struct Cached *newer, *older; /* neighbours in the list of all cached blocks */
  int cls;
} Cached;

static struct {
  tli_Mutex lock; /* guards all fields of the pool */
  Thread *threads;
  int64_t gone; /* the sum of the counters of ended threads */
  int64_t held; /* bytes obtained from the system */
  int64_t peak; /* maximum of `used`; blocks in magazines do not count */
  Block *chains[SMALL_CLASSES];
  Slab *slabs[SMALL_CLASSES]; /* slabs of each class; new blocks are cut from the first slab */
  Cached *large[CLASSES];
  Cached *newest, *oldest;
  int64_t large_bytes; /* total bytes of the larger blocks in the cache */
  /* maxima of `used` at allocations of larger blocks, in the window that is not complete yet and in
  ** the window before it, and the number of allocations in the former */
  int64_t recent, earlier;
  int window;
} pool = {.lock = TLI_MUTEX_INIT};
TLI_FORK_SAFE_LAST(pool.lock)

static _Atomic int64_t limit; /* limit of used bytes; 0 means no limit */

static tli_Once once = TLI_ONCE_INIT;
static tli_Key key; /* thread-specific key whose destructor runs when a thread ends */
static bool have_key;
static _Thread_local Thread *self;

/* While a hook is set, `self` is NULL and `aside` holds the thread's record. The fast path needs
** `self`, so every call takes the slow path, which calls the hook. */
static _Thread_local tli_AllocHook *hook;
static _Thread_local Thread *aside;

/* ---- size classes ---- */

/* Returns the size class of a request. Classes grow in steps of 16 bytes up to 64, in steps of 64
** up to 256, then in four steps per doubling. */
static inline int class_of(size_t bytes) {
  size_t last = bytes - (bytes != 0);
  if (bytes <= 64) return (int)(last >> 4);
  if (bytes <= 256) return 3 + (int)(last >> 6);
  int log2 = 63 - __builtin_clzll((unsigned long long)last);
  return 7 + (log2 - 8) * 4 + (int)(last >> (log2 - 2) & 3);
}

static size_t class_size(int cls) {
  if (cls < 4) return (size_t)(cls + 1) * 16;
  if (cls < 7) return (size_t)(cls - 2) * 64;
  int step = cls - 7;
  return (size_t)(5 + (step & 3)) << (6 + (step >> 2));
}

/* Returns the number of blocks in a full chain: enough to make visits to the locked pool rare, but
** not so many that idle threads hoard memory. */
static uint32_t class_batch(int cls) {
  size_t n = 8192 / class_size(cls);
  return (uint32_t)(n > 64 ? 64 : n < 8 ? 8 : n);
}

/* ---- threads ---- */

static inline void count_used(Thread *thread, int64_t bytes) {
  int64_t used = atomic_load_explicit(&thread->used, memory_order_relaxed);
  atomic_store_explicit(&thread->used, used + bytes, memory_order_relaxed);
}

/* Returns the number of bytes that all threads use. The caller holds the lock. */
static int64_t used_bytes(void) {
  int64_t used = pool.gone;
  for (Thread *t = pool.threads; t; t = t->next)
    used += atomic_load_explicit(&t->used, memory_order_relaxed);
  return used;
}

/* Adds a chain to the pool. The caller holds the lock. */
static void give_chain(int cls, Block *chain) {
  if (chain == NULL) return;
  chain->chain = pool.chains[cls];
  pool.chains[cls] = chain;
}

/* Returns all chains of a thread to the pool. The caller holds the lock. */
static void give_magazines(Thread *thread) {
  for (int cls = 0; cls < SMALL_CLASSES; cls++) {
    Magazine *m = &thread->small[cls];
    give_chain(cls, m->now);
    give_chain(cls, m->spare);
    m->now = m->spare = NULL;
    m->count = 0;
  }
}

static void thread_end(void *context) {
  Thread *thread = context;
  tli_mutex_lock(&pool.lock);
  give_magazines(thread);
  pool.gone += atomic_load_explicit(&thread->used, memory_order_relaxed);
  if (thread->next) thread->next->prev = thread->prev;
  if (thread->prev)
    thread->prev->next = thread->next;
  else
    pool.threads = thread->next;
  tli_mutex_unlock(&pool.lock);
  self = aside = NULL;
  free(thread);
}

static void make_key(void) { have_key = tli_key_make(&key, thread_end); }

static Thread *thread_new(void) {
  tli_once(&once, make_key);
  if (!have_key) return NULL;
  Thread *thread = calloc(1, sizeof *thread);
  if (thread == NULL) return NULL;
  if (!tli_key_set(key, thread)) {
    free(thread);
    return NULL;
  }
  thread->fail_from = INT64_MAX;
  for (int cls = 0; cls < SMALL_CLASSES; cls++) {
    thread->small[cls].batch = class_batch(cls);
    thread->small[cls].size = (int64_t)class_size(cls);
  }
  tli_mutex_lock(&pool.lock);
  thread->next = pool.threads;
  if (pool.threads) pool.threads->prev = thread;
  pool.threads = thread;
  tli_mutex_unlock(&pool.lock);
  self = thread;
  return thread;
}

static inline Thread *thread_get(void) {
  if (self) return self;
  return aside ? aside : thread_new();
}

/* Returns whether `more` bytes would exceed the limit of used bytes. The caller holds the lock. */
static bool over_limit(int64_t more) {
  int64_t most = atomic_load_explicit(&limit, memory_order_relaxed);
  return most > 0 && used_bytes() + more > most;
}

/* Updates the peak. The caller holds the lock, and is about to use `more` bytes. */
static void note_peak(int64_t more) {
  int64_t used = used_bytes() + more;
  if (used > pool.peak) pool.peak = used;
}

#if CACHING

/* ---- the system ---- */

static void *system_get(size_t bytes) {
  return bytes >= PAGES_MIN ? tli_pages_get(bytes) : tli_memory_get(TLI_ALIGN, bytes);
}

static void system_put(void *block, size_t bytes) {
  if (bytes >= PAGES_MIN)
    tli_pages_put(block, bytes);
  else
    tli_memory_put(block);
}

/* ---- small blocks ---- */

static inline Slab *slab_of(Block *block) {
  return (Slab *)((uintptr_t)block & ~(uintptr_t)(SLAB_BYTES - 1));
}

/* Gets a slab from the system for a class. The caller holds the lock. */
static Slab *slab_new(int cls) {
  Slab *slab = tli_memory_get(SLAB_BYTES, SLAB_BYTES);
  if (slab == NULL) return NULL;
  pool.held += (int64_t)SLAB_BYTES;
  *slab = (Slab){.next = pool.slabs[cls]};
  slab->total = (uint32_t)((SLAB_BYTES - SLAB_HEADER) / class_size(cls));
  pool.slabs[cls] = slab;
  return slab;
}

/* Makes a chain of blocks that were never used. The caller holds the lock. */
static Block *cut_chain(int cls, uint32_t batch) {
  Slab *slab = pool.slabs[cls];
  if (slab == NULL || slab->cut == slab->total) slab = slab_new(cls);
  if (slab == NULL) return NULL;
  Block *chain = NULL;
  for (; batch > 0 && slab->cut < slab->total; batch--) {
    Block *block = (Block *)((char *)slab + SLAB_HEADER + slab->cut++ * class_size(cls));
    block->next = chain;
    chain = block;
  }
  return chain;
}

static void *small_refill(Magazine *m, int cls, bool *refused) {
  if (m->spare) {
    m->now = m->spare;
    m->spare = NULL;
  } else {
    tli_mutex_lock(&pool.lock);
    *refused = over_limit(m->size);
    note_peak(*refused ? 0 : m->size);
    Block *chain = *refused ? NULL : pool.chains[cls];
    if (chain)
      pool.chains[cls] = chain->chain;
    else if (!*refused)
      chain = cut_chain(cls, m->batch);
    tli_mutex_unlock(&pool.lock);
    if (chain == NULL) return NULL;
    m->now = chain;
  }
  Block *block = m->now;
  m->now = block->next;
  m->count = m->batch - 1;
  return block;
}

/* Takes the first block from a magazine that is not empty. */
static inline void *pop(Thread *thread, Magazine *m) {
  Block *block = m->now;
  m->now = block->next;
  m->count--;
  count_used(thread, m->size);
  return block;
}

static inline void push(Thread *thread, Magazine *m, Block *block) {
  block->next = m->now;
  m->now = block;
  m->count++;
  count_used(thread, -m->size);
}

static void *small_get(Thread *thread, int cls, bool *refused) {
  Magazine *m = &thread->small[cls];
  if (m->now) return pop(thread, m);
  Block *block = small_refill(m, cls, refused);
  if (block) count_used(thread, m->size);
  return block;
}

/* These functions are the fast paths, which handle nearly all calls. They return NULL or false if
** the call needs the slow path. */
static inline void *quick_get(size_t bytes) {
  Thread *thread = self;
  if (thread == NULL || bytes > SMALL_MAX || thread->calls + 1 >= thread->fail_from) return NULL;
  Magazine *m = &thread->small[class_of(bytes)];
  if (m->now == NULL) return NULL;
  thread->calls++;
  return pop(thread, m);
}

static inline bool quick_put(void *block, size_t bytes) {
  Thread *thread = self;
  if (thread == NULL || bytes > SMALL_MAX) return false;
  Magazine *m = &thread->small[class_of(bytes)];
  if (m->count >= m->batch) return false;
  push(thread, m, block);
  return true;
}

/* Makes the full chain `now` the spare chain, and gives the previous spare chain to the pool. */
static void small_spill(Magazine *m, int cls) {
  if (m->spare) {
    tli_mutex_lock(&pool.lock);
    give_chain(cls, m->spare);
    tli_mutex_unlock(&pool.lock);
  }
  m->spare = m->now;
  m->now = NULL;
  m->count = 0;
}

static void small_put(Thread *thread, int cls, Block *block) {
  Magazine *m = &thread->small[cls];
  if (m->count >= m->batch) small_spill(m, cls);
  push(thread, m, block);
}

/* Releases the slabs of a class that have no blocks in use or in a magazine, and rebuilds the
** chains of the other slabs. The caller holds the lock. */
static void small_trim(int cls) {
  Block *chains = pool.chains[cls];
  for (Block *c = chains; c; c = c->chain)
    for (Block *b = c; b; b = b->next) slab_of(b)->idle++;

  pool.chains[cls] = NULL;
  Block *chain = NULL;
  uint32_t count = 0, batch = class_batch(cls);
  while (chains) {
    Block *block = chains;
    chains = chains->chain;
    while (block) {
      Block *next = block->next;
      if (slab_of(block)->idle < slab_of(block)->cut) {
        block->next = chain;
        chain = block;
        if (++count == batch) {
          give_chain(cls, chain);
          chain = NULL;
          count = 0;
        }
      }
      block = next;
    }
  }
  give_chain(cls, chain);

  for (Slab **at = &pool.slabs[cls]; *at;) {
    Slab *slab = *at;
    if (slab->idle == slab->cut) {
      *at = slab->next;
      tli_memory_put(slab);
      pool.held -= (int64_t)SLAB_BYTES;
    } else {
      slab->idle = 0;
      at = &slab->next;
    }
  }
}

/* ---- larger blocks ---- */

/* Removes a block from the cache's lists. The caller holds the lock. */
static void cache_remove(Cached *c) {
  if (c->prev)
    c->prev->next = c->next;
  else
    pool.large[c->cls] = c->next;
  if (c->next) c->next->prev = c->prev;
  if (c->newer)
    c->newer->older = c->older;
  else
    pool.newest = c->older;
  if (c->older)
    c->older->newer = c->newer;
  else
    pool.oldest = c->newer;
  pool.large_bytes -= (int64_t)class_size(c->cls);
}

/* Adds a block to the cache's lists. The caller holds the lock. */
static void cache_insert(Cached *c, int cls) {
  *c = (Cached){.cls = cls, .next = pool.large[cls], .older = pool.newest};
  if (c->next) c->next->prev = c;
  pool.large[cls] = c;
  if (c->older)
    c->older->newer = c;
  else
    pool.oldest = c;
  pool.newest = c;
  pool.large_bytes += (int64_t)class_size(cls);
}

/* Removes the oldest blocks from the cache until the cache has at most `most` bytes. The removed
** blocks are linked through `older`, so that cache_drop can free them without the lock. The caller
** holds the lock. */
static Cached *cache_shrink(int64_t most) {
  Cached *out = NULL;
  while (pool.oldest && pool.large_bytes > most) {
    Cached *c = pool.oldest;
    cache_remove(c);
    pool.held -= (int64_t)class_size(c->cls);
    c->older = out;
    out = c;
  }
  return out;
}

static void cache_drop(Cached *c) {
  while (c) {
    Cached *next = c->older;
    system_put(c, class_size(c->cls));
    c = next;
  }
}

/* Notes the number of used bytes for cache_most. The caller holds the lock. */
static void note_recent(int64_t used) {
  if (++pool.window == WINDOW) {
    pool.earlier = pool.recent;
    pool.recent = 0;
    pool.window = 0;
  }
  if (used > pool.recent) pool.recent = used;
}

/* Returns the largest number of bytes that the cache may hold. A limit on used bytes lowers this
** number. The caller holds the lock. */
static int64_t cache_most(void) {
  int64_t used = used_bytes(), limited = atomic_load_explicit(&limit, memory_order_relaxed);
  int64_t recent = pool.recent > pool.earlier ? pool.recent : pool.earlier;
  int64_t most = CACHE_LEAST + (recent > used ? recent - used : 0);
  if (most > CACHE_MOST) most = CACHE_MOST;
  if (limited == 0 || limited - used > most) return most;
  return limited > used ? limited - used : 0;
}

static void *large_get(Thread *thread, int cls, bool *refused) {
  int64_t size = (int64_t)class_size(cls);
  tli_mutex_lock(&pool.lock);
  Cached *c = pool.large[cls], *out = NULL;
  *refused = over_limit(size);
  if (!*refused) {
    note_peak(size);
    count_used(thread, size);
    note_recent(used_bytes());
    if (c) {
      cache_remove(c);
    } else {
      pool.held += size;
      out = cache_shrink(cache_most());
    }
  }
  tli_mutex_unlock(&pool.lock);
  cache_drop(out);
  if (*refused || c) return *refused ? NULL : c;

  void *block = system_get((size_t)size);
  if (block == NULL) {
    tli_mutex_lock(&pool.lock);
    count_used(thread, -size);
    pool.held -= size;
    tli_mutex_unlock(&pool.lock);
  }
  return block;
}

static void large_put(Thread *thread, int cls, void *block) {
  tli_mutex_lock(&pool.lock);
  if (thread)
    count_used(thread, -(int64_t)class_size(cls));
  else
    pool.gone -= (int64_t)class_size(cls);
  cache_insert(block, cls);
  Cached *out = cache_shrink(cache_most());
  tli_mutex_unlock(&pool.lock);
  cache_drop(out);
}

/* Frees a block in a thread that has no Thread record, because there was no memory for the
** record. */
static void small_put_alone(int cls, Block *block) {
  tli_mutex_lock(&pool.lock);
  pool.gone -= (int64_t)class_size(cls);
  block->next = NULL;
  give_chain(cls, block);
  tli_mutex_unlock(&pool.lock);
}

/* ---- blocks of any size ---- */

static void *block_get(Thread *thread, size_t bytes, bool *refused) {
  if (bytes <= SMALL_MAX) return small_get(thread, class_of(bytes), refused);
  return large_get(thread, class_of(bytes), refused);
}

static void block_put(Thread *thread, void *block, size_t bytes) {
  int cls = class_of(bytes);
  if (bytes > SMALL_MAX)
    large_put(thread, cls, block);
  else if (thread)
    small_put(thread, cls, block);
  else
    small_put_alone(cls, block);
}

void tl_memory_trim(void) {
  tli_mutex_lock(&pool.lock);
  if (self) give_magazines(self);
  for (int cls = 0; cls < SMALL_CLASSES; cls++) small_trim(cls);
  Cached *out = cache_shrink(0);
  tli_mutex_unlock(&pool.lock);
  cache_drop(out);
}

#else /* this build has no cache: blocks come directly from the system */

static void *quick_get(size_t bytes) {
  (void)bytes;
  return NULL;
}

static bool quick_put(void *block, size_t bytes) {
  (void)block;
  (void)bytes;
  return false;
}

static void *block_get(Thread *thread, size_t bytes, bool *refused) {
  tli_mutex_lock(&pool.lock);
  *refused = over_limit((int64_t)bytes);
  tli_mutex_unlock(&pool.lock);
  if (*refused) return NULL;
  void *block = tli_memory_get(bytes < TLI_ALIGN ? 16 : TLI_ALIGN, bytes ? bytes : 1);
  if (block == NULL) return NULL;
  count_used(thread, (int64_t)bytes);
  tli_mutex_lock(&pool.lock);
  pool.held += (int64_t)bytes;
  note_peak(0);
  tli_mutex_unlock(&pool.lock);
  return block;
}

static void block_put(Thread *thread, void *block, size_t bytes) {
  tli_mutex_lock(&pool.lock);
  if (thread)
    count_used(thread, -(int64_t)bytes);
  else
    pool.gone -= (int64_t)bytes;
  pool.held -= (int64_t)bytes;
  tli_mutex_unlock(&pool.lock);
  tli_memory_put(block);
}

void tl_memory_trim(void) {}

#endif

/* ---- the interface ---- */

/* Formats bytes as "1.5 GB". */
static const char *readable(double bytes, char out[32]) {
  static const char *const unit[] = {"bytes", "KB", "MB", "GB", "TB"};
  int u = 0;
  while (bytes >= 1024 && u < 4) {
    bytes /= 1024;
    u++;
  }
  snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
  return out;
}

static void *out_of_memory(size_t bytes, bool refused) {
  char asked[32], used[32], cached[32], most[32];
  readable((double)bytes, asked);
  readable((double)tl_memory_used(), used);
  readable((double)tl_memory_cached(), cached);
  readable((double)atomic_load_explicit(&limit, memory_order_relaxed), most);
  char head[400];
  tli_live_head(head, sizeof head);
  return tli_fail_null(TL_EMEM, "out of memory: asked for %s, with %s in use and %s cached%s%s%s",
                       asked, used, cached, refused ? ", under a limit of " : "",
                       refused ? most : "", head);
}

tli_AllocHook *tli_alloc_divert(tli_AllocHook *to) {
  tli_AllocHook *before = hook;
  Thread *thread = thread_get();
  /* memory is exhausted, so the allocator continues without a record of the thread */
  if (thread == NULL) return before;
  hook = to;
  self = to ? NULL : thread;
  aside = to ? thread : NULL;
  return before;
}

static __attribute__((noinline)) void *alloc_any(size_t bytes) {
  void *planned = hook ? hook->get(hook, bytes) : NULL;
  if (planned) return planned;
  Thread *thread = thread_get();
  bool refused = false;
  if (thread == NULL || bytes > REQUEST_MAX) return out_of_memory(bytes, false);
  if (++thread->calls >= thread->fail_from && thread->calls <= thread->fail_to)
    return out_of_memory(bytes, false);
  void *block = block_get(thread, bytes, &refused);
  if (block == NULL) {
    if (!refused) {
      tl_memory_trim();
      block = block_get(thread, bytes, &refused);
    }
    if (block == NULL) return out_of_memory(bytes, refused);
  }
  if (hook) hook->got(hook, block, bytes);
  return block;
}

static __attribute__((noinline)) void free_any(void *block, size_t bytes) {
  if (hook && hook->put(hook, block)) return;
  block_put(thread_get(), block, bytes);
}

void *tli_alloc(size_t bytes) {
  void *block = quick_get(bytes);
  return block ? block : alloc_any(bytes);
}

void tli_free(void *block, size_t bytes) {
  if (block && !quick_put(block, bytes)) free_any(block, bytes);
}

static void fail_calls(int64_t first, int64_t count) {
  Thread *thread = thread_get();
  if (thread == NULL) return;
  thread->fail_from = first > 0 ? thread->calls + first : INT64_MAX;
  thread->fail_to = first > 0 && count > 0 ? thread->calls + first + count - 1 : INT64_MAX;
}

void tli_alloc_fail_at(int64_t n) { fail_calls(n, 1); }

void tli_alloc_fail_from(int64_t n) { fail_calls(n, 0); }

int64_t tli_alloc_count(void) {
  Thread *thread = thread_get();
  return thread ? thread->calls : 0;
}

int64_t tl_memory_used(void) {
  tli_mutex_lock(&pool.lock);
  int64_t used = used_bytes();
  tli_mutex_unlock(&pool.lock);
  return used;
}

int64_t tli_memory_peak(void) {
  tli_mutex_lock(&pool.lock);
  note_peak(0);
  int64_t peak = pool.peak;
  tli_mutex_unlock(&pool.lock);
  return peak;
}

void tli_memory_reset_peak(void) {
  tli_mutex_lock(&pool.lock);
  pool.peak = used_bytes();
  tli_mutex_unlock(&pool.lock);
}

int64_t tl_memory_cached(void) {
  tli_mutex_lock(&pool.lock);
  int64_t cached = pool.held - used_bytes();
  tli_mutex_unlock(&pool.lock);
  return cached < 0 ? 0 : cached;
}

void tl_set_memory_limit(int64_t bytes) {
  atomic_store_explicit(&limit, bytes > 0 ? bytes : 0, memory_order_relaxed);
}
