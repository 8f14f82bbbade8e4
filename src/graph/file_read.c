/*
** file_read.c - reads programs from files in the format that file.h describes.
*/
#include "graph/file.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/kernel/byte_order.h"
#include "core/memory/alloc.h"
#include "core/platform/platform.h"
#include "graph/json.h"
#include "ops/common.h"

static tl_DType dtype_by(const char *name, bool code) {
  char text[16];
  for (int d = 0; d < TL_NDTYPES; d++) {
    const char *known = code ? tli_file_code((tl_DType)d, text) : tl_dtype_name((tl_DType)d);
    if (strcmp(known, name) == 0) return (tl_DType)d;
  }
  return TL_NODTYPE;
}

typedef struct File {
  void *data;
  size_t bytes;
  void (*release)(void *data, void *context);
  void *context;
  /* number of references to the file's bytes: one for the reader, and one for each tensor in the
  ** file */
  atomic_int refs;
} File;

typedef struct Loader {
  tli_Graph *g;
  tli_Region region; /* the memory of the parsed JSON */
  File *file;
  const tli_Json *header;
  const char *data; /* the tensors' bytes, which follow the header */
  size_t data_bytes;
  tl_Tensor *const *given; /* the constants, if they are not in a file; NULL otherwise */
  int ngiven;
} Loader;

static bool wrong(const char *what) { return tli_fail(TL_EIO, "expected %s", what); }

static bool is_list(const tli_Json *j) { return j && j->kind == TLI_JSON_ARRAY; }

/* Returns the i-th element of a list, or NULL if there is none. */
static const tli_Json *at(const tli_Json *list, int64_t i) {
  if (!is_list(list)) return NULL;
  const tli_Json *j = list->first;
  while (j && i-- > 0) j = j->next;
  return j;
}

static const char *text_at(const tli_Json *list, int64_t i) {
  const tli_Json *j = at(list, i);
  return j && j->kind == TLI_JSON_STRING ? j->text : NULL;
}

static bool int_of(const tli_Json *j, int64_t low, int64_t high, int64_t *out) {
  if (j == NULL || j->kind != TLI_JSON_INTEGER || j->integer < low || j->integer > high)
    return false;
  *out = j->integer;
  return true;
}

static bool real_of(const tli_Json *j, double *out) {
  if (j->kind == TLI_JSON_REAL || j->kind == TLI_JSON_INTEGER) {
    *out = j->kind == TLI_JSON_REAL ? j->real : (double)j->integer;
    return true;
  }
  if (j->kind != TLI_JSON_STRING) return false;
  if (strcmp(j->text, "nan") == 0) return *out = NAN, true;
  if (strcmp(j->text, "inf") == 0) return *out = INFINITY, true;
  if (strcmp(j->text, "-inf") == 0) return *out = -INFINITY, true;
  return false;
}

static bool number_of(const tli_Json *j, tl_Scalar *out) {
  *out = (tl_Scalar){.kind = TL_NONE};
  if (j->kind == TLI_JSON_NULL) return true;
  if (j->kind == TLI_JSON_BOOLEAN)
    return *out = (tl_Scalar){.kind = TL_BOOLEAN, .i = j->flag}, true;
  if (j->kind == TLI_JSON_INTEGER)
    return *out = (tl_Scalar){.kind = TL_INTEGER, .i = j->integer}, true;
  out->kind = TL_FLOATING;
  return real_of(j, &out->f);
}

static void unmap(void *data, void *context) { tli_file_unmap(data, (size_t)(uintptr_t)context); }

static void file_release(void *data, void *context) {
  (void)data;
  File *f = context;
  if (!tli_last_reference(&f->refs)) return;
  f->release(f->data, f->context);
  tli_free(f, sizeof *f);
}

