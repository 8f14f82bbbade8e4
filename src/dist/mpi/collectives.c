/*
** collectives.c - collectives over MPI. The functions use MPI's own collectives if the tensors'
** layout allows it, and point-to-point messages otherwise. float16 and bfloat16 are summed as
** float32.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/element.h"
#include "dist/mpi/mpi.h"

/* The largest number of bytes or elements in one MPI call. */
#define PIECE ((int64_t)1 << 30)
#define ELEMENTS ((int64_t)1 << 26)

/* The header of a call. Every rank sends its header to all ranks before the call. */
typedef struct CallInfo {
  uint64_t hash;
  int64_t bytes; /* number of bytes of this rank's part in a gather or an all_gather; otherwise 0 */
} CallInfo;

/* ---- requests ------------------------------------------------------------------------ */

/* Begins a request; `call` is an expression that calls an MPI function. */
#define BEGIN(m, code, call)         \
  do {                               \
    tli_mutex_lock(&tli_mpi_lock);   \
    code = (call);                   \
    tli_mutex_unlock(&tli_mpi_lock); \
  } while (0)

static bool finish_one(tli_MpiGroup *m, tli_Work *w, int code, tli_MpiRequest *q) {
  return tli_mpi_ok(m->mpi, code) && tli_mpi_finish(m, w, q, 1);
}

/* A list of requests that can grow. */
typedef struct Requests {
  tli_MpiRequest *q; /* owned */
  int n, room, code;
} Requests;

static tli_MpiRequest *more(Requests *r) {
  if (r->n == r->room) {
    int room = 2 * r->room + 16;
    tli_MpiRequest *q = realloc(r->q, (size_t)room * sizeof *q);
    if (q == NULL) return NULL;
    r->q = q;
    r->room = room;
  }
  return &r->q[r->n++];
}

/* Sends a part to a rank, or receives one, in pieces of at most PIECE bytes. */
static bool move_part(tli_MpiGroup *m, Requests *r, bool sends, tli_Part part, int peer) {
  for (int64_t at = 0; at < part.bytes && r->code == 0; at += PIECE) {
    int bytes = (int)(part.bytes - at < PIECE ? part.bytes - at : PIECE);
    tli_MpiRequest *q = more(r);
    if (q == NULL) return tli_fail(TL_EMEM, "mpi: no memory for requests");
    if (sends)
      BEGIN(m, r->code, m->mpi->send(m->comm, false, part.data + at, bytes, peer, 0, q));
    else
      BEGIN(m, r->code, m->mpi->receive(m->comm, false, part.data + at, bytes, peer, 0, q));
    if (r->code) r->n--;
  }
  return true;
}

static bool finish_all(tli_MpiGroup *m, tli_Work *w, Requests *r, bool begun) {
  bool ok = begun && tli_mpi_ok(m->mpi, r->code);
  if (!ok)
    tli_mpi_abandon(m, w);
  else if ((ok = tli_mpi_finish(m, w, r->q, r->n)))
    /* after a failure MPI may still use the array of requests, so it is freed only after success */
    free(r->q);
  return ok;
}

/* ---- checking that all ranks make the same call ------------------------------------------- */

static bool differs(tli_MpiGroup *m, tli_Work *w, const CallInfo *infos) {
  const tli_Group *g = &m->base;
  tli_Status *all = calloc((size_t)g->size, sizeof *all);
  tli_MpiRequest q;
  int code, other = 0;
  if (all == NULL) return tli_fail(TL_EMEM, "mpi: out of memory");
  BEGIN(m, code, m->mpi->all_gather(m->comm, &m->report.status, sizeof *all, all, &q));
  if (!finish_one(m, w, code, &q)) return false;
  while (other + 1 < g->size && infos[other].hash == infos[0].hash) other++;
  char first[240], second[240], why[600];
  tli_status_text(&all[0], g, first, sizeof first);
  tli_status_text(&all[other], g, second, sizeof second);
  free(all);
  snprintf(why, sizeof why, "ranks make different calls: rank %d %s, rank %d %s", g->ranks[0],
           first, g->ranks[other], second);
  return tli_report_publish(&m->base, &m->report, why);
}

static int64_t own_bytes(const tli_Work *w) {
  if (w->kind == TLI_ALL_GATHER || w->kind == TLI_GATHER) return w->in[0].bytes;
  return 0;
}

