/*
** ledger.h - charges a state's ledger (tensor.h) for memory that is not in storages, such as the
** nodes of a graph. This memory counts only in states that limit the bytes of tensors
** (tl_set_limits).
*/
#ifndef TLI_LEDGER_H
#define TLI_LEDGER_H

#include "core/tensor/tensor.h"

/* Returns false after tli_fail if the limit of this thread's ledger has no room for `bytes`. */
bool tli_ledger_fits(int64_t bytes) TL_MUSTCHECK;
/* If this thread's ledger has a limit, charges it for `bytes`, and stores it in *l for a later call
** of tli_ledger_give. Otherwise stores NULL. Fails if the limit leaves no room. */
bool tli_ledger_take(tli_Ledger **l, int64_t bytes) TL_MUSTCHECK;
/* Subtracts a charge from a ledger when the memory is freed. Accepts NULL. */
void tli_ledger_give(tli_Ledger *l, int64_t bytes);

#endif
