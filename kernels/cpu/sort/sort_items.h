/*
** sort_items.h - sorting items. Short lists are sorted by insertion and merging. Long lists are
** sorted by radix sort, from the lowest digit of the key to the highest; digits that are equal in
** all items are skipped. The division of work among threads depends on n alone. The including file
** defines `Item`, its macros KEY and LESS, and SORT (the name of the function, as declared in
** sort.h).
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/sort/sort.h"

/* length of the runs that are sorted by insertion before the runs are merged */
#define INSERTION 16
#define RADIX 384         /* radix sort is faster from this number of items on */
#define WIDE_DIGITS 65536 /* digits of 11 bits are faster from this number of items on */
#define CHUNKS 16 /* smallest number of chunks into which a row is divided for several threads */
#define CHUNK (1 << 20) /* number of items in a chunk of a very long row */
#define BINS 2048

/* Returns the number of bits in a digit. Digits divide the bits of a key evenly among the passes of
** radix sort. */
static int digit_bits(int64_t n, int bits) {
  int most = n >= WIDE_DIGITS ? 11 : 8;
  int passes = (bits + most - 1) / most;
  return passes ? (bits + passes - 1) / passes : most;
}

static void insert(int64_t n, Item *x) {
  for (int64_t i = 1; i < n; i++) {
    Item item = x[i];
    int64_t k = i;
    for (; k > 0 && LESS(item, x[k - 1]); k--) x[k] = x[k - 1];
    x[k] = item;
  }
}

static void merge(const Item *a, int64_t na, const Item *b, int64_t nb, Item *out) {
  int64_t i = 0, j = 0;
  while (i < na && j < nb) {
    bool second = LESS(b[j], a[i]);
    *out++ = second ? b[j] : a[i];
    j += second;
    i += !second;
  }
  memcpy(out, a + i, (size_t)(na - i) * sizeof *out);
  memcpy(out + na - i, b + j, (size_t)(nb - j) * sizeof *out);
}

static Item *merge_sort(int64_t n, Item *x, Item *spare) {
  for (int64_t i = 0; i < n; i += INSERTION) insert(tlk_min(INSERTION, n - i), x + i);
  for (int64_t run = INSERTION; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t na = tlk_min(run, n - i), nb = tlk_min(run, n - i - na);
      merge(x + i, na, x + i + na, nb, spare + i);
    }
    Item *sorted = spare;
    spare = x;
    x = sorted;
  }
  return x;
}

typedef struct Pass {
  const Item *from;
  Item *to;
  int64_t n, chunks;
  int shift, digit;
  uint32_t mask;
  int64_t (*counts)[BINS];
} Pass;

static void count_digits(void *context, int64_t begin, int64_t end) {
  const Pass *p = context;
  for (int64_t c = begin; c < end; c++) {
    int64_t *count = p->counts[c];
    memset(count, 0, sizeof p->counts[c]);
    int64_t stop = (c + 1) * p->n / p->chunks;
    for (int64_t i = c * p->n / p->chunks; i < stop; i++)
      count[(KEY(p->from[i]) >> p->shift) & p->mask]++;
  }
}

static void scatter(void *context, int64_t begin, int64_t end) {
  const Pass *p = context;
  for (int64_t c = begin; c < end; c++) {
    int64_t *at = p->counts[c];
    int64_t stop = (c + 1) * p->n / p->chunks;
    for (int64_t i = c * p->n / p->chunks; i < stop; i++)
      p->to[at[(KEY(p->from[i]) >> p->shift) & p->mask]++] = p->from[i];
  }
}

/* For each chunk and each digit, computes the position in `to` at which the chunk's items with this
** digit begin. Returns false if all items have the same digit, so that the pass can be skipped. */
static bool places(const Pass *p) {
  int64_t at = 0;
  for (uint32_t bin = 0; bin <= p->mask; bin++) {
    int64_t before = at;
    for (int64_t c = 0; c < p->chunks; c++) {
      int64_t here = p->counts[c][bin];
      p->counts[c][bin] = at;
      at += here;
    }
    if (at - before == p->n) return false;
  }
  return true;
}

static Item *radix_sort(int64_t n, int bits, Item *x, Item *spare, int64_t chunks,
                        int64_t (*counts)[BINS]) {
  int digit = digit_bits(n, bits);
  Pass p = {.n = n, .chunks = chunks, .digit = digit, .counts = counts};
  for (p.shift = 0; p.shift < bits; p.shift += digit) {
    p.from = x;
    p.to = spare;
    p.mask = (1u << digit) - 1;
    if (!tli_parallel_try(chunks, 1, count_digits, &p)) return NULL;
    if (!places(&p)) continue;
    if (!tli_parallel_try(chunks, 1, scatter, &p)) return NULL;
    spare = x;
    x = p.to;
  }
  return x;
}

Item *SORT(int64_t n, int bits, Item *x, Item *spare, bool alone) {
  if (n < RADIX) return merge_sort(n, x, spare);
  int64_t chunks = alone && n >= 2 * TLK_GRAIN ? tlk_max(CHUNKS, n / CHUNK) : 1;
  size_t bytes = (size_t)chunks * BINS * sizeof(int64_t);
  int64_t(*counts)[BINS] = tli_alloc(bytes);
  /* if there is no memory for the counts, sorts by insertion and merging, which is slower but needs
  ** none */
  if (counts == NULL) {
    tli_error_clear();
    return merge_sort(n, x, spare);
  }
  Item *sorted = radix_sort(n, bits, x, spare, chunks, counts);
  tli_free(counts, bytes);
  return sorted;
}
