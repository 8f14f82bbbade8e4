/*
** file.c - stores programs in safetensors files, whose metadata describes the graph as plain data.
**
**   {"__metadata__": {"format": "tlua.program", "program": "<JSON>"},
**    "layer.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...}
**
** The program is {"version", "inputs": [[name, dtype, [size or symbol, ...]], ...], "symbols":
** [[name, example, least, most], ...], "constants": [name, ...], "numbers": [number, ...], "calls":
** [[operator, [argument, ...], results], ...], "outputs": [value, ...], "holes": [[call or null,
** parameter, element or null, base, [factor, ...]], ...], "training", "dtype", "structure"}. Values
** are numbered: inputs, constants, numbers, then the results of the calls in their order. An
** argument is a value's number, a list of them, or plain data by the parameter's kind; null stands
** for an absent argument.
**
** Version 2 is a program that changes its constants. It has "state": [index of a constant, ...] as
** well, and a training step also "leaves": [index, ...], "random": [seed, offset], "schedule": null
** or [index of the rates, index of the step count, [[call, parameter, element], ...]]; a call
** during which gradients are recorded has `true` as its fourth element.
**
** Version 3 is a program with integers that depend on products of sizes: a hole may have a sixth
** element, [[factor, [symbol, ...]], ...]. It may have all fields of version 2.
**
** Each tensor's data begins at a multiple of 64 bytes. As safetensors has no gaps, entries named
** "__padding__.1" and so on fill the bytes in between.
**
** A file is not trusted. The reader checks the invariant of call_graph.h, that tensors lie within
** the file, and that required arguments are present; the operators check everything else, as they
** do for any caller.
** */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/platform.h"
#include "core/platform/replace.h"
#include "graph/json.h"
#include "graph/text.h"
#include "ops/common.h"

enum { PLAIN = 1, WITH_STATE = 2, WITH_PRODUCTS = 3 }; /* versions */
#define ALIGNMENT 64
#define HEADER_MAX ((uint64_t)100000000) /* the largest header that the format allows, in bytes */

/* Maps prefixes of dtype names to the format's letters. */
static const char *const letters[][2] = {
    {"bfloat", "BF"}, {"float", "F"}, {"uint", "U"}, {"int", "I"}, {"bool", "BOOL"}};

static const char *code_of(tl_DType dtype, char out[16]) {
  const char *name = tl_dtype_name(dtype);
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
    size_t n = strlen(letters[i][0]);
    if (strncmp(name, letters[i][0], n) != 0) continue;
    snprintf(out, 16, "%s%s", letters[i][1], name + n);
#ifndef TLI_INFER /* float8_e4m3fn is F8_E4M3, and float8_e8m0fnu F8_E8M0 */
    for (char *at = out; *at; at++) *at = (char)toupper((unsigned char)*at);
    if (dtype == TL_F8E4M3 || dtype == TL_F8E8M0) out[7] = '\0';
#endif
    return out;
  }
  return name;
}

static tl_DType dtype_by(const char *name, bool code) {
  char text[16];
  for (int d = 0; d < TL_NDTYPES; d++) {
    const char *known = code ? code_of((tl_DType)d, text) : tl_dtype_name((tl_DType)d);
    if (strcmp(known, name) == 0) return (tl_DType)d;
  }
  return TL_NODTYPE;
}

/* ---- writing ---- */

typedef struct Writer {
  const tli_Graph *g;
  tli_Text text;
  int32_t *numbers; /* for each value of the graph: its number in the file */
} Writer;

static void put_string(Writer *w, const char *text) {
  tli_text_quote(&w->text, text, strlen(text));
}

static void put_int(Writer *w, int64_t value) { tli_text_format(&w->text, "%" PRId64, value); }

static void put_value(Writer *w, int64_t value) {
  if (value < 0)
    tli_text_put(&w->text, "null");
  else
    put_int(w, w->numbers[value]);
}

static void put_number(Writer *w, tl_Scalar s) {
  if (s.kind == TL_NONE)
    tli_text_put(&w->text, "null");
  else if (s.kind == TL_BOOLEAN)
    tli_text_put(&w->text, s.i ? "true" : "false");
  else if (s.kind == TL_INTEGER)
    put_int(w, s.i);
  else
    tli_text_real(&w->text, s.f);
}