/* Reads a tensor's entry in the header. */
static tl_Tensor *read_tensor(Loader *l, const char *name) {
  const tli_Json *entry = tli_json_field(l->header, name, TLI_JSON_OBJECT);
  const tli_Json *dtype = tli_json_field(entry, "dtype", TLI_JSON_STRING);
  const tli_Json *shape = tli_json_field(entry, "shape", TLI_JSON_ARRAY);
  const tli_Json *offsets = tli_json_field(entry, "data_offsets", TLI_JSON_ARRAY);
  tl_DType type = dtype ? dtype_by(dtype->text, true) : TL_NODTYPE;
  int64_t sizes[TL_MAX_DIMS], first, last;
  if (type == TL_NODTYPE || shape == NULL || shape->count > TL_MAX_DIMS)
    return tli_fail_null(TL_EIO, "tensor \"%s\": expected a dtype and a shape", name);
  for (int64_t d = 0; d < shape->count; d++)
    if (!int_of(at(shape, d), 0, INT64_MAX, &sizes[d]))
      return tli_fail_null(TL_EIO, "tensor \"%s\": expected sizes of at least 0", name);
  int64_t count = tli_numel((int)shape->count, sizes, tli_dtype_bytes[type]);
  if (!int_of(at(offsets, 0), 0, (int64_t)l->data_bytes, &first) ||
      !int_of(at(offsets, 1), first, (int64_t)l->data_bytes, &last) || count < 0 ||
      last - first != count * (int64_t)tli_dtype_bytes[type])
    return tli_fail_null(TL_EIO,
                         "tensor \"%s\": expected data_offsets within the file's %zu bytes of data "
                         "that fit the shape",
                         name, l->data_bytes);
  char *data = (char *)l->data + first;
  if (!TLI_BIG_ENDIAN && count > 0 && (uintptr_t)data % tli_dtype_bytes[type] == 0) {
    atomic_fetch_add(&l->file->refs, 1);
    tl_Tensor *t = tli_wrap("program", TLI_CPU, data, type, (int)shape->count, sizes, NULL,
                            file_release, l->file);
    if (t == NULL) file_release(NULL, l->file);
    return t;
  }
  tl_Tensor *copy = tli_empty(type, TLI_CPU, (int)shape->count, sizes);
  if (copy && last > first) memcpy(tli_data(copy), data, (size_t)(last - first));
  if (copy) tli_swap_for_file(tli_data(copy), count, type);
  return copy;
}

static bool read_constants(Loader *l, const tli_Json *list) {
  if (!is_list(list)) return wrong("\"constants\"");
  for (const tli_Json *j = list->first; j; j = j->next) {
    if (j->kind != TLI_JSON_STRING) return wrong("names of constants");
    if (l->given && l->g->nconstants >= l->ngiven) return wrong("a tensor for each constant");
    tl_Tensor *t = l->given ? tli_retain(l->given[l->g->nconstants]) : read_tensor(l, j->text);
    int32_t value = t ? tli_graph_constant(l->g, j->text, t) : -1;
    tli_release(t);
    if (value < 0) return false;
  }
  return true;
}

static bool read_symbols(Loader *l, const tli_Json *list) {
  tli_Graph *g = l->g;
  if (!is_list(list)) return wrong("\"symbols\"");
  g->symbols = tli_region_get(&g->region, list->count, sizeof *g->symbols);
  if (g->symbols == NULL) return false;
  for (const tli_Json *j = list->first; j; j = j->next) {
    tli_GraphSymbol *s = &g->symbols[g->nsymbols];
    s->name = text_at(j, 0);
    if (s->name == NULL || !int_of(at(j, 1), 0, INT32_MAX, &s->example) ||
        !int_of(at(j, 2), 0, INT32_MAX, &s->least))
      return wrong("a name and sizes as a symbol");
    s->most = INT64_MAX; /* a symbol without a stored maximum has no limit */
    if (j->count > 3 && !int_of(at(j, 3), 0, INT64_MAX, &s->most))
      return wrong("a largest size of a symbol");
    s->name = tli_region_text(&g->region, s->name, strlen(s->name));
    if (s->name == NULL) return false;
    g->nsymbols++;
  }
  return true;
}

static int32_t symbol_named(const tli_Graph *g, const char *name) {
  for (int32_t s = 0; s < g->nsymbols; s++)
    if (strcmp(g->symbols[s].name, name) == 0) return s;
  return -1;
}

