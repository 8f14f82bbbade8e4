/*
** parallel.h - shares the work of kernels among threads. No other code of the engine starts threads
** for kernels.
*/
#ifndef TLI_PARALLEL_H
#define TLI_PARALLEL_H

#include "tlua.h"

typedef void (*tli_RangeFn)(void *context, int64_t begin, int64_t end);

/* Calls fn on ranges of [0, n) with at least `grain` elements, on up to tl_get_num_threads()
** threads. Everything runs in the calling thread if n <= grain, if there is only one thread, or
** inside another tli_parallel_for. The ranges depend on the number of threads, so a kernel whose
** result depends on how the work is divided must derive its own division from the sizes alone. */
void tli_parallel_for(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

/* Does the same as tli_parallel_for, but with more ranges than threads, if there is enough work. So
** other threads can take over ranges of a thread that starts late or is interrupted. The setup of
** fn for each range should be cheap. */
void tli_parallel_pieces(int64_t n, int64_t grain, tli_RangeFn fn, void *context);

/* Runs long work like tli_parallel_for, but can be interrupted. After a call of tl_interrupt, the
** function does not run the remaining ranges, calls tli_fail and returns false. */
bool tli_parallel_try(int64_t n, int64_t grain, tli_RangeFn fn, void *context) TL_MUSTCHECK;

/* Returns whether the calling thread runs a range of tli_parallel_for. */
bool tli_parallel_inside(void);

/* Makes every tli_parallel_for of the calling thread run in this thread alone. Data-loader workers
** call this function, since the workers together already use all processors. Returns the previous
** setting. */
bool tli_parallel_set_serial(bool serial);

/* Sets the number of threads that share the work of the calling thread's operators, regardless of
** the process's number. From then on tl_set_num_threads, called in this thread, changes the
** thread's own number only. Data-loader workers call this function, because a worker is a thread
** that acts as a process of its own. */
void tli_own_threads(int n);

/* Returns whether tl_interrupt was called or the calling thread's deadline has passed; long kernels
** check this regularly. */
bool tli_interrupted(void);
/* Sets the time (tli_now_ns) after which operators of the calling thread stop, as they do after
** tl_interrupt; 0 means no deadline. */
void tli_set_deadline(int64_t end);
int64_t tli_deadline(void);

/* If the calling thread's operators are to stop (tli_interrupted), calls tli_fail and returns
** false. */
bool tli_go_on(void) TL_MUSTCHECK;

#endif
