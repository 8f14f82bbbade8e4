/*
** plugin.c - the entry point of the plugin, its table of functions, its settings, and the failures
** that tests request.
**
** Settings are read from the environment when the plugin is opened: TLUA_SIM_DEVICES (number of
** devices, 2 by default), TLUA_SIM_MEMORY (memory of each device in bytes, 2 GiB by default) and
** TLUA_SIM_SEED (1 by default). torch.sim.configure can change the memory and the seed later.
*/
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/sim/sim.h"
#include "core/device/host.h"

#define MAX_SIM_DEVICES 8
/* larger than any address space, but small enough to be rounded up without overflow */
#define MOST_MEMORY ((int64_t)1 << 62)

const tl_Host *sim_host;

static struct {
  pthread_mutex_t lock;
  int ndevices;
  sim_Device devices[MAX_SIM_DEVICES];
  uint64_t random;
  /* the call with this number, counted from the next call, fails; 0 if no call is to fail */
  int64_t fail_at;
  bool forked; /* whether this process is a forked child of the process that opened the devices */
  _Atomic pid_t process;
} sim = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* If a fork began before the plugin was opened, the plugin's functions around forks do not run. In
** the child, the lock may then be held by a thread that does not exist there, so this function
** makes a new lock. */
static void begin_in_child(void) {
  pthread_mutex_init(&sim.lock, NULL);
  sim.forked = true;
  sim.process = getpid();
}

void sim_lock(void) {
  if (sim.process != getpid()) begin_in_child();
  pthread_mutex_lock(&sim.lock);
}
void sim_unlock(void) { pthread_mutex_unlock(&sim.lock); }
pthread_mutex_t *sim_mutex(void) { return &sim.lock; }

sim_Device *sim_device(int index) { return &sim.devices[index]; }
int sim_device_count(void) { return sim.ndevices; }