static void comma(Writer *w, int64_t i) {
  if (i > 0) tli_text_put(&w->text, ",");
}

static void put_list(Writer *w, int kind, const tli_CallArg *arg) {
  bool reals = kind == TLI_CALL_FLOATS;
  int64_t n = reals ? arg->reals.n : arg->ints.n;
  if (reals ? arg->reals.v == NULL : arg->ints.v == NULL && kind != TLI_CALL_TENSORS) {
    tli_text_put(&w->text, "null");
    return;
  }
  tli_text_put(&w->text, "[");
  for (int64_t i = 0; i < n; i++) {
    comma(w, i);
    if (reals)
      tli_text_real(&w->text, arg->reals.v[i]);
    else if (kind == TLI_CALL_TENSORS)
      put_value(w, arg->ints.v[i]);
    else
      put_int(w, arg->ints.v[i]);
  }
  tli_text_put(&w->text, "]");
}

static void put_arg(Writer *w, int kind, const tli_CallArg *arg) {
  const char *none = "null";
  if (tli_kind_is_tensor(kind))
    put_value(w, arg->integer);
  else if (kind == TLI_CALL_TENSORS || kind == TLI_CALL_FLOATS || tli_kind_is_ints(kind))
    put_list(w, kind, arg);
  else if (kind == TLI_CALL_NUMBER)
    put_number(w, arg->number);
  else if (tli_kind_is_int(kind) && arg->integer != TLI_NOINT)
    put_int(w, arg->integer);
  else if (kind == TLI_CALL_BOOL || kind == TLI_CALL_TRUE)
    tli_text_put(&w->text, arg->flag ? "true" : "false");
  else if (kind == TLI_CALL_FLOAT)
    tli_text_real(&w->text, arg->real);
  else if (kind == TLI_CALL_STRING && arg->text)
    put_string(w, arg->text);
  else if (kind == TLI_CALL_DTYPE && arg->dtype != TL_NODTYPE)
    put_string(w, tl_dtype_name(arg->dtype));
  else if (kind == TLI_CALL_DEVICE && arg->device.type >= 0)
    put_string(w, "cpu");
  else
    tli_text_put(&w->text, none);
}

static void put_inputs(Writer *w) {
  const tli_Graph *g = w->g;
  tli_text_put(&w->text, "\"inputs\":[");
  for (int32_t i = 0; i < g->ninputs; i++) {
    const tli_GraphInput *in = &g->inputs[i];
    comma(w, i);
    tli_text_put(&w->text, "[");
    put_string(w, in->name);
    tli_text_put(&w->text, ",");
    put_string(w, tl_dtype_name(in->dtype));
    tli_text_put(&w->text, ",[");
    for (int d = 0; d < in->ndim; d++) {
      comma(w, d);
      if (in->symbols[d] >= 0)
        put_string(w, g->symbols[in->symbols[d]].name);
      else
        put_int(w, in->sizes[d]);
    }
    tli_text_put(&w->text, "]]");
  }
  tli_text_put(&w->text, "],\"symbols\":[");
  for (int32_t s = 0; s < g->nsymbols; s++) {
    comma(w, s);
    tli_text_put(&w->text, "[");
    put_string(w, g->symbols[s].name);
    tli_text_format(&w->text, ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", g->symbols[s].example,
                    g->symbols[s].least, g->symbols[s].most);
  }
  tli_text_put(&w->text, "]");
}

static void put_calls(Writer *w) {
  const tli_Graph *g = w->g;
  tli_text_put(&w->text, ",\"calls\":[");
  for (int32_t i = 0; i < g->ncalls; i++) {
    const tli_GraphCall *c = &g->calls[i];
    comma(w, i);
    tli_text_put(&w->text, "[");
    put_string(w, c->call->name);
    tli_text_put(&w->text, ",[");
    for (int p = 0; p < c->call->nparams; p++) {
      comma(w, p);
      put_arg(w, c->call->params[p].kind, &c->args[p]);
    }
    tli_text_format(&w->text, "],%d%s]", (int)c->nresults, c->records ? ",true" : "");
  }
  tli_text_put(&w->text, "],\"outputs\":[");
  for (int32_t i = 0; i < g->noutputs; i++) {
    comma(w, i);
    put_value(w, g->outputs[i]);
  }
  tli_text_put(&w->text, "]");
}

