/*
** special.h - the longer special functions for math.h. They are computed in double, even for float,
** so float results are exact or nearly exact in the last digit.
*/
#ifndef TLM_SPECIAL_H
#define TLM_SPECIAL_H

#define TLM_PI 3.14159265358979323846
#define TLM_LN2 0.69314718055994530942
#define TLM_SQRT1_2 0.70710678118654752440
#define TLM_2_SQRTPI 1.12837916709551257390  /* 2 / sqrt(pi) */
#define TLM_1_SQRT2PI 0.39894228040143267794 /* 1 / sqrt(2 pi) */

/* ---- sinc --------------------------------------------------------------------- */

/* These functions return the first and the second derivative of sin(u)/u. Near 0 they use the power
** series, because the closed form loses digits by cancellation. cos(u) - sin(u)/u is written with
** sines alone, because compilers join the sine and the cosine of one argument to one call, and then
** vectorise neither. */
TLM_LONG_FN double tlm_sinc_first(double u) {
  double s = u * u;
  double series =
      u *
      (-1.0 / 3 +
       s * (1.0 / 30 +
            s * (-1.0 / 840 + s * (1.0 / 45360 + s * (-1.0 / 3991680 + s * (1.0 / 518918400 -
                                                                            s / 93405312000.0))))));
  double half = sin(0.5 * u);
  double closed = (1 - 2 * half * half - sin(u) / u) / u;
  return s < 1 ? series : closed;
}
TLM_LONG_FN double tlm_sinc_second(double u) {
  double s = u * u;
  double series =
      -1.0 / 3 +
      s * (1.0 / 10 +
           s * (-1.0 / 168 +
                s * (1.0 / 6480 + s * (-1.0 / 443520 + s * (1.0 / 47174400 - s / 7185024000.0)))));
  double half = sin(0.5 * u);
  double sinc = sin(u) / u;
  double closed = -sinc - 2 * (1 - 2 * half * half - sinc) / s;
  return s < 1 ? series : closed;
}

/* ---- inverse error function ------------------------------------------------------ */

/* Returns the inverse of erf. An approximation with an error of 2e-3 is improved by two steps of
** Halley's method, each of which triples the number of correct digits. A step uses erf near 0, and
** erfc near 1, where 1 - |y| is exact and small. */
TLM_LONG_FN double tlm_erfinv(double y) {
  double m = fabs(y);
  double l = log((1 - m) * (1 + m));
  double t = 2 / (TLM_PI * 0.147) + 0.5 * l;
  double far = sqrt(sqrt(t * t - l / 0.147) - t);
  double x = m < 0.1 ? m / TLM_2_SQRTPI : far;
  for (int step = 0; step < 2; step++) {
    double error = m < 0.5 ? erf(x) - m : (1 - m) - erfc(x);
    double newton = error / (TLM_2_SQRTPI * exp(-x * x));
    x -= newton / (1 + x * newton);
  }
  x = m == 1 ? INFINITY : m > 1 ? NAN : x;
  return copysign(x, y);
}

/* ---- polygamma ---------------------------------------------------------------- */

/* Returns the polygamma function of order 0 or 1. The recurrence raises x until the asymptotic
** series is accurate. Negative arguments use the reflection formula. */
TLM_LONG_FN double tlm_polygamma(int order, double x) {
  double sum = 0;
  for (int k = 0; k < 12; k++) {
    bool below = x < 12;
    double r = 1 / x;
    double term = order == 0 ? -r : r * r;
    sum += below ? term : 0;
    x += below ? 1 : 0;
  }
  double r = 1 / x;
  double s = r * r;
  if (order == 0) {
    double tail =
        s *
        (1.0 / 12 -
         s * (1.0 / 120 -
              s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760 - s / 12))))));
    return sum + log(x) - 0.5 * r - tail;
  }
  double tail =
      r * s *
      (1.0 / 6 -
       s * (1.0 / 30 -
            s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66 - s * (691.0 / 2730 - s * 7 / 6))))));
  return sum + r + 0.5 * s + tail;
}

