/*
** complex_functions.cuh - C's functions of complex numbers (cexp, csqrt, casin ...) for the device,
** which has none. The results for infinities and NaN are those of Annex G of the C standard. For
** complex64, logarithms and inverse trigonometric functions are computed in double, where no
** intermediate result overflows and no digits are lost by cancellation.
**
** The inverse functions follow T. Hull, T. Fairgrieve, P. Tang, "Implementing the complex arcsine
** and arccosine functions using exception handling" (1997); tanh, atanh and sqrt follow W. Kahan,
** "Branch cuts for complex elementary functions" (1987).
*/
#ifndef TLK_CUDA_COMPLEX_FUNCTIONS_CUH
#define TLK_CUDA_COMPLEX_FUNCTIONS_CUH

#include "kernels/cuda/complex.cuh"

/* Marks functions that are not inlined, so that all kernels of a file share one copy. */
#define SHARED_FN static __device__ __noinline__

template <class R> struct Limits;
template <> struct Limits<float> {
  /* exp(exp_most) is close to the largest number; tanh(x) rounds to 1 from tanh_one on */
  static constexpr float most = 0x1.fffffep127f, tiny = 0x1p-126f, exp_most = 88, tanh_one = 11;
  static constexpr float up = 0x1p24f, root_down = 0x1p-12f; /* the roots of x are `root_down` times
                                                             ** the roots of `up` * x */
};
template <> struct Limits<double> {
  static constexpr double most = 0x1.fffffffffffffp1023, tiny = 0x1p-1022, exp_most = 709;
  static constexpr double tanh_one = 22;
  static constexpr double up = 0x1p54, root_down = 0x1p-27;
};

#define HALF_PI 1.570796326794896619231321691639751442
#define NATURAL_LOG_2 0.693147180559945309417232121458

template <class R> DEVICE Complex<R> turned(Complex<R> x) { return Complex<R>(-x.imag, x.real); }
template <class R> DEVICE Complex<R> turned_back(Complex<R> x) {
  return Complex<R>(x.imag, -x.real);
}

template <class R> DEVICE R cabs(Complex<R> x) { return hypot(x.real, x.imag); }
template <class R> DEVICE R carg(Complex<R> x) { return atan2(x.imag, x.real); }

/* ---- exponentials --------------------------------------------------------------------------- */

/* These functions return cos(b) + i sin(b), and cosh(a) + i sinh(a). */
template <class R> SHARED_FN Complex<R> cosine_and_sine(R b) { return Complex<R>(cos(b), sin(b)); }
template <class R> SHARED_FN Complex<R> hyperbolic(R a) { return Complex<R>(cosh(a), sinh(a)); }

template <class R> SHARED_FN Complex<R> cexp(Complex<R> x) {
  R a = x.real, b = x.imag, half = 1;
  if (b == 0) return Complex<R>(exp(a), b);
  if (isinf(a) && !isfinite(b)) return a < 0 ? Complex<R>(0, 0) : Complex<R>(a, b - b);
  /* exp(a) may overflow although the products do not, so they are multiplied by e^(a/2) twice */
  if (a > Limits<R>::exp_most) {
    a /= 2;
    half = exp(a);
  }
  R e = exp(a);
  Complex<R> turn = cosine_and_sine(b);
  return Complex<R>(e * turn.real * half, e * turn.imag * half);
}

/* Returns (cosh(a) cos(b), sinh(a) sin(b)). If `sine`, returns (sinh(a) cos(b), cosh(a) sin(b)). */
template <class R> SHARED_FN Complex<R> hyperbolic_turned(R a, R b, bool sine) {
  Complex<R> grown, turn = cosine_and_sine(b);
  R half = 1;
  /* cosh and sinh are both e^|a| / 2, which may be out of range */
  if (fabs(a) > Limits<R>::exp_most) {
    half = exp(fabs(a) / 2);
    grown = Complex<R>(half / 2, copysign(half / 2, a));
  } else {
    grown = hyperbolic(a);
  }
  R first = sine ? grown.imag : grown.real, second = sine ? grown.real : grown.imag;
  return Complex<R>(first * turn.real * half, second * turn.imag * half);
}

template <class R> DEVICE Complex<R> csinh(Complex<R> x) {
  R a = x.real, b = x.imag;
  if (b == 0) return Complex<R>(hyperbolic(a).imag, b);
  if (a == 0) return Complex<R>(a, cosine_and_sine(b).imag);
  if (isinf(a) && !isfinite(b)) return Complex<R>(a, b - b);
  return hyperbolic_turned(a, b, true);
}

