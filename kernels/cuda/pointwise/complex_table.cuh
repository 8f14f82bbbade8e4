/*
** complex_table.cuh - the elementwise kernels of one complex type, and their table. The file for a
** type defines TLK_PART, the type of a number's parts, and TYPE, the name of the type, and then
** includes this file. kernels/complex.h contains the function that is applied to each element.
*/
#include "kernels/cuda/pointwise/complex_functions.cuh"
#include "kernels/cuda/pointwise/elementwise.cuh"

/* A thread processes sixteen bytes at a time, as for real numbers. */
template <class R> struct Width<Complex<R>, Complex<R>> {
  enum { of = 8 / sizeof(R) };
};
template <> inline bool stored_as<Complex<float>>(int dtype) { return dtype == TL_C64; }
template <> inline bool stored_as<Complex<double>>(int dtype) { return dtype == TL_C128; }

template <class R> static inline Complex<R> number_of(const tl_Scalar &s, Complex<R>) {
  return Complex<R>(s.kind >= TL_FLOATING ? (R)s.f : (R)s.i, s.kind == TL_COMPLEX ? (R)s.imag : 0);
}

namespace {

typedef TLK_PART R;
typedef Complex<R> T;
#define TLK_COMPLEX_FN static __device__ __forceinline__
#define TLK_OF(name) name

DEVICE R re(T x) { return x.real; }
DEVICE R im(T x) { return x.imag; }
DEVICE T pair(R real, R imag) { return T(real, imag); }

/* The type in which a result is stored if the inputs are stored as S. */
template <class Result> struct OutOf { typedef bool8 type; };
template <> struct OutOf<R> { typedef R type; };
template <> struct OutOf<T> { typedef T type; };

#define FUNCTOR(name, n, result, body)                                        \
  struct name##_z {                                                           \
    typedef T C;                                                              \
    enum { inputs = n, divides = 0 };                                         \
    template <class S> using Out = typename OutOf<result>::type;              \
    __device__ __forceinline__ static T of(const T *v, const T *parameters) { \
      (void)v, (void)parameters;                                              \
      body                                                                    \
    }                                                                         \
  };
#define Z1(name, result, ...) FUNCTOR(name, 1, result, T x = v[0]; return T(__VA_ARGS__);)
#define Z2(name, result, ...)                                                            \
  FUNCTOR(name, 2, result, T a = v[0]; T b = v[1]; [[maybe_unused]] T p = parameters[0]; \
          return T(__VA_ARGS__);)
#define Z3(name, result, ...)                                  \
  FUNCTOR(name, 3, result, T a = v[0]; T b = v[1]; T c = v[2]; \
          [[maybe_unused]] T p = parameters[0]; return T(__VA_ARGS__);)

#define C1 Z1
#define C2 Z2
#include "kernels/complex.h"

/* Kernels that also have inputs of other types, such as `where`, use the variant for any dtype. */
#define X(name, inputs, result) \
  bool run_##name(const struct tlk_pointwise *call) { return Run<name##_z, T>::go(call); }
TLK_COMPLEX_POINTWISES(X)
#undef X

struct Table {
  tlk_PointwiseFn at[TLK_NPOINTWISES];
  constexpr Table() : at() {
#define X(name, inputs, result) at[TLK_##name] = run_##name;
    TLK_COMPLEX_POINTWISES(X)
#undef X
  }
};
constexpr Table table;

} // namespace

#define ENTRY_OF_(type) tlk_pointwise_##type
#define ENTRY_OF(type) ENTRY_OF_(type)
const tlk_PointwiseFn *const ENTRY_OF(TYPE) = table.at;
