/*
** observer.h - reports spans of work to the function that a host has set with tl_set_observer, and
** counts them for tl_work_counts.
*/
#ifndef TLI_OBSERVER_H
#define TLI_OBSERVER_H

#include "core/observe/profile.h"

/* Counts an allocation of a tensor's memory, if the host counts work (tl_count_work). */
void tli_count_memory(int64_t bytes);
/* Returns whether an observer is set. */
bool tli_observed(void);
/* Tells the host that this thread begins a span. Returns a mark for tli_observer_close, or 0 if no
** observer is set. */
int32_t tli_observer_open(tli_SpanKind kind, const char *name);
/* Tells the host that the spans inside this span end, and that the span with this mark ends. Does
** nothing if the mark is 0, or if the span has ended already together with an outer span. */
void tli_observer_close(int32_t mark);

#endif
