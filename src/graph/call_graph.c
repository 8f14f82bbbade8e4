/*
** call_graph.c - implements the functions of call_graph.h that build and free graphs.
*/
#include "graph/call_graph.h"

#include <string.h>

#include "autograd/calls.h"
#include "core/memory/alloc.h"
#include "graph/branches.h"

/* ---- regions ---- */

#define CHUNK_BYTES ((size_t)16 << 10)

/* The largest size of one block in bytes. It is smaller where size_t has 32 bits, as in
** browsers. */
#define MOST_BYTES (SIZE_MAX > UINT32_MAX ? UINT64_C(1) << 40 : UINT64_C(1) << 30)

typedef struct tli_Chunk {
  struct tli_Chunk *next;
  size_t bytes, used;
  _Alignas(16) char data[];
} tli_Chunk;

void *tli_region_get(tli_Region *r, int64_t count, size_t size) {
  if (count < 0 || (uint64_t)count > MOST_BYTES / size)
    return tli_fail_null(TL_EMEM, "program: out of memory: too many elements");
  size_t bytes = ((size_t)count * size + 15) & ~(size_t)15;
  tli_Chunk *c = r->chunks;
  if (c == NULL || c->bytes - c->used < bytes) {
    size_t room = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
    c = tli_alloc(sizeof *c + room);
    if (c == NULL) return NULL;
    *c = (tli_Chunk){r->chunks, room, 0};
    r->chunks = c;
  }
  void *block = c->data + c->used;
  c->used += bytes;
  return memset(block, 0, bytes);
}

char *tli_region_text(tli_Region *r, const char *text, size_t length) {
  char *copy = tli_region_get(r, (int64_t)length + 1, 1);
  if (copy) memcpy(copy, text, length);
  return copy;
}

void tli_region_free(tli_Region *r) {
  while (r->chunks) {
    tli_Chunk *c = r->chunks;
    r->chunks = c->next;
    tli_free(c, sizeof *c + c->bytes);
  }
}

bool tli_region_grow(tli_Region *r, void **array, int64_t n, size_t size) {
  if (n > 0 && (n & (n - 1)) != 0) return true;
  void *more = tli_region_get(r, n > 0 ? 2 * n : 1, size);
  if (more == NULL) return false;
  if (n > 0) memcpy(more, *array, (size_t)n * size);
  *array = more;
  return true;
}

/* ---- graphs ---- */

tli_Graph *tli_graph_new(void) {
  tli_Graph *g = tli_alloc(sizeof *g);
  if (g == NULL) return NULL;
  memset(g, 0, sizeof *g);
  g->schedule.rates = g->schedule.count = -1;
  atomic_init(&g->refs, 1);
  return g;
}

tli_Graph *tli_graph_retain(tli_Graph *g) {
  atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
  return g;
}

void tli_graph_release(tli_Graph *g) {
  if (g == NULL || !tli_last_reference(&g->refs)) return;
  for (int32_t i = 0; i < g->nconstants; i++) tli_release(g->constants[i].tensor);
  tli_region_free(&g->region);
  tli_free(g, sizeof *g);
}

int32_t tli_graph_value(tli_Graph *g, tli_ValueKind kind, int32_t index) {
  if (!tli_region_grow(&g->region, (void **)&g->values, g->nvalues, sizeof *g->values)) return -1;
  g->values[g->nvalues] = (tli_GraphValue){kind, index};
  return g->nvalues++;
}

int32_t tli_graph_number(tli_Graph *g, tl_Scalar number) {
  if (number.kind == TL_COMPLEX)
    return tli_fail(TL_EARG, "export: complex numbers cannot be in a program, got %g%+gi", number.f,
                    number.imag),
           -1;
  if (!tli_region_grow(&g->region, (void **)&g->numbers, g->nnumbers, sizeof *g->numbers))
    return -1;
  g->numbers[g->nnumbers] = number;
  return tli_graph_value(g, TLI_VALUE_NUMBER, g->nnumbers++);
}

int32_t tli_graph_constant(tli_Graph *g, const char *name, tl_Tensor *tensor) {
  if (!tli_region_grow(&g->region, (void **)&g->constants, g->nconstants, sizeof *g->constants))
    return -1;
  name = tli_region_text(&g->region, name, strlen(name));
  if (name == NULL) return -1;
  g->constants[g->nconstants] = (tli_GraphConstant){name, tli_retain(tensor), false, false};
  return tli_graph_value(g, TLI_VALUE_CONSTANT, g->nconstants++);
}

int32_t tli_graph_input(tli_Graph *g, const tli_GraphInput *input) {
  if (!tli_region_grow(&g->region, (void **)&g->inputs, g->ninputs, sizeof *g->inputs)) return -1;
  tli_GraphInput *in = &g->inputs[g->ninputs];
  *in = *input;
  in->name = tli_region_text(&g->region, input->name, strlen(input->name));
  in->value = in->name ? tli_graph_value(g, TLI_VALUE_INPUT, g->ninputs) : -1;
  if (in->value >= 0) g->ninputs++;
  return in->value;
}

