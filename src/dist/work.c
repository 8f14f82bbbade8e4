/*
** work.c - calls of a group: checking their arguments, copying tensors to and from the host,
** and ending them.
*/
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/device/pending.h"
#include "core/platform/parallel.h"
#include "core/memory/pinned.h"
#include "core/device/transfer.h"
#include "dist/work.h"
#include "ops/common.h"
#include "ops.h"

const char *const tli_collective_names[] = {
#define X(name, text) text,
    TLI_COLLECTIVES(X)
#undef X
};

/* ---- checking arguments ------------------------------------------------------------------ */

static bool in_place(tli_Collective kind) {
  return kind == TLI_BROADCAST || kind == TLI_ALL_REDUCE || kind == TLI_REDUCE;
}

/* Computes the numbers of input and output tensors that this rank passes to a call. */
static void counts(const tli_Group *g, const tli_Call *c, int *in, int *out) {
  bool root = tli_group_rank(g) == c->root;
  int n = tli_group_size(g);
  *in = *out = 0;
  switch (c->kind) {
  case TLI_BARRIER: return;
  case TLI_BROADCAST:
  case TLI_ALL_REDUCE:
  case TLI_REDUCE: *out = 1; return;
  case TLI_ALL_GATHER: *in = 1, *out = n; return;
  case TLI_GATHER: *in = 1, *out = root ? n : 0; return;
  case TLI_SCATTER: *in = root ? n : 0, *out = 1; return;
  case TLI_REDUCE_SCATTER: *in = n, *out = 1; return;
  case TLI_ALL_TO_ALL: *in = *out = n; return;
  case TLI_SEND: *in = 1; return;
  case TLI_RECV:
  case TLI_NCOLLECTIVES: *out = 1; return;
  }
}

static bool check_list(const tli_Call *c, const char *what, tl_Tensors list, int expected,
                       const tl_Tensor **first) {
  const char *name = tli_collective_names[c->kind];
  if (list.n != expected)
    return tli_fail(TL_EARG, "%s: %s: expected %d tensors here, got %d", name, what, expected,
                    (int)list.n);
  for (int64_t i = 0; i < list.n; i++) {
    const tl_Tensor *t = list.v[i];
    if (*first == NULL) *first = t;
    if (t->dtype != (*first)->dtype)
      return tli_fail(TL_EDTYPE, "%s: %s: expected tensors of one dtype, got %s and %s", name, what,
                      tl_dtype_name((tl_DType)(*first)->dtype), tl_dtype_name((tl_DType)t->dtype));
  }
  return true;
}

static bool check_written(const tli_Call *c) {
  const char *name = tli_collective_names[c->kind];
  for (int64_t i = 0; i < c->out.n; i++)
    if (tli_overlaps_itself(c->out.v[i]))
      return tli_fail(TL_EARG, "%s: a tensor that is written overlaps itself", name);
  return true;
}

/* Checks the sizes of this rank's tensors. The sizes on other ranks are not known here. */
static bool check_sizes(const tli_Group *g, const tli_Call *c) {
  if (c->kind != TLI_REDUCE_SCATTER) return true;
  for (int r = 0; r < tli_group_size(g); r++)
    if (c->in.v[r]->numel != c->out.v[0]->numel)
      return tli_fail(TL_ESHAPE,
                      "reduce_scatter: expected inputs as large as the output %s, got %s",
                      tli_sizes_str(c->out.v[0]), tli_sizes_str(c->in.v[r]));
  return true;
}

static bool check(const tli_Group *g, const tli_Call *c, const tl_Tensor **first) {
  const char *name = tli_collective_names[c->kind];
  int in, out, size = tli_group_size(g);
  bool any = c->kind == TLI_RECV && c->root == -1;
  if (!any && (c->root < 0 || c->root >= size))
    return tli_fail(TL_EARG, "%s: expected a rank of the group, 0 to %d, got %d", name, size - 1,
                    c->root);
  if (c->kind >= TLI_SEND && c->root == tli_group_rank(g))
    return tli_fail(TL_EARG, "%s: a rank sends no message to itself", name);
  if (any && size == 1)
    return tli_fail(TL_EARG, "%s: the group has no other rank that could send a message", name);
  counts(g, c, &in, &out);
  TL_TRY(check_list(c, in_place(c->kind) ? "tensor" : "input", c->in, in, first));
  TL_TRY(check_list(c, in_place(c->kind) ? "tensor" : "output", c->out, out, first));
  if (c->kind == TLI_ALL_REDUCE || c->kind == TLI_REDUCE || c->kind == TLI_REDUCE_SCATTER)
    TL_TRY(tli_reduction_fits(name, c->reduce, (tl_DType)(*first)->dtype));
  return check_written(c) && check_sizes(g, c);
}

