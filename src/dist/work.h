/*
** work.h - the functions of work.c that group.c calls: checks of arguments, and copies to and from
** the host.
*/
#ifndef TLI_DIST_WORK_H
#define TLI_DIST_WORK_H

#include "dist/inside.h"

/* Creates a call whose arguments were checked and whose inputs are being copied to the host. */
tli_Work *tli_work_new(tli_Group *g, const tli_Call *call, int64_t timeout, bool detail)
    TL_MUSTCHECK;
/* Waits until the inputs have arrived. */
bool tli_work_arrive(tli_Work *w) TL_MUSTCHECK;

#endif