static bool read_input(Loader *l, const tli_Json *j) {
  tli_GraphInput in = {.name = text_at(j, 0)};
  const char *dtype = text_at(j, 1);
  const tli_Json *sizes = at(j, 2);
  in.dtype = dtype ? dtype_by(dtype, false) : TL_NODTYPE;
  if (in.name == NULL || in.dtype == TL_NODTYPE || !is_list(sizes) || sizes->count > TL_MAX_DIMS)
    return wrong("a name, a dtype and sizes as an input");
  for (const tli_Json *s = sizes->first; s; s = s->next, in.ndim++) {
    bool dynamic = s->kind == TLI_JSON_STRING;
    in.symbols[in.ndim] = dynamic ? symbol_named(l->g, s->text) : -1;
    if (dynamic ? in.symbols[in.ndim] < 0 : !int_of(s, 0, INT64_MAX, &in.sizes[in.ndim]))
      return wrong("sizes of an input of at least 0, or symbols");
  }
  return tli_graph_input(l->g, &in) >= 0;
}

static bool read_inputs(Loader *l, const tli_Json *list) {
  if (!is_list(list)) return wrong("\"inputs\"");
  for (const tli_Json *j = list->first; j; j = j->next) TL_TRY(read_input(l, j));
  return true;
}

static bool read_numbers(Loader *l, const tli_Json *list) {
  tl_Scalar number;
  if (!is_list(list)) return wrong("\"numbers\"");
  for (const tli_Json *j = list->first; j; j = j->next)
    if (!number_of(j, &number) || number.kind == TL_NONE || tli_graph_number(l->g, number) < 0)
      return wrong("numbers");
  return true;
}

/* ---- calls ---- */

static bool wrong_argument(const tli_Call *call, int param) {
  return tli_fail(TL_EIO, "operator %s: argument %s does not fit", call->name,
                  call->params[param].name);
}

/* Reads the number of a value that the graph already has; null becomes -1. */
static bool read_value(const Loader *l, const tli_Json *j, bool number, bool none, int64_t *out) {
  *out = -1;
  if (j->kind == TLI_JSON_NULL) return none;
  return int_of(j, 0, (int64_t)l->g->nvalues - 1, out) &&
         (number || l->g->values[*out].kind != TLI_VALUE_NUMBER);
}

static bool read_values(Loader *l, const tli_Call *call, const tli_Json *j, tl_Ints *out) {
  bool none = strncmp(call->name, "index", 5) == 0 || strncmp(call->name, "autograd_", 9) == 0;
  if (!is_list(j)) return false;
  int64_t *v = tli_region_get(&l->g->region, j->count, sizeof *v);
  if (v == NULL) return false;
  *out = (tl_Ints){j->count, v};
  for (const tli_Json *e = j->first; e; e = e->next) TL_TRY(read_value(l, e, false, none, v++));
  return true;
}

static bool read_ints(Loader *l, const tli_Json *j, bool none, tl_Ints *out) {
  *out = TLI_NOINTS;
  if (j->kind == TLI_JSON_NULL) return none;
  if (!is_list(j)) return false;
  int64_t *v = tli_region_get(&l->g->region, j->count, sizeof *v);
  if (v == NULL) return false;
  *out = (tl_Ints){j->count, v};
  for (const tli_Json *e = j->first; e; e = e->next)
    TL_TRY(int_of(e, INT64_MIN + 1, INT64_MAX, v++));
  return true;
}

static bool read_reals(Loader *l, const tli_Json *j, bool none, tl_Floats *out) {
  *out = TLI_NOFLOATS;
  if (j->kind == TLI_JSON_NULL) return none;
  if (!is_list(j)) return false;
  double *v = tli_region_get(&l->g->region, j->count, sizeof *v);
  if (v == NULL) return false;
  *out = (tl_Floats){j->count, v};
  for (const tli_Json *e = j->first; e; e = e->next) TL_TRY(real_of(e, v++));
  return true;
}

/* Reads an argument that is neither a tensor nor a list. */
static bool read_plain(Loader *l, int kind, const tli_Json *j, bool none, tli_CallArg *out) {
  bool null = j->kind == TLI_JSON_NULL, text = j->kind == TLI_JSON_STRING;
  if (kind == TLI_CALL_NUMBER) return number_of(j, &out->number) && (none || !null);
  if (kind == TLI_CALL_FLOAT) return real_of(j, &out->real);
  if (tli_kind_is_int(kind)) {
    out->integer = TLI_NOINT;
    return null ? none : int_of(j, INT64_MIN + 1, INT64_MAX, &out->integer);
  }
  if (kind == TLI_CALL_BOOL || kind == TLI_CALL_TRUE) {
    out->flag = j->kind == TLI_JSON_BOOLEAN && j->flag;
    return j->kind == TLI_JSON_BOOLEAN && (out->flag || kind == TLI_CALL_BOOL);
  }
  if (kind == TLI_CALL_STRING) {
    out->text = text ? tli_region_text(&l->g->region, j->text, (size_t)j->count) : NULL;
    return text ? out->text != NULL : null && none;
  }
  if (kind == TLI_CALL_DTYPE) {
    out->dtype = text ? dtype_by(j->text, false) : TL_NODTYPE;
    return text ? out->dtype != TL_NODTYPE : null && none;
  }
  if (kind == TLI_CALL_DEVICE) {
    out->device = text ? TLI_CPU : TLI_NODEVICE;
    return text ? strcmp(j->text, "cpu") == 0 : null && none;
  }
  out->generator = NULL;
  return null;
}

