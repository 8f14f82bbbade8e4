/*
** shm.c - joining and leaving groups in shared memory, and the function table of that transport.
*/
#include "dist/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/parallel.h"

static int64_t align(int64_t n) { return (n + 4095) / 4096 * 4096; }

static size_t bytes_for(int64_t size) {
  return (size_t)(align(sizeof(tli_Header)) + align(size * (int64_t)sizeof(tli_ShmRank)) +
                  align(size * size * (int64_t)sizeof(tli_Ring)) + size * 2 * TLI_SLOT);
}

static void lay_out(tli_Shm *g) {
  char *at = g->share.data;
  g->header = (tli_Header *)(void *)at;
  at += align(sizeof(tli_Header));
  g->lines = (tli_ShmRank *)(void *)at;
  at += align(g->base.size * (int64_t)sizeof(tli_ShmRank));
  g->rings = (tli_Ring *)(void *)at;
  at += align((int64_t)g->base.size * g->base.size * (int64_t)sizeof(tli_Ring));
  g->slots = at;
}

/* Opens the shared memory. Rank 0 creates it and publishes its name in the store. */
static bool open_share(tli_Shm *g, tli_Store *store, const char *name) {
  char key[256], file[TLI_SHARE_NAME];
  snprintf(key, sizeof key, "%s/shm", name);
  if (g->base.rank == 0)
    return tli_share_make(&g->share, bytes_for(g->base.size), file) &&
           tli_store_set(store, key, file, strlen(file));
  char *value = tli_store_get(store, key, NULL, g->base.timeout);
  if (value == NULL) {
    char why[300];
    snprintf(why, sizeof why, "%s", tl_error());
    return tli_fail(tl_error_kind(), "rank %d is missing: %s", g->base.ranks[0], why);
  }
  bool ok = tli_share_open(&g->share, value, bytes_for(g->base.size));
  free(value);
  return ok;
}

/* Fails if another process has the same rank. A counter in the store for each rank tells how many
** processes have claimed it. */
static bool take_number(tli_Shm *g, tli_Store *store, const char *name) {
  char key[256];
  int64_t came;
  snprintf(key, sizeof key, "%s/rank/%d", name, g->base.rank);
  TL_TRY(tli_store_add(store, key, 1, &came));
  if (came == 1) return true;
  return tli_fail(TL_EARG, "rank %d is taken by another process", g->base.ranks[g->base.rank]);
}

static void list_absent(const tli_Shm *g, char *out, size_t size) {
  int n = 0, at = 0;
  out[0] = '\0';
  for (int r = 0; r < g->base.size && at < (int)size - 16; r++)
    if (!tli_share_claimed(&g->share, r) && r != g->base.rank)
      at += snprintf(out + at, size - (size_t)at, "%s%d", n++ ? ", " : "", g->base.ranks[r]);
}

/* Waits until all ranks have joined. */
static bool meet(tli_Shm *g) {
  tli_ShmRank *state = tli_shm_rank(g, g->base.rank);
  int64_t deadline = tli_now_ns() + g->base.timeout;
  atomic_fetch_add(&g->header->joined, 1);
  for (int r = 0; r < g->base.size; r++) {
    atomic_fetch_add(&tli_shm_rank(g, r)->wake_count, 1);
    tli_word_wake(&tli_shm_rank(g, r)->wake_count);
  }
  for (;;) {
    unsigned seen = atomic_load(&state->wake_count);
    if (atomic_load(&g->header->broken)) return tli_broken(g);
    if (atomic_load(&g->header->joined) >= g->base.size) return true;
    if (tli_now_ns() >= deadline) break;
    tli_word_wait(&state->wake_count, seen, 20000000);
    TL_TRY(tli_go_on());
  }
  char absent[300], why[500];
  list_absent(g, absent, sizeof absent);
  snprintf(why, sizeof why, "of %d ranks these did not join within %.3g s: %s", g->base.size,
           (double)g->base.timeout / 1e9, absent);
  tli_break(g, why);
  return tli_broken(g);
}

static bool join(tli_Group *group, tli_Store *store, const char *name) {
  tli_Shm *g = tli_shm(group);
  g->checked = true;
  TL_TRY(take_number(g, store, name));
  TL_TRY(open_share(g, store, name));
  lay_out(g);
  group->wake_count = &tli_shm_rank(g, group->rank)->wake_count;
  group->sleepers = &tli_shm_rank(g, group->rank)->sleepers;
  if (!tli_share_claim(&g->share, g->base.rank))
    return tli_fail(TL_EARG, "rank %d is taken by another process", g->base.ranks[g->base.rank]);
  tli_status_set(g, &(tli_Status){.dtype = -1}, false);
  return meet(g);
}

static void leave(tli_Group *group) {
  tli_Shm *g = tli_shm(group);
  if (g->lines) {
    atomic_store(&tli_shm_rank(g, group->rank)->left, true);
    for (int r = 0; r < group->size; r++) tli_shm_wake(g, r);
  }
  tli_messages_free(g);
  tli_commons_leave(g);
  tli_share_close(&g->share);
}

static bool usable(tli_Group *g) {
  return atomic_load(&tli_shm(g)->header->broken) == 0 || tli_broken(tli_shm(g));
}

static void note(tli_Group *g, const tli_Status *s, bool active) {
  tli_status_set(tli_shm(g), s, active);
}

static bool move(tli_Group *group, bool slept) {
  tli_Shm *g = tli_shm(group);
  bool moved = tli_messages_move(g);
  const tli_Work *urgent = tli_messages_urgent(g);
  tli_Wait wait = {.message = urgent, .work = urgent};
  if (urgent && !tli_wait_goes_on(g, &wait, slept)) tli_messages_fail(group);
  return moved;
}

/* Waits until a message that was begun has ended. */
static bool await(tli_Group *g, tli_Work *w) {
  tli_Wait wait = {.message = w, .work = w};
  return tli_await(tli_shm(g), &wait);
}

static void abort_group(tli_Group *g, const char *why) { tli_break(tli_shm(g), why); }

const tli_Transport tli_transport_shm = {
    .name = "shm",
    .bytes = sizeof(tli_Shm),
    .most = TLI_SHM_RANKS,
    .nap = 20000000,
    .join = join,
    .leave = leave,
    .usable = usable,
    .note = note,
    .collective = tli_shm_collective,
    .post = tli_message_post,
    .move = move,
    .await = await,
    .fail = tli_messages_fail,
    .abort = abort_group,
    .common = tli_shm_common,
};
