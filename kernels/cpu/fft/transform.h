/*
** transform.h - data of discrete Fourier transforms on the CPU: plans, and the loops of an
** instruction set.
**
** A line is a sequence of n numbers that is transformed, such as a row of a matrix. The loops
** transform several lines at once, one in each lane of the vectors. These lines together are called
** a piece. A piece is stored as an array (n, lanes) of real parts and such an array of imaginary
** parts, so that no loop needs shuffles. Row j of these arrays has element j of every line.
** Swapping the two arrays before and after a transform gives the inverse transform.
*/
#ifndef TLK_FFT_TRANSFORM_H
#define TLK_FFT_TRANSFORM_H

#include "kernels/cpu/cpu.h"

/* The size in bytes of a row of real parts. A row has one number of each line of a piece. */
#define TLK_FFT_LANE_BYTES 64
/* The largest number of passes of a plan is less than this, since an int64_t has fewer prime
** factors. */
#define TLK_FFT_FACTORS 64
/* The largest prime factor for which there is a pass. */
#define TLK_FFT_RADIX 31

/* The lines that are transformed at once: an array (n, lanes) of their real parts, and such an
** array of their imaginary parts. */
typedef struct tlk_FftPiece {
  void *re, *im;
} tlk_FftPiece;

/* One pass of Stockham's algorithm, which needs no bit reversal. For each of m groups it reads
** `radix` runs of `span` numbers, which begin `far` = m * span numbers apart, and writes `radix`
** runs, which begin `apart` = span numbers apart. `twiddles` has radix - 1 complex numbers for each
** group; it is NULL if all of them are 1. */
typedef struct tlk_FftPass {
  int64_t radix, m, span, far, apart;
  const void *twiddles;
  const void *roots; /* roots of unity, for a radix without a loop of its own */
} tlk_FftPass;

/* A multiplication of the elements of a line: out = scale * (in * factors). The imaginary parts of
** `in` are multiplied by in_sign before the product, and the imaginary parts of `out` by out_sign
** after it, so a sign of -1 takes the conjugates. */
typedef struct tlk_FftFactors {
  const void *factors;
  double in_sign, scale, out_sign;
} tlk_FftFactors;

/* The loops of an instruction set. In memory, the imaginary part of a complex number follows its
** real part. `rows` is a number of rows of a piece; row j has element j of each line. */
typedef struct tlk_FftLoops {
  int64_t width; /* number of real numbers in a vector */
  void (*pass)(const tlk_FftPass *pass, tlk_FftPiece from, tlk_FftPiece to);
  /* Copies rows of complex numbers from memory, where rows are `stride` numbers apart, to the two
  ** arrays of a piece. */
  void (*split)(int64_t rows, const void *in, int64_t stride, tlk_FftPiece to);
  /* Multiplies rows of a piece by `scale`, and writes them to memory as complex numbers. */
  void (*join)(int64_t rows, tlk_FftPiece from, double scale, void *out, int64_t stride);
  /* Computes out = in * factor for rows of real numbers. */
  void (*scale)(int64_t rows, const void *in, double factor, void *out);
  /* Multiplies row j by the complex number factors[j * stride]. */
  void (*multiply)(int64_t rows, const void *factors, int64_t stride, tlk_FftPiece piece);
  /* Multiplies row j by two factors: row j of `lanes`, which contains real parts and then imaginary
  ** parts, and the complex number base[j * stride]. */
  void (*twist)(int64_t rows, const void *lanes, const void *base, int64_t stride,
                tlk_FftPiece piece);
  /* A real signal of 2h numbers, h > 0, is transformed as h complex numbers: each pair of
  ** neighbouring numbers is one complex number. from_pairs converts, in place, the transform of the
  ** pairs (h rows) to rows 0 to h of the signal's transform. to_pairs converts these rows back to
  ** twice the transform of the pairs; rows 0 and h must be real. roots[k] = exp(-pi i k / h). */
  void (*from_pairs)(int64_t h, const void *roots, tlk_FftPiece piece);
  void (*to_pairs)(int64_t h, const void *roots, tlk_FftPiece piece);
  /* These functions do the same as from_pairs and to_pairs for one line of complex numbers. */
  void (*line_from_pairs)(int64_t h, const void *roots, void *line);
  void (*line_to_pairs)(int64_t h, const void *roots, void *line);
  /* Multiplies the n complex numbers of a line; `out` may be the same array as `in`. */
  void (*line_multiply)(int64_t n, const void *in, const tlk_FftFactors *factors, void *out);
  /* line_widen converts a line of n real numbers to complex numbers. line_mirror converts the first
  ** n / 2 + 1 elements of the transform of a real signal of odd length n to all n elements.
  ** line_real copies the real parts of n complex numbers. */
  void (*line_widen)(int64_t n, const void *in, void *out);
  void (*line_mirror)(int64_t n, const void *in, void *out);
  void (*line_real)(int64_t n, const void *in, void *out);
  /* The first pass of a folded line; see tlk_FftPlan. Reads a line of lanes * m complex numbers,
  ** whose imaginary parts are multiplied by `sign`, as a matrix (lanes, m). Transforms its columns,
  ** multiplies them by `twiddles`, and writes column g to row g of a piece. If 2 m <= width, it
  ** does the same with a second line, which begins `apart` real numbers after the first one; its
  ** column g becomes row width / 2 + g. `followed` tells whether 2 * width more numbers can be read
  ** after the lines. */
  void (*fold)(int64_t m, const void *in, int64_t apart, bool followed, double sign,
               const void *twiddles, tlk_FftPiece to);
  /* These functions read a folded line of n elements, which consists of the rows of a piece, one
  ** after another. line_out copies the line to memory; it multiplies all parts by `scale`, and the
  ** imaginary parts also by `sign`. line_product multiplies the line by factors. */
  void (*line_out)(int64_t n, tlk_FftPiece from, double scale, double sign, void *out);
  void (*line_product)(int64_t n, tlk_FftPiece from, const tlk_FftFactors *factors, void *out);
  /* line_unpack converts a folded line of h elements as from_pairs does, multiplied by `scale`.
  ** line_pack converts h + 1 numbers in memory to h numbers, as to_pairs does. `out` has room for
  ** h + 1 numbers. */
  void (*line_unpack)(int64_t h, const void *roots, tlk_FftPiece from, double scale, void *out);
  void (*line_pack)(int64_t h, const void *roots, const void *in, void *out);
} tlk_FftLoops;

