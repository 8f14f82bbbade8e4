/*
** collectives.c - collectives in rounds (shm.h). Large tensors pass through the slots in pieces
** that stay in the caches. Each rank that needs the result of a reduction computes the result
** itself, in the order of ranks. If there are many ranks, or the tensor is large, each rank instead
** reduces one section, and the ranks exchange their sections. For tensors in shared memory
** (shared_tensors.c), each rank reduces its section directly from all tensors and writes the result
** to all of them, without the slots.
*/
#include <stdio.h>
#include <string.h>

#include "dist/shm/shm.h"

/* A reduction is divided among the ranks if the tensor has at least SHARED_FROM bytes and there are
** at least MANY ranks, or if the tensor has at least SHARED_FROM_FEW bytes. */
enum { MANY = 4, SHARED_FROM = 16384, SHARED_FROM_FEW = 2 << 20 };
#define STEP ((int64_t)16 << 10)

/* ---- rounds ---------------------------------------------------------------------- */

static bool differs(tli_Shm *g, int rank) {
  char mine[240], theirs[240], why[600];
  tli_Status a = tli_status_of(g, g->base.rank), b = tli_status_of(g, rank);
  tli_status_text(&a, &g->base, mine, sizeof mine);
  tli_status_text(&b, &g->base, theirs, sizeof theirs);
  snprintf(why, sizeof why, "ranks make different calls: rank %d %s, rank %d %s",
           g->base.ranks[g->base.rank], mine, g->base.ranks[rank], theirs);
  tli_break(g, why);
  return tli_broken(g);
}

/* Checks that the published round of rank `who`, or of all ranks if `who` is -1, belongs to the
** same call as this rank's round. */
static bool same_call(tli_Shm *g, int who) {
  for (int r = 0; r < g->base.size; r++) {
    if (r == g->base.rank || (who >= 0 && r != who)) continue;
    if (tli_shm_rank(g, r)->round[g->step & 1].hash != g->hash) return differs(g, r);
  }
  if (who < 0) g->checked = true;
  return true;
}

/* Begins a round. Returns this rank's slot for the round, or NULL on failure. */
static char *begin(tli_Shm *g, const tli_Work *w) {
  tli_Wait all = {.step = g->step, .who = -1, .work = w};
  TL_TRY_NULL(tli_await(g, &all));
  if (!g->checked && !same_call(g, -1)) return NULL;
  return tli_slot(g, g->base.rank, g->step + 1);
}

/* Publishes this rank's round, then waits until other ranks have published theirs: all ranks if
** `who` is -1, no rank if it is -2, otherwise rank `who`. */
static bool publish(tli_Shm *g, const tli_Work *w, int64_t most, int who) {
  tli_ShmRank *state = tli_shm_rank(g, g->base.rank);
  uint64_t step = ++g->step;
  state->round[step & 1].hash = g->hash = w->hash;
  state->round[step & 1].most = most;
  g->checked = false;
  atomic_store(&state->step, step);
  for (int r = 0; r < g->base.size; r++)
    if (r != g->base.rank) tli_shm_wake(g, r);
  if (who == -2 || who == g->base.rank) return true;
  tli_Wait wait = {.step = step, .who = who, .work = w};
  return tli_await(g, &wait) && same_call(g, who);
}

/* Returns the maximum of the values `most` that the ranks have published in this round. */
static int64_t most_of_all(const tli_Shm *g) {
  int64_t most = 0;
  for (int r = 0; r < g->base.size; r++) {
    int64_t m = tli_shm_rank(g, r)->round[g->step & 1].most;
    if (m > most) most = m;
  }
  return most;
}