/* Returns a random word by splitmix64 (S. Vigna). */
uint64_t sim_locked_random(void) {
  uint64_t z = sim.random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

bool sim_locked_is_here(const char *what) {
  return !sim.forked ||
         sim_host->fail(TL_EDEVICE,
                        "sim: %s: a forked process cannot use its parent's devices; open them "
                        "after the fork",
                        what);
}

bool sim_locked_may_go(const char *what) {
  if (!sim_locked_is_here(what)) return false;
  if (sim.fail_at == 0 || --sim.fail_at > 0) return true;
  return sim_host->fail(TL_EMEM, "sim: %s: failed on request", what);
}

bool sim_locked_report(sim_Device *device) {
  if (device->fault.kind != TLK_NO_FAULT) {
    sim_host->fault_fail(&device->fault);
    device->fault.kind = TLK_NO_FAULT;
    return false;
  }
  if (device->failed == TL_OK) return true;
  sim_host->fail(device->failed, "%s", device->failure);
  device->failed = TL_OK;
  return false;
}

/* ---- host accesses to device memory ------------------------------------------------ */

static struct sigaction before;

static void say(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

/* Handles SIGSEGV: prints the name of the operator that has accessed device memory from the host.
** This cannot be a Lua error, because the host cannot continue. */
static void on_fault(int signal, siginfo_t *info, void *context) {
  const sim_Device *device = sim_owner(info->si_addr);
  if (device) {
    const char *op = sim_host->running();
    char number[2] = {(char)('0' + device->index), '\0'};
    say("tlua: memory of sim:");
    say(number);
    say(" was touched by the host, in ");
    say(op ? op : "no operator");
    say("\n");
  }
  (void)signal;
  (void)context;
  /* after this function returns, the access is repeated and ends the process */
  sigaction(SIGSEGV, &before, NULL);
}

static void watch_host(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  action.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &action, &before);
}

/* ---- fork -------------------------------------------------------------------------- */

static void before_fork(void) { sim_lock(); }
static void in_parent(void) { sim_unlock(); }
static void in_child(void) {
  sim.forked = true; /* the thread that runs the queues does not exist in the child */
  sim.process = getpid();
  sim_unlock();
}

/* ---- settings ---------------------------------------------------------------------- */

static int64_t setting(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  char *end;
  if (text == NULL) return otherwise;
  long long value = strtoll(text, &end, 10);
  return *text && *end == '\0' && value > 0 ? (int64_t)value : otherwise;
}

static bool configure(const char *key, int64_t value) {
  bool ok = true;
  sim_lock();
  if (strcmp(key, "seed") == 0)
    sim.random = (uint64_t)value;
  else if (strcmp(key, "fail_at") == 0)
    sim.fail_at = value > 0 ? value : 0;
  else if (strcmp(key, "memory") == 0)
    for (int i = 0; i < sim.ndevices; i++) sim_locked_set_memory(&sim.devices[i], value);
  else
    ok = false;
  sim_unlock();
  return ok || sim_host->fail(TL_EARG, "sim.configure: unknown setting '%s'", key);
}

/* ---- the table --------------------------------------------------------------------- */

static bool properties(int index, tl_DeviceProperties *out) {
  *out = (tl_DeviceProperties){.total_memory = sim.devices[index].total,
                               .multi_processor_count = 1,
                               .warp_size = 1,
                               .max_threads_per_block = 1,
                               .max_threads_per_multi_processor = 1,
                               .bf16 = true};
  snprintf(out->name, sizeof out->name, "simulated device %d", index);
  return true;
}

static bool can_access_peer(int device, int peer) { return device != peer; }

static int64_t library_version(const char *name) {
  (void)name;
  return 0;
}

static int64_t waits(tl_Device device) {
  sim_lock();
  int64_t n = sim.devices[device.index].waits;
  sim_unlock();
  return n;
}

/* Returns the size of the array in which an RNN keeps values for its backward pass. It is larger
** than on the CPU, as it may be on a GPU. */
static int64_t rnn_reserve(tl_Device device, const tlk_Rnn *rnn) {
  (void)device;
  return tlk_rnn_reserve(rnn) + 4096;
}

static const tl_DeviceApi api = {
    .count = sim_device_count,
    .properties = properties,
    .can_access_peer = can_access_peer,
    .library_version = library_version,
    .alloc = sim_alloc,
    .free = sim_free,
    .record_stream = sim_record_stream,
    .transfer = sim_transfer,
    .trim = sim_trim,
    .memory_stats = sim_memory_stats,
    .reset_peaks = sim_reset_peaks,
    .reset_sums = sim_reset_sums,
    .memory_info = sim_memory_info,
    .set_memory_limit = sim_set_memory_limit,
    .memory_blocks = sim_memory_blocks,
    .pinned_alloc = sim_pinned_alloc,
    .pinned_free = sim_pinned_free,
    .default_stream = sim_default_stream,
    .stream = sim_stream,
    .priority_range = sim_priority_range,
    .stream_id = sim_stream_id,
    .stream_priority = sim_stream_priority,
    .stream_sync = sim_stream_sync,
    .stream_query = sim_stream_query,
    .stream_wait = sim_stream_wait,
    .sync = sim_sync,
    .event = sim_event,
    .event_free = sim_event_free,
    .event_record = sim_event_record,
    .event_sync = sim_event_sync,
    .event_query = sim_event_query,
    .event_elapsed = sim_event_elapsed,
    .capture_begin = sim_capture_begin,
    .capture_end = sim_capture_end,
    .capture = sim_capture,
    .graph_launch = sim_graph_launch,
    .graph_free = sim_graph_free,
    .rnn_reserve = rnn_reserve,
    .waits = waits,
    .activities = sim_activities,
    .configure = configure,
};

/* A word of a call that looks like an address is translated, which changes its upper half
** (sim_reachable). Suppose that the upper half is a number and the lower half is padding. If the
** padding made the word look like an address, the translation would change the number. The structs
** below have such padding, so these functions clear it. (gdb's ptype /o shows the padding of a
** struct.) */
static void clear_fft(struct tlk_fft *call) {
  size_t end = offsetof(struct tlk_fft, inverse) + sizeof call->inverse;
  memset((char *)call + end, 0, offsetof(struct tlk_fft, out) - end);
}

static void clear_coefs(struct tlk_optim_coefs *call) {
  size_t end = offsetof(struct tlk_optim_coefs, maximize) + sizeof call->maximize;
  memset((char *)call + end, 0, offsetof(struct tlk_optim_coefs, count) - end);
}

static void clear_nothing(void *call) { (void)call; }

#define CLEAR_PADDING(call)                      \
  _Generic((call), struct tlk_fft *              \
           : clear_fft, struct tlk_optim_coefs * \
           : clear_coefs, default                \
           : clear_nothing)(call)

/* The next macros define the functions of the kernel table. Each function queues a copy of its
** call. */
enum { FLAT, ITER };
#define X(name, operands)                                                              \
  static bool run_##name(const void *call) { return sim_host->cpu->name(call); }       \
  static bool put_##name(const struct tlk_##name *call) {                              \
    sim_Command what = {.kernel = {run_##name, operands == ITER, #name}};              \
    struct tlk_##name copy;                                                            \
    memcpy(&copy, call, sizeof copy);                                                  \
    CLEAR_PADDING(&copy);                                                              \
    sim_lock();                                                                        \
    bool ok = sim_locked_may_go(#name) &&                                              \
              sim_locked_put(call->cx->stream, SIM_KERNEL, &what, &copy, sizeof copy); \
    sim_unlock();                                                                      \
    return ok;                                                                         \
  }
TLK_KERNELS(X)
#undef X

const tl_Backend sim_backend = {
    .name = "sim",
#define X(name, operands) .name = put_##name,
    TLK_KERNELS(X)
#undef X
        .device = &api,
};

/* ---- the entry point ----------------------------------------------------------------- */

static const tl_Plugin plugin = {.hash = TL_PLUGIN_HASH, .backend = &sim_backend};

static bool open_devices(void) {
  int64_t count = setting("TLUA_SIM_DEVICES", 2);
  int64_t memory = setting("TLUA_SIM_MEMORY", (int64_t)1 << 31);
  if (memory > MOST_MEMORY) memory = MOST_MEMORY;
  sim.random = (uint64_t)setting("TLUA_SIM_SEED", 1);
  if (count > MAX_SIM_DEVICES) count = MAX_SIM_DEVICES;
  for (int i = 0; i < count; i++) {
    sim_Device *device = &sim.devices[i];
    device->index = i;
    for (int s = 0; s < SIM_STREAMS; s++)
      device->streams[s] = (tl_Stream){.device = device, .id = s};
    if (!sim_memory_open(device, memory)) return false;
    sim.ndevices++;
  }
  return true;
}

const tl_Plugin *tlua_plugin_open(const tl_Host *host) {
  sim_host = host;
  /* if the hashes differ, the host reports this */
  if (host->hash != plugin.hash) return &plugin;
  sim.process = getpid();
  if (!open_devices()) return NULL;
  pthread_atfork(before_fork, in_parent, in_child);
  watch_host();
  return &plugin;
}
