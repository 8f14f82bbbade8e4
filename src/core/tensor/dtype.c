/*
** dtype.c - element types and scalars, generated from TL_DTYPES (tlua.h) and the conversions in
** element.h.
*/
#include "core/kernel/elementary.h"
#include "core/tensor/dtype.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/element.h"

const uint8_t tli_dtype_bytes[TL_NDTYPES] = {
#define X(name, text, bytes, ...) bytes,
    TL_DTYPES(X, ) TL_STORED_DTYPES(X, )
#undef X
};

const uint8_t tli_dtype_categories[TL_NDTYPES] = {
#define X(name, text, bytes, category, ...) TLI_##category,
    TL_DTYPES(X, ) TL_STORED_DTYPES(X, )
#undef X
};

const uint8_t tli_dtype_digits[TL_NDTYPES] = {
#define X(name, text, bytes, category, digits, ...) digits,
    TL_DTYPES(X, ) TL_STORED_DTYPES(X, )
#undef X
};

static const char *const names[TL_NDTYPES] = {
#define X(name, text, ...) text,
    TL_DTYPES(X, ) TL_STORED_DTYPES(X, )
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

/* Returns the smallest signed type with at least that many bytes; int64 if there is none. */
static tl_DType signed_of(int bytes) {
  return bytes <= 1 ? TL_I8 : bytes == 2 ? TL_I16 : bytes <= 4 ? TL_I32 : TL_I64;
}

/* Returns the complex dtype for complex32 and a dtype that is not stored. */
static tl_DType promote_half_complex(tl_DType other) {
  if (other == TL_F64 || other == TL_C128) return TL_C128;
  return tli_is_inexact(other) && other != TL_F16 ? TL_C64 : TLI_HALF_COMPLEX;
}

/* Promotes a pair with a stored dtype: a float8 with no other dtype, an unsigned integer with
** floating dtypes alone, complex32 with all that are not stored. */
static tl_DType promote_stored(tl_DType a, tl_DType b) {
  tl_DType other = tli_is_stored(a) ? b : a, stored = other == b ? a : b;
  if (stored == TLI_HALF_COMPLEX && !tli_is_stored(other)) return promote_half_complex(other);
  if (!tli_is_float(stored) && tli_is_float(other) && !tli_is_stored(other)) return other;
  tli_fail(TL_EDTYPE, "%s and %s have no common dtype; convert one of them", tl_dtype_name(a),
           tl_dtype_name(b));
  return TL_NODTYPE;
}

tl_DType tli_dtype_promote(tl_DType a, tl_DType b) {
  if (a == b) return a;
  if (tli_is_stored(a) || tli_is_stored(b)) return promote_stored(a, b);
  tli_Category ca = tli_dtype_category(a), cb = tli_dtype_category(b);
  if (ca == TLI_COMPLEX || cb == TLI_COMPLEX)
    return a == TL_C128 || b == TL_C128 || a == TL_F64 || b == TL_F64 ? TL_C128 : TL_C64;
  if (ca != cb) return ca > cb ? a : b;
  int na = tli_dtype_bytes[a], nb = tli_dtype_bytes[b];
  if (tli_is_unsigned(a) != tli_is_unsigned(b)) {
    int natural = tli_is_unsigned(a) ? na : nb, whole = tli_is_unsigned(a) ? nb : na;
    return signed_of(whole > natural ? whole : 2 * natural);
  }
  if (na != nb) return na > nb ? a : b;
  return TL_F32; /* float16 and bfloat16: neither type contains the other */
}

tl_DType tli_dtype_compute(tl_DType dtype) {
  if (dtype == TLI_HALF_COMPLEX) return TL_C64;
  if (tli_dtype_bytes[dtype] >= 4 && !tli_is_stored(dtype)) return dtype;
  if (tli_dtype_bytes[dtype] >= 4) return TL_I64;
  return tli_is_float(dtype) ? TL_F32 : TL_I32;
}

/* ---- limits ---- */

int64_t tli_int_max(tl_DType dtype) {
  int digits = tli_dtype_digits[dtype];
  return digits >= 63 ? INT64_MAX : ((int64_t)1 << digits) - 1;
}

int64_t tli_int_min(tl_DType dtype) {
  bool sign = tli_dtype_category(dtype) == TLI_INT && !tli_is_unsigned(dtype);
  return sign ? -tli_int_max(dtype) - 1 : 0;
}

/* The distance from 1 to the next number. Compilers evaluate ldexp of constants at compile time. */
#define EPSILON(digits) ldexp(1, 1 - (digits))

double tli_float_epsilon(tl_DType dtype) { return EPSILON(tli_dtype_digits[dtype]); }

#ifndef TLI_INFER /* the formats whose largest exponent also has NaN or does not have subnormals */
#define EXTRAORDINARY(x)                             \
  if (dtype == TL_F8E4M3) return x(448, 0x1p-6);     \
  if (dtype == TL_F8E4M3Z) return x(240, 0x1p-7);    \
  if (dtype == TL_F8E5M2Z) return x(57344, 0x1p-15); \
  if (dtype == TL_F8E8M0) return x(0x1p127, 0x1p-127);
#else
#define EXTRAORDINARY(x)
#endif
#define MOST(most, tiny) most
#define TINY(most, tiny) tiny

double tli_float_max(tl_DType dtype) {
  EXTRAORDINARY(MOST)
  switch (dtype) {
#define X(name, text, bytes, category, digits, exponent, ...) \
  case TL_##name: return ldexp(2 - EPSILON(digits), (exponent)-1);
    TL_DTYPES(X, )
    TL_STORED_DTYPES(X, )
#undef X
  default: return 0;
  }
}

double tli_float_tiny(tl_DType dtype) {
  EXTRAORDINARY(TINY)
  switch (dtype) {
#define X(name, text, bytes, category, digits, exponent, ...) \
  case TL_##name: return ldexp(1, 2 - (exponent));
    TL_DTYPES(X, )
    TL_STORED_DTYPES(X, )
#undef X
  default: return 0;
  }
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
  case TL_COMPLEX: return tli_complex_dtype(default_dtype);
  default: return TL_NODTYPE;
  }
}

