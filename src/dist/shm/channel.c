/*
** channel.c - messages from one rank to another, through a ring buffer in shared memory. A message
** is a header followed by its bytes. Messages of several calls progress in parallel, so that two
** ranks can send to each other at the same time. If earlier messages are in front of the message
** that a call receives, they are first moved out of the ring into stashes, where later calls find
** them.
*/
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "dist/shm/shm.h"

/* ---- ring buffers ------------------------------------------------------------------ */

/* Returns the number of unread bytes, given the counters of bytes read and written, but at most the
** size of a ring. The limit is needed because another process writes one of the counters. */
static int64_t between(uint64_t read, uint64_t written) {
  uint64_t bytes = written - read;
  return bytes <= (uint64_t)TLI_RING ? (int64_t)bytes : 0;
}

/* Writes to the ring as many bytes as it has room for; returns that number. */
static int64_t ring_put(tli_Ring *ring, const void *data, int64_t bytes) {
  uint64_t at = atomic_load_explicit(&ring->written, memory_order_relaxed);
  int64_t room = TLI_RING - between(atomic_load_explicit(&ring->read, memory_order_acquire), at);
  if (bytes > room) bytes = room;
  int64_t begin = (int64_t)(at % (uint64_t)TLI_RING), first = TLI_RING - begin;
  if (first > bytes) first = bytes;
  if (bytes <= 0) return 0;
  memcpy(ring->data + begin, data, (size_t)first);
  memcpy(ring->data, (const char *)data + first, (size_t)(bytes - first));
  atomic_store(&ring->written, at + (uint64_t)bytes);
  return bytes;
}

static int64_t ring_room(const tli_Ring *ring) {
  return TLI_RING - between(atomic_load_explicit(&ring->read, memory_order_acquire),
                            atomic_load_explicit(&ring->written, memory_order_relaxed));
}

static int64_t ring_filled(const tli_Ring *ring) {
  return between(atomic_load_explicit(&ring->read, memory_order_relaxed),
                 atomic_load_explicit(&ring->written, memory_order_acquire));
}

static int64_t ring_take(tli_Ring *ring, void *data, int64_t bytes) {
  uint64_t at = atomic_load_explicit(&ring->read, memory_order_relaxed);
  int64_t filled = ring_filled(ring);
  if (bytes > filled) bytes = filled;
  int64_t begin = (int64_t)(at % (uint64_t)TLI_RING), first = TLI_RING - begin;
  if (first > bytes) first = bytes;
  if (bytes <= 0) return 0;
  memcpy(data, ring->data + begin, (size_t)first);
  memcpy((char *)data + first, ring->data, (size_t)(bytes - first));
  atomic_store(&ring->read, at + (uint64_t)bytes);
  return bytes;
}

/* ---- sending --------------------------------------------------------------------- */

static bool send_some(tli_Shm *g, int to) {
  bool moved = false;
  while (g->sends[to]) {
    tli_Work *w = g->sends[to];
    tli_Ring *ring = tli_ring(g, g->base.rank, to);
    if (!w->head_done) {
      tli_MessageHead head = {w->in[0].bytes, w->tag, w->hash};
      if (ring_room(ring) < (int64_t)sizeof head) break;
      ring_put(ring, &head, sizeof head);
      w->head_done = moved = true;
    }
    int64_t n = ring_put(ring, w->in[0].data + w->at, w->in[0].bytes - w->at);
    w->at += n;
    moved |= n > 0;
    if (w->at < w->in[0].bytes) break;
    g->sends[to] = w->next;
    tli_work_end(w, true);
  }
  if (moved) tli_shm_wake(g, to);
  return moved;
}

/* ---- receiving ------------------------------------------------------------------- */

static bool meets(const tli_Work *w, int from, int64_t tag) {
  return (w->root == from || w->root < 0) && w->tag == tag;
}