/* ---- copies of tensors ------------------------------------------------------------------ */

/* Fails if a tensor must pass through the host while a graph is captured on its device, because a
** graph cannot wait for the host. */
static bool check_capture(const tli_Work *w, tl_Device device) {
  if (device.type == TL_CPU) return true;
  const tl_DeviceApi *api = tli_backend(device)->device;
  if (api->capture == NULL || api->capture(tli_stream(device)) == 0) return true;
  return tli_fail(TL_EDEVICE,
                  "%s: not possible while a graph is captured: other ranks are reached "
                  "through the host",
                  tli_collective_names[w->kind]);
}

static tl_Tensor *room_for(const tl_Tensor *t, tl_Device where) {
  tl_Device device = tli_device(t);
  if (where.type == TL_CPU && device.type != TL_CPU)
    return tli_pinned_empty((tl_DeviceType)device.type, (tl_DType)t->dtype, t->ndim, t->sizes);
  return tli_empty((tl_DType)t->dtype, where, t->ndim, t->sizes);
}

static bool stage(tli_Work *w, tli_Piece *p, tl_Tensor *t, bool in, bool out) {
  tl_Device where = w->group->device;
  *p = (tli_Piece){tli_retain(t), NULL, in, out};
  w->npieces++;
  bool there = tli_same_device(tli_device(t), where);
  if (!there) TL_TRY(check_capture(w, tli_device(t)) && check_capture(w, where));
  if (there && (in || tli_contiguous(t)))
    p->staged = tli_contiguous_as(t, (tl_DType)t->dtype);
  else if (in && !there)
    p->staged = tli_moved(t, where, where.type == TL_CPU);
  else
    p->staged = room_for(t, where);
  TL_TRY(p->staged);
  if (out) tli_bump(t, tli_collective_names[w->kind]);
  return true;
}

/* Records an event on the device's current stream. The call waits for this event, and so for all
** work that is already queued on the stream. */
static bool mark(tli_Work *w, tl_Device device) {
  for (int i = 0; i < w->nevents; i++)
    if (tli_same_device(w->event_devices[i], device)) return true;
  const tl_DeviceApi *api = tli_backend(device)->device;
  if (w->nevents == TLI_MOST_EVENTS) return api->stream_sync(tli_stream(device));
  tl_Event *event = api->event(device, 0);
  TL_TRY(event);
  w->events[w->nevents] = event;
  w->event_devices[w->nevents++] = device;
  tli_collect_pending(device, tli_stream(device));
  return api->event_record(event, tli_stream(device));
}

static bool stage_all(tli_Work *w, const tli_Call *c) {
  bool both = in_place(c->kind);
  for (int64_t i = 0; i < c->in.n; i++)
    TL_TRY(stage(w, &w->pieces[w->npieces], c->in.v[i], true, false));
  for (int64_t i = 0; i < c->out.n; i++)
    TL_TRY(stage(w, &w->pieces[w->npieces], c->out.v[i], both, true));
  for (int i = 0; i < w->npieces; i++) {
    const tli_Piece *p = &w->pieces[i];
    bool comes = w->group->device.type == TL_CPU && tli_device(p->target).type != TL_CPU;
    if (p->in && comes) TL_TRY(mark(w, tli_device(p->target)));
    tli_Part *part = i < w->nin ? &w->in[i] : &w->out[i - w->nin];
    *part = (tli_Part){tli_data(p->staged), p->staged->numel * tli_dtype_bytes[p->staged->dtype]};
  }
  return true;
}

/* Waits until the copies of the inputs have arrived on the host. */
bool tli_work_arrive(tli_Work *w) {
  for (int i = 0; i < w->nevents; i++)
    TL_TRY(tli_backend(w->event_devices[i])->device->event_sync(w->events[i]));
  return true;
}

