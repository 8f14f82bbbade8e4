/*
** parallel.c - threads for kernels: OpenMP's, a host's own, or none.
** Invariant: a range always runs to its end; with one thread, or inside
** another range, everything runs in the calling thread.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "core/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#endif

#include "core/error.h"

/* ThreadSanitizer cannot see how libgomp synchronises, so it is told. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define HAPPENS_BEFORE(p) __tsan_release(p)
#define HAPPENS_AFTER(p) __tsan_acquire(p)
#define NOT_SANITIZED __attribute__((no_sanitize("thread")))
#else
#define HAPPENS_BEFORE(p) ((void)(p))
#define HAPPENS_AFTER(p) ((void)(p))
#define NOT_SANITIZED
#endif

typedef void (*TaskFn)(void *context, int i);
typedef void (*RunFn)(int tasks, TaskFn task, void *context, void *user);
typedef void (*SetFn)(int threads);

#define THREADS_MAX 4096

static atomic_int threads; /* 0: not known yet */
static _Atomic(RunFn) host_run;
static _Atomic(void *) host_user;
static _Atomic(SetFn) follower;
static atomic_int interrupted;

static _Thread_local bool inside;
static _Thread_local bool serial;

/* ---- how many ---- */

static int online_cores(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 && n < THREADS_MAX ? (int)n : 1;
}

static int default_threads(void) {
  const char *wish = getenv("OMP_NUM_THREADS");
  long n = wish ? strtol(wish, NULL, 10) : 0;
  return n > 0 && n <= THREADS_MAX ? (int)n : online_cores();
}

int tl_get_num_threads(void) {
  int n = atomic_load_explicit(&threads, memory_order_relaxed);
  if (n > 0) return n;
  /* whoever comes first decides, lest a tl_set_num_threads get lost */
  int chosen = default_threads();
  return atomic_compare_exchange_strong(&threads, &n, chosen) ? chosen : n;
}

bool tl_set_num_threads(int n) {
  if (n < 1 || n > THREADS_MAX)
    return tli_fail(TL_EARG, "set_num_threads: expected 1 to %d threads, got %d", THREADS_MAX, n);
  atomic_store(&threads, n);
  SetFn set = atomic_load(&follower);
  if (set) set(n);
  return true;
}

void tli_parallel_follow(void (*set)(int threads)) {
  atomic_store(&follower, set);
  if (set) set(tl_get_num_threads());
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

/* ---- the loop ---- */

typedef struct Job {
  tli_RangeFn fn;
  void *context;
  int64_t n;
  int tasks;
} Job;

/* The i-th of `tasks` ranges, whose lengths differ by one at most. */
static void run_range(void *context, int i) {
  const Job *job = context;
  int64_t length = job->n / job->tasks, longer = job->n % job->tasks;
  int64_t begin = i * length + (i < longer ? i : longer);
  bool before = inside;
  inside = true;
  job->fn(job->context, begin, begin + length + (i < longer));
  inside = before;
}

NOT_SANITIZED static void run_openmp(Job *job) {
  HAPPENS_BEFORE(job);
#ifdef _OPENMP
#pragma omp parallel for num_threads(job->tasks) schedule(static, 1)
#endif
  for (int i = 0; i < job->tasks; i++) {
    HAPPENS_AFTER(job);
    run_range(job, i);
    HAPPENS_BEFORE(job);
  }
  HAPPENS_AFTER(job);
}

void tli_parallel_for(int64_t n, int64_t grain, tli_RangeFn fn, void *context) {
  if (n <= 0) return;
  if (n <= grain || inside || serial) {
    fn(context, 0, n);
    return;
  }
  int most = tl_get_num_threads();
  int64_t tasks = n / (grain > 0 ? grain : 1);
  if (tasks > most) tasks = most;
  if (tasks <= 1) {
    fn(context, 0, n);
    return;
  }
  Job job = {fn, context, n, (int)tasks};
  RunFn run = atomic_load_explicit(&host_run, memory_order_acquire);
  if (run)
    run(job.tasks, run_range, &job, atomic_load(&host_user));
  else
    run_openmp(&job);
}

/* ---- interruption ---- */

void tl_interrupt(void) { atomic_store_explicit(&interrupted, 1, memory_order_relaxed); }

void tl_interrupt_clear(void) { atomic_store_explicit(&interrupted, 0, memory_order_relaxed); }

bool tli_interrupted(void) { return atomic_load_explicit(&interrupted, memory_order_relaxed) != 0; }
