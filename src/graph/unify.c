/*
** unify.c - compares traces of one model. Traces whose inputs differ in values must be equal; if
** the inputs differ in sizes, an integer may differ if it is a polynomial of the sizes in all
** traces.
**
** A walk visits corresponding positions of several graphs together. It fails if anything other than
** an integer differs.
*/
#include <string.h>

#include "calls.h"
#include "core/device/transfer.h"
#include "graph/call_graph.h"

#define MOST 3

/* The position of an integer argument, and the integers that the compared graphs have there. */
typedef struct Place {
  int32_t call, param, element; /* the position, in the form of tli_GraphHole */
  const char *op, *name;
  int64_t at[MOST];
} Place;

typedef struct Walk {
  const tli_Graph *graphs[MOST];
  int n;
  /* called for each position where the graphs' integers differ or, if `joint` is set, for every
  ** position of an integer */
  bool (*integer)(struct Walk *w, const Place *p);
  const char *over; /* the property in which the inputs differ: "values" or the symbol's name */
  /* whether an optimizer's options may differ, because they may change from step to step */
  bool rates;
  /* the graph to change; only tli_graph_fit and tli_graph_fit_product use it */
  tli_Graph *target;
  int symbol;
  int64_t sizes[MOST];
  const int64_t *joint; /* the sizes of all symbols in the second graph, if the walk needs them */
  /* the symbols whose product is looked for; only tli_graph_fit_product uses them */
  const int32_t *product;
  int nproduct;
} Walk;

static bool differs(const Walk *w, const Place *p) {
  return tli_fail(TL_EARG,
                  "export: %s: %s depends on %s of the inputs in a way that a program "
                  "cannot repeat",
                  p->op, p->name, w->over);
}

static bool other_calls(const Walk *w) {
  return tli_fail(TL_EARG,
                  "export: the model calls other operators for other %s of the inputs; a program "
                  "has the operators of one call",
                  w->over);
}

static bool visit(Walk *w, const Place *p) {
  if (w->joint) return w->integer(w, p);
  for (int k = 1; k < w->n; k++)
    if (p->at[k] != p->at[0]) return w->integer(w, p);
  return true;
}

static bool visit_numbers(Walk *w, Place *p, const tl_Scalar *numbers) {
  for (int k = 1; k < w->n; k++) {
    if (numbers[k].kind != numbers[0].kind) return differs(w, p);
    bool floating = numbers[0].kind == TL_FLOATING;
    if (floating && memcmp(&numbers[k].f, &numbers[0].f, sizeof numbers[k].f) != 0)
      return differs(w, p);
  }
  if (numbers[0].kind != TL_INTEGER && numbers[0].kind != TL_BOOLEAN) return true;
  for (int k = 0; k < w->n; k++) p->at[k] = numbers[k].i;
  return visit(w, p);
}

static bool visit_lists(Walk *w, Place *p, tli_CallArg *const *args) {
  for (int k = 1; k < w->n; k++)
    if (args[k]->ints.n != args[0]->ints.n || !args[k]->ints.v != !args[0]->ints.v)
      return differs(w, p);
  if (args[0]->ints.v == NULL) return true;
  for (int64_t i = 0; i < args[0]->ints.n; i++) {
    p->element = (int32_t)i;
    for (int k = 0; k < w->n; k++) p->at[k] = args[k]->ints.v[i];
    TL_TRY(visit(w, p));
  }
  return true;
}

static bool same_plain(bool rates, int kind, const tli_CallArg *a, const tli_CallArg *b) {
  if (kind == TLI_CALL_FLOATS)
    return a->reals.n == b->reals.n && !a->reals.v == !b->reals.v &&
           (rates || a->reals.v == NULL ||
            memcmp(a->reals.v, b->reals.v, (size_t)a->reals.n * sizeof *a->reals.v) == 0);
  if (kind == TLI_CALL_STRING)
    return a->text == b->text || (a->text && b->text && strcmp(a->text, b->text) == 0);
  if (kind == TLI_CALL_FLOAT) return memcmp(&a->real, &b->real, sizeof a->real) == 0;
  if (kind == TLI_CALL_BOOL || kind == TLI_CALL_TRUE) return a->flag == b->flag;
  if (kind == TLI_CALL_DTYPE) return a->dtype == b->dtype;
  if (kind == TLI_CALL_DEVICE) return tli_same_device(a->device, b->device);
  return true; /* generators are not recorded, so they cannot differ */
}