static bool read_arg(Loader *l, const tli_Call *call, int param, const tli_Json *j,
                     tli_CallArg *out) {
  const tli_CallParam *p = &call->params[param];
  bool ok, none = p->optional;
  if (tli_kind_is_tensor(p->kind))
    ok = read_value(l, j, true, none, &out->integer);
  else if (p->kind == TLI_CALL_TENSORS)
    ok = read_values(l, call, j, &out->ints);
  else if (p->kind == TLI_CALL_FLOATS)
    ok = read_reals(l, j, none, &out->reals);
  else if (tli_kind_is_ints(p->kind))
    ok = read_ints(l, j, none, &out->ints);
  else
    ok = read_plain(l, p->kind, j, none, out);
  return ok || wrong_argument(call, param);
}

static bool may_change(const tli_Graph *g, int64_t value) {
  if (value < 0) return false;
  const tli_GraphValue *v = &g->values[value];
  return v->kind == TLI_VALUE_RESULT ||
         (v->kind == TLI_VALUE_CONSTANT && g->constants[v->index].state);
}

/* Checks a call of an operator that changes its first argument: that argument must be a result or
** part of the state. */
static bool check_writes(const Loader *l, const tli_Call *call, const tli_CallArg *args) {
  if (!(call->flags & TLI_CALL_WRITES)) return true;
  bool list = call->params[0].kind == TLI_CALL_TENSORS;
  for (int64_t i = 0; list && i < args[0].ints.n; i++)
    if (!may_change(l->g, args[0].ints.v[i])) return wrong_argument(call, 0);
  return list || may_change(l->g, args[0].integer) || wrong_argument(call, 0);
}

static bool read_call(Loader *l, const tli_Json *j) {
  const char *name = text_at(j, 0);
  const tli_Call *call = name ? tli_call_find(name) : NULL;
  const tli_Json *args = at(j, 1);
  int64_t nresults;
  const tli_Json *records = at(j, 3);
  if (name == NULL || !is_list(args) || !int_of(at(j, 2), 0, 1 << 16, &nresults) ||
      (records && (records->kind != TLI_JSON_BOOLEAN || !l->g->step)))
    return wrong("an operator's name, arguments and a number of results as a call");
  if (call == NULL)
    return tli_fail(TL_EIO, "operator %.80s: there is none of this name in this build", name);
  int least = call->nparams;
  while (least > args->count && call->params[least - 1].kind == TLI_CALL_BOOL) least--;
  if (args->count < least || args->count > call->nparams ||
      (call->nresults >= 0 && nresults != call->nresults))
    return tli_fail(TL_EIO, "operator %s: expected %d arguments and %d results", call->name,
                    call->nparams, call->nresults);
  tli_CallArg *read = tli_region_get(&l->g->region, call->nparams, sizeof *read);
  if (read == NULL) return false;
  int param = 0;
  for (const tli_Json *a = args->first; a; a = a->next, param++)
    TL_TRY(read_arg(l, call, param, a, &read[param]));
  /* the file is older than these last arguments of the operator, so they get the value false */
  for (; param < call->nparams; param++) read[param] = (tli_CallArg){.flag = false};
  if (!l->g->step && strncmp(call->name, "autograd_", 9) == 0)
    return tli_fail(TL_EIO, "operator %s: only a training step calls it", call->name);
  TL_TRY(check_writes(l, call, read));
  tli_GraphCall *made = tli_graph_call(l->g, call, (int32_t)nresults);
  if (made == NULL) return false;
  made->args = read;
  made->records = records && records->flag;
  return true;
}