/* Finds the first pending RECV that matches a message from rank `from`. Removes the call from the
** list and returns it. */
static tli_Work *take_posted(tli_Shm *g, int from, int64_t tag) {
  for (tli_Work **at = &g->posted; *at; at = &(*at)->next) {
    tli_Work *w = *at;
    if (!meets(w, from, tag)) continue;
    *at = w->next;
    return w;
  }
  return NULL;
}

/* Returns whether any call waits for a message from rank `from`. If so, earlier messages of that
** rank must be moved out of the ring. */
static bool wanted(const tli_Shm *g, int from) {
  for (const tli_Work *w = g->posted; w; w = w->next)
    if (w->root == from || w->root < 0) return true;
  return false;
}

/* Returns whether the message has the size and dtype that the call expects. If it does not, makes
** the group fail and ends the call with an error. */
static bool fits(tli_Shm *g, tli_Work *w, int from, const tli_MessageHead *head) {
  w->source = from;
  if (head->bytes == w->out[0].bytes && head->hash == w->hash) return true;
  char why[400], text[240];
  tli_status_text(&w->status, &g->base, text, sizeof text);
  snprintf(why, sizeof why, "%s on rank %d: rank %d has sent %lld bytes%s, expected were %lld",
           text, g->base.ranks[g->base.rank], g->base.ranks[from], (long long)head->bytes,
           head->hash == w->hash ? "" : " of another dtype", (long long)w->out[0].bytes);
  tli_break(g, why);
  tli_work_end(w, tli_broken(g));
  return false;
}

static void stash_free(tli_Stash *s) {
  tli_free(s->data, (size_t)(s->head.bytes > 0 ? s->head.bytes : 1));
  tli_free(s, sizeof *s);
}

static tli_Stash *stash_new(const tli_MessageHead *head) {
  tli_Stash *s = tli_alloc(sizeof *s);
  char *data = tli_alloc((size_t)(head->bytes > 0 ? head->bytes : 1));
  if (s && data) {
    *s = (tli_Stash){NULL, *head, data};
    return s;
  }
  tli_free(s, sizeof *s);
  tli_free(data, (size_t)(head->bytes > 0 ? head->bytes : 1));
  return NULL;
}

/* Chooses the destination of the next message: the buffer of a matching RECV, or a stash if a RECV
** waits for a later message. */
static bool place(tli_Shm *g, int from, tli_Incoming *i) {
  tli_Work *w = take_posted(g, from, i->head.tag);
  i->at = 0;
  if (w) {
    if (!fits(g, w, from, &i->head)) return false;
    i->to = w;
    return true;
  }
  if (!wanted(g, from)) return false;
  i->stash = stash_new(&i->head);
  return i->stash != NULL;
}

/* Handles a complete message in a stash. Passes the message to a call that was posted meanwhile, or
** keeps it for a later call. */
static void stash_ends(tli_Shm *g, int from, tli_Incoming *i) {
  tli_Work *w = take_posted(g, from, i->head.tag);
  if (w == NULL) {
    tli_Stash **at = &i->kept;
    while (*at) at = &(*at)->next;
    *at = i->stash;
    return;
  }
  if (fits(g, w, from, &i->head)) {
    memcpy(w->out[0].data, i->stash->data, (size_t)i->head.bytes);
    tli_work_end(w, true);
  }
  stash_free(i->stash);
}

static void message_ends(tli_Shm *g, int from, tli_Incoming *i) {
  if (i->to)
    tli_work_end(i->to, true);
  else
    stash_ends(g, from, i);
  i->to = NULL;
  i->stash = NULL;
  i->has_head = false;
}

/* Makes the group fail because another rank's header in shared memory is invalid. */
static void damaged(tli_Shm *g, int from) {
  char why[120];
  snprintf(why, sizeof why, "what rank %d sends is damaged", g->base.ranks[from]);
  tli_break(g, why);
}

