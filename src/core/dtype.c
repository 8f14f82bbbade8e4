/*
** dtype.c - element types and scalars. Tables come from TL_DTYPES, so a new
** type is one line there plus its rules of promotion and conversion here.
*/
#include "core/dtype.h"

#include <math.h>
#include <string.h>

#include "core/half.h"

const uint8_t tli_dtype_bytes[TL_NDTYPES] = {
#define X(name, text, bytes, category) bytes,
    TL_DTYPES(X)
#undef X
};

const uint8_t tli_dtype_categories[TL_NDTYPES] = {
#define X(name, text, bytes, category) TLI_##category,
    TL_DTYPES(X)
#undef X
};

static const char *const names[TL_NDTYPES] = {
#define X(name, text, bytes, category) text,
    TL_DTYPES(X)
#undef X
};

static const struct {
  const char *name;
  tl_DType dtype;
} aliases[] = {
    {"float", TL_F32}, {"double", TL_F64}, {"half", TL_F16}, {"int", TL_I32},
    {"long", TL_I64},  {"short", TL_I16},  {"byte", TL_U8},  {"char", TL_I8},
};

static bool known(tl_DType dtype) { return dtype >= 0 && dtype < TL_NDTYPES; }

const char *tl_dtype_name(tl_DType dtype) { return known(dtype) ? names[dtype] : "none"; }

size_t tl_dtype_size(tl_DType dtype) { return known(dtype) ? tli_dtype_bytes[dtype] : 0; }

tl_DType tli_dtype_from_name(const char *name) {
  for (int d = 0; d < TL_NDTYPES; d++)
    if (strcmp(name, names[d]) == 0) return (tl_DType)d;
  for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++)
    if (strcmp(name, aliases[k].name) == 0) return aliases[k].dtype;
  return TL_NODTYPE;
}

tl_DType tli_dtype_promote(tl_DType a, tl_DType b) {
  if (a == b) return a;
  tli_Category ca = tli_dtype_category(a), cb = tli_dtype_category(b);
  if (ca != cb) return ca > cb ? a : b;
  if (tli_dtype_bytes[a] != tli_dtype_bytes[b])
    return tli_dtype_bytes[a] > tli_dtype_bytes[b] ? a : b;
  /* as wide as each other, and neither holds the other: the half types, or
  ** uint8 and int8 */
  return ca == TLI_FLOAT ? TL_F32 : TL_I16;
}

tl_DType tli_dtype_compute(tl_DType dtype) {
  if (tli_dtype_bytes[dtype] >= 4) return dtype;
  return tli_is_float(dtype) ? TL_F32 : TL_I32;
}

/* ---- scalars ---- */

static _Thread_local tl_DType default_dtype = TL_F32;

tl_DType tli_default_dtype(void) { return default_dtype; }

void tli_set_default_dtype(tl_DType dtype) { default_dtype = dtype; }

tl_DType tli_scalar_dtype(tl_Scalar s) {
  switch (s.kind) {
  case TL_BOOLEAN: return TL_BOOL;
  case TL_INTEGER: return TL_I64;
  case TL_FLOATING: return default_dtype;
  default: return TL_NODTYPE;
  }
}

int64_t tli_to_int(tl_Scalar s) {
  if (s.kind != TL_FLOATING) return s.i;
  if (isnan(s.f)) return 0;
  if (s.f >= 0x1p63) return INT64_MAX;
  if (s.f < -0x1p63) return INT64_MIN;
  return (int64_t)s.f;
}

bool tli_scalar_fits(tl_Scalar s, tl_DType dtype) {
  return tli_given(s) && tli_dtype_category(tli_scalar_dtype(s)) <= tli_dtype_category(dtype);
}

static bool both_integers(tl_Scalar a, tl_Scalar b) {
  return a.kind != TL_FLOATING && b.kind != TL_FLOATING;
}

/* Integers wrap around, as Lua's do: hence unsigned. */

tl_Scalar tli_scalar_add(tl_Scalar a, tl_Scalar b) {
  if (both_integers(a, b)) return tli_int((int64_t)((uint64_t)a.i + (uint64_t)b.i));
  return tli_float(tli_to_double(a) + tli_to_double(b));
}

tl_Scalar tli_scalar_sub(tl_Scalar a, tl_Scalar b) {
  if (both_integers(a, b)) return tli_int((int64_t)((uint64_t)a.i - (uint64_t)b.i));
  return tli_float(tli_to_double(a) - tli_to_double(b));
}

tl_Scalar tli_scalar_mul(tl_Scalar a, tl_Scalar b) {
  if (both_integers(a, b)) return tli_int((int64_t)((uint64_t)a.i * (uint64_t)b.i));
  return tli_float(tli_to_double(a) * tli_to_double(b));
}

tl_Scalar tli_scalar_div(tl_Scalar a, tl_Scalar b) {
  return tli_float(tli_to_double(a) / tli_to_double(b));
}

tl_Scalar tli_scalar_pow(tl_Scalar a, tl_Scalar b) {
  return tli_float(pow(tli_to_double(a), tli_to_double(b)));
}

tl_Scalar tli_scalar_neg(tl_Scalar a) {
  if (a.kind != TL_FLOATING) return tli_int((int64_t)(0 - (uint64_t)a.i));
  return tli_float(-a.f);
}

/* ---- single elements ---- */

/* The value at p as a C type; memcpy because p may lie at any address. */
#define READ(type, p)                  \
  (__extension__({                     \
    type value_;                       \
    memcpy(&value_, p, sizeof value_); \
    value_;                            \
  }))

#define WRITE(type, p, value)          \
  do {                                 \
    type value_ = (type)(value);       \
    memcpy(p, &value_, sizeof value_); \
  } while (0)

tl_Scalar tli_load(const void *p, tl_DType dtype) {
  switch (dtype) {
  case TL_F32: return tli_float((double)READ(float, p));
  case TL_F64: return tli_float(READ(double, p));
  case TL_F16: return tli_float((double)tli_f16_to_f32(READ(uint16_t, p)));
  case TL_BF16: return tli_float((double)tli_bf16_to_f32(READ(uint16_t, p)));
  case TL_I8: return tli_int(READ(int8_t, p));
  case TL_I16: return tli_int(READ(int16_t, p));
  case TL_I32: return tli_int(READ(int32_t, p));
  case TL_I64: return tli_int(READ(int64_t, p));
  case TL_U8: return tli_int(READ(uint8_t, p));
  case TL_BOOL: return tli_bool(READ(uint8_t, p) != 0);
  default: return tli_none();
  }
}

void tli_store(void *p, tl_DType dtype, tl_Scalar s) {
  switch (dtype) {
  case TL_F32: WRITE(float, p, tli_to_double(s)); break;
  case TL_F64: WRITE(double, p, tli_to_double(s)); break;
  case TL_F16: WRITE(uint16_t, p, tli_f32_to_f16((float)tli_to_double(s))); break;
  case TL_BF16: WRITE(uint16_t, p, tli_f32_to_bf16((float)tli_to_double(s))); break;
  case TL_I8: WRITE(int8_t, p, tli_to_int(s)); break;
  case TL_I16: WRITE(int16_t, p, tli_to_int(s)); break;
  case TL_I32: WRITE(int32_t, p, tli_to_int(s)); break;
  case TL_I64: WRITE(int64_t, p, tli_to_int(s)); break;
  case TL_U8: WRITE(uint8_t, p, tli_to_int(s)); break;
  case TL_BOOL: WRITE(uint8_t, p, tli_to_bool(s)); break;
  default: break;
  }
}