static bool read_calls(Loader *l, const tli_Json *calls, const tli_Json *outputs) {
  if (!is_list(calls) || !is_list(outputs)) return wrong("\"calls\" and \"outputs\"");
  for (const tli_Json *j = calls->first; j; j = j->next) TL_TRY(read_call(l, j));
  for (const tli_Json *j = outputs->first; j; j = j->next) {
    int64_t value;
    if (!read_value(l, j, false, false, &value)) return wrong("values as outputs");
    TL_TRY(tli_graph_output(l->g, (int32_t)value));
  }
  return true;
}

/* Returns whether a hole's position refers to an integer in the graph. */
static bool hole_fits(const tli_Graph *g, const tli_GraphHole *h) {
  if (h->call < 0) return h->param < g->nnumbers && g->numbers[h->param].kind == TL_INTEGER;
  const tli_GraphCall *c = &g->calls[h->call];
  if (h->param >= c->call->nparams) return false;
  int kind = c->call->params[h->param].kind;
  if (h->element >= 0) return tli_kind_is_ints(kind) && h->element < c->args[h->param].ints.n;
  if (kind == TLI_CALL_NUMBER) return c->args[h->param].number.kind == TL_INTEGER;
  return tli_kind_is_int(kind) && c->args[h->param].integer != TLI_NOINT;
}

static bool index_of(const tli_Json *j, int32_t high, int32_t *out) {
  int64_t value = -1;
  bool ok = j && (j->kind == TLI_JSON_NULL || int_of(j, 0, (int64_t)high - 1, &value));
  *out = (int32_t)value;
  return ok;
}

/* Reads the terms of a hole (call_graph.h), each a product of a factor and two or three sizes.
** `list` is NULL if the hole has no terms. */
static bool read_terms(Loader *l, const tli_Json *list, tli_GraphHole *h) {
  if (list == NULL) return true;
  if (!is_list(list)) return false;
  h->terms = tli_region_get(&l->g->region, list->count, sizeof *h->terms);
  if (h->terms == NULL) return false;
  for (const tli_Json *j = list->first; j; j = j->next) {
    tli_GraphTerm *t = &h->terms[h->nterms++];
    const tli_Json *symbols = at(j, 1);
    if (!int_of(at(j, 0), -INT32_MAX, INT32_MAX, &t->factor) || !is_list(symbols) ||
        symbols->count < 2 || symbols->count > TLI_TERM_MOST)
      return false;
    for (const tli_Json *s = symbols->first; s; s = s->next) {
      int64_t symbol;
      if (!int_of(s, 0, (int64_t)l->g->nsymbols - 1, &symbol)) return false;
      t->symbols[t->n++] = (int32_t)symbol;
    }
  }
  return true;
}

static bool read_holes(Loader *l, const tli_Json *list) {
  tli_Graph *g = l->g;
  if (!is_list(list)) return wrong("\"holes\"");
  for (const tli_Json *j = list->first; j; j = j->next) {
    tli_GraphHole *h = tli_graph_hole(g);
    const tli_Json *factors = at(j, 4);
    if (h == NULL) return false;
    bool ok = index_of(at(j, 0), g->ncalls, &h->call) && index_of(at(j, 1), INT32_MAX, &h->param) &&
              h->param >= 0 && index_of(at(j, 2), INT32_MAX, &h->element) &&
              int_of(at(j, 3), -INT32_MAX, INT32_MAX, &h->base) && is_list(factors) &&
              factors->count == g->nsymbols;
    const tli_Json *factor = ok ? factors->first : NULL;
    for (int32_t s = 0; ok && s < g->nsymbols; s++, factor = factor->next)
      ok = int_of(factor, -INT32_MAX, INT32_MAX, &h->factors[s]);
    if (!ok || !hole_fits(g, h) || !read_terms(l, at(j, 5), h))
      return wrong("a place, a base, factors and products as a hole");
  }
  return true;
}

/* Copies a constant to memory of its own, because runs may change the constant. */
static bool own_memory(tli_GraphConstant *c) {
  tl_Tensor *copy = tli_clone_for("program", c->tensor);
  if (copy == NULL) return false;
  tli_release(c->tensor);
  c->tensor = copy;
  return true;
}