/* Returns Hurwitz's zeta function, the sum of (x + k)^-s over k from 0, for x > 0 and whole s >= 3.
** The first terms are added directly, and the sum of the other terms is computed by the
** Euler-Maclaurin formula. The table has Bernoulli numbers, each divided by (2j)!. */
TLM_LONG_FN double tlm_zeta(double s, double x) {
  const double b[8] = {1.0 / 12,
                       -1.0 / 720,
                       1.0 / 30240,
                       -1.0 / 1209600,
                       1.0 / 47900160,
                       -691.0 / 1307674368000.0,
                       1.0 / 74724249600.0,
                       -3617.0 / 10670622842880000.0};
  double sum = 0;
  double far = 12 + s;
  for (; x < far; x += 1) sum += pow(x, -s);
  double first = pow(x, -s);
  double r = 1 / x;
  double factor = s * r; /* s (s + 1) ... (s + 2j) / x^(2j + 1) */
  double tail = 0;
  for (int j = 0; j < 8; j++) {
    tail += b[j] * factor;
    factor *= (s + 2 * j + 1) * r * (s + 2 * j + 2) * r;
  }
  return sum + first * (0.5 + tail) + pow(x, 1 - s) / (s - 1);
}

/* Returns the polygamma function of order n >= 2: (-1)^(n + 1) n! zeta(n + 1, x). For x < 0, the
** terms on both sides of 0 are summed separately. */
TLM_LONG_FN double tlm_higher_gamma(int n, double x) {
  double s = n + 1;
  double low = floor(x);
  double near = low + 1 - x; /* 0 < near <= 1; the largest x + k below 0 is -near */
  double factorial = 1;
  for (int k = 2; k <= n && k <= 171; k++) factorial *= k;
  double sign = n & 1 ? 1 : -1;
  if (x <= 0 && x == low) return sign * (double)INFINITY;
  /* the result is NaN as in PyTorch, which multiplies 0 by infinity */
  if (x > 0 && isinf(x)) return (double)NAN;
  if (x > 0 || isnan(x)) return sign * factorial * tlm_zeta(s, x);
  /* first adds the sums next to 0 on both sides, because their largest terms may cancel */
  double poles = tlm_zeta(s, x - low) + sign * tlm_zeta(s, near);
  return sign * factorial * (poles - sign * tlm_zeta(s, 1 - x));
}

/* ---- modified Bessel functions ------------------------------------------------
** exp(-|x|) I0(x) and exp(-|x|) I1(x) / x as Chebyshev series in x/4 - 1 up to 8,
** exp(-|x|) sqrt(|x|) I0(x) and the same of I1 in 16/x - 1 beyond. The coefficients
** were computed to 40 digits. Each list begins with the coefficient of the highest order and
** leaves that of order 0 out, so that Clenshaw's recurrence is straight-line code. */

#define TLM_CLENSHAW_STEP_(c) \
  b2 = b1;                    \
  b1 = b0;                    \
  b0 = c + 2 * t * b1 - b2;
#define TLM_CHEBYSHEV_(name, LIST, first) \
  TLM_FN double name(double t) {          \
    double b0 = 0;                        \
    double b1 = 0;                        \
    double b2;                            \
    LIST(TLM_CLENSHAW_STEP_)              \
    return first + t * b0 - b1;           \
  }

/* clang-format off */
#define TLM_I0_NEAR_(X)                                                              \
  X(-4.41534164647933938e-18) X(3.3307945188222381e-17) X(-2.43127984654795469e-16)  \
  X(1.71539128555513303e-15) X(-1.16853328779934517e-14) X(7.67618549860493562e-14)  \
  X(-4.85644678311192946e-13) X(2.95505266312963983e-12) X(-1.72682629144155571e-11) \
  X(9.67580903537323691e-11) X(-5.18979560163526291e-10) X(2.65982372468238665e-9)   \
  X(-1.30002500998624804e-8) X(6.04699502254191895e-8) X(-2.67079385394061173e-7)    \
  X(1.11738753912010372e-6) X(-4.41673835845875056e-6) X(0.0000164484480707288971)   \
  X(-0.000057541950100821037) X(0.000188502885095841656) X(-0.000576375574538582366) \
  X(0.0016394756169413358) X(-0.00432430999505057594) X(0.0105464603945949983)       \
  X(-0.0237374148058994688) X(0.0493052842396707085) X(-0.0949010970480476444)       \
  X(0.171620901522208775) X(-0.304682672343198399)