static bool put_back(const tli_Piece *p) {
  tl_Tensor *plain = tli_detached(p->target);
  bool ok = plain && tlo_copy_(plain, p->staged, tli_device(plain).type != TL_CPU);
  tli_release(plain);
  return ok;
}

static void let_go(tli_Work *w) {
  for (int i = 0; i < w->npieces; i++) {
    tli_release(w->pieces[i].target);
    tli_release(w->pieces[i].staged);
  }
  w->npieces = 0;
}

/* Makes the current stream wait for the end of a call that runs on the device. The call's tensors
** may have been allocated on another stream, so the current stream is registered as a user of their
** memory. */
static bool follow(tli_Work *w) {
  const tl_DeviceApi *api = tli_backend(w->device)->device;
  tl_Stream *now = tli_stream(w->device);
  tli_collect_pending(w->device, now);
  TL_TRY(api->stream_wait(now, w->end));
  for (int i = 0; i < w->npieces && now != w->from; i++) {
    tl_Tensor *t = w->pieces[i].staged;
    if (t->numel > 0) TL_TRY(api->record_stream(w->device, t->storage->data, now));
  }
  return true;
}

/* Completes a call and releases its tensors. They are released even if Lua has not collected the
** Work object yet. */
static bool finish(tli_Work *w) {
  if (w->finished) return true;
  w->finished = true;
  bool ok = w->end == NULL || follow(w);
  for (int i = 0; i < w->npieces && ok; i++)
    if (w->pieces[i].out && w->pieces[i].staged != w->pieces[i].target)
      ok = put_back(&w->pieces[i]);
  let_go(w);
  return ok;
}

/* ---- creating and releasing ------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

/* Hashes the properties that must be equal on all ranks. */
static uint64_t hash_of(const tli_Call *c, const tl_Tensor *first, bool detail, int64_t pass) {
  uint64_t hash = mix(1, (uint64_t)c->kind);
  bool reduces =
      c->kind == TLI_ALL_REDUCE || c->kind == TLI_REDUCE || c->kind == TLI_REDUCE_SCATTER;
  hash = mix(hash, first ? (uint64_t)first->dtype : 99);
  if (c->kind >= TLI_SEND) return mix(0, first ? (uint64_t)first->dtype : 99);
  hash = mix(mix(hash, reduces ? (uint64_t)c->reduce : 0), (uint64_t)pass);
  hash = mix(hash, (uint64_t)c->root);
  if (in_place(c->kind) || c->kind == TLI_REDUCE_SCATTER) {
    const tl_Tensor *t = c->out.v[0];
    hash = mix(hash, (uint64_t)t->numel);
    for (int d = 0; detail && d < t->ndim; d++) hash = mix(hash, (uint64_t)t->sizes[d] + 7);
  }
  return hash;
}

static void describe(tli_Work *w, const tli_Call *c, const tl_Tensor *first) {
  w->status = (tli_Status){.kind = (int8_t)c->kind, .dtype = -1, .peer = (int16_t)c->root};
  if (first) {
    w->status.dtype = first->dtype;
    w->status.ndim = (int8_t)first->ndim;
    memcpy(w->status.sizes, first->sizes, (size_t)first->ndim * sizeof(int64_t));
  }
  if (c->site) snprintf(w->status.site, sizeof w->status.site, "%s", c->site);
}

tli_Work *tli_work_new(tli_Group *g, const tli_Call *c, int64_t timeout, bool detail) {
  const tl_Tensor *first = NULL;
  TL_TRY_NULL(check(g, c, &first));
  int64_t n = c->in.n + c->out.n;
  size_t bytes = sizeof(tli_Work) + (size_t)n * (sizeof(tli_Piece) + sizeof(tli_Part));
  tli_Work *w = tli_alloc(bytes);
  TL_TRY_NULL(w);
  memset(w, 0, offsetof(tli_Work, message) + 1);
  atomic_init(&w->refs, 1);
  atomic_init(&w->state, TLI_PENDING);
  w->bytes = bytes;
  w->group = g;
  w->kind = c->kind;
  w->reduce = c->reduce;
  w->root = c->root;
  w->tag = c->tag;
  w->timeout = c->timeout > 0 ? c->timeout : timeout;
  w->dtype = first ? (tl_DType)first->dtype : TL_NODTYPE;
  w->hash = hash_of(c, first, detail, g->pass);
  w->source = c->root;
  describe(w, c, first);
  w->npieces = 0;
  w->nin = (int)c->in.n;
  w->nout = (int)c->out.n;
  w->pieces = (tli_Piece *)(w + 1);
  w->in = (tli_Part *)(w->pieces + n);
  w->out = w->in + c->in.n;
  if (stage_all(w, c)) return w;
  tli_work_release(w);
  return NULL;
}