static bool read_indices(Loader *l, const tli_Json *list, bool leaves) {
  if (!is_list(list)) return wrong("\"state\" and \"leaves\"");
  for (const tli_Json *j = list->first; j; j = j->next) {
    int64_t i;
    if (!int_of(j, 0, (int64_t)l->g->nconstants - 1, &i)) return wrong("constants as state");
    tli_GraphConstant *c = &l->g->constants[i];
    if (leaves && !tli_is_float((tl_DType)c->tensor->dtype)) return wrong("floating leaves");
    if (!leaves && !c->state && l->given == NULL) TL_TRY(own_memory(c));
    *(leaves ? &c->leaf : &c->state) = true;
  }
  return true;
}

static bool read_state(Loader *l, const tli_Json *p) {
  const tli_Json *leaves = tli_json_field(p, "leaves", TLI_JSON_ARRAY);
  const tli_Json *random = tli_json_field(p, "random", TLI_JSON_ARRAY);
  int64_t seed, offset;
  TL_TRY(read_indices(l, tli_json_field(p, "state", TLI_JSON_ARRAY), false));
  l->g->step = leaves != NULL;
  if (leaves == NULL) return true;
  if (!int_of(at(random, 0), INT64_MIN, INT64_MAX, &seed) ||
      !int_of(at(random, 1), INT64_MIN, INT64_MAX, &offset))
    return wrong("a seed and an offset as \"random\"");
  l->g->seed = (uint64_t)seed;
  l->g->offset = (uint64_t)offset;
  return read_indices(l, leaves, true);
}

/* Reads the schedule: the numbers that change from step to step. j is NULL if there is no
** schedule. */
static bool read_schedule(Loader *l, const tli_Json *j) {
  tli_Graph *g = l->g;
  tli_GraphSchedule *s = &g->schedule;
  const tli_Json *places = at(j, 2);
  int64_t rates, count, index[3];
  if (j == NULL) return true;
  if (!int_of(at(j, 0), 0, (int64_t)g->nconstants - 1, &rates) ||
      !int_of(at(j, 1), 0, (int64_t)g->nconstants - 1, &count) || !is_list(places))
    return wrong("two constants and places as a schedule");
  const tl_Tensor *table = g->constants[rates].tensor, *counter = g->constants[count].tensor;
  if (table->dtype != TL_F64 || table->ndim != 2 || table->sizes[1] != places->count ||
      counter->dtype != TL_I64 || counter->numel != 1 || !g->constants[count].state)
    return wrong("a float64 matrix and an int64 number as a schedule");
  s->places = tli_region_get(&g->region, places->count, sizeof *s->places);
  if (s->places == NULL) return false;
  for (const tli_Json *p = places->first; p; p = p->next) {
    for (int k = 0; k < 3; k++)
      if (!int_of(at(p, k), 0, INT32_MAX, &index[k])) return wrong("places of a schedule");
    s->places[s->nplaces] =
        (tli_GraphPlace){(int32_t)index[0], (int32_t)index[1], (int32_t)index[2]};
    if (!tli_graph_place_fits(g, &s->places[s->nplaces++])) return wrong("places of a schedule");
  }
  s->rates = (int32_t)rates;
  s->count = (int32_t)count;
  return true;
}