/* A plan: how a transform of n elements is computed. Its tables are computed in double and
** converted to the data's type. */
typedef struct tlk_FftPlan {
  int64_t n;
  tl_DType part;      /* dtype of the real and the imaginary parts: F32 or F64 */
  const tlk_Isa *isa; /* the instruction set whose loops have computed the tables */
  /* number of passes that transform a piece; -1 if a prime factor of n has no pass */
  int npasses;
  tlk_FftPass passes[TLK_FFT_FACTORS];
  /* A folded line is a matrix (lanes, m), each of whose columns is transformed and then becomes a
  ** row of a piece. `fold` is the plan for its m rows, or NULL if the plan folds no lines. Row p of
  ** the transformed piece then has the elements of the result from number p * lanes on. */
  struct tlk_FftPlan *fold; /* owned */
  /* array (blocks, lanes - 1, 2, width): the factors of `width` columns at a time, except those of
  ** the first element, which are 1. If two lines are folded at once, each half of a vector has the
  ** factors of one line. */
  void *fold_twiddles;
  /* A long line is arranged as a matrix (n1, n2). Its columns are transformed and multiplied by
  ** twiddle factors, and then its rows are transformed. Both plans are NULL if n has no suitable
  ** divisors. */
  struct tlk_FftPlan *columns, *rows; /* owned */
  void *lane_twiddles;                /* array (n1, 2, lanes) */
  void *base_twiddles;                /* array (n1, blocks) */
  int64_t blocks;
  /* Bluestein's algorithm computes the transform as a convolution with a chirp. `inner` is the plan
  ** for the convolution's length m >= 2n - 1. */
  struct tlk_FftPlan *inner; /* owned */
  void *chirp;               /* (n) */
  /* array (m) with the transform of the chirp's conjugate, divided by m */
  void *filter;
  bool pairs; /* whether the plan is also for real signals of 2n numbers */
  /* whether the plan must use passes, because it transforms the rows or columns of another plan's
  ** matrix */
  bool by_passes;
  void *half_roots; /* array of exp(-pi i k / n) for k <= n, if `pairs` */
  void *tables;     /* memory of all tables above (owned) */
  /* bytes: size of `tables`; all_bytes: size of `tables` and of the tables in the plans that this
  ** plan owns */
  size_t bytes, all_bytes;
  int64_t users; /* number of calls that use the plan now; guarded by the cache's lock */
  int64_t age;
} tlk_FftPlan;

static inline int64_t tlk_fft_lanes(tl_DType part) {
  return TLK_FFT_LANE_BYTES / (int64_t)tl_dtype_size(part);
}

#endif
