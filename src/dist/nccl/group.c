/*
** group.c - joining NCCL groups, launching and monitoring their calls, and the function table of
** that transport.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/platform.h"
#include "dist/nccl/nccl.h"
#include "ops.h"

#define LOOK INT64_C(100000000) /* nanoseconds between two reads of the store */

static const tl_DeviceApi *device_of(const tli_Nccl *n) {
  return tli_backend(n->base.device)->device;
}

static void sleep_for(int64_t ns) {
  atomic_uint none = 0;
  tli_word_wait(&none, 0, ns);
}

/* ---- failures of a group ----------------------------------------------------------------- */

static void end_all(tli_Work **list) {
  while (*list) {
    tli_Work *w = *list;
    *list = w->next;
    tli_work_end(w, false);
  }
}

/* Makes the group fail with this thread's error, and aborts kernels that wait for other ranks. Does
** nothing if this rank is leaving the group and no call is pending. */
static void fail(tli_Group *g) {
  tli_Nccl *n = tli_nccl(g);
  char why[1500];
  if (atomic_load(&g->closing) && n->in_flight == NULL && n->held == NULL) return;
  snprintf(why, sizeof why, "%s", tl_error());
  if (n->comm) n->api->abort(n->comm, n->in_flight ? why : "");
  if (!n->report.broken) tli_report_end(g, &n->report, why);
  tli_fail(TL_EIO, "%s", why);
  end_all(&n->in_flight);
  end_all(&n->held);
  n->nsteps = 0;
}

/* ---- launching ------------------------------------------------------------------------- */

/* Waits until NCCL has put its operations on the stream. NCCL's functions may return before they
** have done so. */
static bool settle(tli_Nccl *n, int64_t deadline) {
  for (int turns = 0;; turns++) {
    bool busy;
    TL_TRY(n->api->state(n->comm, &busy));
    if (!busy) return true;
    if (tli_now_ns() >= deadline) return tli_fail(TL_EIO, "nccl: not ready in time");
    if (turns < 1000) continue;
    sleep_for(100000);
    if (turns % 1000 == 0) TL_TRY(tli_report_check(&n->base, &n->report));
  }
}

/* Records the event at the end of a call. If the call is captured in a graph, it counts as ended as
** soon as it is recorded, and no thread waits for it. */
static bool mark_end(tli_Nccl *n, tli_Work *w, bool captured) {
  const tl_DeviceApi *api = device_of(n);
  w->end = api->event(w->device, 0);
  TL_TRY(w->end && api->event_record(w->end, n->stream));
  if (captured)
    tli_work_end(w, true);
  else
    tli_work_append(&n->in_flight, w);
  return true;
}

static bool launch_steps(tli_Nccl *n) {
  const tl_DeviceApi *api = device_of(n);
  tl_Stream *now = tli_stream(n->base.device);
  int64_t deadline = n->held->deadline;
  int nsteps = n->nsteps;
  n->nsteps = 0;
  TL_TRY(tli_stream_follow(n->base.device, n->stream, now));
  if (nsteps > 0) TL_TRY(n->api->run(n->comm, n->stream, n->steps, nsteps) && settle(n, deadline));
  bool captured = api->capture && api->capture(n->stream) != 0;
  while (n->held) {
    tli_Work *w = n->held;
    n->held = w->next;
    if (mark_end(n, w, captured)) continue;
    tli_work_end(w, false);
    return false;
  }
  return true;
}

/* Launches the collected calls. If that fails, the whole group fails, because the other ranks wait
** for the calls. Wrong arguments make only their own call fail, because arguments are checked
** before calls are collected. */
static bool launch_or_fail(tli_Nccl *n) {
  if (launch_steps(n)) return true;
  fail(&n->base);
  return false;
}

/* If the group was joined with `detail`, checks that all ranks make the same call. The first rank
** to arrive publishes its call in the store, and the others compare their calls with it. */
static bool same_call(tli_Nccl *n, const tli_Work *w) {
  tli_Group *g = &n->base;
  char key[300], what[40], mine[400], text[240];
  int64_t came;
  if (!g->detail || w->kind >= TLI_SEND) return true;
  tli_status_text(&w->status, g, text, sizeof text);
  snprintf(mine, sizeof mine, "%016llx rank %d %s", (unsigned long long)w->hash, g->ranks[g->rank],
           text);
  snprintf(what, sizeof what, "came/%lld", (long long)w->status.number);
  tli_report_key(&n->report, key, what, -1);
  TL_TRY(tli_store_add(n->report.store, key, 1, &came));
  /* the last rank that has compared the call deletes the keys of the previous call */
  if (came == g->size) {
    bool there;
    snprintf(what, sizeof what, "came/%lld", (long long)w->status.number - 1);
    tli_report_key(&n->report, key, what, -1);
    TL_TRY(tli_store_delete(n->report.store, key, &there));
    snprintf(what, sizeof what, "call/%lld", (long long)w->status.number - 1);
    tli_report_key(&n->report, key, what, -1);
    TL_TRY(tli_store_delete(n->report.store, key, &there));
  }
  snprintf(what, sizeof what, "call/%lld", (long long)w->status.number);
  tli_report_key(&n->report, key, what, -1);
  if (came == 1) return tli_store_set(n->report.store, key, mine, strlen(mine));
  char *first = tli_store_get(n->report.store, key, NULL, w->timeout);
  TL_TRY(first);
  bool same = strncmp(first, mine, 16) == 0;
  char why[900];
  snprintf(why, sizeof why, "ranks make different calls: %.380s; %.380s", first + 17, mine + 17);
  free(first);
  return same || tli_report_publish(g, &n->report, why);
}