template <class R> DEVICE Complex<R> ccosh(Complex<R> x) {
  R a = x.real, b = x.imag;
  if (b == 0) return Complex<R>(hyperbolic(a).real, copysign((R)1, a) * b);
  if (a == 0) {
    Complex<R> turn = cosine_and_sine(b);
    return Complex<R>(turn.real, isfinite(b) ? a * turn.imag : a);
  }
  if (isinf(a) && !isfinite(b)) return Complex<R>(fabs(a), b - b);
  return hyperbolic_turned(a, b, false);
}

template <class R> SHARED_FN Complex<R> ctanh(Complex<R> x) {
  R a = x.real, b = x.imag;
  if (isnan(a)) return Complex<R>(a, b == 0 ? b : a);
  if (!isfinite(b) && !isinf(a)) return Complex<R>(a == 0 ? a : b - b, b - b);
  if (fabs(a) > Limits<R>::tanh_one) {
    Complex<R> turn = cosine_and_sine(b);
    R e = exp(-fabs(a)), sine = isfinite(b) ? turn.imag * turn.real : copysign((R)0, b);
    return Complex<R>(copysign((R)1, a), 4 * sine * e * e);
  }
  R t = tan(b), s = sinh(a), rest = 1 + t * t, root = sqrt(1 + s * s);
  R scale = 1 + rest * s * s;
  return Complex<R>(rest * root * s / scale, t / scale);
}

template <class R> DEVICE Complex<R> csin(Complex<R> x) { return turned_back(csinh(turned(x))); }
template <class R> DEVICE Complex<R> ccos(Complex<R> x) { return ccosh(turned(x)); }
template <class R> DEVICE Complex<R> ctan(Complex<R> x) { return turned_back(ctanh(turned(x))); }

/* ---- roots and logarithms -------------------------------------------------------------------- */

template <class R> SHARED_FN Complex<R> csqrt(Complex<R> x) {
  R a = x.real, b = x.imag, back = 1;
  if (a == 0 && b == 0) return Complex<R>(0, b);
  if (isinf(b)) return Complex<R>(INFINITY, b);
  if (isnan(a)) return Complex<R>(a, a);
  if (isinf(a))
    return a > 0 ? Complex<R>(a, isnan(b) ? b : copysign((R)0, b))
                 : Complex<R>(fabs(b - b), copysign(a, b));
  R large = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
  if (large >= Limits<R>::most / 4) {
    a /= 16;
    b /= 16;
    back = 4;
  } else if (large < Limits<R>::tiny * Limits<R>::up) {
    a *= Limits<R>::up;
    b *= Limits<R>::up;
    back = Limits<R>::root_down;
  }
  R t = sqrt((fabs(a) + hypot(a, b)) / 2), other = b / (2 * t);
  return a >= 0 ? Complex<R>(t * back, other * back)
                : Complex<R>(fabs(other) * back, copysign(t, b) * back);
}

/* Returns a^2 + b^2 - 1, with little error even if a + ib is near the unit circle. */
DEVICE double square_less_one(double a, double b) {
  double aa = a * a, bb = b * b, low = fma(a, a, -aa) + fma(b, b, -bb);
  double first = aa - 1, sum = first + bb, part = sum - first;
  return sum + ((first - (sum - part)) + (bb - part) + low);
}

/* Returns the logarithm of the absolute value of a + ib. */
SHARED_FN double log_abs(double a, double b) {
  a = fabs(a);
  b = fabs(b);
  double large = a > b ? a : b, small = a > b ? b : a;
  if (large > 0.5 && large < 2 && large * large + small * small > 0.5 &&
      large * large + small * small < 3)
    return log1p(square_less_one(large, small)) / 2;
  if (large > 0x1p1000 && large <= Limits<double>::most)
    return log(hypot(large * 0x1p-100, small * 0x1p-100)) + 100 * NATURAL_LOG_2;
  if (large < 0x1p-960 && large > 0)
    return log(hypot(large * 0x1p100, small * 0x1p100)) - 100 * NATURAL_LOG_2;
  return log(hypot(large, small));
}

template <class R> DEVICE Complex<R> clog(Complex<R> x) {
  return Complex<R>((R)log_abs(x.real, x.imag), atan2(x.imag, x.real));
}

template <class R> SHARED_FN Complex<R> cpow(Complex<R> a, Complex<R> b) {
  typedef Complex<double> Z;
  Z log_a(log_abs(a.real, a.imag), atan2((double)a.imag, (double)a.real));
  Z y = cexp(Z(b.real, b.imag) * log_a);
  return Complex<R>((R)y.real, (R)y.imag);
}

