/*
** bessel.h - Bessel functions and orthogonal polynomials for math.h, computed in double like the
** functions of special.h. The C library provides the Bessel functions of the first two kinds.
*/
#ifndef TLM_BESSEL_H
#define TLM_BESSEL_H

#include "kernels/special.h"

/* ---- the first and the second kind ------------------------------------------------ */

/* Returns J0(x), with its limit 0 at infinity. */
TLM_LONG_FN double tlm_j0(double x) { return isinf(x) ? 0 : j0(x); }
TLM_LONG_FN double tlm_j1(double x) { return isinf(x) ? 0 : j1(x); }

/* Returns y, the C library's value of a Bessel function of the second kind at x, if x > 0. Returns
** -infinity for x = 0 and NaN for negative x, since C libraries differ there. */
TLM_FN double tlm_second_kind(double x, double y) {
  return x > 0 ? y : x == 0 ? -(double)INFINITY : (double)NAN;
}
TLM_LONG_FN double tlm_y0(double x) {
  return isinf(x) && x > 0 ? 0 : tlm_second_kind(x, y0(x > 0 ? x : 1));
}
TLM_LONG_FN double tlm_y1(double x) {
  return isinf(x) && x > 0 ? 0 : tlm_second_kind(x, y1(x > 0 ? x : 1));
}

/* ---- modified, the second kind ------------------------------------------------------
** Up to 2 K0(x) + log(x/2) I0(x) and x (K1(x) - log(x/2) I1(x)), which are regular,
** as Chebyshev series in x^2/2 - 1; beyond it exp(x) sqrt(x) K(x) in 4/x - 1.
** Coefficients computed to 50 digits. */

/* clang-format off */
#define TLM_K0_NEAR_(X)                                                           \
  X(1.3744654358807509e-16) X(4.25981614279108258e-14) X(1.03496952576336246e-11) \
  X(1.90451637722020886e-9) X(2.53479107902614946e-7) X(0.0000228621210311945179) \
  X(0.00126461541144692592) X(0.0359799365153615016) X(0.344289899924628487)
TLM_CHEBYSHEV_(tlm_k0_near, TLM_K0_NEAR_, -0.267663696616951384)

#define TLM_K0_FAR_(X)                                                               \
  X(-1.73317120058210003e-18) X(5.30043377117733577e-18) X(-1.64758059398426328e-17) \
  X(5.21039177764355411e-17) X(-1.67823112575490064e-16) X(5.51205599940433336e-16)  \
  X(-1.84859337792090717e-15) X(6.34007647627664597e-15) X(-2.22751332674629636e-14) \
  X(8.03289077506837437e-14) X(-2.98009692314817835e-13) X(1.14034058820734423e-12)  \
  X(-4.51459788337451918e-12) X(1.85594911495492655e-11) X(-7.95748924447739704e-11) \
  X(3.57739728140032845e-10) X(-1.69753450938906152e-9) X(8.57403401741422609e-9)    \
  X(-4.66048989768794767e-8) X(2.76681363944501508e-7) X(-1.83175552271911948e-6)    \
  X(0.0000139498137188764994) X(-0.000128495495816278026) X(0.00156988388573005337)  \
  X(-0.0314481013119645005)
TLM_CHEBYSHEV_(tlm_k0_far, TLM_K0_FAR_, 1.22015154103297773)

#define TLM_K1_NEAR_(X)                                                              \
  X(-7.0238634793862876e-18) X(-2.42744985051936593e-15) X(-6.66690169419932901e-13) \
  X(-1.41148839263352776e-10) X(-2.21338763073472586e-8) X(-2.43340614156596823e-6)  \
  X(-0.000173028895751305206) X(-0.00697572385963986435) X(-0.122611180822657148)    \
  X(-0.353155960776544876)
TLM_CHEBYSHEV_(tlm_k1_near, TLM_K1_NEAR_, 0.762650113669473885)

