/*
** work.h - the functions of work.c that group.c calls: checks of arguments, and copies to and from
** the host.
*/
#ifndef TLI_DIST_WORK_H
#define TLI_DIST_WORK_H

#include "dist/inside.h"

/* Creates a call: checks its arguments and begins to copy its inputs to the host. */
tli_Work *tli_work_new(tli_Group *g, const tli_Call *call, int64_t timeout, bool detail)
    TL_MUSTCHECK;
/* Waits until the copies of the inputs have arrived on the host. */
bool tli_work_arrive(tli_Work *w) TL_MUSTCHECK;

#endif
