/*
** complex.h - the elementwise functions of complex numbers, which the CPU's loops and the GPU's
** kernels share. Before a file includes this file, it defines:
**
**   TLK_PART                 the type of a number's parts: float or double
**   TLK_OF(name)             the C library's function `name` for that type, such as cexp
**   R, T, re, im, pair       the types of a part and of a number, and functions that take a number
**                            apart and put one together; + and - work on numbers
**   Z1(name, result, x)      defines the kernel `name` of one number x
**   Z2(name, result, ...)    of two numbers a and b, and of the complex parameter p
**   Z3(name, result, ...)    of three numbers a, b, c, and of p
**   C1, C2                   do what Z1 and Z2 do, for expressions that call functions such as cexp
**
** Results are of type T, R, or uint8_t (a bool). Products and quotients are computed from the
** parts, because C's own operators call a function for each element to correct infinities that
** became NaN. A quotient is scaled by the larger part of the divisor (R. L. Smith, "Algorithm 116:
** Complex division", 1962), as in PyTorch.
*/

TLK_COMPLEX_FN T times(T a, T b) {
  return pair(re(a) * re(b) - im(a) * im(b), re(a) * im(b) + im(a) * re(b));
}

/* Returns the product of b and the conjugate of a. */
TLK_COMPLEX_FN T conj_times(T a, T b) { return times(pair(re(a), -im(a)), b); }

TLK_COMPLEX_FN T scaled(T a, R factor) { return pair(re(a) * factor, im(a) * factor); }

/* Returns a / b. If b is 0, each part of the result is infinite, or NaN if that part of a is 0. */
TLK_COMPLEX_FN T divided(T a, T b) {
  R c = re(b), d = im(b);
  bool wide = TLK_OF(fabs)(c) >= TLK_OF(fabs)(d);
  R large = wide ? c : d, small = wide ? d : c;
  R ratio = large == 0 ? 0 : small / large;
  R scale = 1 / (large + small * ratio), infinite = TLK_OF(fabs)(c) + INFINITY;
  R first = wide ? re(a) + im(a) * ratio : re(a) * ratio + im(a);
  R second = wide ? im(a) - re(a) * ratio : im(a) * ratio - re(a);
  R real = large == 0 ? re(a) : first, imag = large == 0 ? im(a) : second;
  R factor = large == 0 ? infinite : scale;
  return pair(real * factor, imag * factor);
}

/* Returns 1 / x by the rules of `divided`. */
TLK_COMPLEX_FN T inverse_of(T x) {
  R c = re(x), d = im(x);
  bool wide = TLK_OF(fabs)(c) >= TLK_OF(fabs)(d);
  R large = wide ? c : d, small = wide ? d : c;
  R ratio = large == 0 ? 0 : small / large;
  R scale = 1 / (large + small * ratio), infinite = TLK_OF(fabs)(c) + INFINITY;
  R real = wide ? 1 : ratio, imag = wide ? 0 - ratio : -1;
  R factor = large == 0 ? infinite : scale;
  return pair(real * factor, (large == 0 ? 0 : imag) * factor);
}

TLK_COMPLEX_FN bool nonzero(T x) { return re(x) != 0 || im(x) != 0; }
TLK_COMPLEX_FN bool is_nan(T x) { return isnan(re(x)) || isnan(im(x)); }

#define LN2 ((R)0.693147180559945309417232121458)
#define LN10 ((R)2.302585092994045684017991454684)
#define PI ((R)3.141592653589793238462643383280)

TLK_COMPLEX_FN T sign_of(T x) {
  R magnitude = TLK_OF(cabs)(x);
  return magnitude == 0 ? pair(0, 0) : pair(re(x) / magnitude, im(x) / magnitude);
}

/* Returns a^b. The result is 1 if b is 0, even for a = 0. */
TLK_COMPLEX_FN T power(T a, T b) { return nonzero(b) ? TLK_OF(cpow)(a, b) : pair(1, 0); }

/* Returns exp(x) - 1, without loss of digits near 0. */
TLK_COMPLEX_FN T expm1_of(T x) {
  R a = re(x), b = im(x), sine = TLK_OF(sin)(b / 2);
  R real = TLK_OF(expm1)(a) * TLK_OF(cos)(b) - 2 * sine * sine;
  return pair(real, TLK_OF(exp)(a) * TLK_OF(sin)(b));
}

/* Returns log(1 + x), without loss of digits near 0. */
TLK_COMPLEX_FN T log1p_of(T x) {
  R a = re(x), b = im(x), angle = TLK_OF(atan2)(b, 1 + a);
  R magnitude = TLK_OF(cabs)(x);
  if (!(magnitude < (R)0.5)) return pair(TLK_OF(log)(TLK_OF(hypot)(1 + a, b)), angle);
  return pair(TLK_OF(log1p)(a * (2 + a) + b * b) / 2, angle);
}

TLK_COMPLEX_FN T sigmoid_of(T x) {
  T one = pair(1, 0);
  return divided(one, one + TLK_OF(cexp)(-x));
}