static bool launch(tli_Group *g, tli_Work *w) {
  tli_Nccl *n = tli_nccl(g);
  w->device = g->device;
  w->from = tli_stream(g->device);
  n->report.status = w->status;
  if (!same_call(n, w)) {
    fail(g);
    return false;
  }
  TL_TRY(tli_nccl_plan(n, w));
  tli_work_append(&n->held, w);
  if (n->batches == 0) launch_or_fail(n);
  return true;
}

static bool batch(tli_Group *g, bool begins) {
  tli_Nccl *n = tli_nccl(g);
  n->batches += begins ? 1 : -1;
  return n->batches > 0 || n->held == NULL || launch_or_fail(n);
}

/* ---- monitoring -------------------------------------------------------------------------- */

/* Ends the calls that are complete. Calls complete in the order in which they were launched. */
static bool collect_ended(tli_Nccl *n, bool *ended) {
  *ended = false;
  while (n->in_flight) {
    tli_Work *w = n->in_flight;
    bool done;
    TL_TRY(device_of(n)->event_query(w->end, &done));
    if (!done) {
      n->report.status = w->status;
      return true;
    }
    *ended = true;
    n->in_flight = w->next;
    tli_work_end(w, true);
  }
  return true;
}

static bool look(tli_Nccl *n) {
  tli_Work *w = n->in_flight;
  bool busy;
  if (w == NULL) return true;
  TL_TRY(n->api->state(n->comm, &busy));
  int64_t now = tli_now_ns();
  if (now >= w->deadline) return tli_report_timeout(&n->base, &n->report, w->kind, w->timeout);
  if (now - n->looked < LOOK) return true;
  n->looked = now;
  return tli_report_check(&n->base, &n->report);
}

static bool move(tli_Group *g, bool slept) {
  tli_Nccl *n = tli_nccl(g);
  bool ended = slept;
  if (n->in_flight && (!collect_ended(n, &ended) || !look(n))) fail(g);
  return ended;
}

/* ---- joining ----------------------------------------------------------------------------- */

/* Writes a name for this rank's GPU that is unique across machines, even if every process gives its
** own GPU the number 0. */
static bool name_device(const tli_Nccl *n, char *out, size_t size) {
  tl_DeviceProperties p;
  char host[200];
  TL_TRY(device_of(n)->properties(n->base.device.index, &p));
  tli_host_name(host, sizeof host);
  snprintf(out, size, "%.100s:%s:%x:%x:%x", host, p.uuid, (unsigned)p.pci_domain_id,
           (unsigned)p.pci_bus_id, (unsigned)p.pci_device_id);
  return true;
}

/* Claims the rank's GPU. If two ranks have claimed the same GPU, all ranks fail before any of them
** has joined. */
static bool claim(tli_Nccl *n) {
  tli_Group *g = &n->base;
  char gpu[240], what[250], key[300], why[600], text[16];
  int64_t came;
  TL_TRY(name_device(n, gpu, sizeof gpu));
  snprintf(what, sizeof what, "gpu/%.200s", gpu);
  tli_report_key(&n->report, key, what, -1);
  TL_TRY(tli_store_add(n->report.store, key, 1, &came));
  snprintf(what, sizeof what, "who/%.200s", gpu);
  tli_report_key(&n->report, key, what, -1);
  if (came == 1) {
    snprintf(text, sizeof text, "%d", g->ranks[g->rank]);
    return tli_store_set(n->report.store, key, text, strlen(text));
  }
  char *other = tli_store_get(n->report.store, key, NULL, g->timeout);
  TL_TRY(other);
  snprintf(why, sizeof why,
           "nccl: device: rank %d has %s, which rank %s uses, too; expected one GPU for each rank: "
           "torch.cuda.set_device(LOCAL_RANK) before, or device_id",
           g->ranks[g->rank], tli_device_str(g->device), other);
  free(other);
  tli_report_key(&n->report, key, "why", -1);
  return tli_store_set(n->report.store, key, why, strlen(why));
}

static bool share_id(tli_Nccl *n, unsigned char id[TL_COMM_ID_BYTES]) {
  char key[300];
  tli_report_key(&n->report, key, "id", -1);
  if (n->base.rank == 0)
    return n->api->id(id) && tli_store_set(n->report.store, key, id, TL_COMM_ID_BYTES);
  size_t size = 0;
  char *text = tli_store_get(n->report.store, key, &size, n->base.timeout);
  TL_TRY(text);
  if (size == TL_COMM_ID_BYTES) memcpy(id, text, size);
  free(text);
  return size == TL_COMM_ID_BYTES || tli_fail(TL_EIO, "nccl: the store has another id");
}

