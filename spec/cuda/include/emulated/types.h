/*
** types.h - CUDA's vector types of two to four elements.
*/
#ifndef TLK_EMULATED_TYPES_H
#define TLK_EMULATED_TYPES_H

#define VECTORS(name, T, align2, align4)                                            \
  struct name##1 {                                                                  \
    T x;                                                                            \
  };                                                                                \
  struct __attribute__((aligned(align2))) name##2 {                                 \
    T x, y;                                                                         \
  };                                                                                \
  struct name##3 {                                                                  \
    T x, y, z;                                                                      \
  };                                                                                \
  struct __attribute__((aligned(align4))) name##4 {                                 \
    T x, y, z, w;                                                                   \
  };                                                                                \
  static inline name##1 make_##name##1(T x) { return name##1 {x}; }                 \
  static inline name##2 make_##name##2(T x, T y) { return name##2 {x, y}; }         \
  static inline name##3 make_##name##3(T x, T y, T z) { return name##3 {x, y, z}; } \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4 {x, y, z, w}; }

VECTORS(char, signed char, 2, 4)
VECTORS(uchar, unsigned char, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(ushort, unsigned short, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(uint, unsigned, 8, 16)
VECTORS(longlong, long long, 16, 16)
VECTORS(ulonglong, unsigned long long, 16, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)
#undef VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#endif