static bool visit_arg(Walk *w, Place *p, int kind, tli_CallArg *const *args) {
  if (kind == TLI_CALL_NUMBER) {
    tl_Scalar numbers[MOST];
    for (int k = 0; k < w->n; k++) numbers[k] = args[k]->number;
    return visit_numbers(w, p, numbers);
  }
  if (tli_kind_is_ints(kind)) return visit_lists(w, p, args);
  if (tli_kind_is_int(kind)) {
    for (int k = 0; k < w->n; k++) p->at[k] = args[k]->integer;
    return visit(w, p);
  }
  for (int k = 1; k < w->n; k++) {
    if (tli_kind_is_tensor(kind)) {
      if (args[k]->integer != args[0]->integer) return other_calls(w);
    } else if (kind == TLI_CALL_TENSORS) {
      const tl_Ints a = args[0]->ints, b = args[k]->ints;
      if (a.n != b.n || memcmp(a.v, b.v, (size_t)a.n * sizeof *a.v) != 0) return other_calls(w);
    } else if (!same_plain(w->rates && w->graphs[0]->calls[p->call].call == &tli_call__fused_step_,
                           kind, args[0], args[k])) {
      return differs(w, p);
    }
  }
  return true;
}

static bool visit_call(Walk *w, int32_t i) {
  const tli_Call *call = w->graphs[0]->calls[i].call;
  for (int k = 1; k < w->n; k++) {
    const tli_GraphCall *other = &w->graphs[k]->calls[i];
    if (other->call != call || other->nresults != w->graphs[0]->calls[i].nresults ||
        other->records != w->graphs[0]->calls[i].records)
      return other_calls(w);
  }
  for (int param = 0; param < call->nparams; param++) {
    Place p = {.call = i, .param = param, .element = -1, .op = call->name};
    tli_CallArg *args[MOST] = {NULL};
    p.name = call->params[param].name;
    for (int k = 0; k < w->n; k++) args[k] = &w->graphs[k]->calls[i].args[param];
    TL_TRY(visit_arg(w, &p, call->params[param].kind, args));
  }
  return true;
}

static bool same_constant(const tli_GraphConstant *a, const tli_GraphConstant *b) {
  const tl_Tensor *s = a->tensor, *t = b->tensor;
  if (a->state != b->state || a->leaf != b->leaf) return false;
  if (s->dtype != t->dtype || !tli_same_sizes(s, t)) return false;
  size_t bytes = (size_t)s->numel * tli_dtype_bytes[s->dtype];
  if (tli_data(s) == tli_data(t)) return true;
  tl_Tensor *from = tli_moved(a->tensor, TLI_CPU, false);
  tl_Tensor *to = from ? tli_moved(b->tensor, TLI_CPU, false) : NULL;
  bool same = from && to && memcmp(tli_data(from), tli_data(to), bytes) == 0;
  tli_release(from);
  tli_release(to);
  return same;
}

static bool walk(Walk *w) {
  const tli_Graph *g = w->graphs[0];
  for (int k = 1; k < w->n; k++) {
    const tli_Graph *o = w->graphs[k];
    if (o->ncalls != g->ncalls || o->nvalues != g->nvalues || o->nconstants != g->nconstants ||
        o->nnumbers != g->nnumbers || o->noutputs != g->noutputs ||
        (g->noutputs > 0 &&
         memcmp(o->outputs, g->outputs, (size_t)g->noutputs * sizeof *g->outputs) != 0))
      return other_calls(w);
    for (int32_t i = 0; i < g->nconstants; i++)
      if (!same_constant(&g->constants[i], &o->constants[i]))
        return tli_fail(TL_EARG,
                        "export: %s, a tensor that the model makes, depends on %s of the inputs in "
                        "a way that a program cannot repeat",
                        g->constants[i].name, w->over);
  }
  for (int32_t i = 0; i < g->nnumbers; i++) {
    Place p = {.call = -1, .param = i, .element = -1, .op = "a number", .name = "its value"};
    tl_Scalar numbers[MOST];
    for (int k = 0; k < w->n; k++) numbers[k] = w->graphs[k]->numbers[i];
    TL_TRY(visit_numbers(w, &p, numbers));
  }
  for (int32_t i = 0; i < g->ncalls; i++) TL_TRY(visit_call(w, i));
  return true;
}

