/*
** branches.c - implements branches.h. The marks are calls in a graph that delimit the branches of
** torch.cond and the loops of torch.while_loop.
**
** The calls between cond_begin and cond_else run if the condition is true, and the calls between
** cond_else and cond_end if it is false. The marks at the ends of both branches, cond_else and
** cond_end, take the branch's results as arguments. The results of cond_end are copies of the
** results of the branch that has run.
**
** The results of loop_begin are copies of its arguments. The calls up to loop_test compute the
** condition. If the condition is false, the run continues after loop_end. At loop_end, copies of
** its arguments become the results of loop_begin, and the calls after loop_begin run again.
**
** Branches and loops may be nested.
*/
#include "graph/branches.h"

#include "ops/common.h"

static bool run_nothing(const tli_CallArg *args, tl_Tensors *out) {
  (void)args;
  (void)out;
  return true;
}

static bool run_copies(const tli_CallArg *args, tl_Tensors *out) {
  for (int64_t i = 0; i < out->n; i++) {
    tl_Tensor *t = i < args[0].tensors.n ? args[0].tensors.v[i] : NULL;
    if (t == NULL) return tli_fail(TL_EARG, "cond: a result of a branch is missing");
    if ((out->v[i] = tli_clone_for("cond", t)) == NULL) return false;
  }
  return true;
}

static const tli_CallParam condition[] = {{"pred", TLI_CALL_TENSOR, false}};
static const tli_CallParam results[] = {{"results", TLI_CALL_TENSORS, false}};
const tli_Call tli_call_cond_begin = {"cond_begin", condition, 1, 0, 0, run_nothing};
const tli_Call tli_call_cond_else = {"cond_else", results, 1, 0, 0, run_copies};
const tli_Call tli_call_cond_end = {"cond_end", results, 1, -1, 0, run_copies};

const tli_Call tli_call_loop_begin = {"loop_begin", results, 1, -1, 0, run_copies};
const tli_Call tli_call_loop_test = {"loop_test", condition, 1, 0, 0, run_nothing};
const tli_Call tli_call_loop_end = {"loop_end", results, 1, 0, 0, run_copies};

const tli_Call *const tli_branch_calls[] = {&tli_call_cond_begin, &tli_call_cond_else,
                                            &tli_call_cond_end,   &tli_call_loop_begin,
                                            &tli_call_loop_test,  &tli_call_loop_end};
const int tli_branch_calls_count = sizeof tli_branch_calls / sizeof *tli_branch_calls;

static bool is_mark(const tli_Call *call) {
  for (int k = 0; k < tli_branch_calls_count; k++)
    if (tli_branch_calls[k] == call) return true;
  return false;
}

/* Returns the mark that must precede a mark, or NULL if the mark begins a branch or a loop. */
static const tli_Call *mark_before(const tli_Call *call) {
  if (call == &tli_call_cond_else) return &tli_call_cond_begin;
  if (call == &tli_call_cond_end) return &tli_call_cond_else;
  if (call == &tli_call_loop_test) return &tli_call_loop_begin;
  return call == &tli_call_loop_end ? &tli_call_loop_test : NULL;
}

static int64_t count(const tli_Graph *g, int32_t i) { return g->calls[i].args[0].ints.n; }

/* Pairs mark `i` with open[depth - 1], the innermost mark that has no partner yet. Returns false if
** the marks do not match. */
static bool pair(const tli_Graph *g, int32_t i, int32_t *jumps, int32_t *open, int32_t *depth) {
  const tli_GraphCall *c = &g->calls[i];
  const tli_Call *before = mark_before(c->call);
  if (before == NULL) {
    if (*depth == TLI_NESTED_MOST) return false;
    open[(*depth)++] = i;
    return c->call == &tli_call_cond_begin || count(g, i) == c->nresults;
  }
  int32_t from = *depth > 0 ? open[*depth - 1] : -1;
  if (from < 0 || g->calls[from].call != before) return false;
  if (c->call == &tli_call_cond_else || c->call == &tli_call_loop_test) {
    open[*depth - 1] = i;
    jumps[c->call == &tli_call_cond_else ? from : i] = c->call == &tli_call_cond_else ? i : from;
    return true;
  }
  --*depth;
  /* for a loop_end: the index of the loop_begin, which loop_test has stored */
  int32_t begin = jumps[from];
  jumps[from] = i;
  if (c->call == &tli_call_cond_end)
    return count(g, i) == c->nresults && count(g, from) == c->nresults;
  jumps[i] = begin;
  return count(g, i) == g->calls[begin].nresults;
}

bool tli_branch_jumps(const tli_Graph *g, tli_Region *region, int32_t **out) {
  int32_t depth = 0, *open = NULL, *jumps = NULL;
  bool ok = true;
  *out = NULL;
  for (int32_t i = 0; ok && i < g->ncalls; i++) {
    if (!is_mark(g->calls[i].call)) continue;
    if (jumps == NULL) {
      jumps = tli_region_get(region, g->ncalls, sizeof *jumps);
      open = tli_region_get(region, g->ncalls, sizeof *open);
      if (jumps == NULL || open == NULL) return false;
    }
    ok = pair(g, i, jumps, open, &depth);
  }
  if (!ok || depth != 0)
    return tli_fail(TL_EARG,
                    "program: expected two branches with the same number of results in "
                    "each cond, and as many results as arguments in each while_loop, nested "
                    "at most %d deep",
                    TLI_NESTED_MOST);
  *out = jumps;
  return true;
}
