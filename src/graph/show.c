/*
** show.c - prints a program for people. Each call is one line; dimensions and positions are counted
** from 1.
*/
#include <string.h>

#include "graph/branches.h"
#include "graph/program.h"
#include "ops/common.h"

typedef struct Printer {
  const tli_Graph *g;
  tli_Text *out;
  int depth;      /* the number of branches around the call */
  int32_t *names; /* for each result: the number in its name, t1, t2, ... */
} Printer;

static void show_number(Printer *p, tl_Scalar s) {
  if (s.kind == TL_BOOLEAN)
    tli_text_put(p->out, s.i ? "true" : "false");
  else if (s.kind == TL_INTEGER)
    tli_text_format(p->out, "%" PRId64, s.i);
  else
    tli_text_format(p->out, "%.14g", s.f);
}

/* Shows the integer that a hole computes, such as "2 * batch + 1", plus `more`. */
static void show_hole(Printer *p, const tli_GraphHole *h, int64_t more) {
  int64_t base = h->base + more;
  bool any = false;
  for (int32_t s = 0; s < p->g->nsymbols; s++) {
    if (h->factors[s] == 0) continue;
    if (any) tli_text_put(p->out, " + ");
    if (h->factors[s] != 1) tli_text_format(p->out, "%" PRId64 " * ", h->factors[s]);
    tli_text_put(p->out, p->g->symbols[s].name);
    any = true;
  }
  for (int32_t i = 0; i < h->nterms; i++) {
    const tli_GraphTerm *t = &h->terms[i];
    if (t->factor == 0) continue;
    if (any) tli_text_put(p->out, " + ");
    if (t->factor != 1) tli_text_format(p->out, "%" PRId64 " * ", t->factor);
    for (int32_t k = 0; k < t->n; k++)
      tli_text_format(p->out, k == 0 ? "%s" : " * %s", p->g->symbols[t->symbols[k]].name);
    any = true;
  }
  if (any && base != 0)
    tli_text_format(p->out, " %c %" PRId64, base < 0 ? '-' : '+', base < 0 ? -base : base);
  else if (!any)
    tli_text_format(p->out, "%" PRId64, base);
}

static const tli_GraphHole *hole_at(const tli_Graph *g, int32_t call, int32_t param,
                                    int32_t element) {
  for (int32_t i = 0; i < g->nholes; i++) {
    const tli_GraphHole *h = &g->holes[i];
    if (h->call == call && h->param == param && h->element == element) return h;
  }
  return NULL;
}

static void show_value(Printer *p, int64_t v) {
  const tli_Graph *g = p->g;
  if (v < 0) {
    tli_text_put(p->out, "nil");
    return;
  }
  const tli_GraphValue *value = &g->values[v];
  const tli_GraphHole *h;
  switch (value->kind) {
  case TLI_VALUE_INPUT: tli_text_put(p->out, g->inputs[value->index].name); break;
  case TLI_VALUE_CONSTANT: tli_text_put(p->out, g->constants[value->index].name); break;
  case TLI_VALUE_NUMBER:
    h = hole_at(g, -1, value->index, -1);
    if (h)
      show_hole(p, h, 0);
    else
      show_number(p, g->numbers[value->index]);
    break;
  case TLI_VALUE_RESULT: tli_text_format(p->out, "t%d", (int)p->names[v]); break;
  }
}

static void comma(Printer *p, bool *any) {
  if (*any) tli_text_put(p->out, ", ");
  *any = true;
}

static int64_t from_one(int kind, int64_t i) {
  bool counts = kind == TLI_CALL_DIM || kind == TLI_CALL_INDEX || kind == TLI_CALL_DIMS ||
                kind == TLI_CALL_DIM_LISTS || kind == TLI_CALL_INDICES;
  return counts && i >= 0 ? i + 1 : i;
}

static void show_int(Printer *p, int32_t call, int param, int element, int kind, int64_t i) {
  const tli_GraphHole *h = hole_at(p->g, call, param, element);
  if (h)
    show_hole(p, h, from_one(kind, i) - i);
  else
    tli_text_format(p->out, "%" PRId64, from_one(kind, i));
}

static bool scheduled(const tli_Graph *g, int32_t call, int param, int element) {
  for (int32_t i = 0; i < g->schedule.nplaces; i++) {
    const tli_GraphPlace *at = &g->schedule.places[i];
    if (at->call == call && at->param == param && at->element == element) return true;
  }
  return false;
}

static void show_list(Printer *p, int32_t call, int param, int kind, const tli_CallArg *arg) {
  bool any = false, reals = kind == TLI_CALL_FLOATS;
  tli_text_put(p->out, "{");
  for (int64_t i = 0; i < (reals ? arg->reals.n : arg->ints.n); i++) {
    comma(p, &any);
    if (reals && scheduled(p->g, call, param, (int)i))
      tli_text_put(p->out, "schedule");
    else if (reals)
      tli_text_format(p->out, "%.14g", arg->reals.v[i]);
    else if (kind == TLI_CALL_TENSORS)
      show_value(p, arg->ints.v[i]);
    else
      show_int(p, call, param, (int)i, kind, arg->ints.v[i]);
  }
  tli_text_put(p->out, "}");
}

