/*
** bessel.h - Bessel functions, Airy's function and orthogonal polynomials for math.h, computed in
** double like the functions of special.h. The Bessel functions of the first two kinds come from the
** C library.
*/
#ifndef TLM_BESSEL_H
#define TLM_BESSEL_H

#include "kernels/special.h"

/* ---- the first and the second kind ------------------------------------------------ */

/* Returns J0(x). At infinity the result is the limit, 0. */
TLM_LONG_FN double tlm_j0(double x) { return isinf(x) ? 0 : j0(x); }
TLM_LONG_FN double tlm_j1(double x) { return isinf(x) ? 0 : j1(x); }

/* Returns a Bessel function of the second kind at x. If x > 0, this is y, the C library's value.
** Returns -infinity for x = 0 and NaN for negative x, because C libraries differ there. */
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

/* These functions return K0(x) and K1(x). If `scaled`, the results are multiplied by exp(x). */
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

/* ---- Airy's function -----------------------------------------------------------------
** Ai and its derivative. With z = 2/3 |x|^(3/2) and r = |x|^(1/4) they are Chebyshev series in x
** from -3 to 2; above, Ai(x) = exp(-z) / (2 sqrt(pi) r) far and Ai'(x) = -exp(-z) r / (2 sqrt(pi))
** far, where far is a series in 1/z; below, with u = z - pi/4, Ai(x) = (cos(u) wave + sin(u) shift/z) /
** (sqrt(pi) r) and Ai'(x) = (sin(u) wave - cos(u) shift/z) r / sqrt(pi), where wave and shift are
** series in 1/z^2. Coefficients computed to 50 digits. */

/* clang-format off */
#define TLM_AI_NEAR_(X)                                                             \
  X(2.69257425917314625e-18) X(1.02321853833376992e-17) X(-2.15025381944677601e-16) \
  X(9.63124964734308485e-16) X(3.85785718488576083e-15) X(-6.89481486615338872e-14) \
  X(2.70899230486745641e-13) X(1.13316217214287408e-12) X(-1.71036772496583271e-11) \
  X(5.79970276379287332e-11) X(2.50702203246072935e-10) X(-3.16061210650431172e-9)  \
  X(9.05588137865166305e-9) X(3.99333079924072879e-8) X(-4.13461944193354006e-7)    \
  X(9.72695349086298414e-7) X(4.29870853552819558e-6) X(-0.0000356110216286004149)  \
  X(0.0000660012151907059197) X(0.000284416534567579892) X(-0.00180576287050379675) \
  X(0.00246873438817294571) X(0.00987400140571787971) X(-0.0442883599659668954)     \
  X(0.0392797684579250619) X(0.130720929793008775) X(-0.333776176028802998)         \
  X(0.117718092795205235)
TLM_CHEBYSHEV_(tlm_ai_near, TLM_AI_NEAR_, 0.114413191656935515)

#define TLM_AI_FAR_(X)                                                               \
  X(4.26134990741239982e-18) X(-1.29699721359609367e-17) X(4.0151263340158711e-17)   \
  X(-1.26558322564528899e-16) X(4.06658204645623099e-16) X(-1.33380946747566825e-15) \
  X(4.47234039330002478e-15) X(-1.53564668022238356e-14) X(5.41011625706839221e-14)  \
  X(-1.95997939110897221e-13) X(7.32071209512559757e-13) X(-2.82770678231935085e-12) \
  X(1.13360998082242348e-11) X(-4.73726733219227696e-11) X(2.07458554836775917e-10)  \
  X(-9.58386370811273208e-10) X(4.7097934400543278e-9) X(-2.48931942232209598e-8)    \
  X(1.4362253404380519e-7) X(-9.23722973540398155e-7) X(6.83476697557269029e-6)      \
  X(-0.0000612595423417824993) X(0.000732717746542671434) X(-0.0147927848501041987)
TLM_CHEBYSHEV_(tlm_ai_far, TLM_AI_FAR_, 0.984405304917155196)

#define TLM_AI_WAVE_(X)                                                              \
  X(2.38268653577296589e-18) X(-5.17331431122178668e-18) X(1.14207142210760352e-17)  \
  X(-2.56636083224865888e-17) X(5.87725387635008121e-17) X(-1.37359722681634786e-16) \
  X(3.28128074479582656e-16) X(-8.02575410998412538e-16) X(2.01396562263702083e-15)  \
  X(-5.19678543995160654e-15) X(1.38255393686832096e-14) X(-3.80393559863853517e-14) \
  X(1.08633978346356408e-13) X(-3.23414246380143139e-13) X(1.00897710123672451e-12)  \
  X(-3.31977808727985383e-12) X(1.16118542736576492e-11) X(-4.3617052732019037e-11)  \
  X(1.78279248056995634e-10) X(-8.07083946535944582e-10) X(4.14766523533031619e-9)   \
  X(-2.50813983959403536e-8) X(1.88693307955583866e-7) X(-1.9404091544431854e-6)     \
  X(0.0000326784150640024645) X(-0.00139519957690537169)
TLM_CHEBYSHEV_(tlm_ai_wave, TLM_AI_WAVE_, 0.998569962631091242)