int64_t tli_to_int(tl_Scalar s) {
  if (!tli_is_fractional(s)) return s.i;
  if (isnan(s.f)) return 0;
  if (s.f >= 0x1p63) return INT64_MAX;
  if (s.f < -0x1p63) return INT64_MIN;
  return (int64_t)s.f;
}

bool tli_scalar_fits(tl_Scalar s, tl_DType dtype) {
  return tli_given(s) && tli_dtype_category(tli_scalar_dtype(s)) <= tli_dtype_category(dtype);
}

static bool both_integers(tl_Scalar a, tl_Scalar b) {
  return !tli_is_fractional(a) && !tli_is_fractional(b);
}

static bool any_complex(tl_Scalar a, tl_Scalar b) {
  return a.kind == TL_COMPLEX || b.kind == TL_COMPLEX;
}

static double complex complex_of(tl_Scalar s) {
  return __builtin_complex(tli_to_double(s), s.imag);
}

static tl_Scalar of_complex(double complex z) { return tli_complex(creal(z), cimag(z)); }

/* Arithmetic on scalars. As in Lua, integers wrap around, so they are computed as unsigned
** numbers. */

tl_Scalar tli_scalar_add(tl_Scalar a, tl_Scalar b) {
  if (both_integers(a, b)) return tli_int((int64_t)((uint64_t)a.i + (uint64_t)b.i));
  if (any_complex(a, b)) return of_complex(complex_of(a) + complex_of(b));
  return tli_float(tli_to_double(a) + tli_to_double(b));
}