static bool read_program(Loader *l, const tli_Json *p) {
  tli_Graph *g = l->g;
  const tli_Json *version = tli_json_field(p, "version", TLI_JSON_INTEGER);
  if (version == NULL) return wrong("a program with a version");
  if (version->integer < TLI_FILE_PLAIN || version->integer > TLI_FILE_WITH_PRODUCTS)
    return tli_fail(TL_EIO, "expected a program of version %d to %d, got version %" PRId64,
                    TLI_FILE_PLAIN, TLI_FILE_WITH_PRODUCTS, version->integer);
  const tli_Json *state = tli_json_field(p, "state", TLI_JSON_ARRAY);
  bool plain = version->integer == TLI_FILE_PLAIN ||
               (version->integer == TLI_FILE_WITH_PRODUCTS && state == NULL);
  const tli_Json *training = tli_json_field(p, "training", TLI_JSON_BOOLEAN);
  const tli_Json *structure = tli_json_field(p, "structure", TLI_JSON_STRING);
  const tli_Json *dtype = tli_json_field(p, "dtype", TLI_JSON_STRING);
  g->training = training && training->flag;
  g->dtype = dtype ? dtype_by(dtype->text, false) : TL_NODTYPE;
  if (g->dtype == TL_NODTYPE || !tli_is_float(g->dtype)) return wrong("a floating \"dtype\"");
  if (structure) {
    g->structure = tli_region_text(&g->region, structure->text, (size_t)structure->count);
    if (g->structure == NULL) return false;
  }
  return read_symbols(l, tli_json_field(p, "symbols", TLI_JSON_ARRAY)) &&
         read_inputs(l, tli_json_field(p, "inputs", TLI_JSON_ARRAY)) &&
         read_constants(l, tli_json_field(p, "constants", TLI_JSON_ARRAY)) &&
         (plain || read_state(l, p)) &&
         read_numbers(l, tli_json_field(p, "numbers", TLI_JSON_ARRAY)) &&
         read_calls(l, tli_json_field(p, "calls", TLI_JSON_ARRAY),
                    tli_json_field(p, "outputs", TLI_JSON_ARRAY)) &&
         read_holes(l, tli_json_field(p, "holes", TLI_JSON_ARRAY)) &&
         (!g->step || read_schedule(l, tli_json_field(p, "schedule", TLI_JSON_ARRAY)));
}

static bool read_file(Loader *l) {
  const unsigned char *bytes = l->file->data;
  uint64_t length = 0;
  if (l->file->bytes < 8) return wrong("a safetensors file, got less than 8 bytes");
  for (int i = 0; i < 8; i++) length |= (uint64_t)bytes[i] << 8 * i;
  if (length > TLI_FILE_HEADER_MAX || length > l->file->bytes - 8)
    return wrong("a safetensors file, got a header that is longer than the file");
  l->data = (const char *)bytes + 8 + length;
  l->data_bytes = l->file->bytes - 8 - (size_t)length;
  l->header = tli_json_read(&l->region, (const char *)bytes + 8, (size_t)length);
  if (l->header == NULL) return false;
  const tli_Json *metadata = tli_json_field(l->header, "__metadata__", TLI_JSON_OBJECT);
  const tli_Json *text = tli_json_field(metadata, "program", TLI_JSON_STRING);
  if (text == NULL)
    return wrong("a file that torch.export.save has written, got one without a program");
  const tli_Json *program = tli_json_read(&l->region, text->text, (size_t)text->count);
  return program && read_program(l, program);
}

tli_Graph *tli_graph_read(void *data, size_t bytes, void (*release)(void *data, void *context),
                          void *context) {
  Loader l = {.g = tli_graph_new(), .file = tli_alloc(sizeof *l.file)};
  bool ok = l.g && l.file;
  if (l.file) {
    *l.file = (File){data, bytes, release, context, 1};
    ok = ok && read_file(&l);
  }
  tli_region_free(&l.region);
  if (!ok) {
    /* releasing the graph also releases its tensors; the caller still owns the bytes */
    tli_graph_release(l.g);
    tli_free(l.file, sizeof *l.file);
    return NULL;
  }
  file_release(NULL, l.file);
  return l.g;
}

#ifndef TLI_RUNTIME
tli_Graph *tli_graph_parse(const char *text, size_t size, tl_Tensor *const *constants, int n,
                           tl_Device device) {
  Loader l = {.g = tli_graph_new(), .given = constants, .ngiven = n};
  if (l.g == NULL) return NULL;
  l.g->device = device;
  const tli_Json *program = tli_json_read(&l.region, text, size);
  bool ok = program && read_program(&l, program);
  tli_region_free(&l.region);
  if (ok) return l.g;
  tli_graph_release(l.g);
  return NULL;
}
#endif

tli_Graph *tli_graph_load(const char *path) {
  size_t bytes;
  void *data = tli_file_map(path, &bytes);
  if (data == NULL) return tli_fail_null(TL_EIO, "export.load: %s: %s", path, strerror(errno));
  tli_Graph *g = tli_graph_read(data, bytes, unmap, (void *)(uintptr_t)bytes);
  if (g == NULL) {
    char why[600];
    tl_ErrorKind kind = tl_error_kind();
    snprintf(why, sizeof why, "%s", tl_error());
    tli_file_unmap(data, bytes);
    return tli_fail_null(kind, "export.load: %s: %s", path, why);
  }
  return g;
}