/* Returns the table of functions that call NCCL. Returns NULL with a message if this build or
** machine has no GPUs or no NCCL. */
static const tl_CommApi *open_api(tl_Device device) {
  const tl_Backend *backend = tli_backend_open(device);
  TL_TRY_NULL(backend);
  if (backend->device->comms) return backend->device->comms();
  return tli_fail_null(TL_EDEVICE, "nccl: device %s has no groups", tli_device_str(device));
}

static tl_Device current(void) { return (tl_Device){TL_CUDA, (int8_t)tli_current_device(TL_CUDA)}; }

static bool available(void) { return open_api(current()) != NULL; }

static bool join(tli_Group *g, tli_Store *store, const char *name) {
  tli_Nccl *n = tli_nccl(g);
  unsigned char id[TL_COMM_ID_BYTES];
  int64_t one = 1, deadline = tli_now_ns() + g->timeout;
  g->device = current();
  n->api = open_api(g->device);
  TL_TRY(n->api);
  n->stream = device_of(n)->stream(g->device, -1);
  n->one = tlo_zeros((tl_Ints){1, &one}, TL_F32, g->device);
  TL_TRY(n->stream && n->one);
  TL_TRY(tli_report_open(g, &n->report, store, name) && claim(n));
  TL_TRY(tli_report_join(g, &n->report) && tli_report_check(g, &n->report));
  TL_TRY(share_id(n, id));
  n->comm = n->api->open(g->device, g->rank, g->size, id);
  return n->comm && settle(n, deadline);
}

/* Closes the communicator. If work on the stream has not ended, aborts the communicator instead. */
static void close_comm(tli_Nccl *n) {
  bool good = !n->report.broken && n->in_flight == NULL && n->api->finalize(n->comm) &&
              settle(n, tli_now_ns() + 5000000000);
  if (!good) n->api->abort(n->comm, "");
  n->api->close(n->comm);
}

static void leave(tli_Group *g) {
  tli_Nccl *n = tli_nccl(g);
  for (int i = 0; i < n->nbuffers; i++) {
    if (n->buffers[i].handle) n->api->remove_buffer(n->comm, n->buffers[i].handle);
    tli_release(n->buffers[i].tensor);
  }
  if (n->comm) close_comm(n);
  tli_release(n->one);
  tli_free(n->buffers, (size_t)n->buffer_room * sizeof *n->buffers);
  tli_free(n->steps, (size_t)n->room * sizeof *n->steps);
  tli_report_close(&n->report);
}

/* ---- buffers --------------------------------------------------------------------------- */

static bool add_buffer(tli_Nccl *n, tl_Tensor *t) {
  if (n->nbuffers == n->buffer_room) {
    int room = n->buffer_room ? 2 * n->buffer_room : 8;
    tli_NcclBuffer *more = tli_alloc((size_t)room * sizeof *more);
    TL_TRY(more);
    if (n->nbuffers > 0) memcpy(more, n->buffers, (size_t)n->nbuffers * sizeof *more);
    tli_free(n->buffers, (size_t)n->buffer_room * sizeof *more);
    n->buffers = more;
    n->buffer_room = room;
  }
  int64_t bytes = t->numel * tli_dtype_bytes[t->dtype];
  void *handle = n->api->add_buffer(n->comm, tli_data(t), bytes);
  n->buffers[n->nbuffers++] = (tli_NcclBuffer){tli_retain(t), handle};
  return true;
}

static bool buffer(tli_Group *g, tl_Tensor *t, bool add) {
  tli_Nccl *n = tli_nccl(g);
  if (!tli_same_device(tli_device(t), g->device) || !tli_contiguous(t) || t->numel == 0)
    return true;
  if (add) return n->report.broken || add_buffer(n, t);
  for (int i = 0; i < n->nbuffers; i++) {
    tli_NcclBuffer b = n->buffers[i];
    if (tli_data(b.tensor) != tli_data(t)) continue;
    if (b.handle) n->api->remove_buffer(n->comm, b.handle);
    tli_release(b.tensor);
    n->buffers[i] = n->buffers[--n->nbuffers];
    break;
  }
  return true;
}

static void abort_group(tli_Group *g, const char *why) {
  tli_report_abort(&tli_nccl(g)->report, why);
}

static bool usable(tli_Group *g) {
  const tli_FailureReport *t = &tli_nccl(g)->report;
  return !t->broken || tli_report_failed(t);
}

const tli_Transport tli_transport_nccl = {
    .name = "nccl",
    .bytes = sizeof(tli_Nccl),
    .most = TLI_MOST_RANKS,
    .nap = 2000000,
    .available = available,
    .join = join,
    .leave = leave,
    .usable = usable,
    .move = move,
    .fail = fail,
    .abort = abort_group,
    .launch = launch,
    .batch = batch,
    .buffer = buffer,
};
