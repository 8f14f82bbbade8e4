/*
** work.h - what group.c asks of work.c.
*/
#ifndef TLI_DIST_WORK_H
#define TLI_DIST_WORK_H

#include "dist/inside.h"

/* A call that was found to be a right one, its inputs on their way to the host. */
tli_Work *tli_work_new(tli_Group *g, const tli_Call *call, int64_t timeout, bool detail)
    TL_MUSTCHECK;
/* Waits for them. */
bool tli_work_arrive(tli_Work *w) TL_MUSTCHECK;

#endif
