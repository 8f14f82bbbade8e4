/*
** alloc.h - every byte the engine asks for comes from here: objects, small
** blocks and tensor data, cached by size class, counted and limited.
*/
#ifndef TLI_ALLOC_H
#define TLI_ALLOC_H

#include "tlua.h"

/* What is aligned for vector loads and cache lines. */
#define TLI_ALIGN 64

/* `bytes` bytes aligned to TLI_ALIGN (to 16 for less than 64 bytes), contents
** undefined; NULL with TL_EMEM on failure. 0 bytes is a valid request. */
void *tli_alloc(size_t bytes) TL_MUSTCHECK;
/* `bytes` must be what was asked for. NULL is fine. */
void tli_free(void *block, size_t bytes);

/* The most that tl_memory_used has been since the reset, to some KB: blocks of up to 4 KB are
** only looked at when a thread asks for more of them. */
int64_t tli_memory_peak(void);
void tli_memory_reset_peak(void);

/* Fault injection: the n-th call of tli_alloc from now on in this thread
** fails once; 0 turns it off. */
void tli_alloc_fail_at(int64_t n);
/* The same for all calls from the n-th on. */
void tli_alloc_fail_from(int64_t n);
/* Calls of tli_alloc in this thread since it started. */
int64_t tli_alloc_count(void);

#endif
