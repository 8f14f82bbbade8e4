/*
** ledger.h - charges for memory besides storages, such as the nodes of a graph. They count only in
** states that limit the bytes of tensors (tl_set_limits).
*/
#ifndef TLI_LEDGER_H
#define TLI_LEDGER_H

#include "core/tensor/tensor.h"

/* Returns false after tli_fail if the limit of this thread's ledger has no room for `bytes`. */
bool tli_ledger_fits(int64_t bytes) TL_MUSTCHECK;
/* If this thread's ledger has a limit, charges it for memory besides storages, and stores it in *l
** for tli_ledger_give; stores NULL otherwise. Fails if there is no room. */
bool tli_ledger_take(tli_Ledger **l, int64_t bytes) TL_MUSTCHECK;
void tli_ledger_give(tli_Ledger *l, int64_t bytes); /* Takes a charge back. Accepts NULL. */

#endif