/* Exchanges the headers of all ranks' calls and compares them. Returns the headers in a block for
** free(), or NULL with a message if the calls differ. Like a barrier, the function waits for all
** ranks. */
static CallInfo *tell(tli_MpiGroup *m, tli_Work *w) {
  const tli_Group *g = &m->base;
  /* the block also has the outgoing header, so that it can be left to MPI, which may still read it
  ** after a failure */
  CallInfo *infos = calloc((size_t)g->size + 1, sizeof *infos);
  tli_MpiRequest q;
  int code;
  if (infos == NULL) return tli_fail_null(TL_EMEM, "mpi: out of memory");
  CallInfo *mine = &infos[g->size];
  *mine = (CallInfo){w->hash, own_bytes(w)};
  BEGIN(m, code, m->mpi->all_gather(m->comm, mine, sizeof *mine, infos, &q));
  if (!finish_one(m, w, code, &q)) return NULL;
  for (int r = 0; r < g->size; r++) {
    if (infos[r].hash == infos[0].hash) continue;
    differs(m, w, infos);
    free(infos);
    return NULL;
  }
  return infos;
}

static bool wrong_size(tli_MpiGroup *m, const tli_Work *w, int from, int64_t came,
                       int64_t expected) {
  const tli_Group *g = &m->base;
  char why[400], text[240];
  tli_status_text(&w->status, g, text, sizeof text);
  snprintf(why, sizeof why, "%s: rank %d expects %lld bytes from rank %d, which has %lld", text,
           g->ranks[g->rank], (long long)expected, g->ranks[from], (long long)came);
  return tli_report_publish(&m->base, &m->report, why);
}

/* ---- moving data without arithmetic ----------------------------------------------------- */

static bool broadcast(tli_MpiGroup *m, tli_Work *w, tli_Part part, int root) {
  for (int64_t at = 0; at < part.bytes; at += PIECE) {
    int bytes = (int)(part.bytes - at < PIECE ? part.bytes - at : PIECE), code;
    tli_MpiRequest q;
    BEGIN(m, code, m->mpi->broadcast(m->comm, part.data + at, bytes, root, &q));
    TL_TRY(finish_one(m, w, code, &q));
  }
  return true;
}

/* Returns whether the parts have equal sizes, lie contiguously in memory, and have a total size
** that MPI can count. */
static bool together(const tli_Part *parts, int n) {
  for (int i = 1; i < n; i++)
    if (parts[i].bytes != parts[0].bytes || parts[i].data != parts[i - 1].data + parts[0].bytes)
      return false;
  return parts[0].bytes * n <= PIECE;
}

static void copy(tli_Part to, tli_Part from) {
  if (to.bytes > 0 && to.data != from.data) memmove(to.data, from.data, (size_t)to.bytes);
}

static bool check_sizes(tli_MpiGroup *m, const tli_Work *w, const CallInfo *infos) {
  for (int r = 0; r < m->base.size; r++)
    if (infos[r].bytes != w->out[r].bytes)
      return wrong_size(m, w, r, infos[r].bytes, w->out[r].bytes);
  return true;
}

static bool all_gather(tli_MpiGroup *m, tli_Work *w, const CallInfo *infos) {
  const tli_Group *g = &m->base;
  tli_Part in = w->in[0];
  TL_TRY(check_sizes(m, w, infos));
  bool even = true; /* whether the parts have equal sizes; the value is the same on all ranks */
  for (int r = 1; r < g->size; r++) even &= infos[r].bytes == infos[0].bytes;
  if (even && in.bytes * g->size <= PIECE) {
    bool apart = !together(w->out, g->size) || in.data == w->out[g->rank].data;
    size_t room = (size_t)(in.bytes * g->size) + 1;
    char *all = apart ? malloc(room) : w->out[0].data;
    tli_MpiRequest q;
    int code;
    if (all == NULL) return tli_fail(TL_EMEM, "mpi: no memory for %zu bytes", room);
    BEGIN(m, code, m->mpi->all_gather(m->comm, in.data, (int)in.bytes, all, &q));
    TL_TRY(finish_one(m, w, code, &q));
    if (!apart) return true;
    for (int r = 0; r < g->size; r++) copy(w->out[r], (tli_Part){all + r * in.bytes, in.bytes});
    free(all);
    return true;
  }
  copy(w->out[g->rank], in);
  for (int r = 0; r < g->size; r++) TL_TRY(broadcast(m, w, w->out[r], r));
  return true;
}

static bool gather(tli_MpiGroup *m, tli_Work *w, const CallInfo *infos) {
  const tli_Group *g = &m->base;
  Requests r = {0};
  bool ok = true;
  if (g->rank != w->root) return finish_all(m, w, &r, move_part(m, &r, true, w->in[0], w->root));
  TL_TRY(check_sizes(m, w, infos));
  copy(w->out[g->rank], w->in[0]);
  for (int i = 0; i < g->size && ok; i++)
    if (i != g->rank) ok = move_part(m, &r, false, w->out[i], i);
  return finish_all(m, w, &r, ok);
}

