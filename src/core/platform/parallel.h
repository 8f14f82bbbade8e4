/*
** parallel.h - the only code that starts threads for kernels.
*/
#ifndef TLI_PARALLEL_H
#define TLI_PARALLEL_H

#include "tlua.h"

typedef void (*tli_RangeFn)(void *context, int64_t begin, int64_t end);

/* Calls fn on ranges of [0, n) with at least `grain` elements, on up to tl_get_num_threads()
** threads; only in the calling thread if n <= grain, with one thread, or inside another
** tli_parallel_for. The ranges depend on the number of threads: a kernel whose result depends
** on them must divide its work by sizes only. */
void tli_parallel_for(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

/* Like tli_parallel_for, but with more ranges than threads, if there is enough work: other threads
** then take over ranges of a thread that starts late or is interrupted. Use it for functions with
** little setup. */
void tli_parallel_pieces(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

/* Like tli_parallel_for, for long work: after tl_interrupt it ends early, leaves the rest undone,
** and returns false after tli_fail. */
bool tli_parallel_try(int64_t n, int64_t grain, tli_RangeFn fn, void *context) TL_MUSTCHECK;

/* Returns whether the calling thread runs a range of tli_parallel_for. */
bool tli_parallel_inside(void);

/* Makes every tli_parallel_for of the calling thread run in it alone, for threads that are
** themselves one of many (data-loader workers). Returns the previous setting. */
bool tli_parallel_set_serial(bool serial);

/* From now on the calling thread's operators share their work among n threads, regardless of
** tl_set_num_threads: for threads that stand for a process (data-loader workers). */
void tli_own_threads(int n);

/* Returns whether tl_interrupt was called; long kernels check it now and then. */
bool tli_interrupted(void);

/* Returns false after tli_fail if tl_interrupt was called. */
bool tli_go_on(void) TL_MUSTCHECK;

#endif
