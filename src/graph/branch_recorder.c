/*
** branch_recorder.c - records the branches of torch.cond and the loops of torch.while_loop: their
** marks (branches.h), and the tensors that are known only inside of them.
*/
#include "graph/branches.h"
#include "graph/recorder.h"
#include "ops/common.h"

static bool enter_branch(tli_Trace *t) {
  if (!tli_region_grow(&t->region, (void **)&t->branches, t->nbranches, sizeof *t->branches))
    return false;
  t->branches[t->nbranches++] = (tli_TraceBranch){t->nchanges, t->nmemories};
  return true;
}

/* At the end of a branch, restores the value for which a tensor stood before the branch. Views that
** were recorded in the branch are recorded again when they are used after it. Constants keep their
** values, since they belong to no branch. */
static bool undo(tli_Trace *t, const tli_TraceChange *change, int32_t memories) {
  int32_t now = tli_addresses_find(&t->values, change->tensor), value = change->value;
  int32_t at = tli_addresses_find(&t->memories_at, change->tensor->storage);
  bool made_here = value == -1 && at >= memories;
  if (now >= 0 && t->graph->values[now].kind == TLI_VALUE_CONSTANT) return true;
  if (made_here && t->memories[at].kind == TLI_VALUE_CONSTANT &&
      t->memories[at].first == change->tensor)
    return tli_fail(TL_EARG, "cond: expected row-major parameters and constants in the branches "
                             "(x:contiguous())");
  if (made_here && t->memories[at].kind == TLI_VALUE_RESULT) value = TLI_TRACE_LOCAL;
  return tli_addresses_put(&t->region, &t->values, change->tensor, value);
}

static bool leave_branch(tli_Trace *t) {
  tli_TraceBranch *b = &t->branches[--t->nbranches];
  for (int32_t k = t->nchanges - 1; k >= b->changes; k--)
    TL_TRY(undo(t, &t->changes[k], b->memories));
  t->nchanges = b->changes;
  return true;
}

static tli_GraphCall *mark(tli_Trace *t, const tli_Call *call, tli_CallArg arg, int32_t nresults) {
  tli_GraphCall *made = tli_graph_call(t->graph, call, nresults);
  if (made) made->args[0] = arg;
  return made;
}

bool tli_trace_branch(tli_Trace *t, tl_Tensor *pred) {
  bool ok = true;
  tli_CallArg arg = {.integer = tli_trace_value(t, pred, &ok)};
  return ok && mark(t, &tli_call_cond_begin, arg, 0) && enter_branch(t);
}

static bool in_branch(const tli_Trace *t) {
  return t->nbranches > 0 || tli_fail(TL_EARG, "cond: the trace is in no branch");
}

bool tli_trace_otherwise(tli_Trace *t, tl_Tensors given) {
  tli_CallArg arg;
  return in_branch(t) && tli_trace_values(t, given, &arg) && leave_branch(t) &&
         mark(t, &tli_call_cond_else, arg, 0) && enter_branch(t);
}

/* Records a mark whose results are copies of tensors. */
static bool mark_copies(tli_Trace *t, const tli_Call *call, tli_CallArg arg, tl_Tensors given,
                        tl_Tensor **results) {
  tli_GraphCall *made = mark(t, call, arg, (int32_t)given.n);
  bool ok = made != NULL;
  /* while `depth` is larger, the operators that are called here are not recorded */
  t->tracer.depth++;
  for (int64_t i = 0; ok && i < given.n; i++)
    ok = (results[i] = tli_clone_for("cond", given.v[i])) != NULL;
  t->tracer.depth--;
  for (int64_t i = 0; ok && i < given.n; i++)
    ok = tli_trace_note(t, results[i], made->results[i], TLI_VALUE_RESULT);
  return ok;
}

bool tli_trace_join(tli_Trace *t, tl_Tensors given, tl_Tensor **results) {
  tli_CallArg arg;
  return in_branch(t) && tli_trace_values(t, given, &arg) && leave_branch(t) &&
         mark_copies(t, &tli_call_cond_end, arg, given, results);
}

bool tli_trace_loop(tli_Trace *t, tl_Tensors given, tl_Tensor **results) {
  tli_CallArg arg;
  return tli_trace_values(t, given, &arg) &&
         mark_copies(t, &tli_call_loop_begin, arg, given, results) && enter_branch(t);
}

bool tli_trace_test(tli_Trace *t, tl_Tensor *pred) {
  bool ok = in_branch(t);
  tli_CallArg arg = {.integer = ok ? tli_trace_value(t, pred, &ok) : -1};
  return ok && mark(t, &tli_call_loop_test, arg, 0);
}

bool tli_trace_again(tli_Trace *t, tl_Tensors given) {
  tli_CallArg arg;
  return in_branch(t) && tli_trace_values(t, given, &arg) && leave_branch(t) &&
         mark(t, &tli_call_loop_end, arg, 0);
}