bool tli_graph_output(tli_Graph *g, int32_t value) {
  if (!tli_region_grow(&g->region, (void **)&g->outputs, g->noutputs, sizeof *g->outputs))
    return false;
  g->outputs[g->noutputs++] = value;
  return true;
}

tli_GraphCall *tli_graph_call(tli_Graph *g, const tli_Call *call, int32_t nresults) {
  if (!tli_region_grow(&g->region, (void **)&g->calls, g->ncalls, sizeof *g->calls)) return NULL;
  tli_GraphCall *made = &g->calls[g->ncalls];
  *made = (tli_GraphCall){.call = call, .nresults = nresults};
  made->args = tli_region_get(&g->region, call->nparams, sizeof *made->args);
  made->results = tli_region_get(&g->region, nresults, sizeof *made->results);
  if (made->args == NULL || made->results == NULL) return NULL;
  for (int32_t i = 0; i < nresults; i++) {
    made->results[i] = tli_graph_value(g, TLI_VALUE_RESULT, g->ncalls);
    if (made->results[i] < 0) return NULL;
  }
  g->ncalls++;
  return made;
}

tli_GraphHole *tli_graph_hole(tli_Graph *g) {
  if (!tli_region_grow(&g->region, (void **)&g->holes, g->nholes, sizeof *g->holes)) return NULL;
  tli_GraphHole *hole = &g->holes[g->nholes];
  *hole = (tli_GraphHole){.call = -1, .element = -1};
  hole->factors = tli_region_get(&g->region, g->nsymbols, sizeof *hole->factors);
  if (hole->factors) g->nholes++;
  return hole->factors ? hole : NULL;
}

bool tli_graph_hole_value(const tli_Graph *g, const tli_GraphHole *h, const int64_t *sizes,
                          int64_t *out) {
  int64_t sum = h->base, term;
  bool over = false;
  for (int32_t s = 0; s < g->nsymbols; s++)
    over |= __builtin_mul_overflow(h->factors[s], sizes[s], &term) ||
            __builtin_add_overflow(sum, term, &sum);
  for (int32_t i = 0; i < h->nterms; i++) {
    term = h->terms[i].factor;
    for (int32_t k = 0; k < h->terms[i].n; k++)
      over |= __builtin_mul_overflow(term, sizes[h->terms[i].symbols[k]], &term);
    over |= __builtin_add_overflow(sum, term, &sum);
  }
  *out = sum;
  return (!over && sum != TLI_NOINT) || tli_fail(TL_ESHAPE, "program: a size overflows");
}

static bool keep_list(tli_Graph *g, const void **list, int64_t n, size_t size) {
  if (*list == NULL) return true;
  void *copy = tli_region_get(&g->region, n, size);
  if (copy == NULL) return false;
  memcpy(copy, *list, (size_t)n * size);
  *list = copy;
  return true;
}

/* Compares the names of operators instead of their entries, so that it does not refer to the
** operators, which small libraries may lack. */
bool tli_graph_placed(const tli_Graph *g, const tli_GraphCall *call) {
  if (strcmp(call->call->name, "as_strided") != 0 || call->args[3].integer == TLI_NOINT)
    return false;
  const tli_GraphValue *of = &g->values[call->args[0].integer];
  while (of->kind == TLI_VALUE_RESULT && strcmp(g->calls[of->index].call->name, "detach") == 0)
    of = &g->values[g->calls[of->index].args[0].integer];
  return of->kind != TLI_VALUE_RESULT;
}

bool tli_graph_keep(tli_Graph *g, tli_CallKind kind, tli_CallArg *arg) {
  if (tli_kind_is_ints(kind) || kind == TLI_CALL_TENSORS)
    return keep_list(g, (const void **)&arg->ints.v, arg->ints.n, sizeof *arg->ints.v);
  if (kind == TLI_CALL_FLOATS)
    return keep_list(g, (const void **)&arg->reals.v, arg->reals.n, sizeof *arg->reals.v);
  if (kind != TLI_CALL_STRING || arg->text == NULL) return true;
  arg->text = tli_region_text(&g->region, arg->text, strlen(arg->text));
  return arg->text != NULL;
}

bool tli_graph_has_state(const tli_Graph *g) {
  for (int32_t i = 0; i < g->nconstants; i++)
    if (g->constants[i].state) return true;
  return false;
}

