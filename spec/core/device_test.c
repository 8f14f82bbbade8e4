/*
** device_test.c - tests of the simulated device that need separate processes: the host accesses the
** device's memory, processes fork, or threads wait for each other.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/backend.h"
#include "core/device/host.h"
#include "core/device/running.h"
#include "core/device/settings.h"
#include "core/device/transfer.h"
#include "core/memory/alloc.h"
#include "core/observe/history.h"
#include "ops.h"
#include "ops/common.h"
#include "test.h"

static const tl_Device sim = {TL_SIM, 0};

static tl_Tensor *ones(void) {
  static const float values[4] = {1, 1, 1, 1};
  int64_t size = 4;
  return tli_upload(TL_F32, sim, 1, &size, values);
}

/* Runs fn in a child process, and reads the child's stderr into `said`. Returns the child's exit
** status. */
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

/* `working` becomes true when the device's thread has begun its work, and `grown` when the other
** thread has allocated memory. */
static atomic_bool working, grown;

/* Runs the tasks of the large copy in place of the library's threads. Delays the device's thread
** until the other thread has allocated memory. */
static void hold(int tasks, void (*task)(void *context, int i), void *context, void *unused) {
  (void)unused;
  for (int i = 0; i < tasks; i++) task(context, i);
  working = true;
  while (!grown) sched_yield();
}

/* Copies into memory that the second device has not used before, so that it must allocate. */
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

/* Tests a thread that waits for many copies on one device: work that another thread queues on a
** second device must still be done. */
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
  /* the fork has not changed the parent, whose device still works */
  CHECK(t && tli_read(t, TL_F32, back) && back[3] == 1);
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

/* Tests a fork while another thread opens the device. Each child must be able to use the device,
** or get an error. */
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

/* the arguments of the last call that reached the kernel */
static struct tlk_fft seen;
static struct tlk_optim_coefs coefs_seen;

static bool note_call(const struct tlk_fft *call) {
  memcpy(&seen, call, sizeof seen);
  return true;
}

static bool note_coefs(const struct tlk_optim_coefs *call) {
  memcpy(&coefs_seen, call, sizeof coefs_seen);
  return true;
}

/* Returns whether the bytes from `first` up to `end` are 0. */
static bool is_clear(const void *call, size_t first, size_t end) {
  while (first < end && ((const char *)call)[first] == 0) first++;
  return first == end;
}

/* Opens the plugin with a CPU whose kernels record their calls, and makes calls whose padding
** bytes are not zero. */
static void call_with_padding(void) {
  static tl_Backend cpu;
  cpu = tlk_cpu_backend;
  cpu.fft = note_call;
  cpu.optim_coefs = note_coefs;
  const tl_Host host = {.hash = TL_PLUGIN_HASH,
                        .cpu = &cpu,
                        .alloc = tli_alloc,
                        .free = tli_free,
                        .fail = tli_fail,
                        .fault_fail = tli_fault_fail,
                        .error = tl_error,
                        .error_kind = tl_error_kind,
                        .running = tli_operator,
                        .setting = tli_setting,
                        .memory_event = tli_memory_event};
  char path[4096];
  snprintf(path, sizeof path, "%s/tlua_sim.so", getenv("TLUA_PLUGINS"));
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  tl_PluginOpen open = NULL;
  if (library) *(void **)&open = dlsym(library, TL_PLUGIN_ENTRY);
  const tl_Plugin *plugin = open ? open(&host) : NULL;
  if (plugin == NULL) return;
  tl_Stream *stream = plugin->backend->device->default_stream(sim);
  tlk_Context cx = {.device = sim, .stream = stream};
  struct tlk_fft call;
  memset(&call, 0x5a, sizeof call);
  call.cx = &cx;
  call.kind = TLK_FFT_FROM_REAL;
  call.inverse = true;
  call.out.data = call.in.data = NULL;
  call.out.dtype = call.in.dtype = TL_F32;
  call.outer = call.n = call.inner = 3;
  call.scale = 0.5;
  struct tlk_optim_coefs coefs;
  memset(&coefs, 0x5a, sizeof coefs);
  coefs.cx = &cx;
  coefs.maximize = true;
  if (!plugin->backend->fft(&call) || !plugin->backend->optim_coefs(&coefs)) return;
  if (!plugin->backend->device->stream_sync(stream)) return;
  bool clean =
      seen.kind == TLK_FFT_FROM_REAL && seen.inverse && seen.n == 3 && seen.scale == 0.5 &&
      is_clear(&seen, offsetof(struct tlk_fft, inverse) + 1, offsetof(struct tlk_fft, out));
  clean = clean && coefs_seen.maximize && coefs_seen.count == 0x5a5a5a5a &&
          is_clear(&coefs_seen, offsetof(struct tlk_optim_coefs, maximize) + 1,
                   offsetof(struct tlk_optim_coefs, count));
  fprintf(stderr, clean ? "clean" : "dirty");
}

/* Tests that padding bytes are 0 if they share the upper half of a word with a number. The
** plugin translates words that look like addresses, so other padding could be taken for an
** address. */
static void calls_have_clear_padding(void) {
  char said[4096];
  CHECK(in_child(call_with_padding, said, sizeof said) == 0);
  CHECK_AT(said[0], strcmp(said, "clean") == 0);
}

int main(void) {
  const char *build = getenv("TLUA_BUILD");
  if (build) setenv("TLUA_PLUGINS", build, 0);
  RUN(the_host_may_not_touch); /* must run first, before any test opens the device */
  RUN(calls_have_clear_padding);
#ifndef __SANITIZE_ADDRESS__ /* in a forked child, locks of the sanitizer's allocator stay locked */
  RUN(children_of_a_process_that_opens_a_device);
#endif
  RUN(threads_allocate_while_others_wait); /* this test too runs in a separate process */
  RUN(a_forked_child_is_refused);
  RUN(a_forked_child_cannot_ask_for_an_event);
  return test_end();
}