static const char *slot_of(const tli_Shm *g, int rank) { return tli_slot(g, rank, g->step); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the number of bytes in a part after position `at`, but at most `room`. */
static int64_t piece(tli_Part part, int64_t at, int64_t room) {
  return at >= part.bytes ? 0 : least(part.bytes - at, room);
}

static void copy(char *to, const char *from, int64_t bytes) {
  if (bytes > 0) memcpy(to, from, (size_t)bytes);
}

/* Returns the size in bytes of each rank's section of a slot. */
static int64_t section_bytes(const tli_Shm *g) { return TLI_SLOT / g->base.size / 64 * 64; }

/* ---- collectives ----------------------------------------------------------------- */

static bool barrier(tli_Shm *g, tli_Work *w) { return begin(g, w) && publish(g, w, 0, -1); }

static bool broadcast(tli_Shm *g, tli_Work *w) {
  tli_Part part = w->out[0];
  bool root = g->base.rank == w->root;
  int64_t at = 0;
  do {
    int64_t bytes = piece(part, at, TLI_SLOT);
    char *slot = begin(g, w);
    if (slot == NULL) return false;
    if (root) copy(slot, part.data + at, bytes);
    TL_TRY(publish(g, w, part.bytes, w->root));
    if (!root) copy(part.data + at, slot_of(g, w->root), bytes);
    at += bytes;
  } while (at < part.bytes);
  return true;
}

/* Reduces the data in all ranks' slots, beginning at position `from`. This rank's own data is read
** from its tensor (`own`) instead of its slot, because the tensor is in a nearer cache. */
static void reduce_slots(const tli_Shm *g, const tli_Work *w, char *out, const char *own,
                         int64_t from, int64_t bytes) {
  const void *arrays[TLI_SHM_RANKS];
  for (int r = 0; r < g->base.size; r++) arrays[r] = r == g->base.rank ? own : slot_of(g, r) + from;
  tli_reduce_arrays(w->dtype, w->reduce, out, arrays, g->base.size,
                    bytes / tli_dtype_bytes[w->dtype]);
}

/* Reduces whole tensors, not sections. If `everywhere` is set, all ranks compute the result;
** otherwise only the root does. */
static bool reduce_whole(tli_Shm *g, tli_Work *w, bool everywhere) {
  tli_Part part = w->out[0];
  int64_t at = 0;
  do {
    int64_t bytes = piece(part, at, TLI_SLOT);
    char *slot = begin(g, w);
    if (slot == NULL) return false;
    copy(slot, part.data + at, bytes);
    bool takes = everywhere || g->base.rank == w->root;
    TL_TRY(publish(g, w, part.bytes, takes ? -1 : -2));
    if (takes) reduce_slots(g, w, part.data + at, part.data + at, 0, bytes);
    at += bytes;
  } while (at < part.bytes);
  return true;
}

/* Reduces the section of this rank into its tensor, in steps that fit the first-level cache, and
** copies the result to the rank's slot of the next round. */
static void reduce_section(const tli_Shm *g, const tli_Work *w, char *own, int64_t from,
                           int64_t bytes) {
  char *next = tli_slot(g, g->base.rank, g->step + 1) + from;
  for (int64_t at = 0; at < bytes; at += STEP) {
    int64_t n = least(bytes - at, STEP);
    reduce_slots(g, w, own + at, own + at, from + at, n);
    copy(next + at, own + at, n);
  }
}

/* Copies to this rank's slot the sections that the other ranks reduce. Then reduces this rank's
** section of all slots, and reads the sections that the other ranks have reduced. */
static bool all_reduce_shared(tli_Shm *g, tli_Work *w) {
  tli_Part part = w->out[0];
  int size = g->base.size, rank = g->base.rank;
  for (int64_t at = 0; at < part.bytes; at += TLI_SLOT) {
    int64_t bytes = piece(part, at, TLI_SLOT);
    int64_t section = (bytes / size + 64) / 64 * 64;
    tli_Part whole = {part.data + at, bytes};
    char *slot = begin(g, w);
    if (slot == NULL) return false;
    for (int r = 0; r < size; r++)
      if (r != rank)
        copy(slot + section * r, whole.data + section * r, piece(whole, section * r, section));
    TL_TRY(publish(g, w, part.bytes, -1));
    int64_t mine = piece(whole, section * rank, section);
    if (mine > 0) reduce_section(g, w, whole.data + section * rank, section * rank, mine);
    TL_TRY(publish(g, w, part.bytes, -1));
    for (int r = 0; r < size; r++)
      if (r != rank)
        copy(whole.data + section * r, slot_of(g, r) + section * r,
             piece(whole, section * r, section));
  }
  return true;
}

/* Compares, in one round, the marks that identify the ranks' tensors. Sets *same to whether all
** tensors are in the same shared memory. */
static bool compare_marks(tli_Shm *g, const tli_Work *w, int64_t mark, bool *same) {
  TL_TRY(begin(g, w));
  TL_TRY(publish(g, w, mark, -1));
  *same = mark != 0;
  for (int r = 0; r < g->base.size; r++)
    *same &= tli_shm_rank(g, r)->round[g->step & 1].most == mark;
  return true;
}

/* Reduces this rank's section of all ranks' tensors in place, and writes the result to all of
** them. */
static bool all_reduce_common(tli_Shm *g, const tli_Work *w, tli_CommonPart part) {
  int size = g->base.size, rank = g->base.rank;
  int64_t bytes = w->out[0].bytes, section = (bytes / size + 64) / 64 * 64;
  int64_t end = least(section * (rank + 1), bytes);
  for (int64_t at = section * rank; at < end; at += STEP) {
    int64_t n = least(end - at, STEP);
    const void *arrays[TLI_SHM_RANKS];
    for (int r = 0; r < size; r++) arrays[r] = part.data + part.stride * r + at;
    char *own = part.data + part.stride * rank + at;
    tli_reduce_arrays(w->dtype, w->reduce, own, arrays, size, n / tli_dtype_bytes[w->dtype]);
    for (int r = 0; r < size; r++)
      if (r != rank) copy(part.data + part.stride * r + at, own, n);
  }
  return publish(g, w, 0, -1);
}

static bool all_reduce(tli_Shm *g, tli_Work *w) {
  if (g->commons > 0 && w->out[0].bytes >= TLI_COMMON_FROM) {
    tli_CommonPart part = tli_common_find(g, w->out[0]);
    bool same;
    TL_TRY(compare_marks(g, w, part.mark, &same));
    if (same) return all_reduce_common(g, w, part);
  }
  int64_t from = g->base.size >= MANY ? SHARED_FROM : SHARED_FROM_FEW;
  if (w->out[0].bytes >= from && g->base.size > 1) return all_reduce_shared(g, w);
  return reduce_whole(g, w, true);
}

static bool wrong_size(tli_Shm *g, const tli_Work *w, int from, int64_t came, int64_t expected) {
  char why[400], text[240];
  tli_status_text(&w->status, &g->base, text, sizeof text);
  snprintf(why, sizeof why, "%s: rank %d expects %lld bytes from rank %d, which has %lld", text,
           g->base.ranks[g->base.rank], (long long)expected, g->base.ranks[from], (long long)came);
  tli_break(g, why);
  return tli_broken(g);
}

/* Gathers the parts of all ranks. If `everywhere` is set, all ranks get the parts; otherwise only
** the root does. */
static bool gather(tli_Shm *g, tli_Work *w, bool everywhere) {
  tli_Part part = w->in[0];
  int64_t at = 0, total;
  bool takes = everywhere || g->base.rank == w->root;
  do {
    char *slot = begin(g, w);
    if (slot == NULL) return false;
    copy(slot, part.data + at, piece(part, at, TLI_SLOT));
    TL_TRY(publish(g, w, part.bytes, -1));
    total = most_of_all(g);
    for (int r = 0; takes && r < g->base.size; r++) {
      int64_t came = tli_shm_rank(g, r)->round[g->step & 1].most;
      if (came != w->out[r].bytes) return wrong_size(g, w, r, came, w->out[r].bytes);
      const char *from = r == g->base.rank ? part.data + at : slot_of(g, r);
      if (w->out[r].data + at != from)
        copy(w->out[r].data + at, from, piece(w->out[r], at, TLI_SLOT));
    }
    at += TLI_SLOT;
  } while (at < total);
  return true;
}

static int64_t largest(const tli_Part *parts, int n) {
  int64_t most = 0;
  for (int i = 0; i < n; i++)
    if (parts[i].bytes > most) most = parts[i].bytes;
  return most;
}

/* The number of bytes in front of each section's data. They hold the size of the whole part, of
** which the section is a piece. */
enum { LABEL = 64 };

/* Moves a part from each rank to each rank (all_to_all), or only from the root to each rank
** (scatter). */
static bool exchange(tli_Shm *g, tli_Work *w, int from) {
  int64_t section = section_bytes(g), room = section - LABEL, at = 0, total;
  bool gives = from < 0 || from == g->base.rank;
  do {
    char *slot = begin(g, w);
    if (slot == NULL) return false;
    for (int r = 0; gives && r < g->base.size; r++) {
      memcpy(slot + section * r, &w->in[r].bytes, sizeof(int64_t));
      copy(slot + section * r + LABEL, w->in[r].data + at, piece(w->in[r], at, room));
    }
    TL_TRY(publish(g, w, gives ? largest(w->in, g->base.size) : 0, -1));
    total = most_of_all(g);
    for (int r = from < 0 ? 0 : from; r < (from < 0 ? g->base.size : from + 1); r++) {
      tli_Part to = w->out[from < 0 ? r : 0];
      const char *came = slot_of(g, r) + section * g->base.rank;
      int64_t bytes;
      memcpy(&bytes, came, sizeof bytes);
      if (bytes != to.bytes) return wrong_size(g, w, r, bytes, to.bytes);
      copy(to.data + at, came + LABEL, piece(to, at, room));
    }
    at += room;
  } while (at < total);
  return true;
}

static bool reduce_scatter(tli_Shm *g, tli_Work *w) {
  int64_t section = section_bytes(g), at = 0;
  tli_Part to = w->out[0];
  do {
    char *slot = begin(g, w);
    if (slot == NULL) return false;
    int64_t bytes = piece(to, at, section);
    for (int r = 0; r < g->base.size; r++) copy(slot + section * r, w->in[r].data + at, bytes);
    TL_TRY(publish(g, w, to.bytes, -1));
    reduce_slots(g, w, to.data + at, w->in[g->base.rank].data + at, section * g->base.rank, bytes);
    at += bytes;
  } while (at < to.bytes);
  return true;
}

static bool in_place(tli_Collective kind) {
  return kind == TLI_BROADCAST || kind == TLI_ALL_REDUCE || kind == TLI_REDUCE;
}

bool tli_shm_collective(tli_Group *group, tli_Work *w) {
  tli_Shm *g = tli_shm(group);
  /* with a single rank, the tensor already has the result */
  if (g->base.size == 1 && in_place(w->kind)) return true;
  switch (w->kind) {
  case TLI_BARRIER: return barrier(g, w);
  case TLI_BROADCAST: return broadcast(g, w);
  case TLI_ALL_REDUCE: return all_reduce(g, w);
  case TLI_REDUCE: return reduce_whole(g, w, false);
  case TLI_ALL_GATHER: return gather(g, w, true);
  case TLI_GATHER: return gather(g, w, false);
  case TLI_SCATTER: return exchange(g, w, w->root);
  case TLI_REDUCE_SCATTER: return reduce_scatter(g, w);
  case TLI_ALL_TO_ALL:
  case TLI_SEND:
  case TLI_RECV:
  case TLI_NCOLLECTIVES: break;
  }
  return exchange(g, w, -1);
}