/* Moves a part from each rank to each rank (all_to_all), or only from the root to each rank
** (scatter). The ranks exchange the parts' sizes first. */
static bool exchange(tli_MpiGroup *m, tli_Work *w, int root) {
  const tli_Group *g = &m->base;
  bool gives = root < 0 || root == g->rank;
  int64_t *sizes = calloc((size_t)g->size * 2, sizeof *sizes);
  tli_MpiRequest q;
  int code;
  if (sizes == NULL) return tli_fail(TL_EMEM, "mpi: out of memory");
  int64_t *came = sizes + g->size;
  for (int i = 0; gives && i < g->size; i++) sizes[i] = w->in[i].bytes;
  BEGIN(m, code, m->mpi->all_to_all(m->comm, sizes, sizeof *sizes, came, &q));
  TL_TRY(finish_one(m, w, code, &q));
  Requests r = {0};
  bool ok = true;
  for (int i = 0; i < g->size && ok; i++) {
    tli_Part to = w->out[root < 0 ? i : 0];
    if (root >= 0 && i != root) continue;
    if (came[i] != to.bytes) {
      ok = wrong_size(m, w, i, came[i], to.bytes);
    } else if (i != g->rank) {
      ok = move_part(m, &r, false, to, i);
    } else {
      copy(to, w->in[i]);
    }
  }
  for (int i = 0; gives && i < g->size && ok; i++)
    if (i != g->rank) ok = move_part(m, &r, true, w->in[i], i);
  free(sizes);
  return finish_all(m, w, &r, ok);
}

/* ---- arithmetic ------------------------------------------------------------------------ */

static bool type_of(tl_DType dtype, tli_MpiType *type) {
  int bytes = tli_dtype_bytes[dtype];
  bool known = !tli_is_half(dtype) || dtype == TL_F16 || dtype == TL_BF16;
  if (tli_is_float(dtype) && known) {
    *type = bytes == 8 ? TLI_MPI_F64 : TLI_MPI_F32; /* half types are summed as float32 */
  } else if (dtype == TL_BOOL || dtype == TL_U8) {
    *type = TLI_MPI_U8;
  } else if (tli_dtype_category(dtype) == TLI_INT) {
    *type = bytes == 1   ? TLI_MPI_I8
            : bytes == 2 ? TLI_MPI_I16
            : bytes == 4 ? TLI_MPI_I32
                         : TLI_MPI_I64;
  } else {
    return tli_fail(TL_EDTYPE, "mpi: %s cannot be reduced", tl_dtype_name(dtype));
  }
  return true;
}

static tli_MpiOp op_of(tli_Reduction r, tl_DType dtype) {
  static const tli_MpiOp ops[] = {/* ORDER REDUCE: the MPI operation for each reduction */
                                  TLI_MPI_SUM, TLI_MPI_SUM,  TLI_MPI_PRODUCT, TLI_MPI_MIN,
                                  TLI_MPI_MAX, TLI_MPI_BAND, TLI_MPI_BOR,     TLI_MPI_BXOR};
  if (dtype == TL_BOOL && r == TLI_REDUCE_SUM) return TLI_MPI_MAX;
  if (dtype == TL_BOOL && r == TLI_REDUCE_PRODUCT) return TLI_MPI_MIN;
  return ops[r];
}

/* For each half type, defines a function that converts elements to float, and a function that
** converts floats to that type. */
#define X(name, text, bytes, category, ...)                                            \
  static void widen_##name(const void *from, float *to, int64_t n) {                   \
    const tli_##name *x = from;                                                        \
    for (int64_t i = 0; i < n; i++) to[i] = (float)tli_read_##name(x[i]);              \
  }                                                                                    \
  static void narrow_##name(const float *from, void *to, int64_t n) {                  \
    tli_##name *x = to;                                                                \
    for (int64_t i = 0; i < n; i++) x[i] = tli_write_##name((tli_wide_##name)from[i]); \
  }
X(F16, , , )
X(BF16, , , )
#undef X

static void widen(tl_DType dtype, const void *from, float *to, int64_t n) {
  (dtype == TL_F16 ? widen_F16 : widen_BF16)(from, to, n);
}
static void narrow(tl_DType dtype, const float *from, void *to, int64_t n) {
  (dtype == TL_F16 ? narrow_F16 : narrow_BF16)(from, to, n);
}