/* ---- inverse functions ------------------------------------------------------------------------ */

/* The parts from which asin, acos and acosh of x + iy are computed for x, y >= 0. asin is atan2(x,
** q) + i * log, and acos is atan2(q, x) - i * log. */
struct Arc {
  double q, log;
};

SHARED_FN Arc arc_of(double x, double y) {
  /* squares of numbers between these two limits are in range */
  const double large = 0x1p509, small = 0x1p-509;
  if (x > large || y > large) return Arc{y, log_abs(x, y) + NATURAL_LOG_2};
  double r = hypot(x + 1, y), s = hypot(x - 1, y), a = (r + s) / 2;
  bool inside = x < 1;
  double far = x <= 1 ? y * y / (r + x + 1) + (s + (1 - x)) : 0;
  double q = x <= 1 ? sqrt((a + x) * far / 2)
                    : y * sqrt(((a + x) / (r + x + 1) + (a + x) / (s + (x - 1))) / 2);
  if (inside && y < small) return Arc{q, y / sqrt((1 - x) * (1 + x))};
  if (a > 1.5) return Arc{q, log(a + sqrt(a * a - 1))};
  double first = y * y / (r + x + 1), second = inside ? y * y / (s + (1 - x)) : s + (x - 1);
  double above = (first + second) / 2; /* the value a - 1, computed without cancellation */
  return Arc{q, log1p(above + sqrt(above * (a + 1)))};
}

template <class R> SHARED_FN Complex<R> casin(Complex<R> z) {
  double x = fabs((double)z.real), y = fabs((double)z.imag);
  if (isnan(x) || isnan(y)) {
    if (isinf(x) || isinf(y)) return Complex<R>(NAN, copysign((R)INFINITY, z.imag));
    return x == 0 ? Complex<R>(z.real, NAN) : Complex<R>(NAN, NAN);
  }
  Arc arc = arc_of(x, y);
  double angle = isinf(x) && isinf(y) ? HALF_PI / 2 : atan2(x, arc.q);
  return Complex<R>(copysign((R)angle, z.real), copysign((R)arc.log, z.imag));
}

template <class R> SHARED_FN Complex<R> cacos(Complex<R> z) {
  double x = fabs((double)z.real), y = fabs((double)z.imag);
  if (isnan(x) || isnan(y)) {
    if (isinf(x) || isinf(y)) return Complex<R>(NAN, isinf(y) ? -z.imag : (R)INFINITY);
    return x == 0 ? Complex<R>((R)HALF_PI, NAN) : Complex<R>(NAN, NAN);
  }
  Arc arc = arc_of(x, y);
  double angle = isinf(x) && isinf(y) ? HALF_PI / 2 : atan2(arc.q, x);
  if (signbit(z.real)) angle = 2 * HALF_PI - angle;
  return Complex<R>((R)angle, copysign((R)arc.log, -z.imag));
}

template <class R> DEVICE Complex<R> cacosh(Complex<R> z) {
  Complex<R> w = cacos(z);
  return Complex<R>(fabs(w.imag), isnan(z.imag) ? w.real : copysign(w.real, z.imag));
}

template <class R> SHARED_FN Complex<R> catanh(Complex<R> z) {
  const double large = 0x1p509, small = 0x1p-509;
  double x = fabs((double)z.real), y = fabs((double)z.imag), real, imag;
  bool far = (x > large && !isnan(y)) || (y > large && !isnan(x));
  if (far || isinf(y)) {
    double h = hypot(x, y);
    real = isinf(h) || isnan(h) ? 0 : x / h / h;
    imag = isnan(y) ? y : HALF_PI;
  } else if (isnan(x) || isnan(y)) {
    real = x == 0 || isinf(x) ? 0 : NAN;
    imag = NAN;
  } else if (x == 1 && y < small) {
    real = y == 0 ? INFINITY : (NATURAL_LOG_2 - log(y)) / 2;
    imag = y == 0 ? 0 : HALF_PI / 2;
  } else {
    real = log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
    imag = atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2;
  }
  return Complex<R>(copysign((R)real, z.real), copysign((R)imag, z.imag));
}

template <class R> DEVICE Complex<R> casinh(Complex<R> x) { return turned_back(casin(turned(x))); }
template <class R> DEVICE Complex<R> catan(Complex<R> x) { return turned_back(catanh(turned(x))); }

#endif
