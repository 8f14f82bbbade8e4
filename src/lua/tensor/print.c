/*
** print.c - prints a tensor as PyTorch does. All elements are printed in the same format, which
** depends on the printed elements. If a tensor has more than `threshold` elements, only the first
** and the last `edgeitems` positions of each dimension are printed. The real and the imaginary
** parts of complex numbers have separate formats.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua/tensor/value.h"

typedef struct Format {
  const tli_PrintOptions *options;
  const tl_Tensor *t;
  int part; /* the part of a complex number that has this format: 0 real, 1 imaginary */
  bool floating, integral, scientific, summarize;
  int width;
  double least, most; /* smallest and largest magnitude of the finite non-zero elements */
  bool any;
} Format;

static tl_Scalar element(const Format *f, int64_t offset) {
  tl_DType dtype = (tl_DType)f->t->dtype;
  size_t bytes = tl_dtype_size(dtype);
  const char *at = (const char *)tli_data(f->t) + offset * (int64_t)bytes;
  tl_Scalar s = tli_load(at, dtype);
#ifndef TLI_INFER
  if (dtype == TL_U64) { /* large numbers are read here, because tli_load converts them to floats */
    s.kind = TL_INTEGER;
    memcpy(&s.i, at, sizeof s.i);
  }
#endif
  return s.kind == TL_COMPLEX ? tli_float(f->part ? s.imag : s.f) : s;
}

static int format_element(const Format *f, tl_Scalar s, char *out, size_t size) {
  int precision = f->options->precision;
  if (s.kind == TL_BOOLEAN) return snprintf(out, size, "%s", s.i ? "True" : "False");
  if (s.kind == TL_INTEGER)
    return snprintf(out, size, tli_is_unsigned((tl_DType)f->t->dtype) ? "%llu" : "%lld",
                    (long long)s.i);
  if (isnan(s.f)) return snprintf(out, size, "nan");
  if (isinf(s.f)) return snprintf(out, size, s.f > 0 ? "inf" : "-inf");
  if (f->scientific) return snprintf(out, size, "%.*e", precision, s.f);
  if (f->integral) return snprintf(out, size, "%.0f.", s.f);
  return snprintf(out, size, "%.*f", precision, s.f);
}

/* Calls fn for every element that will be printed. */
static void each_shown(Format *f, int dim, int64_t offset, void (*fn)(Format *f, tl_Scalar s)) {
  const tl_Tensor *t = f->t;
  if (dim == t->ndim) {
    fn(f, element(f, offset));
    return;
  }
  int64_t n = t->sizes[dim], edge = f->options->edgeitems;
  bool cut = f->summarize && n > 2 * edge;
  for (int64_t i = 0; i < n; i++) {
    if (cut && i == edge) i = n - edge;
    each_shown(f, dim + 1, offset + i * t->strides[dim], fn);
  }
}

static void survey(Format *f, tl_Scalar s) {
  if (s.kind != TL_FLOATING || !isfinite(s.f) || s.f == 0) return;
  double magnitude = fabs(s.f);
  if (!f->any || magnitude < f->least) f->least = magnitude;
  if (!f->any || magnitude > f->most) f->most = magnitude;
  f->any = true;
  if (s.f != ceil(s.f)) f->integral = false;
}

static void widen(Format *f, tl_Scalar s) {
  char text[400];
  if (s.kind == TL_FLOATING && (!isfinite(s.f) || s.f == 0)) return;
  int n = format_element(f, s, text, sizeof text);
  if (n > f->width) f->width = n;
}

static void choose(Format *f) {
  f->integral = f->floating;
  f->width = 1;
  each_shown(f, 0, 0, survey);
  if (f->options->scientific >= 0)
    f->scientific = f->options->scientific;
  else if (f->any)
    f->scientific =
        f->most / f->least > 1000.0 || f->most > 1e8 || (!f->integral && f->least < 1e-4);
  each_shown(f, 0, 0, widen);
}

static void pad(luaL_Buffer *b, int n) {
  while (n-- > 0) luaL_addchar(b, ' ');
}

/* Adds a number to the buffer. For complex numbers, `f` points to two formats: the first for the
** real part, the second for the imaginary part. */
static void put_scalar(luaL_Buffer *b, const Format *f, int64_t offset) {
  char text[400];
  int n = format_element(f, element(f, offset), text, sizeof text);
  pad(b, f->width - n);
  luaL_addstring(b, text);
  if (!tli_is_complex((tl_DType)f->t->dtype)) return;
  format_element(&f[1], element(&f[1], offset), text, sizeof text);
  if (text[0] != '-') luaL_addchar(b, '+');
  luaL_addstring(b, text);
  luaL_addchar(b, 'j');
}

static void put_vector(luaL_Buffer *b, const Format *f, int indent, int64_t offset) {
  int64_t n = f->t->sizes[f->t->ndim - 1], stride = f->t->strides[f->t->ndim - 1];
  int64_t edge = f->options->edgeitems;
  bool parts = tli_is_complex((tl_DType)f->t->dtype);
  int length = f->width + 2 + (parts ? f[1].width + 1 : 0);
  int per_line = (f->options->linewidth - indent) / length;
  if (per_line < 1) per_line = 1;
  bool cut = f->summarize && n > 2 * edge;
  luaL_addchar(b, '[');
  int on_line = 0;
  for (int64_t i = 0; i < n; i++) {
    if (i > 0) luaL_addstring(b, on_line == per_line ? "," : ", ");
    if (on_line == per_line) {
      luaL_addchar(b, '\n');
      pad(b, indent + 1);
      on_line = 0;
    }
    if (cut && i == edge) {
      luaL_addstring(b, " ...");
      i = n - edge - 1;
    } else {
      put_scalar(b, f, offset + i * stride);
    }
    on_line++;
  }
  luaL_addchar(b, ']');
}

