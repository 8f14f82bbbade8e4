/*
** record.c - groups in which one process simulates a single rank out of many. Calls end immediately
** and record the messages that the rank would send. In this way one process can measure a program's
** traffic on thousands of ranks.
**
** This rank's own data replaces that of other ranks: sums and broadcast data stay as they are,
** gathered parts are copies of this rank's part, received messages are zeros. The numbers of
** messages and bytes are those of ring algorithms (Patarasuk and Yuan 2009), which send the fewest
** bytes.
*/
#include <string.h>

#include "dist/inside.h"

typedef struct Record {
  tli_Group base;
  tli_Traffic traffic[TLI_NCOLLECTIVES];
} Record;

static Record *record_of(tli_Group *g) { return (Record *)(void *)g; }

bool tli_group_traffic(const tli_Group *g, tli_Collective kind, tli_Traffic *out) {
  if (g->transport != &tli_transport_record) return false;
  *out = ((const Record *)(const void *)g)->traffic[kind];
  return true;
}

/* ---- counting --------------------------------------------------------------------------- */

static int64_t bytes_of(const tli_Part *parts, int n) {
  int64_t bytes = 0;
  for (int i = 0; i < n; i++) bytes += parts[i].bytes;
  return bytes;
}

/* Returns the number of bytes that a rank sends when a part passes around the ring. The part has
** `size` sections, and the rank sends all of them except section `rank`. */
static int64_t ring_bytes(int64_t bytes, int size, int rank) {
  int64_t section = (bytes + size - 1) / size, at = section * rank;
  int64_t own = at >= bytes ? 0 : (bytes - at < section ? bytes - at : section);
  return bytes - own;
}

static void count(Record *r, const tli_Work *w) {
  const tli_Group *g = &r->base;
  tli_Traffic *t = &r->traffic[w->kind];
  int64_t others = g->size - 1, in = bytes_of(w->in, w->nin), out = bytes_of(w->out, w->nout);
  bool root = w->root == g->rank;
  t->calls++;
  t->bytes += in > out ? in : out;
  switch (w->kind) {
  case TLI_BARRIER: t->messages += 2 * others; return;
  case TLI_ALL_REDUCE: /* an all_reduce consists of a reduce_scatter and an all_gather */
    t->messages += 2 * others;
    t->sent += ring_bytes(out, g->size, (g->rank + 1) % g->size) +
               ring_bytes(out, g->size, (g->rank + 2) % g->size);
    return;
  case TLI_ALL_GATHER:
    t->messages += others;
    t->sent += out - w->out[(g->rank + 1) % g->size].bytes;
    return;
  case TLI_REDUCE_SCATTER:
    t->messages += others;
    t->sent += in - w->in[g->rank].bytes;
    return;
  case TLI_ALL_TO_ALL:
    t->messages += others;
    t->sent += in - w->in[g->rank].bytes;
    return;
  case TLI_BROADCAST: /* in a ring, a broadcast passes along a chain that begins at the root */
    if ((g->rank + 1) % g->size == w->root) return;
    t->messages += 1;
    t->sent += out;
    return;
  case TLI_REDUCE: /* in a ring, a reduction passes along a chain that ends at the root */
    if (root) return;
    t->messages += 1;
    t->sent += out;
    return;
  case TLI_SCATTER:
    if (!root) return;
    t->messages += others;
    t->sent += in - w->in[g->rank].bytes;
    return;
  case TLI_RECV: return;
  case TLI_GATHER:
    if (root) return;
    t->messages += 1;
    t->sent += in;
    return;
  case TLI_SEND:
    t->messages += 1;
    t->sent += in;
    return;
  case TLI_NCOLLECTIVES: return;
  }
}

/* ---- calls ----------------------------------------------------------------------------- */

/* Copies `from` to `to`, up to the size of `to`, and fills the rest of `to` with zeros. */
static void fill(tli_Part to, tli_Part from) {
  int64_t n = from.bytes < to.bytes ? from.bytes : to.bytes;
  if (n > 0 && to.data != from.data) memmove(to.data, from.data, (size_t)n);
  if (to.bytes > n) memset(to.data + n, 0, (size_t)(to.bytes - n));
}

static bool collective(tli_Group *g, tli_Work *w) {
  count(record_of(g), w);
  const tli_Part none = {NULL, 0};
  for (int i = 0; i < w->nout && w->nin > 0; i++)
    fill(w->out[i], w->nin == 1 ? w->in[0] : w->in[w->nout == 1 ? g->rank : i]);
  if (w->kind == TLI_SCATTER && w->nin == 0) fill(w->out[0], none);
  return true;
}

static void post(tli_Group *g, tli_Work *w) {
  const tli_Part none = {NULL, 0};
  count(record_of(g), w);
  if (w->kind == TLI_RECV) fill(w->out[0], none);
  if (w->source < 0) w->source = (g->rank + 1) % g->size;
  tli_work_end(w, true);
}

static bool join(tli_Group *g, tli_Store *store, const char *name) {
  (void)g, (void)store, (void)name;
  return true;
}
static void leave(tli_Group *g) { (void)g; }
static bool usable(tli_Group *g) { return g != NULL; }
static void note(tli_Group *g, const tli_Status *s, bool active) { (void)g, (void)s, (void)active; }
static bool move(tli_Group *g, bool slept) {
  (void)g;
  return slept;
}
static bool await(tli_Group *g, tli_Work *w) {
  (void)g;
  return tli_work_done(w);
}
static void fail(tli_Group *g) { (void)g; }

const tli_Transport tli_transport_record = {
    .name = "record",
    .bytes = sizeof(Record),
    .most = TLI_MOST_RANKS,
    .nap = 20000000,
    .join = join,
    .leave = leave,
    .usable = usable,
    .note = note,
    .collective = collective,
    .post = post,
    .move = move,
    .await = await,
    .fail = fail,
};