/* Divides values that were summed over `size` ranks by `size`, which gives the mean. */
static void divide(tli_MpiType type, void *data, int64_t n, int size) {
  if (type == TLI_MPI_F64)
    for (int64_t i = 0; i < n; i++) ((double *)data)[i] /= size;
  else
    for (int64_t i = 0; i < n; i++) ((float *)data)[i] /= (float)size;
}

/* Reduces the ranks' tensors. If root is -1, all ranks get the result; otherwise only the root
** does. */
static bool reduce(tli_MpiGroup *m, tli_Work *w, int root) {
  tli_Part part = w->out[0];
  bool half = tli_is_half(w->dtype), takes = root < 0 || root == m->base.rank;
  int64_t each = tli_dtype_bytes[w->dtype], total = part.bytes / each;
  int64_t most = total < ELEMENTS ? total : ELEMENTS;
  tli_MpiType type;
  TL_TRY(type_of(w->dtype, &type));
  float *wide = half ? malloc((size_t)most * sizeof *wide + 1) : NULL;
  if (half && wide == NULL) return tli_fail(TL_EMEM, "mpi: out of memory");
  for (int64_t at = 0; at < total; at += ELEMENTS) {
    int64_t n = total - at < ELEMENTS ? total - at : ELEMENTS;
    char *data = part.data + at * each;
    tli_MpiRequest q;
    int code;
    if (half) widen(w->dtype, data, wide, n);
    void *on = half ? (void *)wide : data;
    tli_MpiOp op = op_of(w->reduce, w->dtype);
    BEGIN(m, code, m->mpi->reduce(m->comm, on, (int)n, type, op, root, &q));
    TL_TRY(finish_one(m, w, code, &q));
    if (!takes) continue;
    if (w->reduce == TLI_REDUCE_AVG) divide(type, on, n, m->base.size);
    if (half) narrow(w->dtype, wide, data, n);
  }
  free(wide);
  return true;
}

/* Reduces the tensors in pieces. MPI requires the inputs of a piece to be contiguous, so they are
** copied. */
static bool reduce_scatter(tli_MpiGroup *m, tli_Work *w) {
  int size = m->base.size;
  tli_Part to = w->out[0];
  tli_MpiType type;
  TL_TRY(type_of(w->dtype, &type));
  bool half = tli_is_half(w->dtype);
  int64_t each = tli_dtype_bytes[w->dtype], wide = half ? 4 : each, total = to.bytes / each;
  int64_t most = ELEMENTS / size < total ? ELEMENTS / size : total;
  char *in = malloc((size_t)(most * wide * (size + 1)) + 1);
  if (in == NULL) return tli_fail(TL_EMEM, "mpi: out of memory");
  char *out = in + most * wide * size;
  for (int64_t at = 0; at < total; at += most) {
    int64_t n = total - at < most ? total - at : most;
    tli_MpiRequest q;
    int code;
    for (int r = 0; r < size; r++) {
      const char *from = w->in[r].data + at * each;
      if (half)
        widen(w->dtype, from, (float *)(void *)(in + r * n * wide), n);
      else
        memcpy(in + r * n * wide, from, (size_t)(n * each));
    }
    BEGIN(m, code,
          m->mpi->reduce_scatter(m->comm, in, out, (int)n, type, op_of(w->reduce, w->dtype), &q));
    TL_TRY(finish_one(m, w, code, &q));
    if (w->reduce == TLI_REDUCE_AVG) divide(type, out, n, size);
    if (half)
      narrow(w->dtype, (float *)(void *)out, to.data + at * each, n);
    else
      memcpy(to.data + at * each, out, (size_t)(n * each));
  }
  free(in);
  return true;
}

bool tli_mpi_collective(tli_Group *g, tli_Work *w) {
  tli_MpiGroup *m = tli_mpi_group(g);
  CallInfo *infos = tell(m, w);
  bool ok = infos != NULL;
  TL_TRY(ok);
  switch (w->kind) {
  case TLI_BARRIER: break;
  case TLI_BROADCAST: ok = broadcast(m, w, w->out[0], w->root); break;
  case TLI_ALL_REDUCE: ok = reduce(m, w, -1); break;
  case TLI_REDUCE: ok = reduce(m, w, w->root); break;
  case TLI_ALL_GATHER: ok = all_gather(m, w, infos); break;
  case TLI_GATHER: ok = gather(m, w, infos); break;
  case TLI_SCATTER: ok = exchange(m, w, w->root); break;
  case TLI_REDUCE_SCATTER: ok = reduce_scatter(m, w); break;
  case TLI_ALL_TO_ALL:
  case TLI_SEND:
  case TLI_RECV:
  case TLI_NCOLLECTIVES: ok = exchange(m, w, -1); break;
  }
  free(infos);
  return ok;
}
