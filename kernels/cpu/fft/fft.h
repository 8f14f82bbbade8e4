/*
** fft.h - discrete Fourier transforms on the CPU: plans, and the loops of an instruction set.
**
** The loops transform TLK_FFT_LANES lines of numbers at once, a line in each lane of the vectors.
** A piece of lines is two arrays (n, lanes), of real and of imaginary parts, so that no loop
** shuffles; exchanging the two arrays before and after turns a transform into its inverse.
*/
#ifndef TLK_FFT_H
#define TLK_FFT_H

#include "kernels/cpu/cpu.h"

/* Lines that are transformed at once: a cache line of real parts. */
#define TLK_FFT_LANE_BYTES 64
/* the most prime factors of an int64_t */
#define TLK_FFT_FACTORS 64
/* Prime factors up to this one have a pass of their own. */
#define TLK_FFT_RADIX 31

/* The arrays of a piece of lines. */
typedef struct tlk_FftPiece {
  void *re, *im;
} tlk_FftPiece;

/* One pass of Stockham's algorithm, which needs no bit reversal: combines r = radix elements that
** are m * span apart into r adjacent groups of `span` numbers, for each of m groups. `twiddles`
** has r - 1 complex numbers for each group, or is NULL if they are all 1. */
typedef struct tlk_FftPass {
  int64_t radix, m, span;
  const void *twiddles;
  const void *roots; /* the radix's roots of unity, for radices without a loop of their own */
} tlk_FftPass;

/* Complex numbers in memory are pairs. Rows of lines are `lanes` numbers. */
typedef struct tlk_FftLoops {
  void (*pass)(const tlk_FftPass *pass, tlk_FftPiece from, tlk_FftPiece to);
  /* Splits rows of complex numbers, `stride` complex numbers apart. */
  void (*split)(int64_t rows, const void *in, int64_t stride, tlk_FftPiece to);
  /* Joins rows, multiplied by scale. */
  void (*join)(int64_t rows, tlk_FftPiece from, double scale, void *out, int64_t stride);
  /* out = in * factor for rows of real numbers. */
  void (*scale)(int64_t rows, const void *in, double factor, void *out);
  /* Multiplies row j by the complex number factors[j * stride]. */
  void (*multiply)(int64_t rows, const void *factors, int64_t stride, tlk_FftPiece piece);
  /* Multiplies row j by the row `lanes[j]` of complex numbers (split) and by base[j * stride]. */
  void (*twist)(int64_t rows, const void *lanes, const void *base, int64_t stride,
                tlk_FftPiece piece);
  /* Transforms of a real signal of 2h numbers through its h pairs, each a complex number; in place,
  ** h > 0. from_pairs converts the transform of the pairs (h rows) to rows 0 to h of the signal's
  ** transform. to_pairs converts these, of which rows 0 and h must be real, to twice the transform
  ** of the pairs. roots[k] = exp(-pi i k / h). */
  void (*from_pairs)(int64_t h, const void *roots, tlk_FftPiece piece);
  void (*to_pairs)(int64_t h, const void *roots, tlk_FftPiece piece);
  /* The same for one line of complex numbers in memory. */
  void (*line_from_pairs)(int64_t h, const void *roots, void *line);
  void (*line_to_pairs)(int64_t h, const void *roots, void *line);
  /* out = in * factors, n complex numbers of one line; out may be in. */
  void (*line_multiply)(int64_t n, const void *in, const void *factors, void *out);
} tlk_FftLoops;

/* A transform of n elements. Tables are in the data's type, computed in double. */
typedef struct tlk_FftPlan {
  int64_t n;
  tl_DType part; /* of the real and the imaginary parts: F32 or F64 */
  /* the passes of a transform in lanes; npasses is -1 if n has a prime factor without a pass */
  int npasses;
  tlk_FftPass passes[TLK_FFT_FACTORS];
  /* A long line is (n1, n2): transforms of the columns, twiddles, transforms of the rows. NULL if n
  ** has no divisors for it. */
  struct tlk_FftPlan *columns, *rows; /* owned */
  void *lane_twiddles;                /* (n1, 2, lanes) */
  void *base_twiddles;                /* (n1, blocks of n2) */
  int64_t blocks;
  /* Bluestein's algorithm: a convolution with a chirp, by transforms of a length m >= 2n - 1. */
  struct tlk_FftPlan *inner; /* owned */
  void *chirp;               /* (n) */
  void *filter;              /* (m), the transform of the chirp's conjugate, divided by m */
  bool pairs;                /* whether the plan also serves signals of 2n real numbers */
  void *half_roots;          /* with pairs: exp(-pi i k / n), k <= n */
  void *tables;              /* owned: all of the above */
  size_t bytes, all_bytes;   /* of tables; of these and the tables of the plan's parts */
  int64_t users;             /* calls that use the plan; guarded by the cache's lock */
  int64_t age;
} tlk_FftPlan;

/* Returns the plan for n > 0 complex numbers with parts of type F32 or F64, from the cache or new;
** NULL after a failure. Every plan must be given back. */
tlk_FftPlan *tlk_fft_plan(int64_t n, tl_DType part, bool pairs) TL_MUSTCHECK;
void tlk_fft_give_back(tlk_FftPlan *plan);

/* Transforms one line in memory; out may be in. Shares the work out to threads. */
bool tlk_fft_line(const tlk_FftPlan *plan, const void *in, void *out, bool inverse, double scale)
    TL_MUSTCHECK;

static inline int64_t tlk_fft_lanes(tl_DType part) {
  return TLK_FFT_LANE_BYTES / (int64_t)tl_dtype_size(part);
}

#endif