TLM_CHEBYSHEV_(tlm_i0_near, TLM_I0_NEAR_, 0.338397637204738042)

#define TLM_I0_FAR_(X)                                                               \
  X(-7.23318048787475395e-18) X(-4.83050448594418207e-18) X(4.46562142029676e-17)    \
  X(3.46122286769746109e-17) X(-2.82762398051658348e-16) X(-3.42548561967721913e-16) \
  X(1.77256013305652638e-15) X(3.81168066935262242e-15) X(-9.55484669882830765e-15)  \
  X(-4.15056934728722209e-14) X(1.54008621752140983e-14) X(3.8527783827421427e-13)   \
  X(7.18012445138366623e-13) X(-1.79417853150680612e-12) X(-1.32158118404477131e-11) \
  X(-3.14991652796324136e-11) X(1.18891471078464383e-11) X(4.94060238822496959e-10)  \
  X(3.39623202570838635e-9) X(2.26666899049817806e-8) X(2.04891858946906374e-7)      \
  X(2.89137052083475648e-6) X(0.0000688975834691682398) X(0.00336911647825569409)
TLM_CHEBYSHEV_(tlm_i0_far, TLM_I0_FAR_, 0.402245205507054416)

#define TLM_I1_NEAR_(X)                                                              \
  X(2.77791411276104637e-18) X(-2.11142121435816608e-17) X(1.55363195773620047e-16)  \
  X(-1.10559694773538631e-15) X(7.60068429473540693e-15) X(-5.04218550472791169e-14) \
  X(3.22379336594557471e-13) X(-1.98397439776494372e-12) X(1.17361862988909016e-11)  \
  X(-6.66348972350202774e-11) X(3.62559028155211704e-10) X(-1.88724975172282929e-9)  \
  X(9.38153738649577178e-9) X(-4.44505912879632808e-8) X(2.00329475355213526e-7)     \
  X(-8.56872026469545474e-7) X(3.47025130813767848e-6) X(-0.0000132731636560394358)  \
  X(0.0000478156510755005423) X(-0.000161760815825896746) X(0.000512285956168575773) \
  X(-0.00151357245063125315) X(0.00415642294431288816) X(-0.0105640848946261982)     \
  X(0.0247264490306265168) X(-0.0529459812080949914) X(0.102643658689847095)         \
  X(-0.176416518357834055)
TLM_CHEBYSHEV_(tlm_i1_near, TLM_I1_NEAR_, 0.126293593221816827)

#define TLM_I1_FAR_(X)                                                               \
  X(7.51729631084210481e-18) X(4.41434832307170795e-18) X(-4.65030536848935833e-17)  \
  X(-3.20952592199342396e-17) X(2.96262899764595014e-16) X(3.30820231092092828e-16)  \
  X(-1.88035477551078245e-15) X(-3.8144030724370078e-15) X(1.04202769841288028e-14)  \
  X(4.27244001671195135e-14) X(-2.10154184277266431e-14) X(-4.08355111109219732e-13) \
  X(-7.19855177624590851e-13) X(2.03562854414708951e-12) X(1.41258074366137813e-11)  \
  X(3.25260358301548824e-11) X(-1.89749581235054123e-11) X(-5.58974346219658381e-10) \
  X(-3.83538038596423702e-9) X(-2.63146884688951951e-8) X(-2.51223623787020893e-7)   \
  X(-3.88256480887769039e-6) X(-0.000110588938762623716) X(-0.00976109749136146841)
TLM_CHEBYSHEV_(tlm_i1_far, TLM_I1_FAR_, 0.38928811750914006)
/* clang-format on */

TLM_LONG_FN double tlm_i0_scaled(double x) {
  double m = fabs(x);
  double low = tlm_i0_near((m > 8 ? 8 : m) / 4 - 1);
  double high = tlm_i0_far(16 / (m > 8 ? m : 8) - 1) / sqrt(m > 8 ? m : 8);
  return m > 8 ? high : low;
}
TLM_LONG_FN double tlm_i1_scaled(double x) {
  double m = fabs(x);
  double low = tlm_i1_near((m > 8 ? 8 : m) / 4 - 1);
  double high = tlm_i1_far(16 / (m > 8 ? m : 8) - 1) / sqrt(m > 8 ? m : 8);
  return m > 8 ? copysign(high, x) : low * x;
}
/* Returns I0(x). The result is multiplied twice by exp(|x| / 2), because exp(|x|) overflows earlier
** than I0. */
TLM_LONG_FN double tlm_i0(double x) {
  double half = exp(0.5 * fabs(x));
  return half * tlm_i0_scaled(x) * half;
}
TLM_LONG_FN double tlm_i1(double x) {
  double half = exp(0.5 * fabs(x));
  return half * tlm_i1_scaled(x) * half;
}