bool tli_graph_place_fits(const tli_Graph *g, const tli_GraphPlace *p) {
  if (p->call < 0 || p->call >= g->ncalls || p->param < 0 || p->element < 0) return false;
  const tli_GraphCall *c = &g->calls[p->call];
  return p->param < c->call->nparams && c->call->params[p->param].kind == TLI_CALL_FLOATS &&
         c->args[p->param].reals.v && p->element < c->args[p->param].reals.n;
}

bool tli_graph_schedule(tli_Graph *g, tl_Tensor *rates, const tli_GraphPlace *places, int32_t n) {
  tl_Tensor *count = tli_empty(TL_I64, TLI_CPU, 0, NULL);
  if (count == NULL) return false;
  *(int64_t *)tli_data(count) = 0;
  tli_GraphSchedule *s = &g->schedule;
  s->places = tli_region_get(&g->region, n, sizeof *s->places);
  bool ok = s->places && tli_graph_constant(g, "schedule.rates", rates) >= 0;
  s->rates = g->nconstants - 1;
  ok = ok && tli_graph_constant(g, "schedule.step", count) >= 0;
  s->count = g->nconstants - 1;
  tli_release(count);
  if (!ok) return false;
  g->constants[s->count].state = true;
  memcpy(s->places, places, (size_t)n * sizeof *places);
  s->nplaces = n;
  return true;
}

const tli_Call *tli_call_find(const char *name) {
  for (int i = 0; i < tli_branch_calls_count; i++)
    if (strcmp(name, tli_branch_calls[i]->name) == 0) return tli_branch_calls[i];
/* builds for inference alone have no calls of autograd */
#if !defined(TLI_INFER) || defined(TLI_TRAIN)
  for (int i = 0; i < tli_autograd_calls_count; i++)
    if (strcmp(name, tli_autograd_calls[i]->name) == 0) return tli_autograd_calls[i];
#endif
  int low = 0, high = tli_calls_count;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(name, tli_calls[middle]->name);
    if (order == 0) return tli_calls[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* ---- guards ---- */

static bool bad_input(const tli_GraphInput *in, const tl_Tensor *t, int d, int64_t expected) {
  return tli_fail(TL_ESHAPE,
                  "program: %s: expected size %" PRId64 " in dimension " TLI_POS
                  ", as in the exported call, got sizes %s",
                  in->name, expected, (int64_t)d, tli_sizes_str(t));
}

bool tli_graph_check_input(const tli_Graph *g, const tli_GraphInput *in, const tl_Tensor *t,
                           int64_t *sizes) {
  if (t == NULL) return tli_fail(TL_EARG, "program: %s: expected a tensor, got NULL", in->name);
  tl_Device on = tli_device(t);
  if (on.type != TL_CPU && (on.type != g->device.type || on.index != g->device.index))
    return tli_fail(TL_EDEVICE, "program: %s: expected a tensor on %s%s, got one on %s", in->name,
                    g->device.type == TL_CPU ? "the CPU" : tli_device_str(g->device),
                    g->device.type == TL_CPU ? "" : " or the CPU", tli_device_str(on));
  if ((tl_DType)t->dtype != in->dtype)
    return tli_fail(TL_EDTYPE, "program: %s: expected dtype %s, as in the exported call, got %s",
                    in->name, tl_dtype_name(in->dtype), tl_dtype_name((tl_DType)t->dtype));
  if (t->ndim != in->ndim)
    return tli_fail(TL_ESHAPE,
                    "program: %s: expected %d dimensions, as in the exported call, got sizes %s",
                    in->name, in->ndim, tli_sizes_str(t));
  for (int d = 0; d < in->ndim; d++) {
    int32_t s = in->symbols[d];
    if (s < 0 && t->sizes[d] != in->sizes[d]) return bad_input(in, t, d, in->sizes[d]);
    if (s < 0) continue;
    if (sizes[s] < 0) sizes[s] = t->sizes[d];
    if (sizes[s] != t->sizes[d])
      return tli_fail(TL_ESHAPE,
                      "program: %s: expected size %" PRId64 " in dimension " TLI_POS
                      ", which is %s as in another input, got sizes %s",
                      in->name, sizes[s], (int64_t)d, g->symbols[s].name, tli_sizes_str(t));
    if (t->sizes[d] < g->symbols[s].least)
      return tli_fail(TL_ESHAPE,
                      "program: %s: expected a size of at least %" PRId64 " in dimension " TLI_POS
                      ", got sizes %s",
                      in->name, g->symbols[s].least, (int64_t)d, tli_sizes_str(t));
    if (t->sizes[d] > g->symbols[s].most)
      return tli_fail(
          TL_ESHAPE,
          "program: %s: expected a size of at most %" PRId64 " in dimension " TLI_POS
          ", the largest of %s in the export, got sizes %s (give `max` in `dynamic` for "
          "larger ones)",
          in->name, g->symbols[s].most, (int64_t)d, g->symbols[s].name, tli_sizes_str(t));
  }
  return true;
}
