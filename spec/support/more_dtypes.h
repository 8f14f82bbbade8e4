/*
** more_dtypes.h - two dtypes that tlua lacks. spec/build/rock_spec.lua adds them, to show that a
** new dtype only needs a row in the table and conversions.
** */
#ifndef MORE_DTYPES_H
#define MORE_DTYPES_H

#define TL_MORE_DTYPES(X, ...)                 \
  X(N16, "int16u", 2, INT, 16, 0, __VA_ARGS__) \
  X(F8, "float8_half", 1, FLOAT, 3, 16, __VA_ARGS__)

/* A float8_half consists of the upper 8 bits of a float16, rounded to nearest even. */
#define TL_MORE_ELEMENTS                                                                       \
  static inline float more_f8_to_f32(uint8_t x) { return tli_f16_to_f32((uint16_t)(x << 8)); } \
  static inline uint8_t more_f32_to_f8(float x) {                                              \
    uint16_t h = tli_f32_to_f16(x);                                                            \
    if (x != x) return 0x7f;                                                                   \
    return (uint8_t)((h + 0x7f + (h >> 8 & 1)) >> 8);                                          \
  }                                                                                            \
  TLI_INT_ELEMENT(N16, uint16_t, int32_t)                                                      \
  TLI_FLOAT_ELEMENT(F8, uint8_t, float, more_f8_to_f32, more_f32_to_f8)

#endif
