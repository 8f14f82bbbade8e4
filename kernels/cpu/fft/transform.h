/*
** transform.h - data of discrete Fourier transforms on the CPU: plans, and the loops of an
** instruction set.
**
** The loops transform TLK_FFT_LANES lines of numbers at once, a line in each lane of the vectors. A
** piece of lines is an array (n, lanes) of real parts and another one of imaginary parts, so that
** no loop needs shuffles. Swapping the two arrays before and after a transform gives the inverse
** transform.
*/
#ifndef TLK_FFT_TRANSFORM_H
#define TLK_FFT_TRANSFORM_H

#include "kernels/cpu/cpu.h"

/* The size in bytes of a row of real parts. A row has one number for each line that is transformed
** at once. */
#define TLK_FFT_LANE_BYTES 64
/* An int64_t has at most this many prime factors. */
#define TLK_FFT_FACTORS 64
/* The largest prime factor that has a pass of its own. */
#define TLK_FFT_RADIX 31

/* The real and the imaginary parts of some lines, each as (n, lanes). */
typedef struct tlk_FftPiece {
  void *re, *im;
} tlk_FftPiece;

/* One pass of Stockham's algorithm, which needs no bit reversal. For each of m groups, it reads
** `radix` runs of `span` numbers, where each run begins m * span numbers after the one before, and
** writes `radix` runs next to each other. `twiddles` has radix - 1 complex numbers for each group,
** or is NULL if all of them are 1. */
typedef struct tlk_FftPass {
  int64_t radix, m, span;
  const void *twiddles;
  const void *roots; /* the radix's roots of unity, for radices without a loop of their own */
} tlk_FftPass;

/* The loops of an instruction set. A complex number in memory is its real part followed by its
** imaginary part. A row of a piece has one number for each line. */
typedef struct tlk_FftLoops {
  void (*pass)(const tlk_FftPass *pass, tlk_FftPiece from, tlk_FftPiece to);
  /* Splits rows of complex numbers in memory, `stride` numbers apart, into the two arrays of a
  ** piece. */
  void (*split)(int64_t rows, const void *in, int64_t stride, tlk_FftPiece to);
  /* Multiplies rows of a piece by scale, and writes them to memory as complex numbers. */
  void (*join)(int64_t rows, tlk_FftPiece from, double scale, void *out, int64_t stride);
  /* Computes out = in * factor for rows of real numbers. */
  void (*scale)(int64_t rows, const void *in, double factor, void *out);
  /* Multiplies row j by the complex number factors[j * stride]. */
  void (*multiply)(int64_t rows, const void *factors, int64_t stride, tlk_FftPiece piece);
  /* Multiplies row j by row j of `lanes`, which has real parts and then imaginary parts, and by the
  ** complex number base[j * stride]. */
  void (*twist)(int64_t rows, const void *lanes, const void *base, int64_t stride,
                tlk_FftPiece piece);
  /* A real signal of 2h numbers, h > 0, is transformed as h complex numbers, each of which is a
  ** pair of neighbouring numbers. from_pairs works in place: it converts the transform of the pairs
  ** (h rows) to rows 0 to h of the signal's transform. to_pairs converts these rows back to twice
  ** the transform of the pairs; rows 0 and h must be real. roots[k] = exp(-pi i k / h). */
  void (*from_pairs)(int64_t h, const void *roots, tlk_FftPiece piece);
  void (*to_pairs)(int64_t h, const void *roots, tlk_FftPiece piece);
  /* Do the same as from_pairs and to_pairs for one line of complex numbers in memory. */
  void (*line_from_pairs)(int64_t h, const void *roots, void *line);
  void (*line_to_pairs)(int64_t h, const void *roots, void *line);
  /* Computes out = in * factors for the n complex numbers of a line; `out` may be the same array as
  ** `in`. */
  void (*line_multiply)(int64_t n, const void *in, const void *factors, void *out);
} tlk_FftLoops;

/* A transform of n elements. Its tables are computed in double and converted to the data's type. */
typedef struct tlk_FftPlan {
  int64_t n;
  tl_DType part;      /* dtype of the real and the imaginary parts: F32 or F64 */
  const tlk_Isa *isa; /* the loops that have computed the tables */
  /* number of passes that transform a piece; -1 if a prime factor of n has no pass */
  int npasses;
  tlk_FftPass passes[TLK_FFT_FACTORS];
  /* A long line is a matrix (n1, n2): its columns are transformed, multiplied by twiddles, and then
  ** its rows are transformed. Both plans are NULL if n has no suitable divisors. */
  struct tlk_FftPlan *columns, *rows; /* owned */
  void *lane_twiddles;                /* (n1, 2, lanes) */
  void *base_twiddles;                /* (n1, blocks) */
  int64_t blocks;
  /* Bluestein's algorithm computes the transform as a convolution with a chirp. `inner` is the plan
  ** for the length of that convolution, m >= 2n - 1. */
  struct tlk_FftPlan *inner; /* owned */
  void *chirp;               /* (n) */
  void *filter;              /* transform (m) of the chirp's conjugate, divided by m */
  bool pairs;                /* whether the plan also serves signals of 2n real numbers */
  void *half_roots;          /* exp(-pi i k / n) for k <= n if `pairs` */
  void *tables;              /* memory of all tables above (owned) */
  /* bytes: size of `tables`; all_bytes: the same, plus the tables of the plans that this plan
  ** owns */
  size_t bytes, all_bytes;
  int64_t users; /* number of calls that use the plan; guarded by the cache's lock */
  int64_t age;
} tlk_FftPlan;

static inline int64_t tlk_fft_lanes(tl_DType part) {
  return TLK_FFT_LANE_BYTES / (int64_t)tl_dtype_size(part);
}

#endif