/* ---- the incomplete gamma functions --------------------------------------------
** P(a, x), the share of the gamma distribution of shape a below x, and Q = 1 - P,
** each to its own relative precision: by P's series below a + 1, by Q's continued
** fraction above (DLMF 8.11.4 and 8.9.2), and where a is so large that both take
** thousands of terms by Temme's uniform expansion (DLMF 8.12.3), whose error is then
** below 1e-10. */

#define TLM_GAMMA_LARGE 1e6

/* Returns x^a exp(-x) / Gamma(a + 1). For large a, Stirling's series is used, because the factors
** would overflow and their logarithms would cancel. */
TLM_LONG_FN double tlm_gamma_factor(double a, double x) {
  if (a < 10) return exp(a * log(x) - x - lgamma(a + 1));
  double mu = (x - a) / a;
  double ratio = fabs(mu) < 0.5 ? log1p(mu) : log(x / a);
  double r = 1 / (a * a);
  double stirling = (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r / 1680))) / a;
  return exp(a * (ratio - mu) - stirling) / sqrt(2 * TLM_PI * a);
}

/* Returns the regularized incomplete gamma function P(a, x) if `lower`, otherwise Q(a, x). It is
** computed by Temme's expansion. */
TLM_LONG_FN double tlm_gamma_temme(double a, double x, bool lower) {
  double mu = (x - a) / a;
  double eta = copysign(sqrt(2 * fmax(mu - log1p(mu), 0.0)), mu);
  double near = -1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta / 864));
  double correction = fabs(mu) < 1e-3 ? near : 1 / mu - 1 / eta;
  double rest = exp(-0.5 * a * eta * eta) / sqrt(2 * TLM_PI * a) * correction;
  double half = 0.5 * erfc((lower ? -eta : eta) * sqrt(0.5 * a));
  return lower ? half - rest : half + rest;
}

TLM_LONG_FN double tlm_gamma_share(double a, double x, bool lower) {
  double none = lower ? 0 : 1;
  if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return (double)NAN;
  if (a == 0 || isinf(x)) return 1 - none;
  if (x == 0 || isinf(a)) return none;
  if (a > TLM_GAMMA_LARGE) return tlm_gamma_temme(a, x, lower);
  double factor = tlm_gamma_factor(a, x);
  if (x < a + 1) {
    double term = 1;
    double sum = 1;
    for (double n = a + 1; term > 1e-17 * sum; n += 1) sum += term *= x / n;
    return lower ? factor * sum : 1 - factor * sum;
  }
  /* evaluates the continued fraction by Lentz's method */
  double b = x + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double h = d;
  double change = 0;
  for (double i = 1; fabs(change - 1) > 1e-16 && i < 1e5; i += 1) {
    double numerator = i * (a - i);
    b += 2;
    d = 1 / (numerator * d + b);
    c = b + numerator / c;
    change = c * d;
    h *= change;
  }
  double upper = factor * a * h;
  return lower ? 1 - upper : upper;
}

/* ---- derivatives of random numbers ---------------------------------------------
** The derivative of a number x by a parameter of its distribution, while the value F of the
** distribution function stays the same: -(dF/da) / (dF/dx). The series and continued fractions of
** F are differentiated term by term. On each side of the mean the terms of the result have one
** sign, so they do not cancel. They end where they change the result by less than `tolerance`. */