static bool no_integer(Walk *w, const Place *p) { return differs(w, p); }

bool tli_graph_same(const tli_Graph *g, const tli_Graph *other) {
  Walk w = {.graphs = {g, other}, .n = 2, .integer = no_integer, .over = "values"};
  w.rates = g->step;
  return walk(&w);
}

/* ---- dynamic sizes ---- */

static int32_t symbol_of(tli_Graph *g, const char *name, int64_t example) {
  for (int32_t s = 0; s < g->nsymbols; s++)
    if (strcmp(g->symbols[s].name, name) == 0) return s;
  if (!tli_region_grow(&g->region, (void **)&g->symbols, g->nsymbols, sizeof *g->symbols))
    return -1;
  name = tli_region_text(&g->region, name, strlen(name));
  if (name == NULL) return -1;
  g->symbols[g->nsymbols] = (tli_GraphSymbol){name, example, 1, INT64_MAX};
  return g->nsymbols++;
}

bool tli_graph_dynamic(tli_Graph *g, int input, int dim, const char *symbol) {
  tli_GraphInput *in = &g->inputs[input];
  int32_t s = symbol_of(g, symbol, in->sizes[dim]);
  if (s < 0) return false;
  if (s >= TLI_SYMBOLS_MOST)
    return tli_fail(TL_EARG, "export: dynamic: expected at most %d sizes", TLI_SYMBOLS_MOST);
  if (g->symbols[s].example != in->sizes[dim])
    return tli_fail(TL_ESHAPE,
                    "export: dynamic: %s is dimension " TLI_POS " of %s, of size %" PRId64
                    ", and another one of size %" PRId64,
                    symbol, (int64_t)dim, in->name, in->sizes[dim], g->symbols[s].example);
  in->symbols[dim] = s;
  return true;
}

static tli_GraphHole *find_hole(const tli_Graph *g, const Place *p) {
  for (int32_t i = 0; i < g->nholes; i++) {
    tli_GraphHole *h = &g->holes[i];
    if (h->call == p->call && h->param == p->param && h->element == p->element) return h;
  }
  return NULL;
}

/* Adds to a hole the product of `factor` and the sizes of n symbols, which are in ascending
** order. */
static bool add_term(tli_Graph *g, tli_GraphHole *h, const int32_t *symbols, int n,
                     int64_t factor) {
  if (n == 0) h->base += factor;
  if (n == 1) h->factors[symbols[0]] += factor;
  if (n < 2 || factor == 0) return true;
  for (int32_t i = 0; i < h->nterms; i++) {
    tli_GraphTerm *t = &h->terms[i];
    if (t->n != n || memcmp(t->symbols, symbols, (size_t)n * sizeof *symbols) != 0) continue;
    t->factor += factor;
    return true;
  }
  if (!tli_region_grow(&g->region, (void **)&h->terms, h->nterms, sizeof *h->terms)) return false;
  tli_GraphTerm *t = &h->terms[h->nterms++];
  *t = (tli_GraphTerm){.factor = factor, .n = n};
  memcpy(t->symbols, symbols, (size_t)n * sizeof *symbols);
  return true;
}

static tli_GraphHole *hole_for(Walk *w, const Place *p) {
  tli_GraphHole *hole = find_hole(w->target, p);
  if (hole) return hole;
  hole = tli_graph_hole(w->target);
  if (hole == NULL) return NULL;
  hole->call = p->call;
  hole->param = p->param;
  hole->element = p->element;
  hole->base = p->at[0];
  return hole;
}