static void put_index(Writer *w, int32_t index) {
  tli_text_format(&w->text, index < 0 ? "null" : "%d", (int)index);
}

static void put_terms(Writer *w, const tli_GraphHole *h) {
  for (int32_t i = 0; i < h->nterms; i++) {
    const tli_GraphTerm *t = &h->terms[i];
    tli_text_format(&w->text, "%s[%" PRId64 ",[%d,%d", i == 0 ? ",[" : ",", t->factor,
                    (int)t->symbols[0], (int)t->symbols[1]);
    if (t->n > 2) tli_text_format(&w->text, ",%d", (int)t->symbols[2]);
    tli_text_put(&w->text, "]]");
  }
  tli_text_put(&w->text, "]");
}

static bool has_products(const tli_Graph *g) {
  for (int32_t i = 0; i < g->nholes; i++)
    if (g->holes[i].nterms > 0) return true;
  return false;
}

static void put_holes(Writer *w) {
  const tli_Graph *g = w->g;
  tli_text_put(&w->text, ",\"holes\":[");
  for (int32_t i = 0; i < g->nholes; i++) {
    const tli_GraphHole *h = &g->holes[i];
    comma(w, i);
    tli_text_put(&w->text, "[");
    put_index(w, h->call);
    tli_text_format(&w->text, ",%d,", (int)h->param);
    put_index(w, h->element);
    tli_text_format(&w->text, ",%" PRId64 ",[", h->base);
    for (int32_t s = 0; s < g->nsymbols; s++) {
      comma(w, s);
      put_int(w, h->factors[s]);
    }
    tli_text_put(&w->text, "]");
    if (h->nterms > 0) put_terms(w, h);
    tli_text_put(&w->text, "]");
  }
  tli_text_put(&w->text, "]");
}

/* Writes the indices of constants: the leaves if `leaves` is true, otherwise the state. */
static void put_indices(Writer *w, const char *name, bool leaves) {
  bool any = false;
  tli_text_format(&w->text, ",\"%s\":[", name);
  for (int32_t i = 0; i < w->g->nconstants; i++) {
    if (!(leaves ? w->g->constants[i].leaf : w->g->constants[i].state)) continue;
    comma(w, any);
    put_int(w, i);
    any = true;
  }
  tli_text_put(&w->text, "]");
}

static void put_state(Writer *w) {
  const tli_Graph *g = w->g;
  const tli_GraphSchedule *s = &g->schedule;
  put_indices(w, "state", false);
  if (!g->step) return;
  put_indices(w, "leaves", true);
  tli_text_format(&w->text, ",\"random\":[%" PRId64 ",%" PRId64 "],\"schedule\":", (int64_t)g->seed,
                  (int64_t)g->offset);
  if (s->count < 0) {
    tli_text_put(&w->text, "null");
    return;
  }
  tli_text_format(&w->text, "[%d,%d,[", (int)s->rates, (int)s->count);
  for (int32_t i = 0; i < s->nplaces; i++) {
    comma(w, i);
    tli_text_format(&w->text, "[%d,%d,%d]", (int)s->places[i].call, (int)s->places[i].param,
                    (int)s->places[i].element);
  }
  tli_text_put(&w->text, "]]");
}

static void put_program(Writer *w) {
  const tli_Graph *g = w->g;
  bool state = g->step || tli_graph_has_state(g);
  int version = has_products(g) ? WITH_PRODUCTS : state ? WITH_STATE : PLAIN;
  tli_text_format(&w->text, "{\"version\":%d,", version);
  put_inputs(w);
  tli_text_put(&w->text, ",\"constants\":[");
  for (int32_t i = 0; i < g->nconstants; i++) {
    comma(w, i);
    put_string(w, g->constants[i].name);
  }
  tli_text_put(&w->text, "],\"numbers\":[");
  for (int32_t i = 0; i < g->nnumbers; i++) {
    comma(w, i);
    put_number(w, g->numbers[i]);
  }
  tli_text_put(&w->text, "]");
  put_calls(w);
  put_holes(w);
  tli_text_format(&w->text, ",\"training\":%s,\"dtype\":\"%s\"", g->training ? "true" : "false",
                  tl_dtype_name(g->dtype));
  if (state) put_state(w);
  if (g->structure) {
    tli_text_put(&w->text, ",\"structure\":");
    put_string(w, g->structure);
  }
  tli_text_put(&w->text, "}");
}