/* Returns dx/da of the gamma distribution with shape a. For large shapes, x is expanded in z, the
** normal quantile of the same probability (E. A. Cornish and R. A. Fisher, 1938). */
TLM_ONCE_FN double tlm_gamma_slope(double a, double x, double tolerance) {
  if (!(a > 0) || !(x >= 0) || isinf(a)) return (double)NAN;
  if (x == 0 || isinf(x)) return x;
  if (a > 1e4) {
    double root = sqrt(a);
    double z = (x - a) / root;
    double first = z;
    for (int step = 0; step < 4; step++) {
      double s = z * z;
      z = first - (s - 1) / (3 * root) - z * (s - 7) / (36 * a) +
          (3 * s * s + 7 * s - 16) / (810 * a * root);
    }
    double s = z * z;
    return 1 + z / (2 * root) - z * (s - 7) / (72 * a * root) +
           (3 * s * s + 7 * s - 16) / (810 * a * a);
  }
  double log_x = log(x);
  if (x < a || x < 1) {
    double term = 1;
    double sum = 1;
    double harmonic = 0;
    double weighted = 0;
    for (double n = a + 1; term > tolerance * sum; n += 1) {
      term *= x / n;
      harmonic += 1 / n;
      sum += term;
      weighted += term * harmonic;
    }
    return x / a * (sum * (tlm_polygamma(0, a + 1) - log_x) + weighted);
  }
  /* evaluates the continued fraction by Lentz's method; dc, dd and dh are the logarithmic
  ** derivatives of c, d and h */
  double b = x + 1 - a;
  double c = 1e300;
  double dc = 0;
  double d = 1 / b;
  double dd = d;
  double h = d;
  double dh = d;
  double change = 0;
  for (double i = 1;
       (fabs(change - 1) > tolerance || fabs(dc + dd) > tolerance * fabs(dh)) && i < 1e4; i += 1) {
    double numerator = i * (a - i);
    b += 2;
    double next = 1 / (numerator * d + b);
    dd = -next * (i * d + numerator * d * dd - 1);
    d = next;
    double after = b + numerator / c;
    dc = (i / c - numerator / c * dc - 1) / after;
    c = after;
    change = c * d;
    h *= change;
    dh += dc + dd;
  }
  return x * h * (log_x - tlm_polygamma(0, a) + dh);
}

/* Returns the continued fraction h of the incomplete beta function I_x(a, b) (DLMF 8.17.22). *dh
** receives the derivative of log h with respect to a if `by_a`, otherwise with respect to b. */
TLM_ONCE_FN double tlm_beta_fraction(double a, double b, double x, bool by_a, double tolerance,
                                     double *dh) {
  double c = 1;
  double dc = 0;
  double d = 1;
  double dd = 0;
  double h = 1;
  double change = 0;
  *dh = 0;
  for (int i = 0; i < 20000 &&
                  (i < 3 || fabs(change - 1) > tolerance || fabs(dc + dd) > tolerance * fabs(*dh));
       i++) {
    int m = i / 2;
    bool even = i % 2 == 1; /* the formula for the numerators counts from 1 */
    double k = even ? m + 1 : m;
    double below = even ? (a + 2 * k - 1) * (a + 2 * k) : (a + 2 * k) * (a + 2 * k + 1);
    double numerator = (even ? k * (b - k) : -(a + k) * (a + b + k)) * x / below;
    double first = even ? a + 2 * k - 1 : a + 2 * k + 1;
    double by = (even ? 0 : 1 / (a + k) + 1 / (a + b + k)) - 1 / first - 1 / (a + 2 * k);
    double slope = by_a ? numerator * by : (even ? k : -(a + k)) * x / below;
    double next = 1 / (1 + numerator * d);
    dd = -next * (slope * d + numerator * d * dd);
    d = next;
    change = d;
    if (i > 0) {
      double after = 1 + numerator / c;
      dc = (slope / c - numerator / c * dc) / after;
      c = after;
      change = c * d;
    }
    h *= change;
    *dh += dc + dd;
  }
  return h;
}

/* Returns (dx/da) / (1 - x) of the beta distribution with parameters a and b = total - a, where b
** stays constant. */
TLM_ONCE_FN double tlm_beta_slope(double x, double a, double total, double tolerance) {
  double b = total - a;
  if (!(x >= 0 && x <= 1) || !(a > 0) || !(b > 0) || isinf(total)) return (double)NAN;
  if (x == 0) return 0;
  double dh;
  double level = log(x) + tlm_polygamma(0, total);
  if (x * total < a) {
    double h = tlm_beta_fraction(a, b, x, true, tolerance, &dh);
    return -x / a * h * (level - tlm_polygamma(0, a + 1) + dh);
  }
  double h = tlm_beta_fraction(b, a, 1 - x, false, tolerance, &dh);
  return x / b * h * (level - tlm_polygamma(0, a) + dh);
}

