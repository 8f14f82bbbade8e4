/*
** dtype.h - element types: names, sizes, categories, promotion, and scalars.
*/
#ifndef TLI_DTYPE_H
#define TLI_DTYPE_H

#include "tlua.h"

/* Categories of dtypes, in ascending order (ORDER CATEGORY). Type promotion chooses the higher
** category. */
typedef enum tli_Category { TLI_BOOL, TLI_INT, TLI_FLOAT, TLI_COMPLEX } tli_Category;

/* The size in bytes of an element of each dtype, for code in which calling tl_dtype_size would be
** too slow. */
extern const uint8_t tli_dtype_bytes[TL_NDTYPES];
extern const uint8_t tli_dtype_categories[TL_NDTYPES];

static inline tli_Category tli_dtype_category(tl_DType dtype) {
  return (tli_Category)tli_dtype_categories[dtype];
}
extern const uint8_t tli_dtype_digits[TL_NDTYPES];

/* Returns whether a dtype is one of TL_STORED_DTYPES. */
#ifdef TLI_INFER
static inline bool tli_is_stored(int t) { return (void)t, false; }
/* complex32; in this build a number that no dtype has, because it lacks complex32 */
#define TLI_HALF_COMPLEX TL_NDTYPES
#else
static inline bool tli_is_stored(int t) { return t >= TL_F8E4M3; }
#define TLI_HALF_COMPLEX TL_C32
#endif
static inline bool tli_is_float(tl_DType t) { return tli_dtype_category(t) == TLI_FLOAT; }
static inline bool tli_is_complex(tl_DType t) { return tli_dtype_category(t) == TLI_COMPLEX; }
/* Returns whether a type has fractions and can have a gradient: floating or complex. */
static inline bool tli_is_inexact(tl_DType t) { return tli_dtype_category(t) >= TLI_FLOAT; }
/* Returns the type of the parts of a complex type, and any other type unchanged. */
static inline tl_DType tli_real_dtype(tl_DType t) {
  return t == TL_C64 ? TL_F32 : t == TL_C128 ? TL_F64 : t == TLI_HALF_COMPLEX ? TL_F16 : t;
}
/* Returns the complex type whose parts can hold numbers of type `t`: complex128 for float64,
** otherwise complex64. */
static inline tl_DType tli_complex_dtype(tl_DType t) {
  return t == TL_F64 || t == TL_C128 ? TL_C128 : TL_C64;
}
/* Returns whether a type is floating and narrower than float32; such types are computed in
** float32. */
static inline bool tli_is_half(tl_DType t) { return tli_is_float(t) && tli_dtype_bytes[t] < 4; }
static inline bool tli_is_unsigned(tl_DType t) {
  return tli_dtype_category(t) == TLI_INT && tli_dtype_digits[t] == 8 * tli_dtype_bytes[t];
}

/* Returns the dtype with this name, or TL_NODTYPE if the name is unknown. Also accepts "float",
** "double", "half", "bfloat16", "int", "long", "short", "byte", "char". */
tl_DType tli_dtype_from_name(const char *name);

/* Returns the promoted type by PyTorch's table. For instance, float16 with bfloat16 gives float32.
** An unsigned type with a signed type gives a signed type that holds the numbers of both. If the
** types have no common type, as float8 and any other type, fails and returns TL_NODTYPE. */
tl_DType tli_dtype_promote(tl_DType a, tl_DType b);

/* Returns the type in which kernels compute: float32 for narrower floating types, int32 for bool
** and narrower integers, int64 for uint32 and uint64, complex64 for complex32, otherwise the type
** itself. */
tl_DType tli_dtype_compute(tl_DType dtype);

/* tli_int_min returns the smallest value of an integer type or bool, and tli_int_max the largest,
** which is limited to INT64_MAX for uint64. */
int64_t tli_int_min(tl_DType dtype);
int64_t tli_int_max(tl_DType dtype);
/* These functions return properties of a floating type, or of a complex type's parts: tli_float_max
** the largest finite number, tli_float_tiny the smallest normal number, and tli_float_epsilon the
** distance from 1 to the next number. */
double tli_float_max(tl_DType dtype);
double tli_float_tiny(tl_DType dtype);
double tli_float_epsilon(tl_DType dtype);

/* The floating type of tensors that are made from numbers alone. Each thread has its own setting;
** its initial value is float32. */
tl_DType tli_default_dtype(void);
void tli_set_default_dtype(tl_DType dtype);

/* Returns the type of a number: bool, int64, the default floating type, or the complex type whose
** parts have the default floating type. */
tl_DType tli_scalar_dtype(tl_Scalar s);

static inline tl_Scalar tli_none(void) { return (tl_Scalar){.kind = TL_NONE, .i = 0}; }
static inline tl_Scalar tli_int(int64_t i) { return (tl_Scalar){.kind = TL_INTEGER, .i = i}; }
static inline tl_Scalar tli_float(double f) { return (tl_Scalar){.kind = TL_FLOATING, .f = f}; }
static inline tl_Scalar tli_complex(double re, double im) {
  return (tl_Scalar){.kind = TL_COMPLEX, .f = re, .imag = im};
}
static inline tl_Scalar tli_bool(bool b) { return (tl_Scalar){.kind = TL_BOOLEAN, .i = b}; }

static inline bool tli_given(tl_Scalar s) { return s.kind != TL_NONE; }
/* Returns whether the number can have a fraction: it is a float or a complex number. */
static inline bool tli_is_fractional(tl_Scalar s) { return s.kind >= TL_FLOATING; }
/* Returns a scalar's real part. */
static inline double tli_to_double(tl_Scalar s) { return tli_is_fractional(s) ? s.f : (double)s.i; }
/* Converts a scalar to an integer: truncates towards zero and saturates; NaN gives 0. (C leaves
** out-of-range numbers and NaN undefined.) */
int64_t tli_to_int(tl_Scalar s);
static inline bool tli_to_bool(tl_Scalar s) {
  return tli_is_fractional(s) ? s.f != 0 || s.imag != 0 : s.i != 0;
}
/* Returns whether a number may be stored in `dtype` without changing its category. For example, a
** float may not be stored in an integer type. */
bool tli_scalar_fits(tl_Scalar s, tl_DType dtype);

/* These functions do arithmetic on scalars, for derivative formulas. As in Lua, sums, differences
** and products of integers are integers; quotients and powers are floats. If an operand is complex,
** so is the result. */
tl_Scalar tli_scalar_add(tl_Scalar a, tl_Scalar b);
tl_Scalar tli_scalar_sub(tl_Scalar a, tl_Scalar b);
tl_Scalar tli_scalar_mul(tl_Scalar a, tl_Scalar b);
tl_Scalar tli_scalar_div(tl_Scalar a, tl_Scalar b);
tl_Scalar tli_scalar_pow(tl_Scalar a, tl_Scalar b);
tl_Scalar tli_scalar_neg(tl_Scalar a);
static inline tl_Scalar tli_scalar_conj(tl_Scalar a) {
  a.imag = -a.imag;
  return a;
}

/* These functions read and write one element of any type. */
tl_Scalar tli_load(const void *p, tl_DType dtype);
void tli_store(void *p, tl_DType dtype, tl_Scalar s);

#endif
