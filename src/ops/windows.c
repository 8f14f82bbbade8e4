/* windows.c - implements windows.h. */
#include "ops/windows.h"

static const int64_t zero = 0, one = 1;
const tl_Ints tli_zero = {1, &zero};
const tl_Ints tli_one = {1, &one};

bool tli_spread(const char *op, const char *what, tl_Ints list, int n, int64_t least,
                int64_t *out) {
  if (list.n != 1 && list.n != n)
    return tli_fail(TL_EARG, "%s: %s: expected 1 or %d numbers, got %" PRId64, op, what, n, list.n);
  for (int d = 0; d < n; d++) {
    out[d] = list.v[list.n == 1 ? 0 : d];
    if (out[d] < least || out[d] > INT32_MAX)
      return tli_fail(TL_EARG, "%s: %s: expected numbers of at least %" PRId64 ", got %" PRId64, op,
                      what, least, out[d]);
  }
  return true;
}
