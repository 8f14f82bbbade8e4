/*
** half_test.c - tests every bit pattern of the half-precision types, and every rounding tie.
*/
#include "core/kernel/half.h"

#include <math.h>

#include "test.h"

/* Decodes the bits h as a number with `m` fraction bits and the exponent bias `bias`, in the
** simplest way. */
static double decode(unsigned h, int m, int bias) {
  unsigned exponents = 1u << (15 - m);
  unsigned exponent = (h >> m) & (exponents - 1), fraction = h & ((1u << m) - 1);
  double sign = h & 0x8000u ? -1 : 1;
  if (exponent == exponents - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, 1 - bias - m);
  return sign * ldexp(fraction + (1u << m), (int)exponent - bias - m);
}

typedef struct Format {
  int m, bias;
  float (*wide)(uint16_t h);
  uint16_t (*narrow)(float f);
} Format;

static const Format f16 = {10, 15, tli_f16_to_f32, tli_f32_to_f16};
static const Format bf16 = {7, 127, tli_bf16_to_f32, tli_f32_to_bf16};

static void check_patterns(const Format *f) {
  for (unsigned h = 0; h < 65536; h++) {
    double value = decode(h, f->m, f->bias);
    float wide = f->wide((uint16_t)h);
    if (isnan(value)) {
      uint16_t back = f->narrow(wide);
      CHECK_AT(h, isnan(wide) && isnan(decode(back, f->m, f->bias)));
      CHECK_AT(h, (back & 0x8000u) == (h & 0x8000u));
    } else {
      CHECK_AT(h, (double)wide == value && !signbit(wide) == !signbit(value));
      CHECK_AT(h, f->narrow(wide) == h);
    }
  }
}

/* Checks rounding. A number half-way between two neighbours must become the even one; any other
** number must become the nearer neighbour. Above the largest finite value, infinity counts as
** the next neighbour. */
static void check_rounding(const Format *f) {
  unsigned infinity = (1u << 15) - (1u << f->m);
  for (unsigned h = 0; h < infinity; h++) {
    double low = decode(h, f->m, f->bias);
    double high = h + 1 < infinity ? decode(h + 1, f->m, f->bias)
                                   : low + (low - decode(h - 1, f->m, f->bias));
    /* the midpoint is exact in float, because it needs only one more bit */
    float tie = (float)((low + high) / 2);
    for (unsigned sign = 0; sign <= 0x8000u; sign += 0x8000u) {
      float s = sign ? -1.0f : 1.0f;
      CHECK_AT(h, f->narrow(s * tie) == (sign | (h + (h & 1))));
      CHECK_AT(h, f->narrow(s * nextafterf(tie, 0)) == (sign | h));
      CHECK_AT(h, f->narrow(s * nextafterf(tie, INFINITY)) == (sign | (h + 1)));
    }
  }
}

TEST(float16_patterns) { check_patterns(&f16); }
TEST(float16_rounding) { check_rounding(&f16); }
TEST(bfloat16_patterns) { check_patterns(&bf16); }

/* Tests rounding to bfloat16. The midpoints between its smallest numbers are float32 subnormals,
** which are exact too. */
TEST(bfloat16_rounding) { check_rounding(&bf16); }

TEST(far_values) {
  CHECK(tli_f32_to_f16(1e30f) == 0x7c00 && tli_f32_to_f16(-1e30f) == 0xfc00);
  CHECK(tli_f32_to_f16(1e-30f) == 0 && tli_f32_to_f16(-1e-30f) == 0x8000);
  CHECK(tli_f32_to_f16(INFINITY) == 0x7c00 && tli_f32_to_bf16(-INFINITY) == 0xff80);
  CHECK(tli_f32_to_bf16(3.4028235e38f) == 0x7f80);
  /* the upper half of this NaN equals infinity in bfloat16 */
  uint32_t quiet_low_bits = 0x7f800001u;
  CHECK(isnan(tli_bf16_to_f32(tli_f32_to_bf16(tli_bits_float(quiet_low_bits)))));
  CHECK(isnan(tli_f16_to_f32(tli_f32_to_f16(tli_bits_float(quiet_low_bits)))));
}

int main(void) { return test_all(); }
