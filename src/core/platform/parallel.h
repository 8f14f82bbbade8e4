/*
** parallel.h - the only place that starts threads for a kernel.
*/
#ifndef TLI_PARALLEL_H
#define TLI_PARALLEL_H

#include "tlua.h"

typedef void (*tli_RangeFn)(void *context, int64_t begin, int64_t end);

/* Calls fn over [0, n) cut in ranges of at least `grain`, on up to
** tl_get_num_threads() threads; in the calling thread alone when n <= grain,
** with one thread, or inside another tli_parallel_for. The cuts depend on the
** number of threads: a kernel whose result would depend on them must cut by
** itself, by sizes only. */
void tli_parallel_for(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

/* The same in more ranges than there are threads, where there is enough for that:
** a thread that starts late or is held up then leaves more of them to the others.
** For functions that have little to do before they begin. */
void tli_parallel_pieces(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

/* The same for what may take long: after tl_interrupt it ends early, with what is
** left not done, and returns false after tli_fail. */
bool tli_parallel_try(int64_t n, int64_t grain, tli_RangeFn fn, void *context) TL_MUSTCHECK;

/* Whether the calling thread runs a part of a tli_parallel_for. */
bool tli_parallel_inside(void);

/* Makes every tli_parallel_for of the calling thread run in it alone, for
** threads that are themselves one of many (data-loader workers). Returns the
** previous setting. */
bool tli_parallel_set_serial(bool serial);

/* From now on the calling thread's operators share their work among n threads, whatever
** tl_set_num_threads says to others: for threads that stand for a process (data-loader workers). */
void tli_own_threads(int n);

/* Whether tl_interrupt was called; kernels that run for long ask now and then. */
bool tli_interrupted(void);

/* False after tli_fail if it was. */
bool tli_go_on(void) TL_MUSTCHECK;

#endif
