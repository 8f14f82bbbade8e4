/*
** parallel_test.c - tests that parallel loops visit every element once, on at most the allowed
** number of threads.
*/
#include "core/platform/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "test.h"

enum { N = 10007 };

typedef struct Count {
  atomic_int seen[N];
  atomic_int calls, foreign, short_ranges;
  int64_t grain;
  pthread_t caller;
} Count;

static Count count;

static void count_range(void *context, int64_t begin, int64_t end) {
  Count *c = context;
  c->calls++;
  if (!pthread_equal(pthread_self(), c->caller)) c->foreign++;
  if (end - begin < c->grain) c->short_ranges++;
  for (int64_t i = begin; i < end; i++) c->seen[i]++;
}

typedef void (*ForFn)(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

static void cover_by(ForFn run, int64_t n, int64_t grain) {
  memset(&count, 0, sizeof count);
  count.grain = grain < n ? grain : n;
  count.caller = pthread_self();
  run(n, grain, count_range, &count);
  for (int64_t i = 0; i < N; i++) CHECK_AT(i, count.seen[i] == (i < n));
  CHECK_AT(n, count.short_ranges == 0);
}

static void cover(int64_t n, int64_t grain) { cover_by(tli_parallel_for, n, grain); }

TEST(every_element_once) {
  for (int threads = 1; threads <= 5; threads++) {
    CHECK(tl_set_num_threads(threads) && tl_get_num_threads() == threads);
    for (int64_t grain = 0; grain < 3000; grain = grain * 3 + 1) {
      cover(N, grain);
      CHECK_AT(threads, count.calls <= threads);
      cover(grain, grain);
      CHECK_AT(grain, count.calls == (grain > 0));
      cover(grain + 1, grain);
      cover_by(tli_parallel_pieces, N, grain);
      CHECK_AT(threads, count.calls <= (threads > 1 ? 4 * threads : 1));
    }
  }
}

TEST(one_thread_starts_none) {
  CHECK(tl_set_num_threads(1));
  cover(N, 1);
  CHECK(count.calls == 1 && count.foreign == 0);
}

TEST(serial_threads_start_none) {
  CHECK(tl_set_num_threads(4));
  CHECK(!tli_parallel_set_serial(true));
  cover(N, 1);
  CHECK(count.calls == 1 && count.foreign == 0);
  CHECK(tli_parallel_set_serial(false));
}

static atomic_int inner_calls, inner_inside;

static void inner(void *context, int64_t begin, int64_t end) {
  (void)context;
  inner_calls++;
  if (end - begin == 1000) inner_inside += tli_parallel_inside();
}

static void outer(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) tli_parallel_for(1000, 1, inner, context);
}

TEST(nested_loops_run_serially) {
  CHECK(tl_set_num_threads(3));
  CHECK(!tli_parallel_inside());
  tli_parallel_for(6, 1, outer, NULL);
  CHECK(inner_calls == 6 && inner_inside == 6);
  CHECK(!tli_parallel_inside());
}

static int host_tasks;

/* A job system of the host that runs the tasks in reverse order. */
static void host_run(int tasks, void (*task)(void *context, int i), void *context, void *user) {
  *(int *)user = tasks;
  for (int i = tasks - 1; i >= 0; i--) task(context, i);
}

TEST(a_host_may_run_the_tasks) {
  CHECK(tl_set_num_threads(4));
  tl_set_parallel_run(host_run, &host_tasks);
  cover(N, 10);
  CHECK(host_tasks == 4 && count.calls == 4 && count.foreign == 0);
  tl_set_parallel_run(NULL, NULL);
}

/* Runs many short jobs, with pauses, so that threads are awake, asleep, or in between. */
TEST(short_jobs) {
  CHECK(tl_set_num_threads(4));
  for (int i = 0; i < 3000; i++) {
    cover(100, 10);
    if (i % 500 == 0) usleep(1000);
  }
}

static void *cover_much(void *failures) {
  static _Thread_local Count mine;
  for (int k = 0; k < 300; k++) {
    memset(&mine, 0, sizeof mine);
    mine.caller = pthread_self();
    tli_parallel_for(N, 100, count_range, &mine);
    for (int i = 0; i < N; i++)
      if (mine.seen[i] != 1) atomic_fetch_add((atomic_int *)failures, 1);
  }
  return NULL;
}

TEST(callers_at_the_same_time) {
  CHECK(tl_set_num_threads(3));
  atomic_int failures = 0;
  pthread_t callers[4];
  for (int i = 0; i < 4; i++) pthread_create(&callers[i], NULL, cover_much, &failures);
  for (int i = 0; i < 4; i++) pthread_join(callers[i], NULL);
  CHECK(failures == 0);
}

/* Tests that a forked process can start worker threads of its own. */
TEST(after_a_fork) {
#ifndef __SANITIZE_THREAD__ /* the sanitizer does not allow threads after a fork */
  if (test_emulated()) return;
  CHECK(tl_set_num_threads(3));
  cover(N, 10);
  pid_t child = fork();
  if (child == 0) {
    alarm(600);
    cover(N, 10);
    _exit(count.calls == 3 && count.short_ranges == 0 ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
#endif
}

TEST(interruption) {
  CHECK(!tli_interrupted());
  tl_interrupt();
  CHECK(tli_interrupted());
  tl_interrupt_clear();
  CHECK(!tli_interrupted());
}

static void interrupt_range(void *context, int64_t begin, int64_t end) {
  count_range(context, begin, end);
  tl_interrupt();
}

TEST(an_interruption_ends_a_loop) {
  for (int threads = 1; threads <= 3; threads++) {
    CHECK(tl_set_num_threads(threads));
    memset(&count, 0, sizeof count);
    CHECK(tli_parallel_try(N, 10, count_range, &count));
    for (int i = 0; i < N; i++) CHECK(count.seen[i] == 1);
    memset(&count, 0, sizeof count);
    CHECK(!tli_parallel_try(N, 10, interrupt_range, &count));
    CHECK(tl_error_kind() == TL_EINTERRUPT);
    CHECK(count.calls >= 1 && count.calls <= threads);
    CHECK(!tli_parallel_try(N, 10, count_range, &count) && !tli_go_on());
    CHECK(count.calls <= threads);
    /* a loop of so few elements runs in one piece, so an interruption does not end it */
    CHECK(tli_parallel_try(10, 10, count_range, &count));
    tl_interrupt_clear();
    CHECK(tli_go_on());
  }
}

int main(void) {
  CHECK(tl_get_num_threads() >= 1);
  return test_all();
}
