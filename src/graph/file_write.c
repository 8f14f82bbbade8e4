/*
** file_write.c - writes programs to files in the format that file.h describes.
*/
#include "graph/file.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "core/device/transfer.h"
#include "core/memory/alloc.h"
#include "core/platform/replace.h"
#include "graph/json.h"
#include "graph/text.h"
#include "ops/file_order.h"

/* Pairs of a dtype name's prefix and the letters that the format uses in its place. */
static const char *const letters[][2] = {
    {"bfloat", "BF"}, {"float", "F"}, {"uint", "U"}, {"int", "I"}, {"bool", "BOOL"}};

const char *tli_file_code(tl_DType dtype, char out[16]) {
  const char *name = tl_dtype_name(dtype);
  for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
    size_t n = strlen(letters[i][0]);
    if (strncmp(name, letters[i][0], n) != 0) continue;
    snprintf(out, 16, "%s%s", letters[i][1], name + n);
/* the format's names are F8_E4M3 for float8_e4m3fn, and F8_E8M0 for float8_e8m0fnu */
#ifndef TLI_INFER
    for (char *at = out; *at; at++) *at = (char)toupper((unsigned char)*at);
    if (dtype == TL_F8E4M3 || dtype == TL_F8E8M0) out[7] = '\0';
#endif
    return out;
  }
  return name;
}

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
    tli_text_format(&w->text, "],%d%s]", (int)c->nresults, c->records && w->g->step ? ",true" : "");
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
  int version = has_products(g) ? TLI_FILE_WITH_PRODUCTS
                : state         ? TLI_FILE_WITH_STATE
                                : TLI_FILE_PLAIN;
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

/* Numbers the values in the order of the file: first inputs, then constants, numbers and
** results. */
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
static int64_t padding(int64_t bytes) {
  return (TLI_FILE_ALIGNMENT - bytes % TLI_FILE_ALIGNMENT) % TLI_FILE_ALIGNMENT;
}

static bool put_entry(Writer *w, const tli_GraphConstant *c, void *context) {
  int64_t *offset = context;
  char code[16];
  tli_text_put(&w->text, ",");
  put_string(w, c->name);
  tli_text_format(&w->text, ":{\"dtype\":\"%s\",\"shape\":[",
                  tli_file_code((tl_DType)c->tensor->dtype, code));
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
  static const char zeros[TLI_FILE_ALIGNMENT];
  size_t bytes = (size_t)bytes_of(c->tensor), gap = (size_t)padding((int64_t)bytes);
#ifdef TLI_RUNTIME
  tl_Tensor *host = tli_retain(c->tensor);
#else
  tl_Tensor *host = tli_moved(c->tensor, TLI_CPU, false);
#endif
  tl_Tensor *stored = host ? tli_in_file_order(host) : NULL;
  tli_release(host);
  if (stored == NULL) return false;
  bool ok = bytes == 0 || fwrite(tli_data(stored), 1, bytes, context) == bytes;
  tli_release(stored);
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
  while (!t->failed && t->size % TLI_FILE_ALIGNMENT != 0) tli_text_put(t, " ");
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
