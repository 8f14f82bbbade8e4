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

int64_t tli_count_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                          int64_t dilation, bool ceil_mode) {
  int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  int64_t count = room / stride + 1;
  /* the last window must begin inside the input or in the padding before the input */
  if (ceil_mode && (count - 1) * stride >= size + padding) count--;
  return count;
}
