/*
** observer.h - hands spans of work to the function that a host has set by tl_set_observer.
*/
#ifndef TLI_OBSERVER_H
#define TLI_OBSERVER_H

#include "core/observe/profile.h"

/* Returns whether a host observes. */
bool tli_observed(void);
/* Tells the host that the calling thread begins a span. Returns a mark for tli_observer_close; 0 if
** nobody observes. */
int32_t tli_observer_open(tli_SpanKind kind, const char *name);
/* Tells the host that the span with this mark ends, and first that those inside it end. A mark of 0
** does nothing, nor does the mark of a span that has ended with a span around it. */
void tli_observer_close(int32_t mark);

#endif