TLK_COMPLEX_FN T sinc_of(T x) {
  T u = scaled(x, PI);
  return nonzero(x) ? divided(TLK_OF(csin)(u), u) : pair(1, 0);
}

/* Returns the derivative of silu: s + x s (1 - s), where s is the sigmoid of x. */
TLK_COMPLEX_FN T silu_slope(T x) {
  T s = sigmoid_of(x);
  return times(s, pair(1, 0) + times(x, pair(1, 0) - s));
}

/* Returns log(exp(a) + exp(b)). The exponential of the number with the larger real part is factored
** out, so that nothing overflows. */
TLK_COMPLEX_FN T log_sum(T a, T b) {
  T most = re(a) < re(b) ? b : a, least = re(a) < re(b) ? a : b;
  if (re(least) == -INFINITY && !isnan(re(most))) return most;
  if (re(most) == INFINITY && re(least) != INFINITY) return most;
  return most + log1p_of(TLK_OF(cexp)(least - most));
}

/* Returns a + c (b - a). It is computed from the nearer end, a or b, so that weight c = 1 gives
** exactly b. */
TLK_COMPLEX_FN T lerp_of(T a, T b, T c) {
  bool near = re(c) * re(c) + im(c) * im(c) < (R)0.25;
  return near ? a + times(c, b - a) : b - times(b - a, pair(1, 0) - c);
}

Z2(add, T, a + times(p, b))
Z2(sub, T, a - times(p, b))
Z2(mul, T, times(a, b))
Z2(true_divide, T, divided(a, b))
C2(pow, T, power(a, b))
Z2(eq, uint8_t, re(a) == re(b) && im(a) == im(b))
Z2(ne, uint8_t, re(a) != re(b) || im(a) != im(b))
Z2(logical_and, uint8_t, nonzero(a) && nonzero(b))
Z2(logical_or, uint8_t, nonzero(a) || nonzero(b))
Z2(logical_xor, uint8_t, nonzero(a) != nonzero(b))
C2(logaddexp, T, log_sum(a, b))
C2(silu_backward, T, conj_times(silu_slope(b), a))
Z2(tanh_backward, T, conj_times(pair(1, 0) - times(b, b), a))
Z2(sigmoid_backward, T, conj_times(b - times(b, b), a))
Z3(addcmul, T, a + times(times(p, b), c))
Z3(addcdiv, T, a + divided(times(p, b), c))
Z3(lerp, T, lerp_of(a, b, c))
Z3(where, T, nonzero(a) ? b : c)
Z3(masked_fill_kernel, T, nonzero(b) ? c : a)

Z1(neg, T, -x)
Z1(conj_physical, T, pair(re(x), -im(x)))
Z1(abs, R, TLK_OF(cabs)(x))
Z1(angle, R, is_nan(x) ? (R)NAN : TLK_OF(carg)(x))
Z1(sign, T, sign_of(x))
Z1(square, T, times(x, x))
Z1(cube, T, times(times(x, x), x))
Z1(reciprocal, T, inverse_of(x))
C1(sqrt, T, TLK_OF(csqrt)(x))
C1(rsqrt, T, divided(pair(1, 0), TLK_OF(csqrt)(x)))
C1(exp, T, TLK_OF(cexp)(x))
C1(exp2, T, TLK_OF(cexp)(scaled(x, LN2)))
C1(expm1, T, expm1_of(x))
C1(log, T, TLK_OF(clog)(x))
C1(log2, T, scaled(TLK_OF(clog)(x), 1 / LN2))
C1(log10, T, scaled(TLK_OF(clog)(x), 1 / LN10))
C1(log1p, T, log1p_of(x))
C1(sin, T, TLK_OF(csin)(x))
C1(cos, T, TLK_OF(ccos)(x))
C1(tan, T, TLK_OF(ctan)(x))
C1(asin, T, TLK_OF(casin)(x))
C1(acos, T, TLK_OF(cacos)(x))
C1(atan, T, TLK_OF(catan)(x))
C1(sinh, T, TLK_OF(csinh)(x))
C1(cosh, T, TLK_OF(ccosh)(x))
C1(tanh, T, TLK_OF(ctanh)(x))
C1(asinh, T, TLK_OF(casinh)(x))
C1(acosh, T, TLK_OF(cacosh)(x))
C1(atanh, T, TLK_OF(catanh)(x))
C1(sigmoid, T, sigmoid_of(x))
C1(sinc, T, sinc_of(x))
C1(silu, T, times(x, sigmoid_of(x)))
Z1(softsign, T, scaled(x, 1 / (1 + TLK_OF(cabs)(x))))
C1(tanhshrink, T, x - TLK_OF(ctanh)(x))
Z1(isnan, uint8_t, is_nan(x))
Z1(isinf, uint8_t, isinf(re(x)) || isinf(im(x)))
Z1(isfinite, uint8_t, isfinite(re(x)) && isfinite(im(x)))
Z1(logical_not, uint8_t, !nonzero(x))
