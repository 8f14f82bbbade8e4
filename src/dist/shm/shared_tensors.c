/*
** shared_tensors.c - memory that all ranks of a group have mapped. Each rank has a tensor in this
** memory and can access the other ranks' tensors, so reductions of such tensors need no copies
** (collectives.c).
**
** When a rank leaves the group, its tensor keeps the mapping and becomes ordinary memory. Ranks may
** free their tensors at different times. So before the ranks access one another's tensors, they
** check by marks that they all use the same shared memory.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "dist/shm/shm.h"

typedef struct tli_Common {
  struct tli_Common *next;
  tli_Shm *group; /* the group (borrowed); NULL after the rank has left it */
  tli_Share share;
  int64_t number; /* number of this memory among the shared memories of its group, counted from 1 */
  int64_t stride; /* size in bytes of each rank's part of the memory */
} tli_Common;

/* A mark identifies a tensor in shared memory. It consists of the memory's number and the tensor's
** offset in bytes, which has this many bits. */
enum { OFFSET_BITS = 40 };

static tli_Mutex lock = TLI_MUTEX_INIT; /* guards the list of memories */
static tli_Common *all;

/* ---- the list of shared memories ------------------------------------------------------ */

static void keep(tli_Common *c) {
  tli_mutex_lock(&lock);
  c->next = all;
  all = c;
  tli_mutex_unlock(&lock);
}

static void common_free(tli_Common *c) {
  tli_share_close(&c->share);
  tli_free(c, sizeof *c);
}

/* Frees the memory; called when no tensor uses the memory any more. */
static void drop(void *data, void *context) {
  (void)data;
  tli_Common *c = context;
  tli_mutex_lock(&lock);
  for (tli_Common **at = &all; *at; at = &(*at)->next) {
    if (*at != c) continue;
    *at = c->next;
    break;
  }
  tli_mutex_unlock(&lock);
  common_free(c);
}

void tli_commons_leave(const tli_Shm *g) {
  tli_mutex_lock(&lock);
  for (tli_Common *c = all; c; c = c->next)
    if (c->group == g) c->group = NULL;
  tli_mutex_unlock(&lock);
}

static const char *part_of(const tli_Common *c, int rank) {
  return (const char *)c->share.data + c->stride * rank;
}

/* Finds `part` in this rank's shared memory, and the corresponding parts of the other ranks. The
** result stays valid, because the call holds the tensor and the tensor holds the memory. */
tli_CommonPart tli_common_find(const tli_Shm *g, tli_Part part) {
  tli_CommonPart found = {0};
  tli_mutex_lock(&lock);
  for (tli_Common *c = all; c; c = c->next) {
    if (c->group != g || part.data < part_of(c, g->base.rank)) continue;
    int64_t at = part.data - part_of(c, g->base.rank);
    if (at + part.bytes > c->stride) continue;
    found =
        (tli_CommonPart){(c->number << OFFSET_BITS) + at, (char *)c->share.data + at, c->stride};
    break;
  }
  tli_mutex_unlock(&lock);
  return found;
}

/* ---- creating ----------------------------------------------------------------------- */

/* Runs a collective of a few bytes and waits until it is complete. */
static bool call(tli_Group *g, tli_Collective kind, tli_Reduction reduce, void *data, int64_t n) {
  tl_Tensor *t = tli_wrap("common", TLI_CPU, data, TL_U8, 1, &n, NULL, NULL, NULL);
  TL_TRY(t);
  tli_Call c = {.kind = kind, .reduce = reduce, .out = {1, &t}};
  tli_Work *w = tli_group_start(g, &c, false);
  tli_release(t);
  TL_TRY(w);
  bool ok = tli_work_wait(w, 0);
  tli_work_release(w);
  return ok;
}

/* Maps the memory on all ranks. If one rank fails, no rank maps it. */
static bool open_share(tli_Group *g, tli_Share *share, size_t bytes) {
  char name[TLI_SHARE_NAME] = "";
  bool made = g->rank == 0 && tli_share_make(share, bytes, name);
  TL_TRY(call(g, TLI_BROADCAST, TLI_REDUCE_SUM, name, TLI_SHARE_NAME));
  name[TLI_SHARE_NAME - 1] = '\0';
  uint8_t ok = g->rank == 0 ? made : name[0] != '\0' && tli_share_open(share, name, bytes);
  TL_TRY(call(g, TLI_ALL_REDUCE, TLI_REDUCE_MIN, &ok, 1));
  tli_share_hide(share);
  if (!ok) tli_share_close(share);
  tli_error_clear();
  return true;
}

static tl_Tensor *own_tensor(tli_Common *c, tl_DType dtype, int64_t n) {
  char *data = (char *)c->share.data + c->stride * c->group->base.rank;
  tl_Tensor *t = tli_wrap("common", TLI_CPU, data, dtype, 1, &n, NULL, drop, c);
  if (t) keep(c);
  return t;
}

bool tli_shm_common(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out) {
  int64_t stride = (n * tli_dtype_bytes[dtype] + 4095) / 4096 * 4096;
  tli_Common *c = tli_alloc(sizeof *c);
  TL_TRY(c);
  *c = (tli_Common){.group = tli_shm(g), .number = ++tli_shm(g)->commons, .stride = stride};
  bool ok = open_share(g, &c->share, (size_t)(stride * g->size));
  if (ok && c->share.data) ok = (*out = own_tensor(c, dtype, n)) != NULL;
  if (*out == NULL) common_free(c);
  return ok;
}