#define TLM_K1_FAR_(X)                                                               \
  X(1.87786519016232674e-18) X(-5.75674448207330245e-18) X(1.79405104788635729e-17)  \
  X(-5.68946284919364837e-17) X(1.83809357524304543e-16) X(-6.05704727064301782e-16) \
  X(2.03870316623986088e-15) X(-7.01983708921476885e-15) X(2.47715442421959868e-14)  \
  X(-8.97670518201014607e-14) X(3.34841966605224312e-13) X(-1.28917396094982294e-12) \
  X(5.13963967348234354e-12) X(-2.12996783842779102e-11) X(9.21831518760531413e-11)  \
  X(-4.19035475934192558e-10) X(2.01504975519703462e-9) X(-1.0345762465678097e-8)    \
  X(5.74108412545004929e-8) X(-3.50196060308781254e-7) X(2.40648494783721712e-6)     \
  X(-0.0000193619797416608296) X(0.000195215518471351631) X(-0.00285781685962277939) \
  X(0.103923736576817238)
TLM_CHEBYSHEV_(tlm_k1_far, TLM_K1_FAR_, 1.36031309524222133)
/* clang-format on */

/* Return exp(x) K0(x) and exp(x) K1(x) if `scaled`, otherwise K0(x) and K1(x). */
TLM_LONG_FN double tlm_k0(double x, bool scaled) {
  if (!(x > 0)) return x == 0 ? (double)INFINITY : (double)NAN;
  double far = tlm_k0_far(4 / (x > 2 ? x : 2) - 1) / sqrt(x);
  if (x > 2) return scaled ? far : far * exp(-x);
  double near = tlm_k0_near(0.5 * x * x - 1) - log(0.5 * x) * tlm_i0(x);
  return scaled ? near * exp(x) : near;
}
TLM_LONG_FN double tlm_k1(double x, bool scaled) {
  if (!(x > 0)) return x == 0 ? (double)INFINITY : (double)NAN;
  double far = tlm_k1_far(4 / (x > 2 ? x : 2) - 1) / sqrt(x);
  if (x > 2) return scaled ? far : far * exp(-x);
  double near = tlm_k1_near(0.5 * x * x - 1) / x + log(0.5 * x) * tlm_i1(x);
  return scaled ? near * exp(x) : near;
}

/* ---- orthogonal polynomials --------------------------------------------------------
** P(0) = 1, P(1) = s x + t, (k + d) P(k+1) = ((a k + b) x + c) P(k) - (e k + f) P(k-1),
** differentiated some times by x (DLMF 18.9). The number of a family is its row in
** src/ops/pointwise/polynomials.lua; those from 4 to 7 are of 2x - 1. */

#define TLM_MAX_SLOPE 8 /* order of the highest derivative */
/* the result is NaN for a higher degree, since the loop would take too long */
#define TLM_MAX_DEGREE 1e6

TLM_LONG_FN double tlm_orthogonal(int family, double x, double degree, int slope) {
  double p[TLM_MAX_SLOPE + 1] = {1}; /* polynomial of degree k, and its derivatives */
  double q[TLM_MAX_SLOPE + 1] = {0}; /* polynomial of degree k - 1, and its derivatives */
  bool chebyshev = family < 8;
  bool laguerre = family == 10;
  bool shifted = chebyshev && family > 3;
  double whole = floor(fabs(degree));
  if (isnan(x) || !(whole <= TLM_MAX_DEGREE) || slope > TLM_MAX_SLOPE) return (double)NAN;
  if (degree <= -1) return 0;
  int n = (int)whole;
  double u = shifted ? 2 * x - 1 : x;
  for (int k = 0; k < n && !isnan(p[0]); k++) {
    double factor = chebyshev || family == 8 ? 2 : family == 11 ? 2 * k + 1 : laguerre ? -1 : 1;
    double constant = laguerre ? 2 * k + 1 : 0;
    int back = chebyshev ? 1 : family == 8 ? 2 * k : k, divisor = family > 9 ? k + 1 : 1;
    /* only this first step depends on the kind of Chebyshev polynomial */
    if (k == 0 && chebyshev) {
      factor = family % 4 == 0 ? 1 : 2;
      constant = family % 4 == 2 ? -1 : family % 4 == 3 ? 1 : 0;
    }
    for (int m = slope; m >= 0; m--) {
      double below = m > 0 ? m * factor * p[m - 1] : 0;
      double next = ((factor * u + constant) * p[m] + below - back * q[m]) / divisor;
      q[m] = p[m];
      p[m] = next;
    }
  }
  return shifted ? ldexp(p[slope], slope) : p[slope];
}

#endif