static bool receive_some(tli_Shm *g, int from) {
  tli_Incoming *i = &g->incoming[from];
  tli_Ring *ring = tli_ring(g, from, g->base.rank);
  bool moved = false;
  for (;;) {
    if (!i->has_head) {
      if (ring_filled(ring) < (int64_t)sizeof i->head) break;
      ring_take(ring, &i->head, sizeof i->head);
      i->has_head = moved = true;
      if (i->head.bytes < 0) damaged(g, from);
    }
    if (i->head.bytes < 0) break; /* an invalid header makes the rest of the ring meaningless */
    if (i->to == NULL && i->stash == NULL && !place(g, from, i)) break;
    char *to = i->to ? i->to->out[0].data : i->stash->data;
    int64_t n = ring_take(ring, to + i->at, i->head.bytes - i->at);
    i->at += n;
    moved |= n > 0;
    if (i->at < i->head.bytes) break;
    message_ends(g, from, i);
    moved = true;
  }
  if (moved) tli_shm_wake(g, from);
  return moved;
}

/* Passes a stashed message to a new call, if one matches the call. */
static bool take_kept(tli_Shm *g, tli_Work *w) {
  for (int from = 0; from < g->base.size; from++) {
    for (tli_Stash **at = &g->incoming[from].kept; *at; at = &(*at)->next) {
      tli_Stash *s = *at;
      if (!meets(w, from, s->head.tag)) continue;
      *at = s->next;
      if (fits(g, w, from, &s->head)) {
        memcpy(w->out[0].data, s->data, (size_t)s->head.bytes);
        tli_work_end(w, true);
      }
      stash_free(s);
      return true;
    }
  }
  return false;
}

/* ---- sending and receiving ------------------------------------------------------------ */

void tli_message_post(tli_Group *group, tli_Work *w) {
  tli_Shm *g = tli_shm(group);
  if (w->kind == TLI_SEND)
    tli_work_append(&g->sends[w->root], w);
  else if (!take_kept(g, w))
    tli_work_append(&g->posted, w);
}

bool tli_messages_move(tli_Shm *g) {
  bool moved = false;
  for (int r = 0; r < g->base.size; r++) {
    if (g->sends[r]) moved |= send_some(g, r);
    if (r != g->base.rank && (g->posted || g->incoming[r].to || g->incoming[r].stash))
      moved |= receive_some(g, r);
  }
  return moved;
}

bool tli_messages_active(const tli_Shm *g) {
  for (int r = 0; r < g->base.size; r++)
    if (g->sends[r] || g->incoming[r].to) return true;
  return g->posted != NULL;
}

const tli_Work *tli_messages_urgent(const tli_Shm *g) {
  const tli_Work *best = NULL;
  for (const tli_Work *w = g->posted; w; w = w->next)
    if (best == NULL || w->deadline < best->deadline) best = w;
  for (int r = 0; r < g->base.size; r++) {
    const tli_Work *some[] = {g->sends[r], g->incoming[r].to};
    for (int i = 0; i < 2; i++)
      if (some[i] && (best == NULL || some[i]->deadline < best->deadline)) best = some[i];
  }
  return best;
}

static void fail_list(tli_Work **list) {
  while (*list) {
    tli_Work *w = *list;
    *list = w->next;
    tli_work_end(w, false);
  }
}

void tli_messages_fail(tli_Group *group) {
  tli_Shm *g = tli_shm(group);
  fail_list(&g->posted);
  for (int r = 0; r < g->base.size; r++) {
    fail_list(&g->sends[r]);
    if (g->incoming[r].to) tli_work_end(g->incoming[r].to, false);
    g->incoming[r].to = NULL;
  }
}

void tli_messages_free(tli_Shm *g) {
  for (int r = 0; r < g->base.size; r++) {
    if (g->incoming[r].stash) stash_free(g->incoming[r].stash);
    while (g->incoming[r].kept) {
      tli_Stash *s = g->incoming[r].kept;
      g->incoming[r].kept = s->next;
      stash_free(s);
    }
  }
}