/* Finds the polynomial through three traces: at[0] + slope * d + curve * d * d, where d is the
** difference between a size and the example's size. */
static bool fit(Walk *w, const Place *p) {
  int64_t first = w->sizes[1] - w->sizes[0], second = w->sizes[2] - w->sizes[0];
  int64_t rise = p->at[1] - p->at[0], other = p->at[2] - p->at[0], size = w->sizes[0];
  if (first == 0 || rise % first != 0 || (second != 0 && other % second != 0)) return differs(w, p);
  int64_t bend = second == 0 || second == first ? 0 : other / second - rise / first;
  int64_t curve = bend == 0 ? 0 : bend / (second - first);
  if (bend != curve * (second - first)) return differs(w, p);
  int64_t slope = rise / first - curve * first;
  tli_GraphHole *hole = hole_for(w, p);
  if (hole == NULL) return false;
  const int32_t symbols[] = {w->symbol, w->symbol};
  return add_term(w->target, hole, symbols, 2, curve) &&
         add_term(w->target, hole, symbols, 1, slope - 2 * curve * size) &&
         add_term(w->target, hole, symbols, 0, (curve * size - slope) * size);
}

bool tli_graph_fit(tli_Graph *g, int symbol, int64_t first, const tli_Graph *a, int64_t second,
                   const tli_Graph *b) {
  Walk w = {.graphs = {g, a, b}, .n = 3, .integer = fit, .target = g, .symbol = symbol};
  w.over = g->symbols[symbol].name;
  w.sizes[0] = g->symbols[symbol].example;
  w.sizes[1] = first;
  w.sizes[2] = second;
  return walk(&w);
}

/* Stores in *out the integer that the graph computes at a place if the symbols have the sizes
** w->joint. */
static bool computed(const Walk *w, const Place *p, int64_t *out) {
  const tli_GraphHole *h = find_hole(w->graphs[0], p);
  *out = p->at[0];
  return h == NULL || tli_graph_hole_value(w->graphs[0], h, w->joint, out);
}

static bool check_joint(Walk *w, const Place *p) {
  int64_t value;
  return computed(w, p, &value) && value == p->at[1] ? true : differs(w, p);
}

/* Adds the product of the walk's symbols to the hole at a place, if the other trace differs from
** the integer that the graph computes. The product is not of the sizes themselves, but of
** differences: each symbol's size minus its size in the example. So it is 0 if any of these symbols
** has its example's size. */
static bool fit_product(Walk *w, const Place *p) {
  tli_Graph *g = w->target;
  int64_t value, product = 1;
  TL_TRY(computed(w, p, &value));
  for (int k = 0; k < w->nproduct; k++)
    product *= w->joint[w->product[k]] - g->symbols[w->product[k]].example;
  if (value == p->at[1]) return true;
  if (product == 0 || (p->at[1] - value) % product != 0) return differs(w, p);
  tli_GraphHole *hole = hole_for(w, p);
  if (hole == NULL) return false;
  for (int subset = 0; subset < 1 << w->nproduct; subset++) {
    int32_t symbols[TLI_TERM_MOST];
    int n = 0;
    int64_t factor = (p->at[1] - value) / product;
    for (int k = 0; k < w->nproduct; k++)
      if (subset >> k & 1)
        symbols[n++] = w->product[k];
      else
        factor *= -g->symbols[w->product[k]].example;
    TL_TRY(add_term(g, hole, symbols, n, factor));
  }
  return true;
}

bool tli_graph_fit_product(tli_Graph *g, const int32_t *symbols, int n, const int64_t *sizes,
                           const tli_Graph *other) {
  Walk w = {.graphs = {g, other}, .n = 2, .integer = fit_product, .target = g, .joint = sizes};
  w.over = "sizes";
  w.product = symbols;
  w.nproduct = n;
  return walk(&w);
}

bool tli_graph_fits_all(const tli_Graph *g, const int64_t *sizes, const tli_Graph *other) {
  Walk w = {.graphs = {g, other}, .n = 2, .integer = check_joint, .joint = sizes};
  w.over = "sizes";
  return walk(&w);
}

bool tli_graph_fits(const tli_Graph *g, int symbol, int64_t size, const tli_Graph *other) {
  int64_t sizes[TLI_SYMBOLS_MOST];
  for (int32_t s = 0; s < g->nsymbols && s < TLI_SYMBOLS_MOST; s++)
    sizes[s] = s == symbol ? size : g->symbols[s].example;
  Walk w = {.graphs = {g, other}, .n = 2, .integer = check_joint, .joint = sizes};
  w.over = g->symbols[symbol].name;
  return walk(&w);
}
