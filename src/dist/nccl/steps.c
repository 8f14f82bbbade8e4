/*
** steps.c - translates collectives into NCCL operations ("steps"). A collective that NCCL lacks
** becomes messages between pairs of ranks, as NCCL's manual shows, or one NCCL call for each rank;
** all steps run in one NCCL group call. No bytes are copied before or after. Data that is moved
** without arithmetic is sent as bytes.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "dist/nccl/nccl.h"

static bool add(tli_Nccl *n, tl_CommStep step) {
  if (step.count == 0) return true;
  if (n->nsteps == n->room) {
    int room = n->room ? 2 * n->room : 16;
    tl_CommStep *more = tli_alloc((size_t)room * sizeof *more);
    TL_TRY(more);
    if (n->nsteps > 0) memcpy(more, n->steps, (size_t)n->nsteps * sizeof *more);
    tli_free(n->steps, (size_t)n->room * sizeof *more);
    n->steps = more;
    n->room = room;
  }
  n->steps[n->nsteps++] = step;
  return true;
}

static bool move(tli_Nccl *n, tl_CommKind kind, int peer, const void *in, void *out,
                 int64_t bytes) {
  return add(n,
             (tl_CommStep){
                 .kind = kind, .dtype = TL_U8, .peer = peer, .count = bytes, .in = in, .out = out});
}

/* ---- arithmetic ------------------------------------------------------------------------ */

/* Sets *op to NCCL's operation for a reduction. Among bool values, the sum and the maximum are
** logical "or", the product and the minimum logical "and". */
static bool op_of(const tli_Work *w, tl_CommOp *op) {
  bool truth = w->dtype == TL_BOOL;
  switch (w->reduce) {
  case TLI_REDUCE_SUM: *op = truth ? TL_COMM_MAX : TL_COMM_SUM; return true;
  case TLI_REDUCE_PRODUCT: *op = truth ? TL_COMM_MIN : TL_COMM_PROD; return true;
  case TLI_REDUCE_MAX: *op = TL_COMM_MAX; return true;
  case TLI_REDUCE_MIN: *op = TL_COMM_MIN; return true;
  case TLI_REDUCE_AVG: *op = TL_COMM_AVG; return true;
  case TLI_REDUCE_BAND: *op = TL_COMM_MIN; break;
  case TLI_REDUCE_BOR: *op = TL_COMM_MAX; break;
  default: break;
  }
  if (truth && w->reduce != TLI_REDUCE_BXOR) return true;
  return tli_fail(TL_EARG, "%s: op: nccl has no '%s' of %s", tli_collective_names[w->kind],
                  tli_reduction_names[w->reduce], tl_dtype_name(w->dtype));
}

static bool reduce(tli_Nccl *n, const tli_Work *w, tl_CommKind kind, int root, const void *in,
                   void *out, int64_t bytes) {
  tl_CommStep step = {.kind = kind, .peer = root, .in = in, .out = out};
  /* a sum of complex numbers is the sum of the real and of the imaginary parts */
  tl_DType real = tli_real_dtype(w->dtype);
  step.dtype = real == TL_BOOL ? TL_U8 : (int)real;
  step.count = bytes / tli_dtype_bytes[real];
  if (real != w->dtype && w->reduce != TLI_REDUCE_SUM && w->reduce != TLI_REDUCE_AVG)
    return tli_fail(TL_EARG, "%s: op: nccl has no '%s' of %s", tli_collective_names[w->kind],
                    tli_reduction_names[w->reduce], tl_dtype_name(w->dtype));
  if (w->dtype == TL_I16)
    return tli_fail(TL_EDTYPE, "%s: nccl reduces no int16", tli_collective_names[w->kind]);
  return op_of(w, &step.op) && add(n, step);
}

/* ---- calls ----------------------------------------------------------------------------- */

/* Returns whether the parts have equal sizes and lie contiguously in memory. */
static bool in_a_row(const tli_Part *parts, int n, int64_t bytes) {
  for (int i = 0; i < n; i++)
    if (parts[i].bytes != bytes || parts[i].data != parts[0].data + i * bytes) return false;
  return true;
}

