/*
** parallel.c - threads for kernels: a pool of the engine's own, a host's job system, or none. The
** engine does not use OpenMP's runtime, for three reasons. Its idle threads spin for long, which
** costs ten times the work on a busy machine. It does not survive a fork. Every calling thread gets
** a team of threads of its own, so that parallel interpreters would compete for cores.
**
** The pool runs one job at a time. A caller that finds the pool busy does all of its work itself,
** which suits many interpreters that run in parallel. Each thread of a job, including the caller,
** has a share of the tasks. A thread gets the same part of every job, because its cache may still
** hold that data. When its share is done, the thread takes tasks from other shares, so no job waits
** for a thread that is still waking up. Invariant: a range that has begun always runs to its end.
** If there is only one thread, or inside another range, everything runs in the calling thread.
*/
#include "core/platform/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/platform/platform.h"

typedef void (*TaskFn)(void *context, int i);
typedef void (*RunFn)(int tasks, TaskFn task, void *context, void *user);

#define THREADS_MAX 4096
/* The time for which an idle thread polls for work before it sleeps: longer than the gap between
** two operators of a training step, but too short to disturb other programs. */
#define SPIN_NS 50000
#define SHARES 64 /* the largest number of shares of a job */
#define CACHE_LINE 64

/* number of threads for kernels, including the caller; 0 until it is determined */
static atomic_int threads;
static _Atomic(RunFn) host_run;
static _Atomic(void *) host_user;
static atomic_int interrupted;

static _Thread_local bool inside;
static _Thread_local bool serial;
/* number of threads for the operators of this thread; 0 means that the process's number applies */
static _Thread_local int own_threads;

/* ---- number of threads ---- */

static int default_threads(void) {
  const char *wish = getenv("OMP_NUM_THREADS");
  long n = wish ? strtol(wish, NULL, 10) : 0;
  if (n > 0 && n <= THREADS_MAX) return (int)n;
  int processors = tli_processors();
  return processors < THREADS_MAX ? processors : THREADS_MAX;
}

void tli_own_threads(int n) { own_threads = n; }

int tl_get_num_threads(void) {
  if (own_threads) return own_threads;
  int n = atomic_load_explicit(&threads, memory_order_relaxed);
  if (n > 0) return n;
  /* if tl_set_num_threads has set a number meanwhile, that number remains */
  int chosen = default_threads();
  return atomic_compare_exchange_strong(&threads, &n, chosen) ? chosen : n;
}

bool tl_set_num_threads(int n) {
  if (n < 1 || n > THREADS_MAX)
    return tli_fail(TL_EARG, "set_num_threads: expected 1 to %d threads, got %d", THREADS_MAX, n);
  if (own_threads)
    own_threads = n;
  else
    atomic_store(&threads, n);
  return true;
}

void tl_set_parallel_run(void (*run)(int tasks, void (*task)(void *context, int i), void *context,
                                     void *user),
                         void *user) {
  atomic_store(&host_user, user);
  atomic_store(&host_run, run);
}

bool tli_parallel_inside(void) { return inside; }

bool tli_parallel_set_serial(bool on) {
  bool previous = serial;
  serial = on;
  return previous;
}

/* ---- the pool ---- */

typedef struct Job {
  tli_RangeFn fn;
  void *context;
  int64_t n;
  int tasks;
  int workers; /* number of workers that may take part in the job */
} Job;

typedef struct Share {
  _Alignas(CACHE_LINE) atomic_int next; /* number of the next task in this share */
  int end;
} Share;

static void run_range(void *context, int i);

