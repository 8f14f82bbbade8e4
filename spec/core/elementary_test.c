/*
** elementary_test.c - compares our elementary functions of double with values that mpmath computed
** (spec/fixtures/elementary.py), and tests special arguments.
*/
#include "core/kernel/elementary.h"

#include <math.h>

#include "test.h"

/* Returns the distance of y from the expected value, in units of the expected value's last
** place. */
static double units(double y, double expected) {
  double next = nextafter(fabs(expected), INFINITY) - fabs(expected);
  return fabs(y - expected) / next;
}

static void check(const char *name, double x, double y, double expected, double most) {
  if (y == expected || units(y, expected) <= most) return;
  printf("%s(%a): %a instead of %a\n", name, x, y, expected);
  FAIL(name);
}

TEST(values_are_those_of_mpmath) {
#define X(name, x, y, most) check(#name, x, tli_##name(x), y, most);
#define X2(name, a, b, y, most) check(#name, a, tli_##name(a, b), y, most);
#include "elementary.inc"
}

TEST(special_arguments_give_special_values) {
  CHECK(tli_exp(INFINITY) == INFINITY && tli_exp(-INFINITY) == 0 && isnan(tli_exp(NAN)));
  CHECK(tli_exp(-745) == 0x1p-1074 && tli_exp2(-1074) == 0x1p-1074 && tli_exp2(1023) == 0x1p1023);
  CHECK(tli_log(0) == -INFINITY && isnan(tli_log(-1)) && tli_log(INFINITY) == INFINITY);
  CHECK(tli_log2(0x1p-1074) == -1074 && tli_log2(8) == 3 && tli_log10(1000) == 3);
  CHECK(tli_log1p(-1) == -INFINITY && signbit(tli_log1p(-0.0)) && tli_expm1(-INFINITY) == -1);
  CHECK(isnan(tli_sin(INFINITY)) && signbit(tli_sin(-0.0)) && tli_cos(0) == 1);
  CHECK(isnan(tli_asin(1.5)) && tli_acos(1) == 0 && tli_atan(INFINITY) == 0x1.921fb54442d18p+0);
  CHECK(tli_tanh(100) == 1 && tli_tanh(-INFINITY) == -1 && tli_cosh(-1000) == INFINITY);
  CHECK(tli_atanh(1) == INFINITY && isnan(tli_acosh(0.5)) && tli_erfc(-10) == 2 && tli_erf(9) == 1);
  CHECK(tli_lgamma(1) == 0 && tli_lgamma(2) == 0 && tli_lgamma(-3) == INFINITY);
  CHECK(tli_hypot(NAN, -INFINITY) == INFINITY && tli_hypot(0x1p1020, 0) == 0x1p1020);
  CHECK(units(tli_hypot(3e200, 4e200), 5e200) <= 1 &&
        tli_hypot(0x1.8p-1060, 0x1p-1059) == 0x1.4p-1059);
}

/* The expected values are mpmath's log(abs(gamma(x))) with 300 bits. */
TEST(lgamma_is_exact_beside_its_pole_at_0) {
  static const double rows[][2] = {
      {-0x1.8p-12, 0x1.fa669b0b9a00fp+2},   {-0x1.8p-36, 0x1.88c3ecf2690a6p+4},
      {-0x1.8p-50, 0x1.1203e0f59fe12p+5},   {-0x1.8p-56, 0x1.3349457417381p+5},
      {-0x1.8p-59, 0x1.43ebf7b352e38p+5},   {-0x1.8p-70, 0x1.80eb2ff08302dp+5},
      {-0x1.8p-1000, 0x1.5a5ef0882c4a1p+9},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    check("lgamma", rows[i][0], tli_lgamma(rows[i][0]), rows[i][1], 2.1);
}

TEST(powers_follow_the_standard) {
  CHECK(tli_pow(NAN, 0) == 1 && tli_pow(1, NAN) == 1 && isnan(tli_pow(-2, 0.5)));
  CHECK(tli_pow(-2, 3) == -8 && tli_pow(-2, -2) == 0.25 && tli_pow(10, 2) == 100);
  CHECK(tli_pow(0, -1) == INFINITY && tli_pow(-0.0, -3) == -INFINITY && tli_pow(-0.0, 2) == 0);
  CHECK(tli_pow(-INFINITY, 3) == -INFINITY && tli_pow(0.5, INFINITY) == 0 &&
        tli_pow(-1, INFINITY) == 1);
  CHECK(tli_pow(2, 1e300) == INFINITY && tli_pow(2, -1e300) == 0 && tli_pow(2, -1074) == 0x1p-1074);
  double z = tli_atan2(-0.0, -1);
  CHECK(z == -0x1.921fb54442d18p+1 && tli_atan2(0, 0) == 0 &&
        tli_atan2(1, 0) == 0x1.921fb54442d18p+0);
}

int main(void) { return test_all(); }
