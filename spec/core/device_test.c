/*
** device_test.c - tests of the simulated device that need separate processes: the host accesses the
** device's memory, processes fork, and threads wait for each other.
*/
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/backend.h"
#include "core/device/running.h"
#include "core/device/transfer.h"
#include "ops.h"
#include "ops/common.h"
#include "test.h"

static const tl_Device sim = {TL_SIM, 0};

static tl_Tensor *ones(void) {
  static const float values[4] = {1, 1, 1, 1};
  int64_t size = 4;
  return tli_upload(TL_F32, sim, 1, &size, values);
}

/* Runs fn in a child process whose stderr is read into `said`; returns the child's status. */
static int in_child(void (*fn)(void), char *said, size_t room) {
  int ends[2], status = -1;
  if (pipe(ends) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    fn();
    _exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; length + 1 < room && (n = read(ends[0], said + length, room - length - 1)) > 0;)
    length += (size_t)n;
  said[length] = '\0';
  close(ends[0]);
  if (child > 0) waitpid(child, &status, 0);
  return status;
}

static void touch(void) {
  tl_Tensor *t = ones();
  tli_set_operator("careless");
  volatile float *data = tli_data(t);
  data[0] += 1; /* this access must end the process */
}

/* Tests that the host cannot access the device's memory. The child is the first process to open the
** device, so the device belongs to it. With a sanitizer, the sanitizer's own handler ends the
** process with another status. */
static void the_host_may_not_touch(void) {
  char said[4096];
  int status = in_child(touch, said, sizeof said);
  CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
  CHECK(strstr(said, "memory of sim:0 was touched by the host, in careless") != NULL);
}

static void use_after_fork(void) {
  tl_Tensor *t = ones();
  bool right = t == NULL && tl_error_kind() == TL_EDEVICE && strstr(tl_error(), "forked") != NULL;
  fprintf(stderr, right ? "refused" : "not refused: %s", tl_error());
  tli_release(t);
}

enum { LARGE = 1 << 20, SMALL = 1 << 10, GROWTH = 256, MORE = 100 };

/* Whether the device's thread has begun to work, and whether the other thread has allocated. */
static atomic_bool working, grown;

/* A host's job system, which runs the tasks of the large copy. It keeps the device's thread busy
** until the other thread has allocated. */
static void hold(int tasks, void (*task)(void *context, int i), void *context, void *unused) {
  (void)unused;
  for (int i = 0; i < tasks; i++) task(context, i);
  working = true;
  while (!grown) sched_yield();
}

/* Copies into memory that the second device has never used before. */
static void *grow(void *unused) {
  static float values[SMALL];
  static tl_Tensor *kept[GROWTH];
  int64_t size = SMALL;
  (void)unused;
  while (!working) sched_yield();
  for (int i = 0; i < GROWTH; i++)
    kept[i] = tli_upload(TL_F32, (tl_Device){TL_SIM, 1}, 1, &size, values);
  grown = true;
  for (int i = 0; i < GROWTH; i++) tli_release(kept[i]);
  return NULL;
}

/* Tests that, while this thread waits for many copies on one device, work that another thread
** queues on the second device is still done. */
static void wait_meanwhile(void) {
  static float values[LARGE];
  int64_t size = LARGE, few = 1;
  pthread_t thread;
  alarm(600); /* ends the test if it would wait forever */
  tl_set_parallel_run(hold, NULL);
  tl_Tensor *t = tli_upload(TL_F32, sim, 1, &size, values);
  tl_Tensor *from = tli_upload(TL_F32, sim, 1, &size, values);
  tl_Tensor *small = tli_upload(TL_F32, sim, 1, &few, values);
  tl_Tensor *from_small = tli_upload(TL_F32, sim, 1, &few, values);
  bool ok = tl_set_num_threads(2) && pthread_create(&thread, NULL, grow, NULL) == 0;
  ok = ok && tlo_copy_(t, from, false);
  for (int i = 0; i < MORE; i++) ok = ok && tlo_copy_(small, from_small, false);
  ok = ok && tli_backend(sim)->device->sync(sim);
  ok = ok && pthread_join(thread, NULL) == 0 && working && grown;
  fprintf(stderr, ok ? "done" : "not done: %s", tl_error());
  tli_release(from_small);
  tli_release(small);
  tli_release(from);
  tli_release(t);
}