/* Numbers the values in the file's order: inputs, constants, numbers, results. */
static bool number_values(Writer *w) {
  const tli_Graph *g = w->g;
  int32_t base[] = {0, g->ninputs, g->ninputs + g->nconstants,
                    g->ninputs + g->nconstants + g->nnumbers};
  w->numbers = tli_alloc((size_t)g->nvalues * sizeof *w->numbers + 1);
  if (w->numbers == NULL) return false;
  for (int32_t v = 0; v < g->nvalues; v++)
    if (g->values[v].kind != TLI_VALUE_RESULT)
      w->numbers[v] = base[g->values[v].kind] + g->values[v].index;
  int32_t next = base[TLI_VALUE_RESULT];
  for (int32_t i = 0; i < g->ncalls; i++)
    for (int32_t r = 0; r < g->calls[i].nresults; r++) w->numbers[g->calls[i].results[r]] = next++;
  return true;
}

static int64_t bytes_of(const tl_Tensor *t) { return t->numel * tli_dtype_bytes[t->dtype]; }

static bool each_constant(Writer *w,
                          bool (*fn)(Writer *w, const tli_GraphConstant *c, void *context),
                          void *context) {
  for (int32_t i = 0; i < w->g->nconstants; i++) TL_TRY(fn(w, &w->g->constants[i], context));
  return true;
}

/* Returns the number of padding bytes after a tensor of `bytes` bytes. */
static int64_t padding(int64_t bytes) { return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT; }

