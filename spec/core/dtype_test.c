/*
** dtype_test.c - tests the names of dtypes, scalars, and promotion, which must equal PyTorch's
** table.
*/
#include "core/tensor/dtype.h"

#include <math.h>

#include "core/tensor/tensor.h"
#include "test.h"

enum { NUMBERS = 4, OPERANDS = 2 * TL_NDTYPES + NUMBERS };

static const char *const expected[OPERANDS] = {
#include "promotion.inc"
};

TEST(names_and_sizes) {
  for (int d = 0; d < TL_NDTYPES; d++)
    CHECK_AT(d, tli_dtype_from_name(tl_dtype_name((tl_DType)d)) == (tl_DType)d);
  CHECK(tl_dtype_size(TL_BF16) == 2 && tl_dtype_size(TL_I64) == 8 && tl_dtype_size(TL_BOOL) == 1);
  CHECK(tl_dtype_size(TL_NODTYPE) == 0);
  CHECK(strcmp(tl_dtype_name(TL_NODTYPE), "none") == 0);
  CHECK(tli_dtype_from_name("double") == TL_F64 && tli_dtype_from_name("long") == TL_I64);
  CHECK(tli_dtype_from_name("float33") == TL_NODTYPE && tli_dtype_from_name("") == TL_NODTYPE);
}

TEST(compute_types) {
  CHECK(tli_dtype_compute(TL_F16) == TL_F32 && tli_dtype_compute(TL_BF16) == TL_F32);
  CHECK(tli_dtype_compute(TL_U8) == TL_I32 && tli_dtype_compute(TL_BOOL) == TL_I32);
  CHECK(tli_dtype_compute(TL_I64) == TL_I64 && tli_dtype_compute(TL_F64) == TL_F64);
}

/* Returns operand i in the order of the list in promotion.py. */
static tl_Tensor *operand(int i) {
  static const int64_t two[] = {2};
  if (i < TL_NDTYPES) return tli_empty((tl_DType)i, TLI_CPU, 1, two);
  if (i < 2 * TL_NDTYPES) return tli_empty((tl_DType)(i - TL_NDTYPES), TLI_CPU, 0, NULL);
  if (i == 2 * TL_NDTYPES) return tli_number(tli_bool(true));
  if (i == 2 * TL_NDTYPES + 1) return tli_number(tli_int(1));
  return tli_number(i == 2 * TL_NDTYPES + 2 ? tli_float(1.5) : tli_complex(0, 1));
}

TEST(promotion_is_pytorchs) {
  for (int i = 0; i < OPERANDS; i++)
    for (int j = 0; j < OPERANDS; j++) {
      tl_Tensor *pair[] = {operand(i), operand(j)};
      char want = expected[i][j];
      CHECK_AT(i * 100 + j, tli_result_dtype(pair, 2) == (want == 'x' ? TL_NODTYPE : want - '0'));
      tli_release(pair[0]);
      tli_release(pair[1]);
    }
}

TEST(numbers_keep_their_value) {
  tl_Tensor *t = tli_number(tli_float(0.1));
  CHECK(t->dtype == TL_F64 && tli_load(tli_data(t), TL_F64).f == 0.1);
  tli_release(t);
  t = tli_number(tli_int(INT64_MAX));
  CHECK(t->dtype == TL_I64 && tli_load(tli_data(t), TL_I64).i == INT64_MAX);
  tli_release(t);
}

TEST(conversion_to_integer_is_defined) {
  CHECK(tli_to_int(tli_float(-2.9)) == -2);
  CHECK(tli_to_int(tli_float(NAN)) == 0);
  CHECK(tli_to_int(tli_float(INFINITY)) == INT64_MAX);
  CHECK(tli_to_int(tli_float(-1e300)) == INT64_MIN);
  CHECK(tli_to_int(tli_float(0x1p63)) == INT64_MAX);
  CHECK(tli_to_int(tli_float(-0x1p63)) == INT64_MIN);
  CHECK(tli_to_int(tli_bool(true)) == 1);
}

TEST(numbers_fit_dtypes) {
  CHECK(tli_scalar_fits(tli_int(3), TL_F16) && tli_scalar_fits(tli_bool(true), TL_I8));
  CHECK(!tli_scalar_fits(tli_float(3), TL_I64) && !tli_scalar_fits(tli_int(1), TL_BOOL));
  CHECK(!tli_scalar_fits(tli_none(), TL_F32));
}

TEST(scalar_arithmetic) {
  tl_Scalar s = tli_scalar_add(tli_int(INT64_MAX), tli_int(1));
  CHECK(s.kind == TL_INTEGER && s.i == INT64_MIN);
  s = tli_scalar_mul(tli_int(6), tli_float(0.5));
  CHECK(s.kind == TL_FLOATING && s.f == 3);
  s = tli_scalar_sub(tli_bool(true), tli_int(3));
  CHECK(s.kind == TL_INTEGER && s.i == -2);
  s = tli_scalar_div(tli_int(1), tli_int(2));
  CHECK(s.kind == TL_FLOATING && s.f == 0.5);
  s = tli_scalar_mul(tli_complex(1, 2), tli_complex(0, 1));
  CHECK(s.kind == TL_COMPLEX && s.f == -2 && s.imag == 1);
  s = tli_scalar_sub(tli_int(1), tli_scalar_conj(tli_complex(1, 2)));
  CHECK(s.kind == TL_COMPLEX && s.f == 0 && s.imag == 2);
  s = tli_scalar_pow(tli_int(2), tli_int(-1));
  CHECK(s.kind == TL_FLOATING && s.f == 0.5);
  s = tli_scalar_neg(tli_int(INT64_MIN));
  CHECK(s.kind == TL_INTEGER && s.i == INT64_MIN);
}

TEST(load_and_store) {
  char bytes[17] = {0};
  for (int d = 0; d < TL_NDTYPES; d++) {
    /* an odd address is not aligned for any larger dtype */
    tli_store(bytes + 1, (tl_DType)d, tli_int(1));
    CHECK_AT(d, tli_to_double(tli_load(bytes + 1, (tl_DType)d)) == 1);
  }
  tli_store(bytes, TL_U8, tli_int(257));
  CHECK(tli_load(bytes, TL_U8).i == 1);
  tli_store(bytes, TL_I8, tli_float(-3.7));
  CHECK(tli_load(bytes, TL_I8).i == -3);
  tli_store(bytes, TL_BOOL, tli_float(0.25));
  CHECK(tli_load(bytes, TL_BOOL).kind == TL_BOOLEAN && tli_load(bytes, TL_BOOL).i == 1);
  tli_store(bytes, TL_F16, tli_float(65504));
  CHECK(tli_load(bytes, TL_F16).f == 65504);
}

int main(void) { return test_all(); }