tl_Scalar tli_scalar_sub(tl_Scalar a, tl_Scalar b) {
  if (both_integers(a, b)) return tli_int((int64_t)((uint64_t)a.i - (uint64_t)b.i));
  if (any_complex(a, b)) return of_complex(complex_of(a) - complex_of(b));
  return tli_float(tli_to_double(a) - tli_to_double(b));
}

tl_Scalar tli_scalar_mul(tl_Scalar a, tl_Scalar b) {
  if (both_integers(a, b)) return tli_int((int64_t)((uint64_t)a.i * (uint64_t)b.i));
  if (any_complex(a, b)) return of_complex(complex_of(a) * complex_of(b));
  return tli_float(tli_to_double(a) * tli_to_double(b));
}

tl_Scalar tli_scalar_div(tl_Scalar a, tl_Scalar b) {
  if (any_complex(a, b)) return of_complex(complex_of(a) / complex_of(b));
  return tli_float(tli_to_double(a) / tli_to_double(b));
}

tl_Scalar tli_scalar_pow(tl_Scalar a, tl_Scalar b) {
  if (any_complex(a, b)) return of_complex(cpow(complex_of(a), complex_of(b)));
  return tli_float(tli_pow(tli_to_double(a), tli_to_double(b)));
}

tl_Scalar tli_scalar_neg(tl_Scalar a) {
  if (a.kind == TL_COMPLEX) return tli_complex(-a.f, -a.imag);
  if (a.kind != TL_FLOATING) return tli_int((int64_t)(0 - (uint64_t)a.i));
  return tli_float(-a.f);
}

/* ---- single elements at any address, hence memcpy ---- */

/* Numbers of 2^63 or more become floats, as numerals of Lua do. */
static tl_Scalar load_whole(uint64_t x, bool is_unsigned) {
  return is_unsigned && x > INT64_MAX ? tli_float((double)x) : tli_int((int64_t)x);
}

static int64_t store_whole(tl_Scalar s) {
  if (tli_is_fractional(s) && s.f >= 0x1p64) return -1; /* the bits of the largest number */
  if (tli_is_fractional(s) && s.f >= 0x1p63) return (int64_t)(uint64_t)s.f;
  return tli_to_int(s);
}

#define LOAD_FLOAT(name, x) tli_float((double)tli_read_##name(x))
#define LOAD_COMPLEX(name, x) \
  tli_complex((double)creal(tli_read_##name(x)), (double)cimag(tli_read_##name(x)))
#define LOAD_INT(name, x) load_whole((uint64_t)(x), (tli_##name) - 1 > 0)
#define LOAD_BOOL(name, x) tli_bool((x) != 0)

tl_Scalar tli_load(const void *p, tl_DType dtype) {
  switch (dtype) {
#define X(name, text, bytes, category, ...) \
  case TL_##name: {                         \
    tli_##name x;                           \
    memcpy(&x, p, sizeof x);                \
    return LOAD_##category(name, x);        \
  }
    TL_DTYPES(X, )
    TL_STORED_DTYPES(X, )
#undef X
  default: return tli_none();
  }
}

#define STORE_FLOAT(name, s) tli_write_##name((tli_wide_##name)tli_to_double(s))
#define STORE_COMPLEX(name, s) tli_write_##name((tli_wide_##name)complex_of(s))
#define STORE_INT(name, s) \
  (tli_##name)(sizeof(tli_##name) == 8 && (tli_##name) - 1 > 0 ? store_whole(s) : tli_to_int(s))
#define STORE_BOOL(name, s) tli_to_bool(s)

void tli_store(void *p, tl_DType dtype, tl_Scalar s) {
  switch (dtype) {
#define X(name, text, bytes, category, ...)   \
  case TL_##name: {                           \
    tli_##name x = STORE_##category(name, s); \
    memcpy(p, &x, sizeof x);                  \
    break;                                    \
  }
    TL_DTYPES(X, )
    TL_STORED_DTYPES(X, )
#undef X
  default: break;
  }
}
