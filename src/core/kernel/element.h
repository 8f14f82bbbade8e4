/*
** element.h - the stored and the wide type of each dtype, and the conversions between them. The
** list of dtypes is in tlua.h. Kernels read floating types as float or double, integers as C's
** integers, and complex types as C's complex types. In C++ a complex type is a struct of its parts.
*/
#ifndef TLI_ELEMENT_H
#define TLI_ELEMENT_H

#include "tlua.h"
#include "core/kernel/float8.h"
#include "core/kernel/half.h"
#include "core/kernel/host_device.h"

/* tli_<dtype> is the type in which an element is stored; tli_wide_<dtype> is the type to which a
** read converts the element. */
#define TLI_FLOAT_ELEMENT(name, stored, wide, read, write)    \
  typedef stored tli_##name;                                  \
  typedef wide tli_wide_##name;                               \
  TLI_FN wide tli_read_##name(stored x) { return (read)(x); } \
  TLI_FN stored tli_write_##name(wide x) { return (write)(x); }
#define TLI_INT_ELEMENT(name, stored, wide) \
  typedef stored tli_##name;                \
  typedef wide tli_wide_##name;             \
  TLI_FN wide tli_read_##name(stored x) { return (wide)x; }
#ifdef __cplusplus
#define TLI_COMPLEX_ELEMENT(name, part) \
  typedef struct tli_##name {           \
    part real, imag;                    \
  } tli_##name;                         \
  typedef tli_##name tli_wide_##name;   \
  TLI_FN tli_##name tli_read_##name(tli_##name x) { return x; }
#else
#define TLI_COMPLEX_ELEMENT(name, part)                               \
  typedef _Complex part tli_##name;                                   \
  typedef _Complex part tli_wide_##name;                              \
  TLI_FN _Complex part tli_read_##name(_Complex part x) { return x; } \
  TLI_FN _Complex part tli_write_##name(_Complex part x) { return x; }
#endif

TLI_FLOAT_ELEMENT(F32, float, float, float, float)
TLI_FLOAT_ELEMENT(F64, double, double, double, double)
TLI_FLOAT_ELEMENT(F16, uint16_t, float, tli_f16_to_f32, tli_f32_to_f16)
TLI_FLOAT_ELEMENT(BF16, uint16_t, float, tli_bf16_to_f32, tli_f32_to_bf16)
TLI_INT_ELEMENT(I8, int8_t, int32_t)
TLI_INT_ELEMENT(I16, int16_t, int32_t)
TLI_INT_ELEMENT(I32, int32_t, int32_t)
TLI_INT_ELEMENT(I64, int64_t, int64_t)
TLI_INT_ELEMENT(U8, uint8_t, int32_t)
TLI_INT_ELEMENT(BOOL, uint8_t, int32_t)
TLI_COMPLEX_ELEMENT(C64, float)
TLI_COMPLEX_ELEMENT(C128, double)
#ifndef TLI_INFER
TLI_FLOAT_ELEMENT(F8E4M3, uint8_t, float, tli_f8e4m3_to_f32, tli_f32_to_f8e4m3)
TLI_FLOAT_ELEMENT(F8E5M2, uint8_t, float, tli_f8e5m2_to_f32, tli_f32_to_f8e5m2)
TLI_FLOAT_ELEMENT(F8E4M3Z, uint8_t, float, tli_f8e4m3z_to_f32, tli_f32_to_f8e4m3z)
TLI_FLOAT_ELEMENT(F8E5M2Z, uint8_t, float, tli_f8e5m2z_to_f32, tli_f32_to_f8e5m2z)
TLI_FLOAT_ELEMENT(F8E8M0, uint8_t, float, tli_f8e8m0_to_f32, tli_f32_to_f8e8m0)
TLI_INT_ELEMENT(U16, uint16_t, int32_t)
TLI_INT_ELEMENT(U32, uint32_t, int64_t)
TLI_INT_ELEMENT(U64, uint64_t, uint64_t)
/* complex32 is a pair of float16 numbers; the real part is at the lower address. */
enum { TLI_REAL_SHIFT = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 16 : 0 };
typedef uint32_t tli_C32;
typedef tli_C64 tli_wide_C32;
#ifndef __cplusplus
TLI_FN _Complex float tli_read_C32(uint32_t x) {
  return __builtin_complex(tli_f16_to_f32((uint16_t)(x >> TLI_REAL_SHIFT)),
                           tli_f16_to_f32((uint16_t)(x >> (16 - TLI_REAL_SHIFT))));
}
TLI_FN uint32_t tli_write_C32(_Complex float x) {
  return (uint32_t)tli_f32_to_f16(__real__ x) << TLI_REAL_SHIFT |
         (uint32_t)tli_f32_to_f16(__imag__ x) << (16 - TLI_REAL_SHIFT);
}
#endif
#endif
#ifdef TL_MORE_ELEMENTS
TL_MORE_ELEMENTS
#endif

#endif
