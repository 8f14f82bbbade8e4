/*
** cudnn_plans.c - caches cuDNN's plans by key for each device, and remembers requests for which
** cuDNN has no plan. With torch.backends.cudnn.benchmark, the first few plans are timed on the
** actual data and the fastest one is kept. Timing is not possible during a capture, so captures use
** plans that were timed before. Plans are also stored on disk for later processes
** (core/device/disk_cache.h), as text from which cuDNN can recreate them.
*/
#include <stddef.h>
#include <string.h>

#include "core/kernel/hash.h"
#include "kernels/cuda/lib/cudnn.h"
#include "kernels/cuda/lib/lib.h"

#define PLANS 1024
#define MOST_MEASURED 16
#define KINDS 128 /* the numbers that stand for kinds of work are less than this */

typedef struct Entry {
  bool used, none;
  /* whether the plans have not been timed yet, because timing is not allowed in a capture */
  bool unmeasured;
  bool in_graph; /* whether a captured graph runs this plan, so that its kernels must stay loaded */
  size_t bytes;
  _Alignas(8) unsigned char key[CUDNN_KEY];
  cuda_Plan plan;
} Entry;

/* A device's plans. The lock on the device's handle guards them. */
typedef struct Table {
  Entry entries[2 * PLANS];
  int filled;
  int made[KINDS]; /* for each kind of work, the number of keys that have plans */
} Table;

static Table tables[CUDA_MAX_DEVICES];

/* ---- running and measuring ------------------------------------------------------------------- */

static bool run(const cuda_DnnWork *work, cudnnHandle_t handle, const cuda_Plan *plan,
                bool *refused) {
  void *workspace = plan->workspace > 0 ? cuda_scratch(work->cx, plan->workspace) : NULL;
  if (plan->workspace > 0 && workspace == NULL) return false;
  bool ok =
      !(work->zeroed && workspace) ||
      cuda_ok(cudaMemsetAsync(workspace, 0, (size_t)plan->workspace, work->cx->stream->handle),
              "cudaMemsetAsync");
  ok = ok && cuda_plan_run(plan, handle, work->n, work->ids, work->arrays, workspace, refused);
  if (workspace) cuda_scratch_free(work->cx, workspace, plan->workspace);
  return ok;
}

/* Runs a plan twice, and returns the time of the second run in milliseconds, or a negative number
** on failure. */
static double measure(const cuda_DnnWork *work, cudnnHandle_t handle, const cuda_Plan *plan) {
  double time = -1;
  bool refused = false;
  tl_Event *start = cuda_event(work->cx->device, TL_EVENT_TIMING);
  tl_Event *end = cuda_event(work->cx->device, TL_EVENT_TIMING);
  bool ok = start && end && run(work, handle, plan, &refused) && !refused &&
            cuda_event_record(start, work->cx->stream) && run(work, handle, plan, &refused) &&
            cuda_event_record(end, work->cx->stream) &&
            cudaEventSynchronize(cuda_event_handle(end)) == cudaSuccess &&
            cuda_event_elapsed(start, end, &time);
  if (start) cuda_event_free(start);
  if (end) cuda_event_free(end);
  return ok ? time : -1;
}