/* ---- the normal distribution ---------------------------------------------------- */

/* Returns exp(x^2) erfc(x). For large x, the asymptotic series is used, because the factors would
** overflow and underflow. For x < -26.7 the result is infinite, because 2 exp(x^2) exceeds the
** largest double. */
TLM_LONG_FN double tlm_erfcx(double x) {
  if (x < -27) return INFINITY;
  double square = x * x;
  if (x < 10) {
    double lost = fma(x, x, -square);
    double power = exp(square);
    return power * (1 + lost) * erfc(x);
  }
  double r = 0.5 / square;
  double sum = 1;
  for (int k = 13; k >= 1; k--) sum = 1 - (2 * k - 1) * r * sum;
  return sum * (0.5 * TLM_2_SQRTPI) / x;
}

/* Returns the logarithm of the standard normal cumulative distribution function at x. */
TLM_LONG_FN double tlm_log_ndtr(double x) {
  double t = x * TLM_SQRT1_2;
  return x < -1 ? log(0.5 * tlm_erfcx(-t)) - t * t : log1p(-0.5 * erfc(t));
}

/* Returns the normal quantile of probability p. The quantile is computed from the nearer of 0 and
** 1, as in tlm_erfinv, because the distance of p from it is exact. */
TLM_LONG_FN double tlm_ndtri(double p) {
  double m = p < 0.5 ? p : 1 - p;
  double l = log(4 * m * (1 - m));
  double t = 2 / (TLM_PI * 0.147) + 0.5 * l;
  double x = sqrt(fmax(sqrt(fmax(t * t - l / 0.147, 0.0)) - t, 0.0));
  for (int step = 0; step < 3; step++) {
    double error = m > 0.25 ? erf(x) - (1 - 2 * m) : 2 * m - erfc(x);
    double newton = error / (TLM_2_SQRTPI * exp(-x * x));
    x -= newton / (1 + x * newton);
  }
  x = m == 0 ? (double)INFINITY : m < 0 ? (double)NAN : x / TLM_SQRT1_2;
  return p < 0.5 ? -x : x;
}

/* Returns the sum of (q + k)^-s over k from 0 for q > 0 and s > 1. For large s, only a few terms
** are added, because the others are negligible. */
TLM_LONG_FN double tlm_hurwitz_positive(double s, double q) {
  if (s < 500) return tlm_zeta(s, q);
  double sum = pow(q, -s);
  double term = sum;
  for (int k = 1; k < 1000 && term > 1e-17 * sum; k++) sum += term = pow(q + k, -s);
  return sum;
}

/* Returns Hurwitz's zeta function for any s > 1. If q is negative, s must be a whole number, and
** the terms on both sides of 0 are summed separately. */
TLM_LONG_FN double tlm_hurwitz(double s, double q) {
  if (isnan(s) || isnan(q) || s < 1) return (double)NAN;
  if (s == 1) return (double)INFINITY;
  if (q <= 0 && q == floor(q)) return (double)INFINITY;
  if (q > 0) return tlm_hurwitz_positive(s, q);
  if (s != floor(s)) return (double)NAN;
  double low = floor(q);
  double above = q - low;     /* position of the first term above 0 */
  double below = low + 1 - q; /* the last term below 0 is at -below */
  double sign = s == 2 * floor(s / 2) ? 1 : -1;
  double rest = tlm_hurwitz_positive(s, 1 - q);
  double up = tlm_hurwitz_positive(s, above);
  double down = tlm_hurwitz_positive(s, below);
  /* the powers of the terms around 0 may overflow, and cancel if s is odd */
  if (sign < 0 && isinf(up) && isinf(down))
    return above < below ? up : above > below ? -down : rest;
  return up + sign * down - sign * rest;
}

/* ---- integers ----------------------------------------------------------------- */

TLM_FN uint64_t tlm_gcd(uint64_t a, uint64_t b) {
  while (b != 0) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

#endif
