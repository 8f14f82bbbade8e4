/*
** truncated.h - handles files that are truncated while they are mapped: the system sends SIGBUS to
** a thread that reads beyond the new end.
*/
#ifndef TLI_TRUNCATED_H
#define TLI_TRUNCATED_H

#include <stdbool.h>

typedef void (*tli_TruncatedFn)(bool here);

/* Sets a function that is called when a read beyond the end of a truncated file was found; the
** missing bytes then read as zeros. A signal handler calls it in the thread that has set it; `here`
** says whether this thread has read the missing bytes. Returns the previous function. With NULL,
** such a read ends the process. */
tli_TruncatedFn tli_truncated_catch(tli_TruncatedFn fn);

#endif