/* Moves the fastest plan to the front. Returns false if no plan could be timed. */
static bool sort_out(const cuda_DnnWork *work, cudnnHandle_t handle, cuda_Plan *plans, int n) {
  double best = -1;
  for (int i = 0; i < n; i++) {
    double time = measure(work, handle, &plans[i]);
    if (time < 0 || (best >= 0 && time >= best)) continue;
    cuda_Plan faster = plans[i];
    plans[i] = plans[0];
    plans[0] = faster;
    best = time;
  }
  return best >= 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The key of a plan on disk. Keys are compared as bytes. */
typedef struct DiskKey {
  int64_t version; /* cuDNN's version */
  cuda_DeviceKind device;
  int64_t avoid, most;
  _Alignas(8) unsigned char key[CUDNN_KEY];
} DiskKey;

static size_t disk_key(const cuda_DnnWork *work, const cuda_Wanted *wanted, DiskKey *out) {
  memset(out, 0, sizeof *out);
  out->version = cuda_lib_cudnn_version();
  cuda_device_kind(work->cx->device.index, &out->device);
  out->avoid = wanted->avoid;
  out->most = wanted->most;
  memcpy(out->key, work->key, work->key_bytes);
  return offsetof(DiskKey, key) + work->key_bytes;
}

static bool find_on_disk(const cuda_DnnWork *work, cudnnHandle_t handle, const cuda_Wanted *wanted,
                         cuda_Plan *out) {
  DiskKey key;
  size_t bytes, key_bytes = disk_key(work, wanted, &key);
  cuda_DnnGraph g = {.lib = cuda_cudnn(), .handle = handle};
  char *text = cuda_host->cache_load("plan", &key, key_bytes, &bytes);
  if (text == NULL) return false;
  bool ok = cuda_plan_of_text(&g, text, bytes, NULL, handle, wanted, out);
  cuda_host->free(text, bytes);
  return ok;
}

static void keep_on_disk(const cuda_DnnWork *work, const cuda_Wanted *wanted,
                         const cuda_Plan *plan) {
  DiskKey key;
  size_t bytes, key_bytes = disk_key(work, wanted, &key);
  char *text = cuda_plan_text(cuda_cudnn(), plan, &bytes);
  if (text == NULL) return;
  cuda_host->cache_store("plan", &key, key_bytes, text, bytes);
  cuda_host->free(text, bytes);
}

/* Finds the best plan. Returns false if there is none. *sure becomes true if a later search would
** find the same plan. */
static bool find(const cuda_DnnWork *work, cudnnHandle_t handle, const cuda_Wanted *wanted,
                 cuda_Plan *out, bool *sure) {
  cuda_DnnGraph g = {.lib = cuda_cudnn(), .handle = handle};
  cuda_Plan plans[MOST_MEASURED];
  cudnnBackendDescriptor_t graph = work->graph(&g, work->key);
  int n = cuda_plans(&g, graph, NULL, handle, wanted, plans);
  *sure = n < 2 || sort_out(work, handle, plans, n);
  for (int i = 1; i < n; i++) g.lib->cudnnBackendDestroyDescriptor(plans[i].plan);
  if (n > 0) *out = plans[0];
  cuda_dnn_free(&g);
  return n > 0;
}

static void make(const cuda_DnnWork *work, cudnnHandle_t handle, bool captured, Entry *entry) {
  /* lifts CUDA's restrictions during captures, because making a plan may allocate memory and load
  ** kernels */
  CUDA_RELAXED;
  int64_t limit = work->benchmark ? cuda_host->setting(TL_CUDNN_BENCHMARK_LIMIT) : 1;
  if (limit <= 0 || limit > MOST_MEASURED) limit = MOST_MEASURED;
  cuda_Wanted wanted = {work->avoid, CUDNN_WORKSPACE, (int)limit};
  bool sure, found = find_on_disk(work, handle, &wanted, &entry->plan);
  entry->none = false;
  entry->unmeasured = !found && work->benchmark && captured;
  /* the graph that uses the previous plan keeps that plan alive; no graph uses the new plan yet */
  entry->in_graph = false;
  if (found) return;
  if (entry->unmeasured) wanted.most = 1;
  entry->none = !find(work, handle, &wanted, &entry->plan, &sure);
  if (!entry->none && !entry->unmeasured && sure) keep_on_disk(work, &wanted, &entry->plan);
}

/* Empties the table. Plans that captured graphs may still run are kept in memory. */
static void begin_anew(Table *t) {
  for (int i = 0; i < 2 * PLANS; i++) {
    const Entry *entry = &t->entries[i];
    if (entry->used && !entry->none && !entry->in_graph)
      cuda_cudnn()->cudnnBackendDestroyDescriptor(entry->plan.plan);
  }
  memset(t->entries, 0, sizeof t->entries);
  memset(t->made, 0, sizeof t->made);
  t->filled = 0;
}

/* Returns whether plans exist for the largest allowed number of keys of this kind of work. If not,
** counts this key. */
static bool has_enough(Table *t, const cuda_DnnWork *work) {
  int64_t kind;
  if (work->sizes == 0) return false;
  memcpy(&kind, work->key, sizeof kind);
  if (t->made[kind] == work->sizes) return true;
  t->made[kind]++;
  return false;
}

static bool is_of(const Entry *entry, const cuda_DnnWork *work) {
  return entry->bytes == work->key_bytes && memcmp(entry->key, work->key, work->key_bytes) == 0;
}

static Entry *place_of(Table *t, const cuda_DnnWork *work) {
  size_t at = tli_hash(TLI_HASH_SEED, work->key, work->key_bytes) % (2 * PLANS);
  while (t->entries[at].used && !is_of(&t->entries[at], work)) at = (at + 1) % (2 * PLANS);
  return &t->entries[at];
}

static Entry *entry_of(Table *t, const cuda_DnnWork *work, cudnnHandle_t handle, bool captured) {
  Entry *entry = place_of(t, work);
  if (entry->used && (!entry->unmeasured || captured)) return entry;
  if (!entry->used && t->filled == PLANS) {
    begin_anew(t);
    entry = place_of(t, work);
  }
  t->filled += !entry->used;
  memcpy(entry->key, work->key, work->key_bytes);
  entry->bytes = work->key_bytes;
  if (has_enough(t, work))
    entry->none = true;
  else
    make(work, handle, captured, entry);
  entry->used = true;
  return entry;
}

static bool with_handle(const cuda_DnnWork *work, cudnnHandle_t handle, bool *done) {
  if (cuda_cudnn()->cudnnSetStream(handle, work->cx->stream->handle) != CUDNN_STATUS_SUCCESS)
    return cuda_fail(TL_EDEVICE, "cudnnSetStream failed");
  int device = work->cx->device.index;
  bool captured = cuda_device_captures(device);
  Entry *entry = entry_of(&tables[device], work, handle, captured);
  *done = !entry->none;
  entry->in_graph = entry->in_graph || captured;
  if (entry->none) return true;
  bool refused = false;
  if (!run(work, handle, &entry->plan, &refused)) return false;
  /* if cuDNN refused the plan, our own kernels compute this request from now on */
  entry->none = refused;
  if (refused && !entry->in_graph) cuda_cudnn()->cudnnBackendDestroyDescriptor(entry->plan.plan);
  *done = !refused;
  return true;
}

bool cuda_dnn_may_differ(void) {
  return !cuda_host->setting(TL_CUDNN_DETERMINISTIC) && cuda_host->setting(TL_DETERMINISTIC) == 0 &&
         cuda_lib_cudnn_version() >= CUDNN_KNOWN;
}

bool cuda_dnn_run(const cuda_DnnWork *work, bool *done) {
  int device = work->cx->device.index;
  *done = false;
  if (!cuda_host->setting(TL_CUDNN_ENABLED)) return true;
  if (!cuda_enter(device)) return false;
  cudnnHandle_t handle = cuda_dnn_enter(device);
  /* without a handle cuDNN cannot be used, so our own kernels compute the result */
  if (handle == NULL) return true;
  bool ok = with_handle(work, handle, done);
  cuda_dnn_leave(device);
  return ok;
}