static struct Pool {
  tli_Mutex owner;    /* held by the thread whose job is running */
  tli_Mutex lock;     /* guards the conditions `work` and `done` */
  tli_Condition work; /* signals workers that there is a job */
  tli_Condition done; /* signals the owner that no worker accesses the job any more */
  int workers;        /* number of workers that were started; only the owner changes it */
  /* the current job. This field and the shares change only while `open` is false and no worker is
  ** active */
  Job *job;
  Share shares[SHARES];
  int nshares;
  atomic_int limit; /* workers with numbers above this limit do not take part in the current job */
  /* number of jobs so far; idle workers poll this counter */
  _Alignas(CACHE_LINE) atomic_uint round;
  /* whether the current job may still have tasks that no thread has taken */
  _Alignas(CACHE_LINE) atomic_bool open;
  atomic_int active; /* number of workers that may access the job */
  atomic_int asleep; /* number of workers that sleep on `work` */
} pool = {
    .owner = TLI_MUTEX_INIT,
    .lock = TLI_MUTEX_INIT,
    .work = TLI_CONDITION_INIT,
    .done = TLI_CONDITION_INIT,
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Spins while `condition` is true, for at most SPIN_NS. */
#define SPIN_WHILE(condition)                         \
  do {                                                \
    int64_t end_ = tli_now_ns() + SPIN_NS;            \
    for (int k_ = 1; (condition); k_++) {             \
      relax();                                        \
      if (k_ % 32 == 0 && tli_now_ns() > end_) break; \
    }                                                 \
  } while (0)

/* Divides the tasks of a job into shares. Only the owner of the pool calls this function. */
static void share_out(int tasks, int sharers) {
  int n = sharers < SHARES ? sharers : SHARES;
  for (int k = 0; k < n; k++) {
    atomic_store_explicit(&pool.shares[k].next, (int)((int64_t)tasks * k / n),
                          memory_order_relaxed);
    pool.shares[k].end = (int)((int64_t)tasks * (k + 1) / n);
  }
  pool.nshares = n;
}

/* Runs the tasks of the thread's own share, then tasks that are left in other shares. Thread 0 is
** the thread that started the job. */
static void take_tasks(int thread) {
  for (int k = 0; k < pool.nshares; k++) {
    Share *share = &pool.shares[(thread + k) % pool.nshares];
    for (;;) {
      int i = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
      if (i >= share->end) break;
      run_range(pool.job, i);
    }
  }
}

/* Waits until another job begins: until the pool's count of jobs differs from `seen`. Returns the
** count. */
static unsigned wait_for_work(unsigned seen) {
  SPIN_WHILE(atomic_load(&pool.round) == seen);
  if (atomic_load(&pool.round) == seen) {
    tli_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.asleep, 1);
    while (atomic_load(&pool.round) == seen) tli_condition_wait(&pool.work, &pool.lock);
    atomic_fetch_sub(&pool.asleep, 1);
    tli_mutex_unlock(&pool.lock);
  }
  return atomic_load(&pool.round);
}

/* A worker increments `active` before it reads `open`, and the owner closes the pool before it
** reads `active`. So either the worker does not enter the job, or the owner waits for the
** worker. */
static void join_job(int thread) {
  atomic_fetch_add(&pool.active, 1);
  if (atomic_load(&pool.open)) take_tasks(thread);
  if (atomic_fetch_sub(&pool.active, 1) != 1) return;
  tli_mutex_lock(&pool.lock);
  tli_condition_signal(&pool.done);
  tli_mutex_unlock(&pool.lock);
}

static void work(void *number) {
  int thread = (int)(intptr_t)number;
  unsigned seen = 0;
  for (;;) {
    seen = wait_for_work(seen);
    if (thread <= atomic_load(&pool.limit)) join_job(thread);
  }
}

/* Resets the pool in a forked process, which has none of the workers. */
static void forget_workers(void) {
  tli_mutex_init(&pool.owner);
  tli_mutex_init(&pool.lock);
  tli_condition_init(&pool.work);
  tli_condition_init(&pool.done);
  pool.workers = 0;
  atomic_store(&pool.open, false);
  atomic_store(&pool.active, 0);
  atomic_store(&pool.asleep, 0);
}

__attribute__((constructor)) static void watch_forks(void) {
  tli_at_fork(NULL, NULL, forget_workers);
}

/* Starts workers until the pool has `wanted` workers. If the system cannot start more threads, the
** existing ones do the work. */
static void start_workers(int wanted) {
  while (pool.workers < wanted && tli_thread_start(work, (void *)(intptr_t)(pool.workers + 1)))
    pool.workers++;
}

/* Runs the job if the pool is free; returns whether the pool was free. */
static bool run_in_pool(Job *job) {
  if (!tli_mutex_trylock(&pool.owner)) return false;
  if (pool.workers < job->workers) start_workers(job->workers);
  pool.job = job;
  share_out(job->tasks, job->workers + 1);
  atomic_store(&pool.limit, job->workers);
  atomic_store(&pool.open, true);
  atomic_fetch_add(&pool.round, 1);
  if (atomic_load(&pool.asleep) > 0) {
    tli_mutex_lock(&pool.lock);
    tli_condition_broadcast(&pool.work);
    tli_mutex_unlock(&pool.lock);
  }
  take_tasks(0);
  atomic_store(&pool.open, false);
  SPIN_WHILE(atomic_load(&pool.active) > 0);
  if (atomic_load(&pool.active) > 0) {
    tli_mutex_lock(&pool.lock);
    while (atomic_load(&pool.active) > 0) tli_condition_wait(&pool.done, &pool.lock);
    tli_mutex_unlock(&pool.lock);
  }
  tli_mutex_unlock(&pool.owner);
  return true;
}

