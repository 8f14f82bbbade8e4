/*
** sweep.h - runs several elementwise kernels in one sweep over memory. While a thread collects, the
** calls of elementwise kernels on large arrays are stored instead of run. At the end the kernels
** run together, block by block: each block passes through all kernels while it is in the cache. The
** same loops compute the elements as without a sweep, so the results have the same bits.
**
** While calls are stored, only elementwise calls may read or write the arrays. A program
** (src/graph) therefore begins a sweep only around calls of elementwise operators.
*/
#ifndef TLI_SWEEP_H
#define TLI_SWEEP_H

#include <stdatomic.h>

#include "core/kernel/kernel.h"

typedef struct tli_Sweep tli_Sweep;

tli_Sweep *tli_sweep_new(void) TL_MUSTCHECK;
void tli_sweep_free(tli_Sweep *s); /* Frees a sweep. Accepts NULL. */

/* Makes the calling thread collect calls until tli_sweep_end, which runs them. */
void tli_sweep_begin(tli_Sweep *s);
bool tli_sweep_end(tli_Sweep *s) TL_MUSTCHECK;
/* Ends a sweep after a failure, without running the calls. */
void tli_sweep_cancel(tli_Sweep *s);
/* Returns whether the calling thread collects calls. A library that is built for one program has no
** sweeps. */
#ifdef TLI_RUNTIME
#define tli_sweep_collects() false
#define tli_sweep_flush() true
#else
extern atomic_int tli_sweeps; /* the number of threads that collect calls */
bool tli_sweep_mine(void);
static inline bool tli_sweep_collects(void) {
  return __builtin_expect(atomic_load_explicit(&tli_sweeps, memory_order_relaxed) != 0, 0) &&
         tli_sweep_mine();
}
/* Runs the calls that the thread has collected so far. Does nothing if there are none. */
bool tli_sweep_flush(void) TL_MUSTCHECK;
#endif
/* Stores a call on the CPU, or runs the call at once if it cannot be stored. */
bool tli_sweep_add(const struct tlk_pointwise *call) TL_MUSTCHECK;
/* Declares that no code will read the array at `data` after the calls that are stored now. Returns
** whether its memory can be used for another purpose at once. Otherwise a stored call may still
** need the memory, which must then stay allocated until tli_sweep_end. */
bool tli_sweep_forget(const void *data);

#endif