#define TLM_AI_SHIFT_(X)                                                             \
  X(-1.59626538135512812e-19) X(3.10604928514455833e-19) X(-6.10917149802403457e-19) \
  X(1.21523282994868901e-18) X(-2.4462014586417751e-18) X(4.98603329046552698e-18)   \
  X(-1.02978891745258839e-17) X(2.15674962596126211e-17) X(-4.58427418911585439e-17) \
  X(9.89825782207556008e-17) X(-2.17322619712157634e-16) X(4.85734685806115074e-16)  \
  X(-1.10659513561398966e-15) X(2.5732888544750706e-15) X(-6.11776093046276254e-15)  \
  X(1.48966655952394176e-14) X(-3.72288771501750717e-14) X(9.57203089338409433e-14)  \
  X(-2.53903524573491913e-13) X(6.97091370140505183e-13) X(-1.98859013800793616e-12) \
  X(5.92173419816908235e-12) X(-1.85118548714323206e-11) X(6.11753312335789561e-11)  \
  X(-2.15597040077895156e-10) X(8.19529208427213303e-10) X(-3.41073847728459244e-9)  \
  X(1.58636088972570444e-8) X(-8.49063298528918198e-8) X(5.46542871280018935e-7)     \
  X(-4.54476586594654587e-6) X(0.0000555176303557202215) X(-0.00130838545827725927)
TLM_CHEBYSHEV_(tlm_ai_shift, TLM_AI_SHIFT_, 0.068075344742563724)

#define TLM_AI_SLOPE_NEAR_(X)                                                        \
  X(-1.22407151643371284e-17) X(6.08070773462065885e-17) X(2.08774489115757174e-16)  \
  X(-4.41172086710308752e-15) X(1.94712737838019269e-14) X(6.96591370827035204e-14)  \
  X(-1.2491746615884216e-12) X(4.8374855936494268e-12) X(1.7787949830411863e-11)     \
  X(-2.68821350400883808e-10) X(8.99342769926928607e-10) X(3.34129037634256646e-9)   \
  X(-4.20849818785317108e-8) X(1.19256572023083853e-7) X(4.37114714030355744e-7)     \
  X(-4.51151720294248101e-6) X(0.0000105531463445278592) X(0.0000367560847381281965) \
  X(-0.000302823843987155792) X(0.000564765806263775554) X(0.00174497520489941943)   \
  X(-0.0109921165649605236) X(0.0155698877786679154) X(0.036403090182485299)         \
  X(-0.161583552085199666) X(0.162098349247845497) X(0.152146679418021394)           \
  X(-0.3719435323982393)
TLM_CHEBYSHEV_(tlm_ai_slope_near, TLM_AI_SLOPE_NEAR_, 0.123160576827092791)

#define TLM_AI_SLOPE_FAR_(X)                                                         \
  X(-4.38219890689537364e-18) X(1.33494301579447168e-17) X(-4.13649055997616479e-17) \
  X(1.30516991303221426e-16) X(-4.19844624681205073e-16) X(1.37873417693184525e-15)  \
  X(-4.6291501251599476e-15) X(1.59183467543404624e-14) X(-5.61726246108294808e-14)  \
  X(2.03875804518282406e-13) X(-7.6307149926339067e-13) X(2.95438964741655148e-12)   \
  X(-1.18760372663054464e-11) X(4.97854884096184996e-11) X(-2.1883687800953882e-10)  \
  X(1.01547632486475689e-9) X(-5.01779997398353641e-9) X(2.670534777173515e-8)       \
  X(-1.5547836430438126e-7) X(1.01245941267176786e-6) X(-7.62901956302045714e-6)     \
  X(0.0000704386560665415905) X(-0.000892932086409883306) X(0.0214195431724176976)
TLM_CHEBYSHEV_(tlm_ai_slope_far, TLM_AI_SLOPE_FAR_, 1.02239174389535664)

#define TLM_AI_SLOPE_WAVE_(X)                                                        \
  X(-2.42586712430252544e-18) X(5.26905854501356475e-18) X(-1.16367667347900451e-17) \
  X(2.61603640372155856e-17) X(-5.99378377260555912e-17) X(1.40152825263177765e-16)  \
  X(-3.34980085138381018e-16) X(8.19812157869453928e-16) X(-2.05852514403580848e-15) \
  X(5.31545991418172563e-15) X(-1.41520991426855344e-14) X(3.89709527857852725e-14)  \
  X(-1.11400239959271792e-13) X(3.32005179683599262e-13) X(-1.03704394895613952e-12) \
  X(3.41693231091610065e-12) X(-1.19713902103424881e-11) X(4.50559467726752883e-11)  \
  X(-1.84601690709727852e-10) X(8.38216516734750674e-10) X(-4.32450702167723224e-9)  \
  X(2.6291018356378764e-8) X(-1.99360036259621982e-7) X(2.07700557192019701e-6)      \
  X(-0.0000359084896676346702) X(0.00166215483590805837)
TLM_CHEBYSHEV_(tlm_ai_slope_wave, TLM_AI_SLOPE_WAVE_, 1.00170037139151408)