static bool is_given(int kind, const tli_CallArg *arg) {
  if (tli_kind_is_tensor(kind)) return arg->integer >= 0;
  if (kind == TLI_CALL_TENSORS) return arg->ints.n > 0;
  if (kind == TLI_CALL_FLOATS) return arg->reals.v != NULL;
  if (tli_kind_is_ints(kind)) return arg->ints.v != NULL;
  if (tli_kind_is_int(kind)) return arg->integer != TLI_NOINT;
  if (kind == TLI_CALL_NUMBER) return arg->number.kind != TL_NONE;
  if (kind == TLI_CALL_BOOL || kind == TLI_CALL_TRUE) return arg->flag;
  if (kind == TLI_CALL_FLOAT) return arg->real == arg->real;
  if (kind == TLI_CALL_STRING) return arg->text != NULL;
  if (kind == TLI_CALL_DTYPE) return arg->dtype != TL_NODTYPE;
  /* devices and generators are not shown, since all calls of a program use the same ones */
  return false;
}

static void show_arg(Printer *p, int32_t call, int param, int kind, const tli_CallArg *arg) {
  if (tli_kind_is_tensor(kind))
    show_value(p, arg->integer);
  else if (kind == TLI_CALL_TENSORS || kind == TLI_CALL_FLOATS || tli_kind_is_ints(kind))
    show_list(p, call, param, kind, arg);
  else if (tli_kind_is_int(kind))
    show_int(p, call, param, -1, kind, arg->integer);
  else if (kind == TLI_CALL_NUMBER && hole_at(p->g, call, param, -1))
    show_hole(p, hole_at(p->g, call, param, -1), 0);
  else if (kind == TLI_CALL_NUMBER)
    show_number(p, arg->number);
  else if (kind == TLI_CALL_FLOAT)
    tli_text_format(p->out, "%.14g", arg->real);
  else if (kind == TLI_CALL_BOOL || kind == TLI_CALL_TRUE)
    tli_text_put(p->out, "true");
  else if (kind == TLI_CALL_STRING)
    tli_text_quote(p->out, arg->text, strlen(arg->text));
  else
    tli_text_quote(p->out, tl_dtype_name(arg->dtype), strlen(tl_dtype_name(arg->dtype)));
}

/* Shows a call: tensors by position, other arguments by name. Arguments that were not given are
** left out. */
static void show_call(Printer *p, int32_t i) {
  const tli_GraphCall *c = &p->g->calls[i];
  bool any = false;
  const tli_Call *call = c->call;
  bool begins = call == &tli_call_cond_begin || call == &tli_call_loop_begin;
  bool middle = call == &tli_call_cond_else || call == &tli_call_loop_test;
  if (middle || call == &tli_call_cond_end || call == &tli_call_loop_end) p->depth--;
  for (int k = 0; k <= p->depth; k++) tli_text_put(p->out, "  ");
  if (begins || middle) p->depth++;
  for (int32_t r = 0; r < c->nresults; r++) {
    comma(p, &any);
    show_value(p, c->results[r]);
  }
  tli_text_format(p->out, "%s%s(", any ? " = " : "", c->call->name);
  any = false;
  for (int k = 0; k < c->call->nparams; k++) {
    const tli_CallParam *param = &c->call->params[k];
    if (!is_given(param->kind, &c->args[k])) continue;
    comma(p, &any);
    if (!tli_kind_is_tensor(param->kind) && param->kind != TLI_CALL_TENSORS)
      tli_text_format(p->out, "%s = ", param->name);
    show_arg(p, i, k, param->kind, &c->args[k]);
  }
  tli_text_put(p->out, ")\n");
}

static void show_inputs(Printer *p) {
  const tli_Graph *g = p->g;
  bool any = false;
  tli_text_put(p->out, "Program(");
  for (int32_t i = 0; i < g->ninputs; i++) {
    const tli_GraphInput *in = &g->inputs[i];
    comma(p, &any);
    tli_text_format(p->out, "%s: %s {", in->name, tl_dtype_name(in->dtype));
    bool inner = false;
    for (int d = 0; d < in->ndim; d++) {
      comma(p, &inner);
      if (in->symbols[d] >= 0)
        tli_text_put(p->out, g->symbols[in->symbols[d]].name);
      else
        tli_text_format(p->out, "%" PRId64, in->sizes[d]);
    }
    tli_text_put(p->out, "}");
  }
  tli_text_put(p->out, ")\n");
}

static void show_memory(Printer *p, tli_ProgramMemory memory) {
  const tli_Graph *g = p->g;
  int64_t bytes = 0;
  for (int32_t i = 0; i < g->nconstants; i++) {
    const tl_Tensor *t = g->constants[i].tensor;
    bytes += t->numel * tli_dtype_bytes[t->dtype];
  }
  tli_text_format(p->out, "%d calls, %d constants of %" PRId64 " bytes; ", (int)g->ncalls,
                  (int)g->nconstants, bytes);
  if (memory.arena > 0)
    tli_text_format(p->out,
                    "a run needs %" PRId64 " bytes, of which %" PRId64 " are in use at once",
                    memory.arena, memory.live);
  else
    tli_text_put(p->out, "the first run plans the memory");
}

void tli_program_show(tl_Program *program, tli_Text *out) {
  const tli_Graph *g = tli_program_graph(program);
  size_t bytes = (size_t)g->nvalues * sizeof(int32_t) + 1;
  Printer p = {g, out, 0, tli_alloc(bytes)};
  if (p.names == NULL) {
    out->failed = true;
    return;
  }
  int32_t next = 0;
  for (int32_t i = 0; i < g->ncalls; i++)
    for (int32_t r = 0; r < g->calls[i].nresults; r++) p.names[g->calls[i].results[r]] = ++next;
  show_inputs(&p);
  for (int32_t i = 0; i < g->ncalls; i++) show_call(&p, i);
  tli_text_put(out, "  return ");
  bool any = false;
  for (int32_t i = 0; i < g->noutputs; i++) {
    comma(&p, &any);
    show_value(&p, g->outputs[i]);
  }
  tli_text_put(out, "\n");
  show_memory(&p, tli_program_memory(program));
  tli_free(p.names, bytes);
}