static void put_nested(luaL_Buffer *b, const Format *f, int dim, int indent, int64_t offset) {
  const tl_Tensor *t = f->t;
  if (t->ndim == 0) {
    put_scalar(b, f, offset);
    return;
  }
  if (dim == t->ndim - 1) {
    put_vector(b, f, indent, offset);
    return;
  }
  int64_t n = t->sizes[dim], edge = f->options->edgeitems;
  bool cut = f->summarize && n > 2 * edge;
  luaL_addchar(b, '[');
  for (int64_t i = 0; i < n; i++) {
    if (i > 0) {
      luaL_addchar(b, ',');
      for (int k = dim; k < t->ndim - 1; k++) luaL_addchar(b, '\n');
      pad(b, indent + 1);
    }
    if (cut && i == edge) {
      luaL_addstring(b, "...");
      i = n - edge - 1;
    } else {
      put_nested(b, f, dim + 1, indent + 1, offset + i * t->strides[dim]);
    }
  }
  luaL_addchar(b, ']');
}

typedef struct Suffixes {
  int n;
  char text[5][120];
} Suffixes;

/* Writes sizes as "size=(2, 3)". One size is written "(2,)", like a Python tuple. */
static void put_sizes(char *out, size_t room, const tl_Tensor *t) {
  size_t n = (size_t)snprintf(out, room, "size=(");
  for (int d = 0; d < t->ndim && n < 100; d++)
    n += (size_t)snprintf(out + n, room - n, "%s%lld", d ? ", " : "", (long long)t->sizes[d]);
  snprintf(out + n, room - n, t->ndim == 1 ? ",)" : ")");
}

static void collect_suffixes(Suffixes *s, tl_Tensor *t) {
  bool meta = !tli_has_values(t);
  s->n = 0;
  if (t->storage->device.type != TL_CPU)
    snprintf(s->text[s->n++], sizeof s->text[0], "device='%s'", tli_device_str(tli_device(t)));
  bool usual =
      t->dtype == tli_default_dtype() || (t->numel > 0 && !meta &&
                                          (t->dtype == TL_I64 || t->dtype == TL_BOOL ||
                                           t->dtype == tli_complex_dtype(tli_default_dtype())));
  if (meta || (t->numel == 0 && t->ndim != 1)) put_sizes(s->text[s->n++], sizeof s->text[0], t);
  if (!usual)
    snprintf(s->text[s->n++], sizeof s->text[0], "dtype=torch.%s",
             tl_dtype_name((tl_DType)t->dtype));
  bool ok = true;
  tli_Node *node = tli_grad_fn(t, &ok);
  if (node) {
    char name[90];
    tli_node_title(node, name, sizeof name);
    snprintf(s->text[s->n++], sizeof s->text[0], "grad_fn=<%s>", name);
  } else if (t->flags & TLI_REQUIRES_GRAD) {
    snprintf(s->text[s->n++], sizeof s->text[0], "requires_grad=True");
  }
}

#define PREFIX "tensor("

void tli_print_tensor(lua_State *L, int index) {
  const tli_State *S = tli_state(L);
  Suffixes suffixes;
  bool shown = tli_has_values(tli_check_tensor(L, index, "tostring"));
  if (shown)
    tli_push_alias(L, index, "tostring");
  else
    lua_pushvalue(L, index);
  int alias = lua_gettop(L);
  const tl_Tensor *t = tli_to_tensor(L, S, alias);
  /* reads the tensor again, because a finalizer may have released it */
  tl_Tensor *original = tli_check_tensor(L, index, "tostring");
  bool parameter = original->flags & TLI_PARAMETER;
  collect_suffixes(&suffixes, original);
  int indent = (int)strlen(PREFIX);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, PREFIX);
  if (!shown) {
    luaL_addstring(&b, "...");
  } else if (t->numel == 0) {
    luaL_addstring(&b, "[]");
  } else {
    Format f[2];
    for (int part = 0; part < 2; part++) {
      f[part] = (Format){.options = &S->print, .t = t, .part = part};
      f[part].floating = tli_is_inexact((tl_DType)t->dtype);
      f[part].summarize = t->numel > S->print.threshold;
      if (part == 0 || tli_is_complex((tl_DType)t->dtype)) choose(&f[part]);
    }
    put_nested(&b, f, 0, indent, 0);
  }
  luaL_pushresult(&b);
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  const char *newline = strrchr(text, '\n');
  int on_line = (int)(newline ? length - (size_t)(newline - text) + 1 : length + 2);
  luaL_buffinit(L, &b);
  for (int i = 0; i < suffixes.n; i++) {
    int n = (int)strlen(suffixes.text[i]);
    if (on_line + n + 2 > S->print.linewidth) {
      luaL_addstring(&b, ",\n");
      pad(&b, indent);
      on_line = indent + n;
    } else {
      luaL_addstring(&b, ", ");
      on_line += n + 2;
    }
    luaL_addstring(&b, suffixes.text[i]);
  }
  luaL_addchar(&b, ')');
  luaL_pushresult(&b);
  lua_concat(L, 2);
  if (parameter) {
    lua_pushliteral(L, "Parameter containing:\n");
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  if (shown) tli_release_box(L, alias);
  lua_remove(L, alias);
}