/* ---- the loop ---- */

/* Runs range i of a loop that is divided into `tasks` ranges, whose lengths differ by at most
** one. */
static void run_range(void *context, int i) {
  const Job *job = context;
  int64_t length = job->n / job->tasks, longer = job->n % job->tasks;
  int64_t begin = i * length + (i < longer ? i : longer);
  bool before = inside;
  inside = true;
  job->fn(job->context, begin, begin + length + (i < longer));
  inside = before;
}

/* Divides a loop into one task for each thread, or into `pieces` tasks for each thread if each task
** still has several grains. Runs the tasks. */
static void run_pieces(int64_t n, int64_t grain, int pieces, tli_RangeFn fn, void *context) {
  if (n <= 0) return;
  if (n <= grain || inside || serial) {
    fn(context, 0, n);
    return;
  }
  int64_t tasks = n / (grain > 0 ? grain : 1), most = tl_get_num_threads();
  if (tasks > most) tasks = tasks >= 4 * pieces * most ? pieces * most : most;
  if (tasks <= 1 || most == 1) {
    fn(context, 0, n);
    return;
  }
  Job job = {fn, context, n, (int)tasks, (int)(tasks < most ? tasks : most) - 1};
  RunFn run = atomic_load_explicit(&host_run, memory_order_acquire);
  if (run) {
    run(job.tasks, run_range, &job, atomic_load(&host_user));
  } else if (!run_in_pool(&job)) {
    job.tasks = 1;
    run_range(&job, 0);
  }
}

void tli_parallel_for(int64_t n, int64_t grain, tli_RangeFn fn, void *context) {
  run_pieces(n, grain, 1, fn, context);
}

void tli_parallel_pieces(int64_t n, int64_t grain, tli_RangeFn fn, void *context) {
  run_pieces(n, grain, 4, fn, context);
}

/* ---- interruption ---- */

/* The desired time between two checks whether the operator is interrupted, while a range runs. The
** time between most checks is less than twice as long. */
#define UNASKED_NS 2000000

typedef struct Polled {
  tli_RangeFn fn;
  void *context;
  int64_t grain;
  int64_t deadline; /* the deadline (tli_set_deadline) of the thread that has called the loop */
  atomic_bool stopped;
} Polled;

/* the time (tli_now_ns) after which this thread's operators stop; 0 means none */
static _Thread_local int64_t deadline;

static bool passed(int64_t end, int64_t now) { return end != 0 && now >= end; }

void tli_set_deadline(int64_t end) { deadline = end; }

int64_t tli_deadline(void) { return deadline; }

static bool fail_interrupted(void) {
  return tli_fail(TL_EINTERRUPT, passed(deadline, tli_now_ns())
                                     ? "interrupted: the Lua state has used up its time "
                                       "(tl_set_limits)"
                                     : "interrupted!");
}

/* Runs a range in parts, and checks for interruption between them. The size of the parts doubles
** until a part takes long enough. It is halved when a part takes too long, for example because its
** memory is touched for the first time. */
static void run_polled(void *context, int64_t begin, int64_t end) {
  Polled *p = context;
  int64_t part = p->grain > 0 ? p->grain : 1, before = tli_now_ns();
  while (begin < end) {
    if (tli_interrupted() || passed(p->deadline, before))
      atomic_store_explicit(&p->stopped, true, memory_order_relaxed);
    if (atomic_load_explicit(&p->stopped, memory_order_relaxed)) return;
    int64_t n = part < end - begin ? part : end - begin;
    p->fn(p->context, begin, begin + n);
    begin += n;
    int64_t now = tli_now_ns();
    if (now - before < UNASKED_NS)
      part *= 2;
    else if (now - before > 2 * UNASKED_NS && part > p->grain)
      part /= 2;
    before = now;
  }
}

bool tli_parallel_try(int64_t n, int64_t grain, tli_RangeFn fn, void *context) {
  if (n <= grain) {
    if (n > 0) fn(context, 0, n);
    return true;
  }
  Polled polled = {fn, context, grain, deadline, false};
  tli_parallel_pieces(n, grain, run_polled, &polled);
  return !polled.stopped || fail_interrupted();
}

void tl_interrupt(void) { atomic_store_explicit(&interrupted, 1, memory_order_relaxed); }

void tl_interrupt_clear(void) { atomic_store_explicit(&interrupted, 0, memory_order_relaxed); }

bool tli_go_on(void) { return !tli_interrupted() || fail_interrupted(); }

bool tli_interrupted(void) {
  return atomic_load_explicit(&interrupted, memory_order_relaxed) != 0 ||
         (deadline != 0 && passed(deadline, tli_now_ns()));
}