void tli_work_release(tli_Work *w) {
  if (w == NULL || !tli_last_reference(&w->refs)) return;
  let_go(w);
  tli_invitation_release(w->invitation);
  for (int i = 0; i < w->nevents; i++)
    tli_backend(w->event_devices[i])->device->event_free(w->events[i]);
  if (w->end) tli_backend(w->device)->device->event_free(w->end);
  tli_free(w, w->bytes);
}

void tli_work_append(tli_Work **list, tli_Work *w) {
  while (*list) list = &(*list)->next;
  w->next = NULL;
  *list = w;
}

/* ---- ending ---------------------------------------------------------------------------- */

void tli_work_end(tli_Work *w, bool ok) {
  tli_Group *g = w->group;
  if (!ok) {
    w->error = tl_error_kind();
    snprintf(w->message, sizeof w->message, "%s", tl_error());
  }
  bool counted = w->counted;
  if (counted && w->invitation && w->begun) {
    char name[64];
    snprintf(name, sizeof name, "distributed.%s", tli_collective_names[w->kind]);
    tli_profile_add(w->invitation, "process group", TLI_SPAN_USER, name, w->begun, tli_now_ns());
  }
  atomic_store(&w->state, ok ? TLI_DONE : TLI_FAILED);
  tli_word_wake(&w->state);
  if (counted) {
    atomic_fetch_sub(&g->outstanding, 1);
    tli_work_release(w);
  }
}

bool tli_work_done(const tli_Work *w) {
  bool done = atomic_load(&w->state) != TLI_PENDING;
  if (done || w->end == NULL) return done;
  if (tli_backend(w->device)->device->event_query(w->end, &done)) return done;
  /* the error is reported to the thread that waits for the call, so it is cleared in this thread */
  tli_error_clear();
  return false;
}

const char *tli_work_error(const tli_Work *w) {
  return atomic_load(&w->state) == TLI_FAILED ? w->message : "";
}

tli_Collective tli_work_kind(const tli_Work *w) { return w->kind; }

int tli_work_source(const tli_Work *w) { return w->source; }

static bool sleep_to_end(tli_Work *w, int64_t timeout) {
  int64_t deadline = timeout > 0 ? tli_now_ns() + timeout : INT64_MAX;
  while (atomic_load(&w->state) == TLI_PENDING) {
    int64_t left = deadline - tli_now_ns();
    if (left <= 0)
      return tli_fail(TL_EIO, "%s: not done within %.3g s", tli_collective_names[w->kind],
                      (double)timeout / 1e9);
    tli_word_wait(&w->state, TLI_PENDING, left < 50000000 ? left : 50000000);
    if (atomic_load(&w->state) == TLI_PENDING) TL_TRY(tli_go_on());
  }
  return true;
}

/* Waits for the end of a call. The group stays alive while the call is pending. */
static bool await_end(tli_Work *w, int64_t timeout) {
  if (atomic_load(&w->state) != TLI_PENDING) return true;
  atomic_fetch_add(&w->group->callers, 1);
  bool ok = sleep_to_end(w, timeout);
  atomic_fetch_sub(&w->group->callers, 1);
  return ok;
}

bool tli_work_wait(tli_Work *w, int64_t timeout) {
  bool by_stream = w->end && timeout <= 0 && w->kind != TLI_BARRIER;
  if (!by_stream) TL_TRY(await_end(w, timeout));
  if (atomic_load(&w->state) == TLI_FAILED) return tli_fail(w->error, "%s", w->message);
  return finish(w);
}