#define TLM_AI_SLOPE_SHIFT_(X)                                                       \
  X(-3.15523466185336942e-19) X(6.20750491802131996e-19) X(-1.23512635453335355e-18) \
  X(2.48695236460420241e-18) X(-5.07061402431692632e-18) X(1.04758954597380298e-17)  \
  X(-2.19476690540951181e-17) X(4.66674419705279501e-17) X(-1.00801476390167898e-16) \
  X(2.21405746323579366e-16) X(-4.95075362098798475e-16) X(1.12840017375657802e-15)  \
  X(-2.6253117622358765e-15) X(6.24483167249565977e-15) X(-1.52150621044011391e-14)  \
  X(3.80491295373710153e-14) X(-9.7898626686226856e-14) X(2.59885108825982894e-13)   \
  X(-7.14136266288562499e-13) X(2.03920927520315495e-12) X(-6.07921163702030433e-12) \
  X(1.90283259819397853e-11) X(-6.29750608595347207e-11) X(2.22327249366460298e-10)  \
  X(-8.46890238662187825e-10) X(3.53377655731612382e-9) X(-1.64904751709138529e-8)   \
  X(8.86530978195888029e-8) X(-5.74259298458021871e-7) X(4.82219083772964967e-6)     \
  X(-0.0000599564223063619371) X(0.00147380564794362112)
TLM_CHEBYSHEV_(tlm_ai_slope_shift, TLM_AI_SLOPE_SHIFT_, -0.0956829538640111187)
/* clang-format on */

#define TLM_AIRY_HIGH 1.885618083164126731735585 /* z at x = 2 */
#define TLM_AIRY_LOW 3.464101615137754587054893  /* z at x = -3 */
#define TLM_1_SQRTPI 0.564189583547756286948080

/* Returns Ai(x), or its derivative if `slope`. At infinity the result is the limit, 0. At -infinity
** the derivative has no limit, and the result is NaN. */
TLM_LONG_FN double tlm_airy(double x, bool slope) {
  if (isnan(x)) return x;
  if (isinf(x)) return slope && x < 0 ? (double)NAN : 0;
  if (x >= -3 && x <= 2) {
    double t = (x + 0.5) / 2.5;
    return slope ? tlm_ai_slope_near(t) : tlm_ai_near(t);
  }
  double m = fabs(x);
  double root = sqrt(m);
  double z = m * root * (2.0 / 3);
  double r = sqrt(root);
  if (x > 0) {
    double t = 2 * TLM_AIRY_HIGH / z - 1;
    double decay = 0.5 * TLM_1_SQRTPI * exp(-z);
    return slope ? -decay * r * tlm_ai_slope_far(t) : decay / r * tlm_ai_far(t);
  }
  double share = TLM_AIRY_LOW / z;
  double t = 2 * share * share - 1;
  double c = cos(z - 0.25 * TLM_PI);
  double s = sin(z - 0.25 * TLM_PI);
  if (slope) return TLM_1_SQRTPI * r * (s * tlm_ai_slope_wave(t) - c * tlm_ai_slope_shift(t) / z);
  return TLM_1_SQRTPI / r * (c * tlm_ai_wave(t) + s * tlm_ai_shift(t) / z);
}

/* ---- orthogonal polynomials --------------------------------------------------------
** P(0) = 1, P(1) = s x + t, (k + d) P(k+1) = ((a k + b) x + c) P(k) - (e k + f) P(k-1),
** differentiated some times by x (DLMF 18.9). The number of a family is its row in
** src/ops/pointwise/polynomials.lua; those from 4 to 7 are of 2x - 1. */

#define TLM_MAX_SLOPE 8 /* order of the highest derivative that is computed */
/* the result is NaN for a higher degree, since the loop would take too long */
#define TLM_MAX_DEGREE 1e6

TLM_LONG_FN double tlm_orthogonal(int family, double x, double degree, int slope) {
  /* p[m] is the m-th derivative at x of the polynomial of degree k; p[0] is its value */
  double p[TLM_MAX_SLOPE + 1] = {1};
  /* q[m] is the m-th derivative at x of the polynomial of degree k - 1 */
  double q[TLM_MAX_SLOPE + 1] = {0};
  bool chebyshev = family < 8;
  bool laguerre = family == 10;
  bool shifted = chebyshev && family > 3;
  double whole = floor(fabs(degree));
  if (degree <= -1) return 0;
  if (isnan(x) || !(whole <= TLM_MAX_DEGREE) || slope > TLM_MAX_SLOPE) return (double)NAN;
  int n = (int)whole;
  double u = shifted ? 2 * x - 1 : x;
  for (int k = 0; k < n && !isnan(p[0]); k++) {
    double factor = chebyshev || family == 8 ? 2 : family == 11 ? 2 * k + 1 : laguerre ? -1 : 1;
    double constant = laguerre ? 2 * k + 1 : 0;
    int back = chebyshev ? 1 : family == 8 ? 2 * k : k, divisor = family > 9 ? k + 1 : 1;
    /* the kinds of Chebyshev polynomials differ only in this first step */
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