static void threads_allocate_while_others_wait(void) {
  char said[4096];
  int status = in_child(wait_meanwhile, said, sizeof said);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(strcmp(said, "done") == 0);
}

static tl_Event *event;

static void ask_after_fork(void) {
  bool done = false, refused = false;
  alarm(600); /* ends the test if it waits for a thread that does not exist in this process */
  for (int i = 0; i < 100 && !refused; i++)
    refused = !tli_backend(sim)->device->event_query(event, &done);
  fprintf(stderr, refused ? "refused" : "not refused");
}

static void a_forked_child_cannot_ask_for_an_event(void) {
  char said[4096];
  const tl_DeviceApi *api = tli_backend(sim)->device;
  tl_Tensor *t = ones();
  float back[4];
  CHECK(t && tli_read(t, TL_F32, back)); /* this read starts the device's thread */
  event = api->event(sim, false);
  CHECK(event && api->event_record(event, tli_stream(sim)));
  int status = in_child(ask_after_fork, said, sizeof said);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(strcmp(said, "refused") == 0);
  api->event_free(event);
  tli_release(t);
}

static void a_forked_child_is_refused(void) {
  char said[4096];
  tl_Tensor *t = ones();
  CHECK(t != NULL);
  int status = in_child(use_after_fork, said, sizeof said);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(strcmp(said, "refused") == 0);
  float back[4] = {0};
  CHECK(t && tli_read(t, TL_F32, back) && back[3] == 1); /* the device still works in the parent */
  tli_release(t);
}

static atomic_bool ready, go;

static void *open_device(void *unused) {
  (void)unused;
  atomic_store(&ready, true);
  while (!atomic_load(&go)) continue;
  tli_release(ones());
  return NULL;
}

/* Tests a fork while another thread opens the device: each child must be able to use the device or
** get an error. */
static void fork_while_a_thread_opens(void) {
  pthread_t thread;
  bool good = pthread_create(&thread, NULL, open_device, NULL) == 0;
  while (good && !atomic_load(&ready)) sched_yield();
  atomic_store(&go, true);
  enum { CHILDREN = 8 };
  pid_t children[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    alarm(20); /* ends the child if it waits for a thread that does not exist in this process */
    _exit(ones() || strstr(tl_error(), "forked") ? 0 : 1);
  }
  for (int i = 0; i < CHILDREN; i++) {
    int status = -1;
    good = good && waitpid(children[i], &status, 0) == children[i] && status == 0;
  }
  fprintf(stderr, good ? "done" : "stuck");
  if (good) pthread_join(thread, NULL);
}

static __attribute__((unused)) void children_of_a_process_that_opens_a_device(void) {
  for (int i = 0; i < 40; i++) {
    char said[4096];
    CHECK(in_child(fork_while_a_thread_opens, said, sizeof said) == 0);
    CHECK_AT(i, strcmp(said, "done") == 0);
    if (strcmp(said, "done") != 0) return;
  }
}

int main(void) {
  const char *build = getenv("TLUA_BUILD");
  if (build) setenv("TLUA_PLUGINS", build, 0);
  RUN(the_host_may_not_touch); /* must run first, before any test opens the device */
#ifndef __SANITIZE_ADDRESS__   /* in a child, locks of the sanitizer's allocator stay locked */
  RUN(children_of_a_process_that_opens_a_device);
#endif
  RUN(threads_allocate_while_others_wait); /* runs in a separate process as well */
  RUN(a_forked_child_is_refused);
  RUN(a_forked_child_cannot_ask_for_an_event);
  return test_end();
}
