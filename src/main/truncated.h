/*
** truncated.h - handles files that are truncated while they are mapped: the system sends SIGBUS to
** a thread that reads beyond the new end.
*/
#ifndef TLI_TRUNCATED_H
#define TLI_TRUNCATED_H

#include <stdbool.h>

typedef void (*tli_TruncatedFn)(bool here);

/* Sets a function that is called after a read beyond the end of a truncated file; the read gives
** zeros. A signal handler calls the function in the thread that has set it. The argument `here`
** tells whether that thread made the read. Returns the previous function. Without a function such a
** read ends the process. */
tli_TruncatedFn tli_truncated_catch(tli_TruncatedFn fn);

#endif