static bool put_entry(Writer *w, const tli_GraphConstant *c, void *context) {
  int64_t *offset = context;
  char code[16];
  tli_text_put(&w->text, ",");
  put_string(w, c->name);
  tli_text_format(&w->text, ":{\"dtype\":\"%s\",\"shape\":[",
                  code_of((tl_DType)c->tensor->dtype, code));
  for (int d = 0; d < c->tensor->ndim; d++) {
    comma(w, d);
    put_int(w, c->tensor->sizes[d]);
  }
  int64_t end = *offset + bytes_of(c->tensor), gap = padding(end);
  tli_text_format(&w->text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", *offset, end);
  if (gap > 0)
    tli_text_format(&w->text,
                    ",\"__padding__.%d\":{\"dtype\":\"U8\",\"shape\":[%" PRId64
                    "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}",
                    (int)(c - w->g->constants) + 1, gap, end, end + gap);
  *offset = end + gap;
  return true;
}

static bool put_data(Writer *w, const tli_GraphConstant *c, void *context) {
  (void)w;
  static const char zeros[ALIGNMENT];
  size_t bytes = (size_t)bytes_of(c->tensor), gap = (size_t)padding((int64_t)bytes);
  bool ok = bytes == 0 || fwrite(tli_data(c->tensor), 1, bytes, context) == bytes;
  ok = ok && (gap == 0 || fwrite(zeros, 1, gap, context) == gap);
  return ok || tli_fail(TL_EIO, "%s", strerror(errno));
}

/* Writes the header: its length as 8 bytes, then its text, padded with spaces so that the data
** begins at a multiple of the alignment. */
static bool make_header(Writer *w) {
  tli_Text *t = &w->text;
  put_program(w);
  tli_Text program = *t;
  *t = (tli_Text){0};
  tli_text_add(t, "\0\0\0\0\0\0\0\0", 8);
  tli_text_put(t, "{\"__metadata__\":{\"format\":\"tlua.program\",\"program\":");
  if (!program.failed) tli_text_quote(t, program.data, program.size);
  tli_text_put(t, "}");
  int64_t offset = 0;
  bool ok = each_constant(w, put_entry, &offset);
  tli_text_put(t, "}");
  while (!t->failed && t->size % ALIGNMENT != 0) tli_text_put(t, " ");
  ok = ok && !program.failed && !t->failed;
  tli_text_free(&program);
  for (int i = 0; ok && i < 8; i++) t->data[i] = (char)((uint64_t)(t->size - 8) >> 8 * i);
  return ok;
}

static bool write_all(Writer *w, const char *path, bool *again) {
  tli_Replace *r = tli_replace_begin(path, *again);
  if (r == NULL) return false;
  FILE *file = tli_replace_file(r);
  bool ok = fwrite(w->text.data, 1, w->text.size, file) == w->text.size ||
            tli_fail(TL_EIO, "%s", strerror(errno));
  ok = ok && each_constant(w, put_data, file);
  if (ok) return tli_replace_commit(r, again);
  tli_replace_abort(r);
  return false;
}

#ifndef TLI_RUNTIME
bool tli_graph_describe(const tli_Graph *g, tli_Text *out) {
  Writer w = {.g = g};
  bool ok = number_values(&w);
  if (ok) put_program(&w);
  tli_free(w.numbers, (size_t)g->nvalues * sizeof *w.numbers + 1);
  *out = w.text;
  return ok && !w.text.failed;
}
#endif

bool tli_graph_save(const tli_Graph *g, const char *path) {
  Writer w = {.g = g};
  bool again = false;
  bool ok = number_values(&w) && make_header(&w);
  if (ok && !write_all(&w, path, &again)) ok = again && write_all(&w, path, &again);
  tli_text_free(&w.text);
  tli_free(w.numbers, (size_t)g->nvalues * sizeof *w.numbers + 1);
  if (!ok && tl_error_kind() != TL_EMEM) {
    char why[600];
    snprintf(why, sizeof why, "%s", tl_error());
    return tli_fail(TL_EIO, "export.save: %s: %s", path, why);
  }
  return ok;
}

/* ---- reading ---- */

typedef struct File {
  void *data;
  size_t bytes;
  void (*release)(void *data, void *context);
  void *context;
  atomic_int refs; /* one reference for the reader, and one for each tensor in the file */
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
  if (count > 0 && (uintptr_t)data % tli_dtype_bytes[type] == 0) {
    atomic_fetch_add(&l->file->refs, 1);
    tl_Tensor *t = tli_wrap("program", TLI_CPU, data, type, (int)shape->count, sizes, NULL,
                            file_release, l->file);
    if (t == NULL) file_release(NULL, l->file);
    return t;
  }
  tl_Tensor *copy = tli_empty(type, TLI_CPU, (int)shape->count, sizes);
  if (copy && last > first) memcpy(tli_data(copy), data, (size_t)(last - first));
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

/* Reads the number of an existing value; null becomes -1. */
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
  if (args->count != call->nparams || (call->nresults >= 0 && nresults != call->nresults))
    return tli_fail(TL_EIO, "operator %s: expected %d arguments and %d results", call->name,
                    call->nparams, call->nresults);
  tli_CallArg *read = tli_region_get(&l->g->region, call->nparams, sizeof *read);
  if (read == NULL) return false;
  int param = 0;
  for (const tli_Json *a = args->first; a; a = a->next, param++)
    TL_TRY(read_arg(l, call, param, a, &read[param]));
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

/* Reads the products of sizes in a hole; `list` is NULL if there are none. */
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
  if (version->integer < PLAIN || version->integer > WITH_PRODUCTS)
    return tli_fail(TL_EIO, "expected a program of version %d to %d, got version %" PRId64, PLAIN,
                    WITH_PRODUCTS, version->integer);
  const tli_Json *state = tli_json_field(p, "state", TLI_JSON_ARRAY);
  bool plain = version->integer == PLAIN || (version->integer == WITH_PRODUCTS && state == NULL);
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
  if (length > HEADER_MAX || length > l->file->bytes - 8)
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
    tli_graph_release(l.g); /* also releases the graph's tensors; the bytes remain the caller's */
    tli_free(l.file, sizeof *l.file);
    return NULL;
  }
  file_release(NULL, l.file);
  return l.g;
}

#ifndef TLI_RUNTIME
tli_Graph *tli_graph_parse(const char *text, size_t size, tl_Tensor *const *constants, int n) {
  Loader l = {.g = tli_graph_new(), .given = constants, .ngiven = n};
  if (l.g == NULL) return NULL;
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