static bool all_gather(tli_Nccl *n, const tli_Work *w) {
  int rank = n->base.rank, size = n->base.size;
  tli_Part in = w->in[0];
  if (in_a_row(w->out, size, in.bytes))
    return move(n, TL_COMM_ALL_GATHER, 0, in.data, w->out[0].data, in.bytes);
  if (w->out[rank].bytes != in.bytes)
    return tli_fail(TL_ESHAPE, "all_gather: expected %lld bytes for this rank's part, got %lld",
                    (long long)in.bytes, (long long)w->out[rank].bytes);
  for (int r = 0; r < size; r++)
    TL_TRY(move(n, TL_COMM_BROADCAST, r, r == rank ? in.data : w->out[r].data, w->out[r].data,
                w->out[r].bytes));
  return true;
}

static bool reduce_scatter(tli_Nccl *n, const tli_Work *w) {
  tli_Part out = w->out[0];
  if (in_a_row(w->in, n->base.size, out.bytes))
    return reduce(n, w, TL_COMM_REDUCE_SCATTER, 0, w->in[0].data, out.data, out.bytes);
  for (int r = 0; r < n->base.size; r++) /* only the root's result is written */
    TL_TRY(reduce(n, w, TL_COMM_REDUCE, r, w->in[r].data,
                  r == n->base.rank ? out.data : w->in[r].data, out.bytes));
  return true;
}

/* Sends a part to each rank and receives a part from each rank, including this rank itself. */
static bool exchange(tli_Nccl *n, const tli_Part *in, const tli_Part *out) {
  for (int r = 0; r < n->base.size; r++) {
    if (in) TL_TRY(move(n, TL_COMM_SEND, r, in[r].data, NULL, in[r].bytes));
    if (out) TL_TRY(move(n, TL_COMM_RECV, r, NULL, out[r].data, out[r].bytes));
  }
  return true;
}

static bool receive(tli_Nccl *n, const tli_Work *w) {
  if (w->root < 0)
    return tli_fail(TL_EARG, "recv: src: nccl receives from no rank but a named one");
  return move(n, TL_COMM_RECV, w->root, NULL, w->out[0].data, w->out[0].bytes);
}

static bool plan(tli_Nccl *n, const tli_Work *w) {
  bool root = w->root == n->base.rank;
  tli_Part in = w->nin > 0 ? w->in[0] : (tli_Part){0},
           out = w->nout > 0 ? w->out[0] : (tli_Part){0};
  switch (w->kind) {
  case TLI_BARRIER:
    return add(n, (tl_CommStep){.kind = TL_COMM_ALL_REDUCE,
                                .dtype = n->one->dtype,
                                .count = 1,
                                .in = tli_data(n->one),
                                .out = tli_data(n->one)});
  case TLI_BROADCAST: return move(n, TL_COMM_BROADCAST, w->root, out.data, out.data, out.bytes);
  case TLI_ALL_REDUCE: return reduce(n, w, TL_COMM_ALL_REDUCE, 0, out.data, out.data, out.bytes);
  case TLI_REDUCE: return reduce(n, w, TL_COMM_REDUCE, w->root, out.data, out.data, out.bytes);
  case TLI_ALL_GATHER: return all_gather(n, w);
  case TLI_REDUCE_SCATTER: return reduce_scatter(n, w);
  case TLI_ALL_TO_ALL: return exchange(n, w->in, w->out);
  case TLI_GATHER:
    TL_TRY(move(n, TL_COMM_SEND, w->root, in.data, NULL, in.bytes));
    return !root || exchange(n, NULL, w->out);
  case TLI_SCATTER:
    TL_TRY(!root || exchange(n, w->in, NULL));
    return move(n, TL_COMM_RECV, w->root, NULL, out.data, out.bytes);
  case TLI_SEND: return move(n, TL_COMM_SEND, w->root, in.data, NULL, in.bytes);
  case TLI_RECV:
  case TLI_NCOLLECTIVES: break;
  }
  return receive(n, w);
}

bool tli_nccl_plan(tli_Nccl *n, const tli_Work *w) {
  int before = n->nsteps;
  if (plan(n, w)) return true;
  n->nsteps = before;
  return false;
}
